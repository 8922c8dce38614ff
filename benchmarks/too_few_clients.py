"""How much of its advantage a private model keeps, with and without a TooFewClientsWarning.

``python benchmarks/too_few_clients.py --settings 80``: data of 2 to 20 classes, even and skewed,
from scikit-learn's make_classification and make_blobs, and its digits drawn again with a little
noise. The advantage is accuracy beyond the most frequent class, over that of a model without
privacy.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_blobs, make_classification
from sklearn.linear_model import LogisticRegression

from fedsel.errors import TooFewClientsWarning
from fedsel.sklearn import FedSelClassifier

TEST = 2_000
CLIENTS = (500, 1_000, 2_000, 5_000, 10_000, 20_000)
LARGEST = 5e6
"""Clients × features × classes of a setting, for the time it takes."""


def drawn(rng: np.random.Generator) -> tuple[Any, Any, float, int]:
    """Records and classes, a bound of the features, and how many classes there are."""
    kind = str(rng.choice(["classification", "classification", "blobs", "digits"]))
    count, seed = int(rng.choice(CLIENTS)) + TEST, int(rng.integers(2**31))
    if kind == "digits":
        X, y = load_digits(return_X_y=True)
        some = rng.integers(0, len(y), count)
        return X[some] + rng.normal(scale=0.5, size=(count, 64)), y[some], 16.0, 10
    classes, features = int(rng.choice([2, 3, 5, 10, 20])), int(rng.choice([5, 10, 20, 50]))
    if kind == "blobs":
        X, y = make_blobs(count, features, centers=classes, cluster_std=4.0, random_state=seed)
        return X, y, 20.0, classes
    weights = rng.dirichlet(np.full(classes, 1.5)) if rng.random() < 0.4 else None
    X, y = make_classification(
        count,
        features,
        n_informative=min(features, int(np.ceil(np.log2(classes))) + int(rng.integers(1, 4))),
        n_redundant=0,
        n_classes=classes,
        n_clusters_per_class=1,
        class_sep=float(rng.choice([0.7, 1.0, 2.0])),
        weights=weights,
        random_state=seed,
    )
    return X, y, 6.0, classes


def judged(rng: np.random.Generator) -> tuple[int, bool, float] | None:
    """Classes of a setting, whether it warns, and what it keeps; None if nothing can be kept."""
    X, y, bound, classes = drawn(rng)
    epsilon = float(rng.choice([0.5, 1.0, 2.0, 4.0]))
    train, test = slice(TEST, None), slice(0, TEST)
    if X.size * classes > LARGEST or len(np.unique(y[train])) < classes:
        return None
    guess = float(np.bincount(y[test]).max() / TEST)
    best = float(LogisticRegression(max_iter=200).fit(X[train], y[train]).score(X[test], y[test]))
    if best < guess + 0.1:
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = FedSelClassifier(epsilon=epsilon, feature_range=(-bound, bound))
        score = float(model.fit(X[train], y[train]).score(X[test], y[test]))
    warned = any(w.category is TooFewClientsWarning for w in caught)
    return classes, warned, (score - guess) / (best - guess)


def main() -> None:
    """Print the medians and quartiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    found: list[tuple[int, bool, float]] = []
    while len(found) < given.settings:
        if (one := judged(rng)) is not None:
            found.append(one)
    for name, some in (("2 to 5 classes", range(2, 6)), ("10 and 20 classes", range(6, 21))):
        for warned in (True, False):
            kept = [k for classes, told, k in found if classes in some and told == warned]
            low, middle, high = np.quantile(kept or [np.nan], [0.25, 0.5, 0.75])
            told = "with the warning" if warned else "without it"
            print(f"{name}, {told}: {len(kept)} settings, {low:.2f} | {middle:.2f} | {high:.2f}")


if __name__ == "__main__":
    main()
