"""``fedsel serve --demo``: a service in a thread, and devices in others that report to it.

With ``--relay`` they report to a relay, in a thread of its own, which alone talks to the service.
"""

from __future__ import annotations

import math
import os
import signal
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import typer
from numpy.typing import NDArray

from fedsel._internal.display import counted
from fedsel._internal.models import LinearModel, predict
from fedsel._internal.progress import Bar
from fedsel.cli._terminal import output, print_json, say_error
from fedsel.data import Dataset, synthetic
from fedsel.device import Client, Ended, Ending, Outcome, Policy, RawRecords, join
from fedsel.device._connection import SHORT, Connection
from fedsel.errors import InvalidArgument, check_count, check_epsilon
from fedsel.pages import Table
from fedsel.service import Task
from fedsel.service._store import KEY_VARIABLE
from fedsel.service.inviting import invitations, relay_settings
from fedsel.service.relay import RelayConfig
from fedsel.service.running import Serving, background
from fedsel.tracking import Record
from fedsel.tracking._follow import follow_over

_RECORDS, _TESTED, _FEATURES = 100, 5000, 5  # of a device, of the test set, of a record
_POLL, _ROUND, _PATIENCE = 0.5, 60, 10.0
"""Seconds between two polls, for a round, and for an answer."""
_UNWINDING = 15.0  # seconds within which a second signal changes nothing
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
# Every device reports in every round, so that each round has as many reports as there are devices.
_SHUFFLE = "shuffle = { n_min = %d }\n"
_MOST_BYTES = 1 << 20


def show_demo(
    devices: int,
    epochs: int,
    epsilon: float,
    relay: bool,
    keep: Path | None,
    stay: bool,
    as_json: bool,
) -> None:
    """Run the demo and print what came out; Ctrl-C ends everything."""
    check_count("devices", devices, least=2 if relay else 1, most=100)
    check_count("epochs", epochs, most=100)
    check_epsilon("epsilon", epsilon)
    if keep is not None:
        if keep.exists():
            raise InvalidArgument("--keep", str(keep), "a folder that does not exist yet")
        keep.mkdir(parents=True)
    os.environ.pop(KEY_VARIABLE, None)  # a relay must not share its service's secret
    unwinding = _Unwinding()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, unwinding)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="fedsel-demo-") as temporary,
            Bar(epochs, "starting the service") as bar,
        ):
            folder = Path(temporary) if keep is None else keep.resolve()
            toml = _TASK.format(devices=devices, epochs=epochs, epsilon=epsilon)
            (folder / "task.toml").write_text(toml + relay * (_SHUFFLE % devices))
            summary = run_demo(folder, devices, bar, stay=stay)
    except Ended as ended:
        say_error(f"the demo has failed: {ended}")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        for number in (signal.SIGINT, signal.SIGTERM):  # also while the interpreter ends
            signal.signal(number, signal.SIG_IGN)
        say_error(f"interrupted; the service{', the relay' * relay} and the devices were ended")
        raise typer.Exit(130) from None
    if as_json:
        print_json(summary)
    else:
        _show(summary)


@final
class _Unwinding:
    """Ends everything in order, once: the impatient must not leave anything behind."""

    def __init__(self) -> None:
        self._last = -math.inf

    def __call__(self, *_: object) -> None:
        now = time.monotonic()
        if now - self._last > _UNWINDING:
            self._last = now
            raise KeyboardInterrupt


class _Parties(NamedTuple):
    """What runs: the service, what devices talk to, and their invitations."""

    service: str
    address: str
    tokens: list[str]
    relay: RelayConfig | None = None


@contextmanager
def _running(task: Task, folder: Path, count: int) -> Iterator[_Parties]:
    """The service, and where its task has a relay that one, each with a store of its own."""
    store, at_relay = folder / "store", folder / "relay"
    with background(task, Serving(str(store), port=0)) as service:
        if task.shuffle is None:
            yield _Parties(service, service, [*invitations(task, store, count)])
            return
        settings = tomllib.loads(relay_settings(task, store, service))
        relay = RelayConfig.of({**settings, "limits": {"per_address": 1e6}})
        with background(relay, Serving(str(at_relay), port=0)) as address:
            # Until it has a round: a device that waits for one would not see the end at once.
            with closing(Connection(address, patience=_PATIENCE)) as connection:
                connection.ask("/readyz", SHORT)
            yield _Parties(service, address, [*invitations(relay, at_relay, count)], relay)


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

    def pause(seconds: float) -> None:  # and what the one who follows the run does
        if over.wait(seconds):
            raise Ended(Ending.UNREACHABLE)

    # The service ends before the pool does: its devices go on until it is gone.
    with ThreadPoolExecutor(count + 1) as pool, _running(task, folder, count) as parties:
        for line in _where(parties):
            bar.keep(line)
        bar.update("devices report")
        try:
            watching = Connection(parties.service, patience=_PATIENCE, pause=pause)
            followed = pool.submit(follow_over, watching, [show], _POLL)
            devices = [
                pool.submit(
                    _take_part,
                    task,
                    parties,
                    folder / f"ledger-{number}",
                    records_of(number, records, labels),
                    token=token,
                    every=_POLL,
                    patience=_PATIENCE,
                    tell=go_on,
                )
                for number, token in enumerate(parties.tokens)
            ]
            work: list[Future[Any]] = [followed, *devices]
            for done in as_completed(work):
                done.result()  # raises what it has failed with
            seconds = time.monotonic() - begin
            seen = _seen(task, parties)
            if stay:
                bar.keep("the run is over; the dashboard stays until Ctrl-C")
                with suppress(KeyboardInterrupt):
                    threading.Event().wait()
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
        **seen,
    }


def _where(parties: _Parties) -> Iterator[str]:
    """Where to watch whom."""
    if parties.relay is None:
        yield f"dashboard: {parties.service}/   (while the demo runs)"
        return
    yield f"dashboard of the service: {parties.service}/   (while the demo runs)"
    yield f"dashboard of the relay: {parties.address}/   (devices talk to it alone)"


def _seen(task: Task, parties: _Parties) -> dict[str, Any]:
    """What relay and service have seen, as both publish it; nothing without a relay."""
    if parties.relay is None or task.shuffle is None:
        return {}
    counts = {}
    for name, url in (("relay", parties.address), ("service", parties.service)):
        connection = Connection(url, patience=_PATIENCE)
        try:
            rounds = connection.ask("/v1/rounds", _MOST_BYTES).values["rounds"]
        finally:
            connection.close()
        counts[name] = sum(one["accepted"] for one in rounds)
    rule, local = task.shuffle, float(task.begin.recipe.charge * task.begin.recipe.epochs)
    central = task.shuffled_epsilon
    numbers = {"epsilon": local, "central_epsilon": central, "delta": rule.delta}
    return {
        "both": {**numbers, "honest": rule.honest, "said": rule.said(central, local)},
        "condition": rule.condition,
        "relay": {"devices": len(parties.tokens), "sealed_messages": counts["relay"]},
        "service": {"devices": 0, "reports": counts["service"]},
    }


def records_of(device: int, records: Dataset, labels: NDArray[np.str_]) -> RawRecords:
    """The records that a device holds."""
    own = slice(_TESTED + device * _RECORDS, _TESTED + (device + 1) * _RECORDS)
    return RawRecords(np.asarray(records.X)[own], labels[own], _NAMES)


def _take_part(
    task: Task, parties: _Parties, store: Path, records: RawRecords, **how: Any
) -> Outcome:
    """Take part as one device, with a policy, a ledger and records of its own."""
    recipe, relay = task.begin.recipe, parties.relay
    lifetime = float(recipe.epsilon or 0.0)
    policy = Policy(
        lifetime=lifetime,
        per_report=math.ceil(1e6 * lifetime / recipe.epochs) / 1e6,
        solutions=[recipe.solution],
        dimensions=[int(recipe.dim or 0)],
        require_purpose=True,
        server_key=None if relay is None else relay.server_key,
        signing_key=None if relay is None else relay.signing_key,
    )
    outcome = join(parties.address, Client(policy, store, create=True), records, **how)
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
    if "both" in summary:
        console.print(_parties_table(summary))
        console.print(f"{summary['both']['said']}.")
        console.print(summary["condition"])
        console.print("This demo runs both itself; the second ε needs two operators.")
    console.print(f"{summary['seconds']:.0f} seconds")


def _parties_table(summary: dict[str, Any]) -> Table:
    """What each party has seen."""
    relay, service = summary["relay"], summary["service"]
    who = f"{counted(relay['devices'], 'device')}, and when"
    what = f"{counted(relay['sealed_messages'], 'message')}, all of them sealed"
    rounds = counted(len(summary["rounds"]), "round")
    rows = (
        ("relay", who, what),
        ("service", "nobody", f"{counted(service['reports'], 'report')} in {rounds}, each sorted"),
    )
    return Table("What each party has seen", ("party", "who", "what"), rows)
