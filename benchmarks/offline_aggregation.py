"""How many reports at rest are added up a second, by one worker (a thread) and by two.

Files of reports are written first; the time is that of `aggregated`. The
slope is the speed of two workers over that of one.

Example: python benchmarks/offline_aggregation.py --reports 40000000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from fedsel.service import Task
from fedsel.service._offline_aggregation import aggregated
from fedsel.wire import ReportFormat

OWN = {"name": "a", "epsilon": 4, "dim": 100, "clients": 10**6, "close_after": {"reports": 10**6}}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=40_000_000)
    options = parser.parse_args()
    state = Task.of(OWN).begin
    form = ReportFormat.of(state.recipe.build(), state.run)
    rng, part = np.random.default_rng(0), 1 << 22
    rows = np.zeros(part, dtype=[("head", "S4"), ("round", "<u4"), ("pair", "<u4", (2,))])
    rows["head"] = form._head
    rows["pair"][:, 0] = rng.integers(0, form.slots, part)
    rows["pair"][:, 1] = rng.integers(0, form.symbols, part)
    rates = {}

    def added_up(paths: list[Path], jobs: int) -> int:
        return sum(s.count for s in aggregated(paths, form, state.recipe, planned=1, jobs=jobs))

    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{i}.bin" for i in range(-(-options.reports // part))]
        for path in paths:
            path.write_bytes(rows.tobytes())
        for jobs in (1, 2):
            added_up(paths[:jobs], jobs)  # the workers are there
            begin = time.perf_counter()
            rates[jobs] = added_up(paths, jobs) / (time.perf_counter() - begin)
            print(f"{jobs} worker(s): {rates[jobs]:,.0f} reports a second of the clock")
        begin = time.process_time()
        core = added_up(paths, 1) / (time.process_time() - begin)
    print(f"{core:,.0f} reports a second of one core: a billion in {1e9 / core / 60:.1f} minutes")
    print(
        f"two workers over one: {rates[2] / rates[1]:.2f} (load average {os.getloadavg()[0]:.1f})"
    )


if __name__ == "__main__":
    main()
