"""How many reports a second one aggregator process takes from memory, and how much memory.

Shown as reports a second and as a ratio to the target of 200,000; for one report at a time and for
many at once, with the names of the clients and without. Seconds are those of the processor, which
a busy machine changes least, and the best of ``--repeat`` runs counts. Memory beyond the reports
themselves is measured in a round of a million clients without names (O(d)) and with names.

Example: taskset -c 0 python benchmarks/aggregator.py
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import tracemalloc

import numpy as np

from fedsel import Recipe, Reports
from fedsel.server import Aggregator
from fedsel.wire import Request

TARGET = 200_000
AT_A_TIME = 10_000
DECIDED = {"mu": 0.1, "learning_rate": 1.0, "averaging": 0.0}


def reports(server: Aggregator, count: int, seed: int = 0) -> bytes:
    """Well-formed reports with slots and symbols drawn uniformly."""
    form = Request.decode(server.request()).format
    rng = np.random.default_rng(seed)
    rows = np.zeros(
        count, dtype=[("head", "S4"), ("round", "<u4"), ("pairs", "<u4", (form.picks, 2))]
    )
    rows["head"] = form.encode(0, Reports(range(form.picks), [0] * form.picks))[:4]
    rows["pairs"][:, :, 0] = np.arange(form.picks) + rng.integers(
        0, form.slots - form.picks, (count, 1)
    )
    rows["pairs"][:, :, 1] = rng.integers(0, form.symbols, (count, form.picks))
    return rows.tobytes()


def seconds_of(way: str, recipe: Recipe, count: int) -> tuple[float, int]:
    """How long one way to hand reports over takes, and how many picks they have."""
    with tempfile.TemporaryDirectory() as folder, Aggregator(recipe, folder) as server:
        data, size = reports(server, count), server._format.size
        names = list(range(count))
        start = time.process_time()
        if way == "one by one":
            for i in names:
                server.receive(i, data[size * i : size * (i + 1)])
        else:
            for i in range(0, count, AT_A_TIME):
                part = data[size * i : size * (i + AT_A_TIME)]
                server.receive_many(part, names[i : i + AT_A_TIME] if "named" in way else None)
        seconds = time.process_time() - start
        if server.counts.accepted != count:
            raise SystemExit("some reports were not accepted")
        return seconds, server._format.picks


def measure(
    name: str, epsilon: float, dim: int, count: int, repeat: int
) -> list[dict[str, object]]:
    """The speed of each way to hand reports over."""
    rows = []
    recipe = Recipe(name, epsilon=epsilon, dim=dim, **DECIDED)
    for way in ("one by one", "many, named", "many, anonymous"):
        seconds, picks = min(seconds_of(way, recipe, count) for _ in range(repeat))
        rate = count / seconds
        rows.append(
            {
                "solution": name,
                "d": dim,
                "picks": picks,
                "way": way,
                "per_second": round(rate),
                "times_target": round(rate / TARGET, 1),
            }
        )
    return rows


def memory(count: int, dim: int, named: bool) -> float:
    """Megabytes at the peak of a round, the reports themselves aside."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = Recipe("PS-PM", epsilon=2.0, dim=dim, **DECIDED)
        server = Aggregator(recipe, folder)
        data = reports(server, count)
        _ = server.solution.bits
        server.close()
        tracemalloc.start()
        server = Aggregator(recipe, folder)
        for i in range(0, count, AT_A_TIME):
            names = range(i, i + AT_A_TIME) if named else None
            server.receive_many(data[16 * i : 16 * (i + AT_A_TIME)], names)
        server.step()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, epsilon, dim in (("PS-PM", 2.0, 100), ("PE-HM", 2.0, 1_000_000), ("PM", 10.0, 100)):
        rows += measure(name, epsilon, dim, options.reports, options.repeat)
    sizes = [
        {
            "reports": count,
            "d": dim,
            "anonymous_MB": round(memory(count, dim, False), 1),
            "named_MB": round(memory(count, dim, True), 1),
        }
        for count in (100_000, 1_000_000)
        for dim in (100, 1_000_000)
    ]
    if options.json:
        print(json.dumps({"speed": rows, "memory": sizes}))
        return
    for row in rows:
        print(
            f"{row['solution']:>6}, d = {row['d']:>9,}, {row['picks']} pick(s), {row['way']:<16}"
            f"{row['per_second']:>12,} reports/s = {row['times_target']} × target"
        )
    for row in sizes:
        print(
            f"{row['reports']:>9,} reports, d = {row['d']:>9,}: {row['anonymous_MB']} MB without "
            f"names, {row['named_MB']} MB with"
        )


if __name__ == "__main__":
    main()
