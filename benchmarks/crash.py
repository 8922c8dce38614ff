"""Kill a reporting device at random instants and check what is left, again and again.

A child process answers one round after another and releases each report by one write to a file;
it is killed (SIGKILL) at a random instant, also while it creates its store. After every kill the
store must open, hold every report that was released with the very same bytes, have spent at least
their ε and at most its lifetime, and its residual must be the one that its reports imply.

Example: python benchmarks/crash.py --kills 20000
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from fedsel import Recipe
from fedsel.device import Client, Ledger, Policy, Reason, Refused, Request

DIM, REPORT_BYTES = 24, 16
RUN = bytes(range(16))
EPOCHS, REPORTS = 40, 25
RECIPE = Recipe(
    "PS-PM", epsilon=Fraction(EPOCHS, 7), dim=DIM, epochs=EPOCHS, mu=0.1, learning_rate=1.0
)
POLICY = Policy(
    lifetime=Fraction(REPORTS, 7), per_report=Fraction(1, 7), solutions=["PS-PM"], dimensions=[DIM]
)
FORMAT = Request(RUN, 0, 0, RECIPE).format
WEIGHTS = np.zeros(DIM)


def update_of(number: int) -> np.ndarray:
    """The update of a round: known, so that the residual can be checked."""
    return np.cos(np.arange(1, DIM + 1) * (number + 1)).astype(np.float32)


def child(store: Path, outbox: int, ready: int) -> None:
    """Answer until the budget is used up; begin with the last answered round, asked once more."""
    client = Client(POLICY, store, create=True)
    entries = client.history().entries
    os.write(ready, b".")
    number = entries[-1].round if entries else 0
    while True:
        request = Request(RUN, number, number, RECIPE).encode()
        try:
            os.write(outbox, client.answer(request, WEIGHTS, lambda _, n=number: update_of(n)))
        except Refused as refused:
            if refused.reason is not Reason.EXHAUSTED:
                os._exit(3)
            os._exit(0)
        number += 1


def released(outbox: Path) -> dict[int, bytes]:
    """The reports that left, by round; one round must never have two."""
    data = outbox.read_bytes() if outbox.exists() else b""
    if len(data) % REPORT_BYTES:
        raise SystemExit("a release is one write: this measurement is broken")
    reports: dict[int, bytes] = {}
    for start in range(0, len(data), REPORT_BYTES):
        report = data[start : start + REPORT_BYTES]
        number = int.from_bytes(report[4:8], "little")
        if reports.setdefault(number, report) != report:
            raise SystemExit(f"two different reports were released in round {number}")
    return reports


def check(store: Path, outbox: Path) -> tuple[int, int]:
    """Check a store after a kill; returns how many reports it holds, and how many have left."""
    out = released(outbox)
    ledger = Ledger(store)
    if not store.exists():  # killed before it was whole
        if out:
            raise SystemExit("a report left without a store")
        return 0, 0
    history = ledger.read()
    held = {entry.round: entry.report for entry in history.entries}
    if any(held.get(number) != report for number, report in out.items()):
        raise SystemExit("a released report is not in the ledger")
    if not len(out) * Fraction(1, 7) <= history.spent <= POLICY.lifetime:
        raise SystemExit("released ≤ spent ≤ lifetime does not hold")
    residual = np.zeros(DIM, dtype=np.float32)
    for entry in history.entries:
        residual += update_of(entry.round)
        _, report = FORMAT.decode(entry.report)
        for slot, _ in report.pairs()[0]:
            residual[slot] = 0
    with ledger.transaction() as books:
        if history.entries and not np.array_equal(books.residual(RUN, DIM), residual):
            raise SystemExit("the residual is not the one that the reports imply")
    return len(held), len(out)


def run(kills: int, folder: Path, seed: int, longest: float) -> dict[str, float]:
    """Kill so many children, one after another; a store that is used up is followed by a new.

    Kills say something only while reports leave: on a busy machine, where the children get less
    done before they are killed, they are given more time, until a report leaves for every two.
    """
    rng = random.Random(seed)
    # Laws are built once, here: the children are killed while they report, not while they start.
    Client(POLICY, folder / "warm", create=True).answer(
        Request(RUN, 0, 0, RECIPE).encode(), WEIGHTS, update_of(0)
    )
    totals = {"kills": 0, "stores": 0, "reports": 0, "released": 0, "finished": 0}
    while totals["kills"] < kills or totals["released"] < kills / 2:
        totals["stores"] += 1
        store = folder / f"store-{totals['stores']}"
        outbox = folder / f"out-{totals['stores']}"
        held = out = 0
        while held < REPORTS and (totals["kills"] < kills or totals["released"] < kills / 2):
            mine, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                file = os.open(outbox, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                try:
                    child(store, file, theirs)
                finally:
                    os._exit(4)
            os.close(theirs)
            if rng.random() < 0.9:
                os.read(mine, 1)
            time.sleep(rng.uniform(0, longest))
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            os.close(mine)
            if os.WIFSIGNALED(status):
                totals["kills"] += 1
            elif os.WEXITSTATUS(status) == 0:
                totals["finished"] += 1
            else:
                raise SystemExit(f"a child ended with status {os.WEXITSTATUS(status)}")
            before, held, out = (held, out), *check(store, outbox)
            totals["reports"] += held - before[0]
            totals["released"] += out - before[1]
            if totals["kills"] % 50 == 0 and totals["released"] < totals["kills"] / 2:
                longest = min(2 * longest, 1.0)
    return totals


def main() -> None:
    """Run and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--longest", type=float, default=0.02, help="seconds before a kill, at most"
    )
    parser.add_argument("--dir", type=Path, help="where the stores go for a while")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        totals = run(options.kills, Path(folder), options.seed, options.longest)
    totals["seconds"] = round(time.perf_counter() - start, 1)
    if options.json:
        print(json.dumps(totals))
    else:
        print(", ".join(f"{name} {value:,}" for name, value in totals.items()))
        print("after every kill: released ≤ spent ≤ lifetime, and the residual is right")


if __name__ == "__main__":
    sys.exit(main())
