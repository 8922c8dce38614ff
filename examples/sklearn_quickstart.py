"""Train a classifier on 40,000 clients of whom nobody shows a record to anybody.

Example: python examples/sklearn_quickstart.py --plot docs/images/sklearn.png
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from fedsel import FedSelClassifier, PrivacyLeakWarning

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="write the figure to this file")
    parser.add_argument("--quick", action="store_true", help="fewer clients and points")
    options = parser.parse_args()
    clients = 4_000 if options.quick else 40_000

    # Each row is a client. The bounds ±8 are public: they were not read from the records.
    X, y = make_classification(
        clients + 5_000, 20, n_informative=8, n_clusters_per_class=1, random_state=1
    )
    X, X_test, y, y_test = train_test_split(X, y, test_size=5_000, random_state=1)

    # Without a random_state nobody can repeat the draws and undo the noise.
    model = FedSelClassifier(epsilon=2.0, feature_range=(-8, 8))
    model.fit(X, y, eval_set=(X_test, y_test))

    print(f"accuracy {model.score(X_test, y_test):.3f} with ε = {model.privacy_.total:.3g}")
    print(model.privacy_)

    if options.plot is None:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    model.plot_history(left)
    # Many fits of the same clients, from a seed: these clients are simulated, nobody pays for it.
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    clone(model).set_params(random_state=1).plot_privacy_accuracy(
        X,
        y,
        X_test,
        y_test,
        epsilons=EPSILONS[1::2] if options.quick else EPSILONS,
        solutions=("NP", "PM", "PS-PM", "FJ"),
        repeats=1 if options.quick else 16,
        axes=right,
    )
    left.set_title(f"{clients:,} clients, FJ at ε = 2", fontsize=10)
    right.set_title(f"{clients:,} clients, one report each", fontsize=10)
    figure.savefig(options.plot, dpi=110)


if __name__ == "__main__":
    main()
