"""Measures of a model of two classes beside accuracy, which says little where one class is rare."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def measures(margins: NDArray[np.float64], labels: NDArray[np.int8]) -> dict[str, float]:
    """Balanced accuracy, AUC and log loss of margins (n,) for labels ±1.

    Balanced accuracy is the mean of the accuracies of both classes; AUC the share of pairs of a
    positive and a negative that are in the right order, ties as one half. Both are 1/2 where a
    class is missing.

    >>> measures(np.array([-2.0, -1.0, 0.5, 3.0]), np.array([-1, 1, -1, 1]))["auc"]
    0.75
    """
    positive = labels > 0
    hits = (margins >= 0) == positive
    both = bool(positive.any() and not positive.all())
    balanced = float((hits[positive].mean() + hits[~positive].mean()) / 2) if both else 0.5
    return {
        "balanced": balanced,
        "auc": _area(margins, positive) if both else 0.5,
        "log_loss": float(np.mean(np.logaddexp(0.0, -labels * margins))),
    }


def _area(margins: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Mann and Whitney's statistic over the number of pairs."""
    _, place, counts = np.unique(margins, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[place]  # from 1; those that tie share the mean
    wins = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return float(wins / (positive.sum() * (~positive).sum()))
