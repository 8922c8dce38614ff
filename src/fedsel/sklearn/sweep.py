"""Accuracy of an estimator at several ε and solutions."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.base import clone
from sklearn.utils import check_random_state

from fedsel._internal.plotting import Point
from fedsel.errors import RepeatedFitWarning, check_count, check_epsilon
from fedsel.simulation.leaks import tell
from fedsel.solutions.registry import canonical, entry


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
    points = [
        (name, epsilon)
        for name in map(canonical, solutions)
        for epsilon in ((None,) if entry(name).plain else levels)
    ]
    seeds = _seeds(estimator, repeats)
    _warn_about_cost([epsilon for _, epsilon in points], repeats)
    with warnings.catch_warnings():
        # Said for all points together; what else a fit has to say is not kept back.
        warnings.simplefilter("ignore", RepeatedFitWarning)
        return [_fitted(estimator, clients, test, *point, seeds) for point in points]


def _seeds(estimator: Any, repeats: int) -> list[int | None]:
    """One for each repeat: the same at every ε, which makes curves comparable; or none at all."""
    if estimator.random_state is None:
        return [None] * repeats
    first = int(check_random_state(estimator.random_state).randint(2**30))
    return [first + repeat for repeat in range(repeats)]


def _warn_about_cost(epsilons: Sequence[float | None], repeats: int) -> None:
    fits, private = len(epsilons) * repeats, [e for e in epsilons if e is not None]
    if fits < 2:
        return
    plain = (len(epsilons) - len(private)) * repeats
    without = f" and {plain} fits without privacy" * bool(plain)
    tell(
        f"the same clients are fitted {fits} times: together this costs them"
        f" ε = {repeats * sum(private):.4g}{without}, and scores on test records are computed in"
        " the clear. Plan with public or simulated data.",
        RepeatedFitWarning,
    )


def _fitted(
    estimator: Any,
    clients: tuple[Any, Any, Any],
    test: tuple[Any, Any],
    name: str,
    epsilon: float | None,
    seeds: Sequence[int | None],
) -> Point:
    X, y, groups = clients
    scores = []
    for seed in seeds:
        model = clone(estimator).set_params(solution=name, random_state=seed)
        if epsilon is not None:
            model.set_params(epsilon=epsilon)
        scores.append(model.fit(X, y, groups=groups).score(*test))
    spread = statistics.stdev(scores) if len(scores) > 1 else 0.0
    return Point(name, epsilon, statistics.fmean(scores), spread)
