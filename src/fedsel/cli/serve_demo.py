"""``fedsel serve --demo``: a service and many devices here, each a process of its own."""

from __future__ import annotations

import csv
import json
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsel.cli.processes import Process, ProcessError, Processes
from fedsel.data import synthetic
from fedsel.device import Ledger
from fedsel.device.joining.connection import SECONDS, Connection, Interrupted
from fedsel.device.joining.patience import Deadline
from fedsel.errors import check_count, check_epsilon
from fedsel.models import LinearModel, predict
from fedsel.service import Task
from fedsel.service.inviting import invitations

RECORDS, TESTED = 100, 5000
"""Records of a device, and of the public test set."""
_FEATURES, _STRONG, _SEED, _RANGE = 5, 0.5, 3, 1.0
_LABELS = ("no", "yes")
_EVERY = 0.5
_START, _ROUND = 240.0, 60.0
"""Seconds for the start, and for each round, before the demo gives up or a round ends."""
_STEPS, _PLAIN_RATE = 300, 5.0
"""Of the model without privacy: gradient descent over all records together."""
_MOST = 1 << 22
Tell = Callable[[str, int], object]
"""tell(what is going on, rounds that are over)."""
Keep = Callable[[str], object]
"""keep(a line that stays)."""
Records = tuple[NDArray[np.float32], NDArray[np.int8]]


@final
@dataclass(frozen=True)
class Round:
    """What became of a round."""

    number: int
    reports: int
    late: int
    accuracy: float


@final
@dataclass(frozen=True)
class Spent:
    """What the ledger of a device says at the end."""

    device: int
    reports: int
    spent: str
    left: str


@final
@dataclass(frozen=True)
class Summary:
    """What the demo found."""

    solution: str
    dim: int
    epsilon_per_report: str
    rounds: list[Round]
    accuracy: float
    plain_accuracy: float
    devices: list[Spent]
    ready_seconds: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@final
@dataclass(frozen=True)
class ServiceDemo:
    """The choices of a demo."""

    devices: int = 50
    epochs: int = 8
    epsilon: float = 8.0

    def __post_init__(self) -> None:
        check_count("devices", self.devices, most=100)
        check_count("epochs", self.epochs, most=100)
        check_epsilon("epsilon", self.epsilon)
        _ = self.task  # checks the rest

    @cached_property
    def _table(self) -> dict[str, Any]:
        return {
            "name": "demo",
            "purpose": "Show how it works",
            "recipient": "Whoever has started the demo",
            "epsilon": float(self.epsilon),
            "epochs": self.epochs,
            "clients": self.devices,
            "records_per_client": RECORDS,
            "features": [f"x{j}" for j in range(_FEATURES)],
            "feature_range": [-_RANGE, _RANGE],
            "labels": list(_LABELS),
            "close_after": {"reports": self.devices, "seconds": _ROUND},
            "evaluation": {"data": "test.csv", "label": "y"},
            "limits": {"per_address": 1e6},  # all of them have the same
        }

    @cached_property
    def task(self) -> Task:
        """What the service is told."""
        return Task.of(self._table)

    @cached_property
    def _records(self) -> Records:
        data = synthetic(d=_FEATURES, n=TESTED + RECORDS * self.devices, c2=_STRONG, seed=_SEED)
        return np.asarray(data.X), data.y

    def run(
        self, tell: Tell, keep: Keep, folder: Path | None = None, stay: bool = False
    ) -> Summary:
        """Start everything, run, stop everything; ``folder`` keeps logs, ledgers and the store."""
        if folder is not None:
            return self._run(tell, keep, folder, stay)
        with tempfile.TemporaryDirectory(prefix="fedsel-demo-") as name:
            return self._run(tell, keep, Path(name), stay)

    def _run(self, tell: Tell, keep: Keep, folder: Path, stay: bool) -> Summary:
        begin = time.monotonic()
        self._write(folder)
        # Fifty processes with a thread of BLAS for each core would stand in each other's way.
        with Processes(folder, {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}) as processes:
            command = ["fedsel", "serve", str(folder / "task.toml"), "--port", "0"]
            service = processes.start("service", [*command, "--store", str(folder / "store")])
            address = self._address(processes, service)
            keep(f"dashboard: {address}/   (while the demo runs)")
            started = time.monotonic()
            devices = [self._device(processes, address, number) for number in range(self.devices)]
            watch = _Watch(self, Connection(address), folder, started, tell, keep)
            limit = _START + self.epochs * _ROUND
            processes.wait(watch.over, limit, "the run", service)
            processes.wait(lambda: not any(device.running for device in devices), 60, "the devices")
            failed = [device for device in devices if device.popen.returncode]
            if failed:
                raise ProcessError(f"{len(failed)} device(s) failed:\n{failed[0].text()[-2000:]}")
            summary = self._summed_up(folder, watch, begin)
            if stay:
                keep("the run is over; the dashboard stays until Ctrl-C")
                _until_interrupted(service)
        return summary

    def _write(self, folder: Path) -> None:
        """The task, the test set, the devices' policy, and for each its records and invitation."""
        (folder / "task.toml").write_text(_toml(self._table))
        X, y = self._records
        _write_csv(folder / "test.csv", X[:TESTED], y[:TESTED])
        share = math.ceil(1e6 * float(self.epsilon) / self.epochs) / 1e6
        recipe = self.task.begin.recipe
        (folder / "policy.toml").write_text(
            _toml(
                {
                    "lifetime": float(self.epsilon),
                    "per_report": share,
                    "solutions": [recipe.solution],
                    "dimensions": [recipe.dim],
                    "require_purpose": True,
                }
            )
        )
        tokens = invitations(self.task, folder / "store", self.devices)
        for number, token in enumerate(tokens):
            X_own, y_own = self.share(number)
            _write_csv(folder / f"device-{number}.csv", X_own, y_own)
            invitation = folder / f"device-{number}.invitation"
            invitation.touch(mode=0o600)
            invitation.write_text(token)

    def share(self, number: int) -> Records:
        """What a device holds."""
        X, y = self._records
        own = slice(TESTED + number * RECORDS, TESTED + (number + 1) * RECORDS)
        return X[own], y[own]

    def _address(self, processes: Processes, service: Process) -> str:
        found = ""

        def said() -> bool:
            nonlocal found
            first = service.text().partition("\n")[0]
            found = first.split()[0] if first.startswith("http") else ""
            return bool(found)

        processes.wait(said, 60, "the service to listen", service)
        return found

    def _device(self, processes: Processes, address: str, number: int) -> Process:
        folder = processes.folder
        command = ["fedsel", "join", address, "--label", "y", "--create", "--yes", "--json"]
        command += ["--data", str(folder / f"device-{number}.csv")]
        command += ["--store", str(_ledger(folder, number))]
        command += ["--policy", str(folder / "policy.toml")]
        command += ["--token-file", str(folder / f"device-{number}.invitation")]
        return processes.start(f"device-{number}", [*command, "--every", str(_EVERY)])

    def _summed_up(self, folder: Path, watch: _Watch, begin: float) -> Summary:
        recipe = self.task.begin.recipe
        ledgers = [Ledger(_ledger(folder, n)).read() for n in range(self.devices)]
        return Summary(
            solution=recipe.solution,
            dim=int(recipe.dim or 0),
            epsilon_per_report=str(recipe.charge),
            rounds=watch.rounds,
            accuracy=watch.rounds[-1].accuracy,
            plain_accuracy=self._plain_accuracy(),
            devices=[
                Spent(n, len(h.entries), str(h.spent), str(h.left)) for n, h in enumerate(ledgers)
            ],
            ready_seconds=watch.ready,
            seconds=time.monotonic() - begin,
        )

    def _plain_accuracy(self) -> float:
        """Of the same model on the same records, pooled and without privacy."""
        X, y = self._records[0][TESTED:], self._records[1][TESTED:]
        model, w = LinearModel("logistic", reg=0.0), np.zeros(_FEATURES + 1)
        with_one = np.concatenate([X, np.ones((len(X), 1), np.float32)], axis=1)
        for _ in range(_STEPS):
            w -= _PLAIN_RATE * model.gradient(w, with_one, y)
        X, y = self._records[0][:TESTED], self._records[1][:TESTED]
        return float(np.mean(predict(X @ w[:-1] + w[-1]) == y))


@final
class _Watch:
    """Follows a run from outside, by what the service tells everybody."""

    def __init__(
        self,
        demo: ServiceDemo,
        connection: Connection,
        folder: Path,
        started: float,
        tell: Tell,
        keep: Keep,
    ) -> None:
        self._demo, self._connection, self._folder = demo, connection, folder
        self._started, self._tell, self._keep = started, tell, keep
        self.rounds: list[Round] = []
        self.ready = 0.0

    def over(self) -> bool:
        """Look once; whether the run is over."""
        if not self.ready:
            begun = sum(_ledger(self._folder, n).is_dir() for n in range(self._demo.devices))
            self._tell(f"{begun} of {self._demo.devices} devices have joined", 0)
            if begun == self._demo.devices:
                self.ready = time.monotonic() - self._started
        try:
            reply = self._connection.ask("/v1/rounds", _MOST, Deadline(SECONDS))
        except Interrupted:
            return False
        if reply.status != HTTPStatus.OK:
            return False
        told = reply.json()
        for number, one in list(enumerate(told["rounds"]))[len(self.rounds) :]:
            accuracy = float(one["measured"]["accuracy"])  # on the task's own test set
            self.rounds.append(Round(number, one["accepted"], one["late"], accuracy))
            late = f", {one['late']} too late" if one["late"] else ""
            self._keep(
                f"round {number + 1} of {self._demo.epochs}: {one['accepted']} reports{late}, "
                f"accuracy {100 * accuracy:.1f} %"
            )
        if self.ready:
            self._tell("devices report", len(self.rounds))
        return bool(told["finished"]) and len(self.rounds) == self._demo.epochs


def _ledger(folder: Path, number: int) -> Path:
    return folder / f"ledger-{number}"


def _until_interrupted(service: Process) -> None:
    try:
        while service.running:
            time.sleep(0.2)
    except KeyboardInterrupt:
        pass


def _write_csv(path: Path, X: NDArray[np.float32], y: NDArray[np.int8]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{j}" for j in range(X.shape[1])), "y"])
        writer.writerows(
            [*row, _LABELS[int(label > 0)]] for row, label in zip(X.tolist(), y, strict=True)
        )


def _toml(values: dict[str, Any]) -> str:
    """Numbers, texts, lists of them and tables of them as TOML, which JSON nearly is."""
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            inside = ", ".join(f"{key} = {json.dumps(item)}" for key, item in value.items())
            lines.append(f"{name} = {{ {inside} }}\n")
        else:
            lines.append(f"{name} = {json.dumps(value)}\n")
    return "".join(lines)
