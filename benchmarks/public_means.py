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

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from fedsel import FedSelClassifier, PrivacyLeakWarning
from fedsel._internal.bar import Bar
from fedsel._internal.random import philox_key
from fedsel.sampling._kernels import native
from fedsel.simulation._validation import FIFTHS, VALIDATION, measures, split
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


def fifths(clients: int, run: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Who tests, always the same, and who trains: three fifths of all (the `fair` protocol)."""
    test, *others = split(clients, FIFTHS, 0, 0)
    rest = np.concatenate(others)
    native.shuffle(rest, philox_key(0, VALIDATION), run)
    return test, rest[len(test) :]


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
                test, members = fifths(len(y), run)
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasets", nargs="+", default=["adult", "kdd", "bank"])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    # These clients are simulated: they may be fitted often, and from seeds.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    found = measure(options.datasets, options.runs)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    title = f"test accuracy (%) and AUC, each ± its standard error over {options.runs} runs"
    table = Table("data", "centre", *(f"ε = {e:g}" for e in EPSILONS), title=title)
    for name in options.datasets:
        for kind in KINDS:
            own = [r for r in found if (r["dataset"], r["centre"]) == (name, kind)]
            cells = (
                f"{r['accuracy']:.1f} ± {r['accuracy_error']:.1f}, "
                f"{r['auc']:.3f} ± {r['auc_error']:.3f}"
                for r in own
            )
            table.add_row(name, kind, *cells)
        table.add_section()
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
