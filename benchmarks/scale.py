"""One private epoch over millions of clients from a memory-mapped file.

Shows that time grows linearly with the number of clients and that memory beyond the page cache
stays small. Memory is the anonymous memory of the process at its peak (the pages of the mapped
file are the page cache's, and can be dropped at any time).

Example: python benchmarks/scale.py --out results
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

DIMENSIONS = 100
CHUNK = 100_000


def anonymous_bytes() -> int:
    """Anonymous memory of this process, in bytes (Linux)."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Anonymous line in smaps_rollup")


def write_records(path: Path, clients: int) -> None:
    """Standard normal records, chunk by chunk."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, clients, CHUNK):
            rows = min(CHUNK, clients - start)
            file.write(rng.standard_normal((rows, DIMENSIONS), dtype=np.float32).tobytes())


def measure(path: Path, clients: int) -> dict[str, float]:
    """Run the epoch in this process; seconds and peak of anonymous memory."""
    from fedsel import solution
    from fedsel.simulation import Population, Training, train

    X = np.asarray(np.memmap(path, dtype=np.float32, mode="r", shape=(clients, DIMENSIONS)))
    y = np.where(np.arange(clients) % 2, 1, -1).astype(np.int8)
    training = Training(
        solution("PS-PM", epsilon=2.0, dim=DIMENSIONS), batch=clients // 100, seed=0
    )
    small = Training(training.solution, batch=10, seed=0)
    train(small, Population(X[:1000], y[:1000]))  # warm
    peak, done = anonymous_bytes(), threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    train(training, Population(X, y))
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return {"clients": clients, "seconds": seconds, "bytes": max(peak, anonymous_bytes())}


def main() -> None:
    """Measure each size in a process of its own, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[10**6, 3 * 10**6, 10**7])
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--dir", type=Path, help="where the file of records goes for a while")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.clients[0])))
        return
    rows = []
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        path = Path(folder) / "records.f32"
        largest = max(options.clients)
        print(f"writing {largest:,} records", file=sys.stderr)
        write_records(path, largest)
        for clients in sorted(options.clients):
            print(f"one epoch of {clients:,} clients", file=sys.stderr)
            command = [sys.executable, __file__, "--one", str(path), "--clients", str(clients)]
            best = min(
                (json.loads(subprocess.check_output(command)) for _ in range(2)),
                key=lambda row: row["seconds"],
            )
            rows.append(best)
    x = np.log([row["clients"] for row in rows])
    slope = (
        float(np.polyfit(x, np.log([r["seconds"] for r in rows]), 1)[0]) if len(x) > 1 else math.nan
    )
    options.out.mkdir(exist_ok=True)
    with (options.out / "scale.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    if options.json:
        print(json.dumps({"rows": rows, "slope": None if math.isnan(slope) else slope}))
        return
    for row in rows:
        print(
            f"{row['clients']:>12,} clients: {row['seconds']:7.2f} s, "
            f"{1e9 * row['seconds'] / row['clients']:6.0f} ns a client, "
            f"{row['bytes'] / 1e6:6.0f} MB beyond the page cache (target: below 1000)"
        )
    print(f"slope of log time over log clients: {slope:.2f}")


if __name__ == "__main__":
    main()
