"""What public means of features are worth, by ε, and what wrong ones cost: ADULT, KDD and BANK.

Everything automatic, one report of each client, features within their public bounds. Each run draws
anew who trains (three fifths of all); accuracy and AUC on a fifth that nobody trains on. The centre
of the records is learnt in the first rounds, or told: by the true means of the training clients, by
means that are off by a share of each feature's deviation, with random signs, or by the true means
of a random half of the features.

Example:
    FEDSEL_DATA=… python benchmarks/public_means.py          # 30 runs, about a quarter of an hour
    python benchmarks/public_means.py --datasets adult --runs 5 --json
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.datasets import run_on_datasets
from fedsel import FedSelClassifier
from fedsel._internal.progress import Bar
from fedsel.simulation._validation import fifths, measures
from reproduction.datasets import load

EPSILONS = (0.5, 1.0, 2.0, 4.0)
KINDS = {
    "learnt": (0.0, None),
    "true means": (1.0, 0.0),
    "off by 10 %": (1.0, 0.1),
    "off by 30 %": (1.0, 0.3),
    "half of them": (0.5, 0.0),
}
"""The share of features whose mean is public, and its error over the feature's deviation."""
Rows = NDArray[np.float64]


def told(kind: str, X: Rows, bounds: Rows, run: int) -> Rows | None:
    """The public means of a run; None where nothing is public."""
    share, error = KINDS[kind]
    if error is None:
        return None
    draw = np.random.default_rng(run)
    off = error * draw.choice([-1.0, 1.0], X.shape[1]) * X.std(axis=0)
    means = np.clip(X.mean(axis=0) + off, *bounds)
    return np.where(draw.permutation(X.shape[1]) < share * X.shape[1], means, np.nan)


def measure(names: list[str], runs: int) -> list[dict[str, Any]]:
    """A row for each data set, kind of centre and ε, with standard errors."""
    found = []
    with Bar(len(names) * runs * len(KINDS) * len(EPSILONS)) as bar:
        for name in names:
            data = load(name)
            raw: Any = data.X
            X = np.asarray(raw.toarray() if hasattr(raw, "toarray") else raw, np.float64)
            y, bounds = data.y, np.asarray(data.bounds).T
            scores: dict[tuple[str, float], list[tuple[float, float]]] = {}
            for run in range(runs):
                members, _, test = fifths(len(y), 0, run)
                for kind in KINDS:
                    means = told(kind, X[members], bounds, run)
                    for epsilon in EPSILONS:
                        model = FedSelClassifier(
                            epsilon=epsilon,
                            feature_range=tuple(bounds),
                            public_mean=means,
                            random_state=run,
                        ).fit(X[members], y[members])
                        auc = measures(model.decision_function(X[test]), y[test])["auc"]
                        hit = 100 * model.score(X[test], y[test])
                        scores.setdefault((kind, epsilon), []).append((hit, auc))
                        bar.update(f"{name}: {kind}, run {run + 1}", advance=1)
            for (kind, epsilon), pairs in scores.items():
                (hit, auc), row = np.mean(pairs, axis=0), {"dataset": name, "centre": kind}
                errors = np.std(pairs, axis=0, ddof=1) / np.sqrt(runs) if runs > 1 else (0.0, 0.0)
                row |= {"epsilon": epsilon, "accuracy": hit, "auc": auc}
                found.append({**row, "accuracy_error": errors[0], "auc_error": errors[1]})
    return found


def tabulate(names: list[str], runs: int, found: list[dict[str, Any]]) -> Table:
    title = f"test accuracy (%) and AUC, each ± its standard error over {runs} runs"
    table = Table("data", "centre", *(f"ε = {e:g}" for e in EPSILONS), title=title)
    for name in names:
        for kind in KINDS:
            own = [r for r in found if (r["dataset"], r["centre"]) == (name, kind)]
            cells = (
                f"{r['accuracy']:.1f} ± {r['accuracy_error']:.1f}, "
                f"{r['auc']:.3f} ± {r['auc_error']:.3f}"
                for r in own
            )
            table.add_row(name, kind, *cells)
        table.add_section()
    return table


if __name__ == "__main__":
    run_on_datasets(__doc__ or "", 30, measure, tabulate)
