"""``fedsel serve --demo``: a service in a process of its own, and devices that report to it."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final
from urllib.request import ProxyHandler, build_opener

import numpy as np
import typer
from numpy.typing import NDArray

from fedsel._internal.display import printable
from fedsel._internal.models import LinearModel, predict
from fedsel._internal.progress import Bar
from fedsel.cli._terminal import output, print_json, print_sections
from fedsel.data import Dataset, synthetic
from fedsel.device import Client, Outcome, Policy, RawRecords, join
from fedsel.errors import InvalidArgument, check_count
from fedsel.pages import Section, Table
from fedsel.service import Task
from fedsel.service.inviting import invitations

_RECORDS, _TESTED, _FEATURES = 100, 5000, 5  # of a device, of the test set, of a record
_POLL, _ROUND, _PATIENCE, _GRACE = 0.5, 60, 60.0, 5.0
"""Seconds between two polls, for a round, for an answer, and for the service to end by itself."""
_STEPS, _PLAIN_RATE = 300, 5.0  # gradient descent without privacy, on all records together
_Check = Callable[[], None]
_NAMES = [f"x{j}" for j in range(_FEATURES)]
_TASK = """\
name = "demo"
purpose = "Show how it works"
recipient = "Whoever has started the demo"
epsilon = {epsilon}
epochs = {epochs}
clients = {devices}
records_per_client = {records}
features = {names}
feature_range = [-1.0, 1.0]
labels = ["no", "yes"]
close_after = {{ reports = {devices}, seconds = {seconds} }}
evaluation = {{ data = "test.csv", label = "y" }}
limits = {{ per_address = 1e6 }} # all devices have the same address
"""


class DemoFailed(RuntimeError):
    """The service or a device failed; the message has the reason."""


def show_demo(
    devices: int, epochs: int, epsilon: float, keep: Path | None, stay: bool, as_json: bool
) -> None:
    """Run the demo and print what came out; Ctrl-C ends everything."""
    demo = ServiceDemo(devices, epochs, epsilon)
    if keep is not None:
        if keep.exists():
            raise InvalidArgument("--keep", str(keep), "a folder that does not exist yet")
        keep.mkdir(parents=True)
        keep = keep.resolve()
    temporary = tempfile.TemporaryDirectory(prefix="fedsel-demo-")
    try:
        with _one_signal(), temporary as folder, Bar(epochs, "starting the service") as bar:
            summary = demo.run(bar, keep or Path(folder), stay)
    except DemoFailed as error:
        typer.echo(f"fedsel: {printable(error, lines=True)}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("fedsel: interrupted; the service and the devices were ended", err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json(summary)
    else:
        _show(summary)


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
        _ = self._task  # checks ε

    @cached_property
    def _toml(self) -> str:
        return _TASK.format(**asdict(self), records=_RECORDS, names=_NAMES, seconds=_ROUND)

    @cached_property
    def _task(self) -> Task:
        return Task.of(tomllib.loads(self._toml))

    @cached_property
    def _records(self) -> Dataset:
        """The test set, and then the records of each device."""
        return synthetic(d=_FEATURES, n=_TESTED + _RECORDS * self.devices, c2=0.5, seed=3)

    @cached_property
    def _labels(self) -> NDArray[np.str_]:
        return np.where(self._records.y > 0, "yes", "no")

    def records_of(self, device: int) -> RawRecords:
        """Return the records that a device holds."""
        own = slice(_TESTED + device * _RECORDS, _TESTED + (device + 1) * _RECORDS)
        return RawRecords(self._records.X[own], self._labels[own], _NAMES)

    def run(self, bar: Bar, folder: Path, stay: bool) -> dict[str, Any]:
        """Run the service and its devices; the folder gets task, log, store and ledgers."""
        begin = time.monotonic()
        (folder / "task.toml").write_text(self._toml)
        test = np.column_stack([np.asarray(self._records.X).astype(str), self._labels])[:_TESTED]
        np.savetxt(
            folder / "test.csv", test, "%s", ",", header=",".join([*_NAMES, "y"]), comments=""
        )
        tokens = invitations(self._task, folder / "store", self.devices)
        # The service ends before the pool does: its devices go on until it is gone.
        with ThreadPoolExecutor(self.devices) as pool, _serving(folder) as (address, check):
            bar.keep(f"dashboard: {address}/   (while the demo runs)")
            devices = [
                pool.submit(self._join, address, check, folder / f"ledger-{number}", number, token)
                for number, token in enumerate(tokens)
            ]
            rounds = self._watch(address, check, devices, bar)
            outcomes = [device.result() for device in devices]
            seconds = time.monotonic() - begin
            if stay:
                bar.keep("the run is over; the dashboard stays until Ctrl-C")
                with suppress(KeyboardInterrupt):
                    while True:
                        check()
                        time.sleep(_POLL)
        recipe, ledgers = self._task.begin.recipe, [one.history for one in outcomes]
        return {
            "solution": recipe.solution,
            "dim": int(recipe.dim or 0),
            "epsilon_per_report": str(recipe.charge),
            "rounds": rounds,
            "accuracy": rounds[-1]["accuracy"],
            "plain_accuracy": self._plain_accuracy(),
            "devices": [
                {"device": n, "reports": len(h.entries), "spent": str(h.spent), "left": str(h.left)}
                for n, h in enumerate(ledgers)
            ],
            "seconds": seconds,
        }

    def _join(self, address: str, check: _Check, store: Path, number: int, token: str) -> Outcome:
        """Take part as one device, with a policy, a ledger and records of its own."""
        recipe = self._task.begin.recipe
        policy = Policy(
            lifetime=float(self.epsilon),
            per_report=math.ceil(1e6 * float(self.epsilon) / self.epochs) / 1e6,
            solutions=[recipe.solution],
            dimensions=[int(recipe.dim or 0)],
            require_purpose=True,
        )

        outcome = join(
            address,
            Client(policy, store, create=True),
            self.records_of(number),
            token=token,
            every=_POLL,
            patience=_PATIENCE,
            tell=lambda _: check(),  # called when the service does not answer
        )
        if not outcome.regular:
            raise DemoFailed(f"device {number} failed: {outcome.as_dict()['message']}")
        return outcome

    def _watch(
        self, address: str, check: _Check, devices: Sequence[Future[Outcome]], bar: Bar
    ) -> list[dict[str, Any]]:
        """Follow the rounds by what the service publishes, until the run is over."""
        direct, rounds = build_opener(ProxyHandler({})), list[dict[str, Any]]()
        bar.update("devices report")
        while True:
            check()
            for device in devices:
                if device.done():
                    device.result()  # raises what it has failed with
            with direct.open(f"{address}/v1/rounds", timeout=_PATIENCE) as reply:
                published = json.load(reply)
            for one in published["rounds"][len(rounds) :]:
                reports, late, accuracy = one["accepted"], one["late"], one["measured"]["accuracy"]
                rounds.append({"reports": reports, "late": late, "accuracy": accuracy})
                counts = f"{reports} reports" + (f", {late} too late" if late else "")
                done = f"round {len(rounds)} of {self.epochs}"
                bar.keep(f"{done}: {counts}, accuracy {100 * accuracy:.1f} %")
            bar.update(completed=len(rounds))
            if published["finished"] and len(rounds) == self.epochs:
                return rounds
            time.sleep(_POLL)

    def _plain_accuracy(self) -> float:
        """Return the accuracy of the same model on the pooled records, without privacy."""
        X, y = np.asarray(self._records.X), self._records.y
        X = np.concatenate([X, np.ones((len(X), 1), np.float32)], axis=1)  # the intercept
        model, w = LinearModel("logistic", reg=0.0), np.zeros(_FEATURES + 1)
        for _ in range(_STEPS):
            w -= _PLAIN_RATE * model.gradient(w, X[_TESTED:], y[_TESTED:])
        return float(np.mean(predict(X[:_TESTED] @ w) == y[:_TESTED]))


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[str, _Check]]:
    """Run ``fedsel serve`` in a process; yield its address, and a check that it has not ended."""
    command = [sys.executable, "-m", "fedsel", "serve", str(folder / "task.toml"), "--json"]
    command += ["--store", str(folder / "store"), "--port", "0"]
    log, ending = folder / "service.log", threading.Event()
    with log.open("wb") as errors:
        # In a session of its own Ctrl-C does not reach it: the demo ends it.
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )

    def check() -> None:
        if ending.is_set() or process.poll() is not None:
            text = log.read_text(encoding="utf-8", errors="replace")
            raise DemoFailed(f"the service has ended\n{text[-2000:]}")

    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:  # it has failed before it listened
            process.wait()
            check()
        yield json.loads(line)["address"], check
    finally:
        ending.set()
        process.terminate()
        try:
            process.communicate(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def _one_signal() -> Iterator[None]:
    """Let the first signal unwind the program, and ignore all later ones: nothing may be left."""

    def unwind(number: int, _: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    asked = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    before = {n: h for n, h in asked.items() if h != signal.SIG_IGN}  # as nohup does
    for number in before:
        signal.signal(number, unwind)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        before.clear()  # the program ends
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(summary: dict[str, Any]) -> None:
    console = output()
    price = f"ε = {summary['epsilon_per_report']} a report, {len(summary['devices'])} devices"
    console.print(f"{summary['solution']}, d = {summary['dim']}, {price}")
    ledgers = Counter((d["reports"], d["spent"], d["left"]) for d in summary["devices"])
    rows = tuple((count, *cells) for cells, count in sorted(ledgers.items()))
    table = Table("The ledgers", ("devices", "reports", "ε spent", "ε left"), rows)
    print_sections(Section("ledgers", "The ledgers", tables=(table,)))
    console.print(
        f"accuracy on a public test set: {100 * summary['accuracy']:.1f} %, and without privacy "
        f"{100 * summary['plain_accuracy']:.1f} %"
    )
    console.print("ε protects all records of a device together, not the single record.")
    console.print(f"{summary['seconds']:.0f} seconds")
