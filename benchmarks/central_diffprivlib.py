"""Central differential privacy by diffprivlib, on records that benchmarks/central.py hands over.

It needs numpy and diffprivlib alone, and runs in an environment of its own: diffprivlib 0.6.6 does
not import with scikit-learn 1.9, which fedsel is tested with.

    python -m venv rival && rival/bin/pip install diffprivlib 'scikit-learn<1.7'
    rival/bin/python benchmarks/central_diffprivlib.py RECORDS.npz 0.1 1

RECORDS.npz has X (N, d) with rows of norm 1 at most, y (N,) of −1 and 1, members (runs, n) and test
(m,). The answer is JSON, one row for each ε and run: the accuracy on the test records.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from diffprivlib.models import LogisticRegression


def main(path: str, epsilons: list[float]) -> None:
    given = np.load(path)
    X, y, test = given["X"].astype(np.float64), given["y"], given["test"]
    X /= max(1.0, float(np.linalg.norm(X, axis=1).max()))  # rounding may leave 1 + 1e-7
    for epsilon in epsilons:
        for run, members in enumerate(given["members"]):
            model = LogisticRegression(
                epsilon=epsilon, data_norm=1.0, fit_intercept=False, max_iter=1000, random_state=run
            ).fit(X[members], y[members])
            row = {"epsilon": epsilon, "run": run, "test": model.score(X[test], y[test])}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [float(x) for x in sys.argv[2:]])
