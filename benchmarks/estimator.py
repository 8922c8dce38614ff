"""How accurate FedSelClassifier is with its defaults, by clients and ε, and how good "auto" is.

Two tables, on make_classification(105_000, d, n_informative=8, n_clusters_per_class=1), bounds ±8:

- test accuracy of the default parameters (FJ, one epoch, automatic rate), mean of five seeds;
- the automatic learning rate against the best of ten rates from α/32 to 16·α, by test accuracy.

Example:
    python benchmarks/estimator.py
    python benchmarks/estimator.py --quick --json
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import make_classification

from fedsel import FedSelClassifier, PrivacyLeakWarning
from fedsel.recipe import RECOMMENDED

DIMENSIONS, CLIENTS, EPSILONS = (20, 100), (1_000, 10_000, 100_000), (1.0, 2.0, 4.0, 8.0)
RATES = [2.0**i for i in range(-5, 5)]


def data(d: int) -> tuple[Any, Any]:
    X, y = make_classification(105_000, d, n_informative=8, n_clusters_per_class=1, random_state=1)
    return X, y


def accuracy(X: Any, y: Any, clients: int, seeds: int, **parameters: Any) -> tuple[float, float]:
    """Mean test accuracy (%) over seeds, and the rate that was used."""
    found = []
    for seed in range(seeds):
        model = FedSelClassifier(feature_range=(-8, 8), random_state=seed, **parameters)
        model.fit(X[:clients], y[:clients])
        found.append(100 * model.score(X[100_000:], y[100_000:]))
    return float(np.mean(found)), float(model.learning_rate_)


def measure(clients: tuple[int, ...], seeds: int) -> dict[str, list[dict[str, Any]]]:
    """Both tables as rows."""
    accuracies, rates = [], []
    settings = [(d, n) for d in DIMENSIONS for n in clients]
    for d, n in track(settings, console=Console(stderr=True), transient=True):
        X, y = data(d)
        row: dict[str, Any] = {"d": d, "clients": n}
        for epsilon in EPSILONS:
            row[f"{epsilon:g}"] = accuracy(X, y, n, seeds, epsilon=epsilon)[0]
        row["not private"] = accuracy(X, y, n, seeds, solution="NP")[0]
        accuracies.append(row)
        for name in (RECOMMENDED, "PM", "PS-PM", "PM-RP"):
            for epsilon in (1.0, 4.0):
                given = {"solution": name, "epsilon": epsilon}
                own, alpha = accuracy(X, y, n, seeds, **given)
                tried = [
                    accuracy(X, y, n, seeds, learning_rate=alpha * f, **given)[0] for f in RATES
                ]
                lost = max(max(tried) - own, 0.0)
                rates.append({"d": d, "clients": n, **given, "auto": own, "lost": lost})
    return {"accuracy": accuracies, "rates": rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer clients and seeds")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    # These clients are simulated: they may be fitted often, and from seeds.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    found = measure(CLIENTS[:2] if options.quick else CLIENTS, 2 if options.quick else 5)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    table = Table(*found["accuracy"][0], title="test accuracy (%) with the defaults, by ε")
    for row in found["accuracy"]:
        table.add_row(*(f"{v:.0f}" if isinstance(v, float) else f"{v:,}" for v in row.values()))
    Console().print(table)
    lost = sorted(row["lost"] for row in found["rates"])
    near = sum(x <= 4 for x in lost)
    print(f'"auto" is within 4 points of the best of ten rates in {near} of {len(lost)} cases;')
    print(f"median loss {np.median(lost):.1f}, largest {lost[-1]:.1f} points")


if __name__ == "__main__":
    main()
