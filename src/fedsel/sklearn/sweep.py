"""Accuracy of an estimator at several ε and solutions."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.base import clone
from sklearn.utils import check_random_state

from fedsel.errors import PrivacyLeakWarning, check_count, check_epsilon
from fedsel.plotting import Point
from fedsel.solutions.registry import PLAIN, canonical


def sweep(
    estimator: Any,
    clients: tuple[Any, Any, Any],
    test: tuple[Any, Any],
    epsilons: Sequence[float],
    solutions: Sequence[str],
    repeats: int,
) -> list[Point]:
    """Fit a clone for each solution and ε, ``repeats`` times, and score it."""
    check_count("repeats", repeats)
    levels = [float(check_epsilon("epsilons", e)) for e in epsilons]
    X, y, groups = clients
    # One seed for all points: the same seeds at every ε make curves comparable.
    first = int(check_random_state(estimator.random_state).randint(2**30))
    points = []
    for name in map(canonical, solutions):
        for epsilon in (None,) if name in PLAIN else levels:
            scores = []
            for repeat in range(repeats):
                model = clone(estimator)
                model.set_params(solution=name, random_state=first + repeat)
                if epsilon is not None:
                    model.set_params(epsilon=epsilon)
                with warnings.catch_warnings():
                    # Said in the documentation of the caller, once.
                    warnings.simplefilter("ignore", PrivacyLeakWarning)
                    model.fit(X, y, groups=groups)
                scores.append(model.score(*test))
            spread = statistics.stdev(scores) if repeats > 1 else 0.0
            points.append(Point(name, epsilon, statistics.fmean(scores), spread))
    return points
