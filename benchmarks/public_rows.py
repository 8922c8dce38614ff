"""How much public, unlabelled rows help FedSelClassifier, by ε: ADULT, KDD and BANK.

The rows are taken out of the training clients. Test accuracy on a fifth that nobody trains on; each
run draws anew who of the others trains (three fifths of all) and who of these is public. Rows of a
table: without public rows, and with some hundred or thousand of them.

Example:
    python benchmarks/public_rows.py                    # 20 runs, needs the files (FEDSEL_DATA)
    python benchmarks/public_rows.py --datasets adult --runs 5 --json
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel import FedSelClassifier, PrivacyLeakWarning
from fedsel._internal.random import philox_key
from fedsel.sampling._kernels import native
from fedsel.simulation._validation import FIFTHS, VALIDATION, split
from reproduction.datasets import load

EPSILONS = (0.5, 1.0, 2.0, 4.0)
COUNTS = (0, 200, 1000)


def records(name: str) -> tuple[Any, Any]:
    """The records on the scale of their public bounds, [0, 1]."""
    data = load(name)
    X: Any = data.scaled("unit").X
    return X.toarray() if hasattr(X, "toarray") else X, data.y


def fifths(clients: int, run: int) -> tuple[Any, Any]:
    """Who tests, always the same, and who trains: three fifths of all (the `fair` protocol)."""
    test, *others = split(clients, FIFTHS, 0, 0)
    rest = np.concatenate(others)
    native.shuffle(rest, philox_key(0, VALIDATION), run)
    return test, rest[len(test) :]


def measure(names: list[str], runs: int) -> list[dict[str, Any]]:
    found = []
    for name in names:
        X, y = records(name)
        scores: dict[tuple[int, float], list[float]] = {}
        for run in track(range(runs), name, console=Console(stderr=True), transient=True):
            test, members = fifths(len(y), run)
            for count in COUNTS:
                public, clients = members[:count], members[count:]
                for epsilon in EPSILONS:
                    model = FedSelClassifier(
                        epsilon=epsilon, feature_range=(0, 1), random_state=run
                    )
                    model.fit(X[clients], y[clients], public_X=X[public] if count else None)
                    hit = 100 * model.score(X[test], y[test])
                    scores.setdefault((count, epsilon), []).append(hit)
        for (count, epsilon), hits in scores.items():
            spread = float(np.std(hits, ddof=1)) if runs > 1 else 0.0
            row = {"dataset": name, "public rows": count, "epsilon": epsilon}
            found.append({**row, "accuracy": float(np.mean(hits)), "deviation": spread})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--datasets", nargs="+", default=["adult", "kdd", "bank"])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    # These clients are simulated: they may be fitted often, and from seeds.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    found = measure(options.datasets, options.runs)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    title = f"test accuracy (%), mean ± deviation of {options.runs} runs"
    table = Table("data", "public rows", *(f"ε = {e:g}" for e in EPSILONS), title=title)
    for name in options.datasets:
        for count in COUNTS:
            own = [r for r in found if r["dataset"] == name and r["public rows"] == count]
            cells = (f"{r['accuracy']:.1f} ± {r['deviation']:.1f}" for r in own)
            table.add_row(name, f"{count:,}", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
