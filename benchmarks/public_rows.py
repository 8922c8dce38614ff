"""How much public, unlabelled rows help FedSelClassifier, by ε: ADULT, KDD and BANK.

The rows are taken out of the training clients. Test accuracy on a fifth that nobody trains on; each
run draws anew who of the others trains (three fifths of all) and who of these is public. Rows of a
table: without public rows, and with some hundred or thousand of them.

Example:
    python benchmarks/public_rows.py                    # 20 runs, needs the files (FEDSEL_DATA)
    python benchmarks/public_rows.py --datasets adult --runs 5 --json
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.datasets import run_on_datasets
from fedsel import FedSelClassifier
from fedsel.simulation._validation import fifths
from reproduction.datasets import load

EPSILONS = (0.5, 1.0, 2.0, 4.0)
COUNTS = (0, 200, 1000)


def records(name: str) -> tuple[Any, Any]:
    """The records on the scale of their public bounds, [0, 1]."""
    data = load(name)
    X: Any = data.scaled("unit").X
    return X.toarray() if hasattr(X, "toarray") else X, data.y


def measure(names: list[str], runs: int) -> list[dict[str, Any]]:
    found = []
    for name in names:
        X, y = records(name)
        scores: dict[tuple[int, float], list[float]] = {}
        for run in track(range(runs), name, console=Console(stderr=True), transient=True):
            members, _, test = fifths(len(y), 0, run)
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


def tabulate(names: list[str], runs: int, found: list[dict[str, Any]]) -> Table:
    title = f"test accuracy (%), mean ± deviation of {runs} runs"
    table = Table("data", "public rows", *(f"ε = {e:g}" for e in EPSILONS), title=title)
    for name in names:
        for count in COUNTS:
            own = [r for r in found if r["dataset"] == name and r["public rows"] == count]
            cells = (f"{r['accuracy']:.1f} ± {r['deviation']:.1f}" for r in own)
            table.add_row(name, f"{count:,}", *cells)
    return table


if __name__ == "__main__":
    run_on_datasets(__doc__ or "", 20, measure, tabulate)
