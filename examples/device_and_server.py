"""A thousand devices, a server, and everything that goes wrong in real life.

Each device has a store of its own with a durable ledger, and records that never leave it. In each
of five epochs it is asked for one report. Meanwhile some devices are killed in the middle of an
answer and start again, the server is restarted in the middle of a round, one client is hostile,
and another server asks for more than the owners of the devices allow.

Example: python examples/device_and_server.py --clients 1000
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedsel import Recipe, Reports
from fedsel.device import Client, LinearModel, Policy, Refused, Request
from fedsel.server import Aggregator, Verdict

D, RECORDS, EPOCHS = 10, 20, 5
RECIPE = Recipe(
    "PS-PM", epsilon=5.0, dim=D, epochs=EPOCHS, k=2, mu=0.1, learning_rate=10.0, averaging=0.0
)
POLICY = Policy(
    lifetime=5.0, per_report=1.0, solutions=["PS-PM"], dimensions=[D], reports_per_epoch=1
)
MODEL = LinearModel(reg=1e-3)
CRASHES, HOSTILE, GREEDY = 0.02, 0, 10


class Device:
    """A person's device: some records, and a client with the owner's policy."""

    def __init__(self, store: Path, X: NDArray[np.float64], y: NDArray[np.int8]) -> None:
        self.store, self.X, self.y = store, X, y
        self.client = Client(POLICY, store, create=True)
        self.crashes = 0

    def gradient(self, weights: NDArray[np.floating]) -> NDArray[np.float64]:
        """What this device would like to tell, and never does."""
        return MODEL.gradient(weights, self.X, self.y)

    def answer(self, request: bytes, weights: NDArray[np.floating]) -> bytes:
        """The report: all that leaves."""
        return self.client.answer(request, weights, self.gradient)

    def crash(self, request: bytes, weights: NDArray[np.floating], seconds: float) -> None:
        """The same in a process that is killed at some instant, before it can send anything."""
        pid = os.fork()
        if pid == 0:
            try:
                self.answer(request, weights)
                time.sleep(60)
            finally:
                os._exit(0)
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.crashes += 1
        self.client = Client(POLICY, self.store)  # the device starts again, the store is there


def people(clients: int) -> list[tuple[NDArray[np.float64], NDArray[np.int8]]]:
    """Records of each client, and at the end those that test the model."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=D) * np.linspace(0.2, 3, D)
    X = rng.normal(size=(clients * RECORDS + 5000, D))
    y = np.where(X @ truth + rng.normal(size=len(X)) > 0, 1, -1).astype(np.int8)
    ends = [*range(RECORDS, clients * RECORDS + 1, RECORDS)]
    return list(zip(np.split(X, ends), np.split(y, ends), strict=True))


def be_hostile(server: Aggregator, client: int) -> None:
    """What a client may try; all it gets is one report, within the bound."""
    form = Request.decode(server.request()).format
    good = form.encode(server.round, Reports([0], [form.symbols - 1]))
    for report in (b"", good[:-1], good + b"!", os.urandom(16), b"\xff" * 16):
        server.receive(client, report)
    server.receive(client, form.encode(server.round, Reports([0], [form.symbols])))
    server.receive(client, form.encode(server.round, Reports([D], [0])))
    server.receive(client, form.encode(server.round + 1, Reports([0], [0])))
    for _ in range(3):  # the first is accepted, the others are duplicates
        server.receive(client, good)


def be_greedy(devices: list[Device], weights: NDArray[np.floating]) -> Counter[str]:
    """What a server may try, and what the devices say to it."""
    answers: Counter[str] = Counter()
    run = os.urandom(16)
    wishes = [
        Request(run, 0, 0, replace(RECIPE, epsilon=50.0, epochs=1)).encode(),
        Request(run, 0, 0, replace(RECIPE, solution="NP", epsilon=1.0, epochs=1)).encode(),
        Request(run, 0, 0, replace(RECIPE, dim=1 << 32)).encode(),
        os.urandom(138),
    ]
    for device in devices[-GREEDY:]:
        for wish in wishes:
            try:
                device.answer(wish, weights)
                answers["answered"] += 1
            except Refused as refused:
                answers[str(refused)] += 1
    return answers


def train(devices: list[Device], folder: Path, progress: Progress) -> tuple[Aggregator, int]:
    """Five epochs of one round each. Returns the server, and how many devices crashed."""
    chance = random.Random(0)
    server = Aggregator(RECIPE, folder)
    bar = progress.add_task("reports", total=EPOCHS * len(devices))
    while not server.finished:
        request, weights = server.request(), server.weights
        restart_at = chance.randrange(len(devices)) if server.round == 2 else -1
        answered: dict[int, bytes] = {}
        for i, device in enumerate(devices):
            if i == HOSTILE:
                be_hostile(server, i)
            else:
                if chance.random() < CRASHES:
                    device.crash(request, weights, chance.uniform(0, 0.02))
                answered[i] = device.answer(request, weights)
                server.receive(i, answered[i])
            if i == restart_at:  # the server forgets this round, and asks all of them again
                server.close()
                server = Aggregator(RECIPE, folder)
                assert server.request() == request
                be_hostile(server, HOSTILE)
                for j, report in answered.items():
                    again = devices[j].answer(request, weights)
                    assert again == report
                    assert server.receive(j, again) is Verdict.ACCEPTED
            progress.advance(bar)
            progress.refresh()
        server.step()
    return server, sum(device.crashes for device in devices)


def ledgers(devices: list[Device], file: Path | None) -> list[dict[str, object]]:
    """One row for each ledger."""
    rows: list[dict[str, object]] = []
    for i, device in enumerate(devices):
        history = device.client.history()
        rows.append(
            {
                "client": i,
                "reports": len(history.entries),
                "spent": str(history.spent),
                "left": str(history.left),
                "crashes": device.crashes,
            }
        )
    if file is not None:
        with file.open("w", newline="", encoding="utf-8") as opened:
            writer = csv.DictWriter(opened, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return rows


def show(
    console: Console, server: Aggregator, rows: list[dict[str, object]], answers: Counter[str]
) -> None:
    """Tables of what server, devices and the other server saw."""
    table = Table("round", "accepted", "rejected", "duplicate", "late", title="The server")
    for r in server.records:
        table.add_row(*(str(x) for x in (r.round, r.accepted, r.rejected, r.duplicate, r.late)))
    console.print(table)
    table = Table("reports", "ε spent", "ε left", "devices", title="The ledgers")
    groups = Counter((r["reports"], r["spent"], r["left"]) for r in rows)
    for group, count in sorted(groups.items(), key=str):
        table.add_row(*(str(x) for x in (*group, count)))
    console.print(table)
    table = Table("asked for too much: the answer", "times", title="The other server")
    for answer, count in answers.items():
        table.add_row(answer, str(count))
    console.print(table)
    spent = sum((Fraction(str(r["spent"])) for r in rows), Fraction(0))
    console.print(f"no device has spent more than {POLICY.lifetime}; all together {spent}")


def main() -> None:
    """Run it all and say what happened."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--dir", type=Path, help="where the stores go for a while")
    parser.add_argument("--csv", type=Path, help="write one line for each ledger to this file")
    options = parser.parse_args()
    if options.clients < 2 * GREEDY:
        sys.exit(f"--clients must be at least {2 * GREEDY}")
    console = Console(width=None if sys.stdout.isatty() else 100)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    shares = people(options.clients)
    X_test, y_test = shares.pop()
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        folder = Path(name)
        with Progress(
            *columns, TimeElapsedColumn(), console=Console(stderr=True), auto_refresh=False
        ) as progress:
            bar = progress.add_task("stores", total=len(shares))
            devices = []
            for i, (X, y) in enumerate(shares):
                devices.append(Device(folder / f"device-{i}", X, y))
                progress.advance(bar)
                progress.refresh()
            before = be_greedy(devices, np.zeros(D))
            server, crashes = train(devices, folder / "server", progress)
        after = be_greedy(devices, server.weights)
        again = Request(os.urandom(16), 0, 0, RECIPE).encode()
        for device in devices[-GREEDY:]:
            try:
                device.answer(again, server.weights)
            except Refused as refused:
                after[str(refused)] += 1
        rows = ledgers(devices, options.csv)
    show(console, server, rows, before + after)
    if options.csv is not None:
        console.print(f"each ledger: {options.csv}")
    console.print(f"{crashes} devices were killed while they answered, and asked again")
    reach, accepted = server.influence, server.records[-1].accepted
    console.print(
        f"one hostile client of {len(devices)} moves a mean by at most {reach.norm / accepted:.3g},"
        f" no entry of it by more than {reach.largest / accepted:.3g}"
    )
    together = np.zeros(D)  # what one could learn if the records themselves were sent
    X, y = (np.concatenate(part) for part in zip(*shares, strict=True))
    for _ in range(200):
        together -= MODEL.gradient(together, X, y)
    private, clear = (
        np.mean(np.where(X_test @ w >= 0, 1, -1) == y_test) for w in (server.model, together)
    )
    console.print(f"accuracy {private:.1%}; with the records in the clear {clear:.1%}")


if __name__ == "__main__":
    main()
