"""``fedsel serve --demo``: a service in a thread, and devices in others that report to it."""

from __future__ import annotations

import math
import signal
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, predict
from fedsel._internal.progress import Bar
from fedsel.cli._terminal import output, print_json, say_error
from fedsel.data import Dataset, synthetic
from fedsel.device import Client, Ended, Ending, Outcome, Policy, RawRecords, join
from fedsel.errors import InvalidArgument, check_count, check_epsilon
from fedsel.pages import Table
from fedsel.service import Task
from fedsel.service.inviting import invitations
from fedsel.service.running import Serving, background
from fedsel.tracking import Record, follow

_RECORDS, _TESTED, _FEATURES = 100, 5000, 5  # of a device, of the test set, of a record
_POLL, _ROUND, _PATIENCE = 0.5, 60, 10.0
"""Seconds between two polls, for a round, and for an answer."""
_STEPS, _PLAIN_RATE = 300, 5.0  # gradient descent without privacy, on all records together
_NAMES = [f"x{j}" for j in range(_FEATURES)]
_TASK = f"""\
name = "demo"
purpose = "Show how it works"
recipient = "Whoever has started the demo"
epsilon = {{epsilon}}
epochs = {{epochs}}
clients = {{devices}}
records_per_client = {_RECORDS}
features = {_NAMES}
feature_range = [-1.0, 1.0]
labels = ["no", "yes"]
close_after = {{{{ reports = {{devices}}, seconds = {_ROUND} }}}}
evaluation = {{{{ data = "test.csv", label = "y" }}}}
limits = {{{{ per_address = 1e6 }}}} # all devices have the same address
"""


def show_demo(
    devices: int, epochs: int, epsilon: float, keep: Path | None, stay: bool, as_json: bool
) -> None:
    """Run the demo and print what came out; Ctrl-C ends everything."""
    check_count("devices", devices, most=100)
    check_count("epochs", epochs, most=100)
    check_epsilon("epsilon", epsilon)
    if keep is not None:
        if keep.exists():
            raise InvalidArgument("--keep", str(keep), "a folder that does not exist yet")
        keep.mkdir(parents=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # unwinds, as Ctrl-C does
    try:
        with (
            tempfile.TemporaryDirectory(prefix="fedsel-demo-") as temporary,
            Bar(epochs, "starting the service") as bar,
        ):
            folder = Path(temporary) if keep is None else keep.resolve()
            toml = _TASK.format(devices=devices, epochs=epochs, epsilon=epsilon)
            (folder / "task.toml").write_text(toml)
            summary = run_demo(folder, devices, bar, stay=stay)
    except Ended as ended:
        say_error(f"the demo has failed: {ended}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        say_error("interrupted; the service and the devices were ended")
        raise typer.Exit(130) from None
    if as_json:
        print_json(summary)
    else:
        _show(summary)


def run_demo(folder: Path, count: int, bar: Bar, *, stay: bool) -> dict[str, Any]:
    """Serve the folder's task to so many devices; the folder also gets test set and ledgers."""
    begin, rounds, over = time.monotonic(), list[Record](), threading.Event()
    # The records of the test set, then those of each device.
    records = synthetic(d=_FEATURES, n=_TESTED + _RECORDS * count, c2=0.5, seed=3)
    labels = np.where(records.y > 0, "yes", "no")
    test = np.column_stack([np.asarray(records.X).astype(str), labels])[:_TESTED]
    header = ",".join([*_NAMES, "y"])
    np.savetxt(folder / "test.csv", test, "%s", ",", header=header, comments="")
    task = Task.load(folder / "task.toml")
    recipe = task.begin.recipe

    def show(record: Record) -> None:
        rounds.append(record)
        done = f"round {len(rounds)} of {recipe.epochs}: {record['reports']:.0f} reports"
        bar.keep(f"{done}, accuracy {100 * record['accuracy']:.1f} %")
        bar.update(completed=len(rounds))

    def go_on(_: str) -> None:  # what a device does where the service does not answer
        if over.is_set():
            raise Ended(Ending.UNREACHABLE)

    # The service ends before the pool does: its devices go on until it is gone.
    serving = Serving(str(folder / "store"), port=0)
    with ThreadPoolExecutor(count + 1) as pool, background(task, serving) as address:
        bar.keep(f"dashboard: {address}/   (while the demo runs)")
        bar.update("devices report")
        try:
            followed = pool.submit(follow, address, [show], every=_POLL, patience=_PATIENCE)
            devices = [
                pool.submit(
                    _take_part,
                    task,
                    address,
                    folder / f"ledger-{number}",
                    records_of(number, records, labels),
                    token=token,
                    every=_POLL,
                    patience=_PATIENCE,
                    tell=go_on,
                )
                for number, token in enumerate(invitations(task, folder / "store", count))
            ]
            work: list[Future[Any]] = [followed, *devices]
            for done in as_completed(work):
                done.result()  # raises what it has failed with
            seconds = time.monotonic() - begin
            if stay:
                bar.keep("the run is over; the dashboard stays until Ctrl-C")
                with suppress(KeyboardInterrupt):
                    threading.Event().wait()
        except KeyboardInterrupt:  # once is enough: nothing may be left
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise
        finally:
            over.set()
    ledgers = [device.result().history for device in devices]
    return {
        "solution": recipe.solution,
        "dim": int(recipe.dim or 0),
        "epsilon_per_report": str(recipe.charge),
        "rounds": [{"reports": int(r["reports"]), "accuracy": r["accuracy"]} for r in rounds],
        "accuracy": rounds[-1]["accuracy"],
        "plain_accuracy": _plain_accuracy(records),
        "devices": [
            {"device": n, "reports": len(h.entries), "spent": str(h.spent), "left": str(h.left)}
            for n, h in enumerate(ledgers)
        ],
        "seconds": seconds,
    }


def records_of(device: int, records: Dataset, labels: NDArray[np.str_]) -> RawRecords:
    """The records that a device holds."""
    own = slice(_TESTED + device * _RECORDS, _TESTED + (device + 1) * _RECORDS)
    return RawRecords(np.asarray(records.X)[own], labels[own], _NAMES)


def _take_part(task: Task, address: str, store: Path, records: RawRecords, **how: Any) -> Outcome:
    """Take part as one device, with a policy, a ledger and records of its own."""
    recipe = task.begin.recipe
    lifetime = float(recipe.epsilon or 0.0)
    policy = Policy(
        lifetime=lifetime,
        per_report=math.ceil(1e6 * lifetime / recipe.epochs) / 1e6,
        solutions=[recipe.solution],
        dimensions=[int(recipe.dim or 0)],
        require_purpose=True,
    )
    outcome = join(address, Client(policy, store, create=True), records, **how)
    if not outcome.regular:
        raise Ended(outcome.ending, outcome.detail)
    return outcome


def _plain_accuracy(records: Dataset) -> float:
    """The accuracy of the same model on the pooled records, without privacy."""
    X, y = np.asarray(records.with_intercept().X), records.y
    model, w = LinearModel("logistic", reg=0.0), np.zeros(_FEATURES + 1)
    for _ in range(_STEPS):
        w -= _PLAIN_RATE * model.gradient(w, X[_TESTED:], y[_TESTED:])
    return float(np.mean(predict(X[:_TESTED] @ w) == y[:_TESTED]))


def _show(summary: dict[str, Any]) -> None:
    console = output()
    price = f"ε = {summary['epsilon_per_report']} a report, {len(summary['devices'])} devices"
    console.print(f"{summary['solution']}, d = {summary['dim']}, {price}")
    ledgers = Counter((d["reports"], d["spent"], d["left"]) for d in summary["devices"])
    rows = tuple((count, *cells) for cells, count in sorted(ledgers.items()))
    console.print(Table("The ledgers", ("devices", "reports", "ε spent", "ε left"), rows))
    console.print(
        f"accuracy on a public test set: {100 * summary['accuracy']:.1f} %, and without privacy "
        f"{100 * summary['plain_accuracy']:.1f} %"
    )
    console.print("ε protects all records of a device together, not the single record.")
    console.print(f"{summary['seconds']:.0f} seconds")
