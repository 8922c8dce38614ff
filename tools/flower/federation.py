"""A SuperLink and SuperNodes on this machine's loopback, each a process with a log.

Every process leads a group of its own, and all groups are ended at the end: first asked, then
forced. Flower's processes start others in groups of their own. All carry a mark in their
environment, by which they are found and ended one by one.
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
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

HOST, NAME = "127.0.0.1", "local"
_MARK = "FEDSEL_FEDERATION"
_GRACE, _POLL = 5.0, 0.1
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ADDRESS": "local",  # a ray that runs here already has another environment
    # The simulation forks while a ServerApp may compute: threads of BLAS were seen to hang then.
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}


class ProcessError(RuntimeError):
    """A process failed or took too long; the message has the end of its log."""


@final
@dataclass(frozen=True)
class Certificates:
    """Files for TLS: the authority's certificate, and the server's with its key."""

    authority: Path
    certificate: Path
    key: Path


@final
class Process:
    """A child in a group of its own, with a log."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
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
        """Return what it has printed so far, without its colours."""
        return _COLOURS.sub("", self.log.read_text(encoding="utf-8", errors="replace"))

    def kill(self) -> None:
        """End the whole group at once, as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()


@final
class Federation:
    """A SuperLink, and SuperNodes that are added to it; a context manager.

    ``folder`` gets FLWR_HOME and all logs. Every process gets ``environment`` beside its own.
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
        self.folder, self.simulation, self.tls, self.options = folder, simulation, tls, options
        self.port = free_port()
        self.processes: list[Process] = []
        self._programs = Path(sys.executable).parent
        self._home, self._scratch = folder / "flwr", folder / "scratch"
        self._environment = {
            **os.environ,
            **_QUIET,
            "PATH": str(self._programs) + os.pathsep + os.environ.get("PATH", ""),
            "FLWR_HOME": str(self._home),
            _MARK: secrets.token_hex(16),
            **(environment or {}),
        }
        # What a process that is killed leaves behind goes with the rest. (Ray, which simulates,
        # makes sockets there, and the name of a socket must be short.)
        if not simulation:
            self._environment["TMPDIR"] = str(self._scratch)

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        self._scratch.mkdir(exist_ok=True)
        secure = (
            "insecure = true" if self.tls is None else f'root-certificates = "{self.tls.authority}"'
        )
        address = f'address = "{HOST}:{self.port}"'
        (self._home / "config.toml").write_text(
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
            superlink = self._start("superlink", command)
            self.wait(self._listening, 60, "the SuperLink to listen", superlink)
        except BaseException:
            self.__exit__()
            raise
        return self

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
        command += ["--node-config", _pairs(config)]
        if self.tls is None:
            command += ["--insecure"]
        else:
            command += ["--root-certificates", str(self.tls.authority)]
        if private_key is not None:
            command += ["--auth-supernode-private-key", str(private_key)]
        return self._start(name, command)

    def submit(
        self,
        app: Path,
        config: Mapping[str, Any] | None = None,
        *,
        name: str = "run",
        nodes: int | None = None,
    ) -> Process:
        """Begin a run and stream its log; ``nodes`` counts those of a simulation."""
        command = ["flwr", "run", str(app), NAME, "--stream"]
        if config:
            command += ["--run-config", _pairs(config)]
        if nodes is not None:
            asked = {"num-supernodes": nodes, "client-resources-num-cpus": 1}
            command += ["--federation-config", _pairs(asked)]
        return self._start(name, command)

    def flwr(self, *arguments: str) -> None:
        """Run a flwr command that ends by itself."""
        done = subprocess.run(
            [str(self._programs / "flwr"), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise ProcessError(f"flwr {' '.join(arguments)}\n{done.stdout}{done.stderr}")

    def wait(
        self, done: Callable[[], bool], seconds: float, condition: str, *needed: Process
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

    def __exit__(self, *_: object) -> None:
        """End all processes: SuperNodes and runs first, the SuperLink last."""
        newest_first = self.processes[::-1]
        for process in newest_first:
            process.popen.terminate()
        until = time.monotonic() + _GRACE
        for process in newest_first:
            with suppress(subprocess.TimeoutExpired):
                process.popen.wait(max(0.0, until - time.monotonic()))
            process.kill()
        until = time.monotonic() + _GRACE
        while (left := self._left()) and time.monotonic() < until:
            for number in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(_POLL)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(self, name: str, command: Sequence[str]) -> Process:
        program = str(self._programs / command[0])
        log = self.folder / f"{name}.log"
        process = Process([program, *command[1:]], log, self._environment)
        self.processes.append(process)
        return process

    def _listening(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1):
                return True
        except OSError:
            return False

    def _left(self) -> list[int]:
        """Find processes that carry our mark and still run, where there is a /proc."""
        mark = f"{_MARK}={self._environment[_MARK]}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # others' processes, and those that have just ended
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        return found


def free_port() -> int:
    """Return a port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _pairs(values: Mapping[str, Any]) -> str:
    """Write values as Flower's options take them: key=value, separated by spaces."""
    return " ".join(f"{name}={_toml(value)}" for name, value in values.items())


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | Path):
        if '"' in str(value) or "\\" in str(value):
            raise ValueError("no quotes and no backslashes, please")
        return f'"{value}"'
    return repr(value)
