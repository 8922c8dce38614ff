"""A Flower federation on this machine's loopback: for the demo and the tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

from fedsel.cli.processes import Process, ProcessError, Processes, undisturbed

_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # The simulation forks while a ServerApp may compute: threads of BLAS were seen to hang then.
    "OMP_NUM_THREADS": "1",
}
HOST, NAME = "127.0.0.1", "local"


@final
@dataclass(frozen=True)
class Certificates:
    """Files for TLS: the authority's certificate, and the server's with its key."""

    authority: Path
    certificate: Path
    key: Path


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
class Federation(Processes):
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
        # A ray of its own: one that runs here already has another environment.
        home = {"FLWR_HOME": str(folder / "flwr"), "RAY_ADDRESS": "local"}
        super().__init__(folder, {**_QUIET, **home, **(environment or {})})
        self.simulation, self.tls = simulation, tls
        self.port = free_port()
        self.options = options
        # What a process that is killed leaves behind goes with the rest. (Ray, which simulates,
        # makes sockets there, and the name of a socket must be short.)
        self._scratch = None if simulation else folder / "scratch"
        if self._scratch is not None:
            self.environment["TMPDIR"] = str(self._scratch)

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

    def flwr(self, *arguments: str, seconds: float = 60) -> str:
        """The output of a flwr command that ends by itself."""
        path = self.binaries
        done = subprocess.run(  # noqa: S603 - our own commands
            [str(path / "flwr"), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode != 0:
            raise ProcessError(f"flwr {' '.join(arguments)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def _listening(self) -> bool:
        try:
            with socket.create_connection((HOST, self.port), timeout=1):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End all processes: SuperNodes and runs first, the SuperLink last."""
        with undisturbed():
            super().stop()
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)
