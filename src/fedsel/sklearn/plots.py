"""Figures of an estimator: axes are returned, nothing is shown or written."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from fedsel.errors import PrivacyLeakWarning, check_count, check_epsilon
from fedsel.simulation import Round
from fedsel.solutions.registry import PLAIN, canonical

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vPX*<>"


def new_axes(axes: Axes | None) -> Axes:
    """These axes, or those of a new figure that belongs to nobody."""
    if axes is not None:
        return axes
    from matplotlib.figure import Figure

    made: Axes = Figure(figsize=(6.4, 4.2), layout="constrained").subplots()
    return made


def history(rounds: Sequence[Round], label: str, axes: Axes | None = None) -> Axes:
    """Accuracy against rounds; where nobody judged, the bits that were sent so far."""
    axes = new_axes(axes)
    numbers = [r.round for r in rounds]
    if any(not math.isnan(r.accuracy) for r in rounds):
        axes.plot(numbers, [100 * r.accuracy for r in rounds], label=label)
        axes.set_ylabel("accuracy on eval_set (%)")
    else:
        axes.plot(numbers, np.cumsum([r.bits for r in rounds]) / 8000, label=label)
        axes.set_ylabel("sent by all clients so far (kB)")
    axes.set_xlabel("round")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return axes


@dataclass(frozen=True)
class Point:
    """Mean and standard deviation of the accuracy of a solution at an ε (None: not private)."""

    solution: str
    epsilon: float | None
    accuracy: float
    deviation: float


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


def privacy_accuracy(points: Sequence[Point], axes: Axes | None = None) -> Axes:
    """Accuracy ± deviation against ε; a dashed line has no ε."""
    axes = new_axes(axes)
    names = list(dict.fromkeys(p.solution for p in points))
    for place, name in enumerate(names):
        mine = [p for p in points if p.solution == name]
        colour = f"C{place % 10}"
        if mine[0].epsilon is None:
            level = 100 * mine[0].accuracy
            axes.axhline(level, color=colour, linestyle="--", label=f"{name} (not private)")
            continue
        axes.errorbar(
            [p.epsilon or math.nan for p in mine],
            [100 * p.accuracy for p in mine],
            yerr=[100 * p.deviation for p in mine],
            color=colour,
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=5,
            capsize=3,
            label=name,
        )
    if any(p.epsilon is not None for p in points):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("ε of a client")
    axes.set_ylabel("test accuracy (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return axes
