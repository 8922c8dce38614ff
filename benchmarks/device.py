"""How long one answer of a device takes, by the number of reports that its ledger holds.

All of `Client.answer` is measured, flushes included, for PS-PM at d = 100 and an update that costs
nothing. The ledger lies in memory (/dev/shm), where a flush is free, and in the folder ``--dir``,
where the disk decides. Shown are the median and the least over the repetitions, and the median of
the time of the processor alone, which a busy machine changes least.

Example: python benchmarks/device.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from fedsel import Recipe
from fedsel.device import Client, Entry, Policy, Request

DIM = 100
RECIPE = Recipe(
    "PS-PM", epsilon=400.0, dim=DIM, epochs=1_000_000, mu=0.1, learning_rate=1.0, averaging=0.0
)
POLICY = Policy(lifetime=400.0, per_report=1.0, solutions=["PS-PM"], dimensions=[DIM])
OLD_RUN, RUN = bytes(16), bytes(range(16))
WEIGHTS, UPDATE = np.zeros(DIM), np.linspace(-1, 1, DIM)


def filled(store: Path, entries: int) -> Client:
    """A client whose ledger holds so many reports, of an earlier run."""
    client = Client(POLICY, store, create=True)
    report = client.answer(Request(OLD_RUN, 0, 0, RECIPE).encode(), WEIGHTS, UPDATE)
    with client.ledger.transaction(write=True) as books:
        for number in range(2, entries + 1):
            place = number - 1
            charge = Fraction(RECIPE.charge)
            entry = Entry(number, OLD_RUN, place, place, 0, charge, bytes(32), report)
            books.record(entry, None)
    return client


def measure(folder: Path, entries: int, answers: int) -> dict[str, float]:
    """Microseconds of an answer on a ledger of so many reports."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        client = filled(Path(place) / "store", entries)
        requests = [Request(RUN, i, i, RECIPE).encode() for i in range(answers)]
        times, busy = [], []
        for request in requests:
            start, begun = time.perf_counter(), time.process_time()
            client.answer(request, WEIGHTS, UPDATE)
            busy.append(1e6 * (time.process_time() - begun))
            times.append(1e6 * (time.perf_counter() - start))
    median = statistics.median
    found = {"median": median(times), "least": min(times), "processor": median(busy)}
    return {name: round(value) for name, value in found.items()}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--entries", type=int, nargs="+", default=[1, 100, 10_000])
    parser.add_argument("--answers", type=int, default=50)
    parser.add_argument("--dir", type=Path, default=Path.cwd(), help="a folder on a disk")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [
        {"where": where, "entries": entries, **measure(folder, entries, options.answers)}
        for where, folder in (("memory", Path("/dev/shm")), ("disk", options.dir))  # noqa: S108
        if folder.is_dir()
        for entries in options.entries
    ]
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(
            f"{row['where']:>6}, {row['entries']:>6,} reports in the ledger: an answer takes "
            f"{row['median']:>8,} µs (median), {row['least']:>8,} µs (least), "
            f"{row['processor']:>8,} µs of the processor"
        )


if __name__ == "__main__":
    main()
