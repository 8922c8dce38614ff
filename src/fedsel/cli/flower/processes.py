"""A Flower federation on this machine's loopback: for the demo and the tests.

Every process is the leader of a group of its own, and all groups are ended at the end, whatever
happened: first asked, then forced. Flower starts processes of its own, some in groups of their
own: all carry a mark in their environment, by which they are found and ended one by one.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
    # The simulation forks while a ServerApp may compute: threads of BLAS were seen to hang then.
    "OMP_NUM_THREADS": "1",
}
HOST, NAME = "127.0.0.1", "local"
_MARK = "FEDSEL_FEDERATION"
_GRACE = 5.0
_POLL = 0.1
_INTERRUPTING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class FederationError(RuntimeError):
    """A process of the federation failed or took too long; the end of its log is told."""


@final
@dataclass(frozen=True)
class Certificates:
    """Files for TLS: the authority's certificate, and the server's with its key."""

    authority: Path
    certificate: Path
    key: Path


@contextmanager
def _undisturbed() -> Iterator[None]:
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


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def toml_pairs(values: Mapping[str, Any]) -> str:
    """Values as Flower's options take them: key=value, separated by spaces."""
    return " ".join(f"{name}={_toml(value)}" for name, value in values.items())


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        text = str(value)
        if '"' in text or "\\" in text:
            raise ValueError("no quotes and no backslashes, please")
        return f'"{text}"'
    return repr(value)


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


@final
class Federation:
    """A SuperLink, and SuperNodes that are added to it; a context manager.

    ``folder`` gets FLWR_HOME and all logs. ``environment`` is added to that of every process.
    """

    def __init__(
        self,
        folder: Path,
        *,
        simulation: bool = False,
        tls: Certificates | None = None,
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.folder, self.simulation, self.tls = folder, simulation, tls
        self.port = free_port()
        self.options = options
        binaries = str(Path(sys.executable).parent)
        self.environment = {
            **os.environ,
            **_QUIET,
            "FLWR_HOME": str(folder / "flwr"),
            # A ray of its own: one that runs here already has another environment.
            "RAY_ADDRESS": "local",
            _MARK: secrets.token_hex(16),
            "PATH": binaries + os.pathsep + os.environ.get("PATH", ""),
            **(environment or {}),
        }
        # What a process that is killed leaves behind goes with the rest. (Ray, which simulates,
        # makes sockets there, and the name of a socket must be short.)
        self._scratch = None if simulation else folder / "scratch"
        if self._scratch is not None:
            self.environment["TMPDIR"] = str(self._scratch)
        self.processes: list[Process] = []

    def __enter__(self) -> Self:
        home = self.folder / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        if self._scratch is not None:
            self._scratch.mkdir(exist_ok=True)
        secure = (
            "insecure = true" if self.tls is None else f'root-certificates = "{self.tls.authority}"'
        )
        address = f'address = "{HOST}:{self.port}"'
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "{NAME}"\n\n[superlink.{NAME}]\n{address}\n{secure}\n'
        )
        command = ["flower-superlink", "--host", HOST, "--port", str(self.port), *self.options]
        command += ["--disable-runtime-dependency-installation"]
        command += ["--simulation"] if self.simulation else []
        if self.tls is None:
            command += ["--insecure"]
        else:
            command += ["--ssl-ca-certfile", str(self.tls.authority)]
            command += ["--ssl-certfile", str(self.tls.certificate)]
            command += ["--ssl-keyfile", str(self.tls.key)]
        try:
            superlink = self.start("superlink", command)
            self.wait(self._listening, 60, "the SuperLink to listen", superlink)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str]) -> Process:
        """Start a command; its log is ``name``.log in the folder."""
        path = self.environment["PATH"].split(os.pathsep)[0]
        program = Path(path) / command[0]
        process = Process(
            [str(program), *command[1:]], self.folder / f"{name}.log", self.environment
        )
        self.processes.append(process)
        return process

    def add_node(
        self,
        name: str,
        config: Mapping[str, Any],
        *,
        private_key: Path | None = None,
        superlink_port: int | None = None,
    ) -> Process:
        """Start a SuperNode with this ``node_config``."""
        port = self.port if superlink_port is None else superlink_port
        command = ["flower-supernode", "--superlink", f"{HOST}:{port}"]
        command += ["--host", HOST, "--port", str(free_port())]
        command += ["--node-config", toml_pairs(config)]
        if self.tls is None:
            command += ["--insecure"]
        else:
            command += ["--root-certificates", str(self.tls.authority)]
        if private_key is not None:
            command += ["--auth-supernode-private-key", str(private_key)]
        return self.start(name, command)

    def submit(
        self,
        app: Path,
        config: Mapping[str, Any] | None = None,
        *,
        name: str = "run",
        nodes: int | None = None,
    ) -> Process:
        """Begin a run and stream its log; ``nodes`` are those of a simulation."""
        command = ["flwr", "run", str(app), NAME, "--stream"]
        if config:
            command += ["--run-config", toml_pairs(config)]
        if nodes is not None:
            asked = {"num-supernodes": nodes, "client-resources-num-cpus": 1}
            command += ["--federation-config", toml_pairs(asked)]
        return self.start(name, command)

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
                raise FederationError(f"waited for {condition}: {why}\n{logs}")
            time.sleep(_POLL)

    def flwr(self, *arguments: str, seconds: float = 60) -> str:
        """The output of a flwr command that ends by itself."""
        path = self.environment["PATH"].split(os.pathsep)[0]
        done = subprocess.run(  # noqa: S603 - our own commands
            [str(Path(path) / "flwr"), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode != 0:
            raise FederationError(f"flwr {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def _listening(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End all processes: SuperNodes and runs first, the SuperLink last.

        Who presses Ctrl-C once more waits for it all the same: nothing may be left behind.
        """
        with _undisturbed():
            self._stop()
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)

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
