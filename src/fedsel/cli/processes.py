"""Processes on this machine that belong together: for the demos and the tests.

Every process is the leader of a group of its own, and all groups are ended at the end, whatever
happened: first asked, then forced. Some start processes of their own, in groups of their own: all
carry a mark in their environment, by which they are found and ended one by one.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self, final

_MARK = "FEDSEL_PROCESSES"
_GRACE = 5.0
_POLL = 0.1
_INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class ProcessError(RuntimeError):
    """A process failed or took too long; the end of its log is told."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that would interrupt wait until this is over, and are forgotten then."""
    if threading.current_thread() is not threading.main_thread():  # only there they arrive
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _INTERRUPTING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def unwinding() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind, so that processes are ended and their folder is removed.

    A program that was interrupted ends with it: further signals change neither what it says nor
    its status.
    """
    before = {
        number: signal.signal(number, _end)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN  # nohup wants it to go on
    }
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        before = dict.fromkeys(_INTERRUPTING, signal.SIG_IGN)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


@final
class Process:
    """A child in a group of its own, with a log."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as output:
            self.popen = subprocess.Popen(  # noqa: S603 - our own commands
                list(command),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
            )

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def text(self) -> str:
        """What it has printed so far, without its colours."""
        return _COLOURS.sub("", self.log.read_text(encoding="utf-8", errors="replace"))

    def kill(self) -> None:
        """End the whole group at once, as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def ask(self) -> None:
        """Ask it to end."""
        if self.running:
            self.popen.send_signal(signal.SIGTERM)

    def end(self, grace: float) -> None:
        """Wait for a while, then force the group."""
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(grace)
        self.kill()


class Processes:
    """Commands of this Python's environment, each with its log in a folder.

    ``environment`` is added to that of every process.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.binaries = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "PATH": str(self.binaries) + os.pathsep + os.environ.get("PATH", ""),
            _MARK: secrets.token_hex(16),
            **environment,
        }
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str]) -> Process:
        """Start a command; its log is ``name``.log in the folder."""
        program = self.binaries / command[0]
        process = Process(
            [str(program), *command[1:]], self.folder / f"{name}.log", self.environment
        )
        self.processes.append(process)
        return process

    def wait(
        self,
        done: Callable[[], bool],
        seconds: float,
        condition: str,
        *needed: Process,
    ) -> None:
        """Poll until it is done; an error if it takes too long or a needed process ends."""
        until = time.monotonic() + seconds
        while not done():
            ended = [p for p in needed if not p.running]
            if ended or time.monotonic() > until:
                why = "a process ended" if ended else f"{seconds:g} s are over"
                logs = "\n".join(p.text()[-2000:] for p in (ended or needed))
                raise ProcessError(f"waited for {condition}: {why}\n{logs}")
            time.sleep(_POLL)

    def stop(self) -> None:
        """End all processes, the first one last.

        Who presses Ctrl-C once more waits for it all the same: nothing may be left behind.
        """
        with undisturbed():
            self._stop()

    def _stop(self) -> None:
        alive = [p for p in reversed(self.processes) if p.running]
        for process in alive:
            process.ask()
        until = time.monotonic() + _GRACE
        for process in reversed(self.processes):
            process.end(max(0.0, until - time.monotonic()))
        until = time.monotonic() + _GRACE
        while (left := self._left()) and time.monotonic() < until:
            for number in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(_POLL)

    def _left(self) -> list[int]:
        """Processes that carry our mark and still run; where there is no /proc, none are found."""
        mark = f"{_MARK}={self.environment[_MARK]}".encode()
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # others' processes, and those that have just ended
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    pids.append(int(folder.name))
        return pids
