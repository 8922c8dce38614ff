"""How many sealed reports a second devices seal, a shuffler takes, and a server opens.

Sealing and opening are seconds of the processor. The shuffler flushes its disk before it
acknowledges, so its rates are of the clock: one flush for each message, and one for many.

Example: python benchmarks/shuffler.py --reports 20000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fedsel import Recipe, Reports
from fedsel.server import ServerKey, Shuffler
from fedsel.wire import Request, Sealing

RECIPE = Recipe(epsilon=2.0, dim=128, rho=0.4, mu=0.1, learning_rate=1.0, averaging=0.0)
ONE_BY_ONE = 500


def rate(count: int, clock: Callable[[], float], work: Callable[[], object]) -> float:
    """How many a second."""
    start = clock()
    work()
    return count / (clock() - start)


def measure(count: int, folder: Path) -> dict[str, float]:
    """Every rate, for so many reports of one round."""
    key, asked = ServerKey.generate(), Request(bytes(16), 0, 0, RECIPE)
    request, report = asked.encode(), asked.format.encode(0, Reports([3], [1]))
    sealing, messages = Sealing(request, key.public), list[bytes]()
    rates = {
        "sealed": rate(
            count,
            time.process_time,
            lambda: messages.extend(sealing.seal(report) for _ in range(count)),
        )
    }
    with Shuffler(folder, n_min=2) as shuffler:
        shuffler.begin(request, key.public)
        few, many = list(enumerate(messages))[:ONE_BY_ONE], list(enumerate(messages))[ONE_BY_ONE:]
        rates["taken one by one"] = rate(
            len(few), time.perf_counter, lambda: [shuffler.receive(*pair) for pair in few]
        )
        rates["taken at once"] = rate(
            len(many), time.perf_counter, lambda: shuffler.receive_many(many)
        )
        batch = shuffler.release(request)
    if batch is None or len(batch) != count * len(Sealing.split(messages[0]).content):
        raise SystemExit("some reports were not accepted")
    rates["opened"] = rate(count, time.process_time, lambda: key.opened(request, batch))
    return rates


def main() -> None:
    """Measure and say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--dir", type=Path, help="where the shuffler's folder goes for a while")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        rates = measure(max(options.reports, 2 * ONE_BY_ONE), Path(name))
    if options.json:
        print(json.dumps(rates))
    else:
        for what, found in rates.items():
            print(f"{what}: {found:,.0f} a second")


if __name__ == "__main__":
    main()
