"""Metrics of a model from one table of answers about it, each with its interval.

A metric that is linear in the shares has the interval of a linear estimate. One that is a quotient
(a class's hits among its members, the pairs that an AUC counts) has Fieller's: it holds every value
that the table does not reject, and stays honest where the divisor is hardly known.

What a bin hides is said by a rule: `fedsel.measuring._bins`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsel.measuring._bins import (
    all_pairs,
    mean_log_loss,
    moments_by_density,
    moments_within,
    pairs_in_order,
    points_of,
    safe,
)
from fedsel.measuring._recalibration import fit_log_odds, rises_within
from fedsel.measuring._tally import Estimate, Shares, Tally, deviations
from fedsel.wire._model_question import ModelQuestion

Doubles = NDArray[np.float64]
Function = Callable[[Shares], float]
"""Of a table of shares (rows, columns)."""

ONE: tuple[float, float] = (0.0, 1.0)
POSITIVE: tuple[float, float] = (0.0, math.inf)
_STEP = 1e-6
_GRID = np.linspace(0.0, 1.0, 2001)


@final
@dataclass(frozen=True, eq=False)
class Calibration:
    """In one bin of scores: its mean, what the model says there, and how many are right."""

    score: float
    said: float
    rate: Estimate
    share: float


@dataclass(frozen=True)
class Part:
    """What one table says."""

    metrics: dict[str, Estimate]
    shares: tuple[Estimate, ...] = ()
    confusion: Doubles | None = None
    calibration: tuple[Calibration, ...] = ()


def part_of(
    question: ModelQuestion, tally: Tally, level: float, targets: Shares | None = None
) -> Part:
    """What the answers to a question say; ``targets`` is a finer histogram of a regression's."""
    return _PARTS[question.kind](Table(question, tally, level, targets))


@dataclass(frozen=True)
class Table:
    """A question with the shares of its answers, as a table (rows, columns)."""

    question: ModelQuestion
    tally: Tally
    level: float
    targets: Shares | None = None

    def sum_of(self, weights: Any, bounds: tuple[float, float] = ONE) -> Estimate:
        """Σ weights·shares, for weights of the table's shape."""
        return self.tally.linear(self._flat(weights), self.level, population=True, bounds=bounds)

    def told_by(self, function: Function, bounds: tuple[float, float] = ONE) -> Estimate:
        """A smooth function of the table."""
        shape = self.question.shape
        return self.tally.derived(
            lambda shares: function(shares.reshape(shape)),
            self.level,
            population=True,
            bounds=bounds,
        )

    def share_of(self, part: Any, whole: Any) -> Estimate:
        """Σ part·shares of Σ whole·shares, for weights of the table's shape."""
        part, whole = self._flat(part), self._flat(whole)
        return self._quotient(lambda s: float(part @ s), lambda s: float(whole @ s), part, whole)

    def quotient(self, part: Function, whole: Function) -> Estimate:
        """A smooth function of the table as a part of another, neither of which divides."""
        shape = self.question.shape

        def above(shares: Shares) -> float:
            return part(shares.reshape(shape))

        def below(shares: Shares) -> float:
            return whole(shares.reshape(shape))

        given = self.tally.shares
        return self._quotient(above, below, _gradient(above, given), _gradient(below, given))

    def _quotient(self, part: Function, whole: Function, first: Shares, second: Shares) -> Estimate:
        """All q in [0, 1] for which part − q·whole may be 0: Fieller's interval.

        ``first`` and ``second`` are the gradients. Estimates are taken from the raw shares, which
        are unbiased; the value from the consistent ones where the divisor may be 0.
        """
        tally, z = self.tally, deviations(self.level)
        above, below = part(tally.raw), whole(tally.raw)
        errors = [tally.error_of(g, population=True) for g in (first, second, first - second)]
        a, c, together = (error**2 for error in errors)
        b = (together - a - c) / 2  # the variance of part − q·whole is a + 2·b·q + c·q²
        half = (np.ptp(first) + _GRID * np.ptp(second)) / (2 * max(1, tally.count))
        spread = np.sqrt(np.maximum(a + 2 * b * _GRID + c * _GRID**2, 0.0))
        kept = np.flatnonzero(np.abs(above - _GRID * below) <= z * spread + half)
        value = safe(part(tally.shares), whole(tally.shares))
        if below > z * math.sqrt(c):
            value = above / below
        value = min(1.0, max(0.0, value))
        error = min(1.0, safe(float(np.interp(value, _GRID, spread)), abs(below)) or 1.0)
        if not len(kept):  # a quotient far beyond 0 or 1
            return Estimate.around(value, error, self.level, ONE)
        low, high = _GRID[max(0, kept[0] - 1)], _GRID[min(len(_GRID) - 1, kept[-1] + 1)]
        return Estimate(value, min(value, float(low)), max(value, float(high)), error)

    def balanced(self, parts: Doubles) -> Estimate:
        """The mean over the rows of the part of each row that these weights (columns,) take.

        Zou and Donner (2008): the ends of the rows' intervals add up as independent errors do.
        """
        rows = np.arange(self.question.shape[0])[:, None]
        each = [self.share_of((rows == row) * part, rows == row) for row, part in enumerate(parts)]
        n, value = len(each), math.fsum(e.value for e in each) / len(each)
        below, above, error = (
            math.sqrt(math.fsum(x * x for x in found)) / n
            for found in (
                [e.value - e.low for e in each],
                [e.high - e.value for e in each],
                [e.error for e in each],
            )
        )
        return Estimate(value, max(0.0, value - below), min(1.0, value + above), error)

    def _flat(self, weights: Any) -> Shares:
        full = np.broadcast_to(weights, self.question.shape)
        return full.ravel().astype(np.float64)

    @property
    def shares(self) -> Doubles:
        return self.tally.shares.reshape(self.question.shape)

    @property
    def sizes(self) -> Doubles:
        """The share of each column."""
        return np.asarray(self.shares.sum(axis=0))

    def marginals(self) -> tuple[Estimate, ...]:
        """The share of each row."""
        rows = np.arange(self.question.shape[0])[:, None]
        return tuple(self.sum_of(rows == row) for row in range(self.question.shape[0]))


def _gradient(function: Function, shares: Shares) -> Shares:
    steps = _STEP * np.eye(len(shares))
    near = ((function(shares + step), function(shares - step)) for step in steps)
    return np.array([(above - below) / (2 * _STEP) for above, below in near])


# --- the tables ----------------------------------------------------------------------------------


def _of_scores(table: Table) -> Part:
    """Two classes by bins of the margin."""
    edges = table.question.edges
    positive = np.searchsorted(edges, 0.0, side="right") <= np.arange(len(edges) + 1)
    right = np.stack([~positive, positive]).astype(np.float64)
    metrics = {"accuracy": table.sum_of(right), "balanced accuracy": table.balanced(right)}
    curve: tuple[Calibration, ...] = ()
    if len(edges) > 1:  # two bins say too little of these
        points = points_of(edges, table.sizes)
        metrics["AUC"] = table.quotient(pairs_in_order, all_pairs)
        rises = rises_within(points, *fit_log_odds(points, table.tally))

        def loss(shares: Shares) -> float:
            return mean_log_loss(shares, points_of(edges, shares.sum(axis=0)), rises)

        metrics["log loss"] = table.told_by(loss, POSITIVE)
        curve = _curve(table, points)
    negatives, positives = (table.shares @ column for column in right)
    confusion = np.stack([negatives, positives], axis=1)
    return Part(metrics, table.marginals(), confusion, curve)


def _curve(table: Table, points: Doubles) -> tuple[Calibration, ...]:
    """In each column: what its scores say, and the share of the second row."""
    said = 1 / (1 + np.exp(-points))
    columns, second = np.arange(len(points)), np.array([[0], [1]])

    def rate(column: int) -> Estimate:
        here = columns == column
        return table.share_of(second * here, here)

    return tuple(
        Calibration(float(points[c].mean()), float(said[c].mean()), rate(c), float(table.sizes[c]))
        for c in columns.tolist()
    )


def _of_predictions(table: Table) -> Part:
    """Each class by the class that the model predicts."""
    right = np.eye(table.question.classes)
    metrics = {"accuracy": table.sum_of(right), "balanced accuracy": table.balanced(right)}
    return Part(metrics, table.marginals(), table.shares)


def _of_confidence(table: Table) -> Part:
    """Right or wrong by bins of the lead."""
    metrics = {"accuracy": table.sum_of(np.array([[0.0], [1.0]]))}
    if len(table.question.edges) < 2:
        return Part(metrics)
    metrics["AUC of the lead"] = table.quotient(pairs_in_order, all_pairs)
    points = points_of(table.question.edges, table.sizes, least=0.0)
    return Part(metrics, calibration=_curve(table, points))


def _of_residuals(table: Table) -> Part:
    """Bins of the target by bins of its distance from the prediction, on [−1, 1]."""
    edges, between = table.question.edges, table.question.targets
    if not edges:  # of the targets alone
        return Part({})
    ends = (0.0, *edges, 2 * edges[-1] - edges[-2])
    targets, powers = moments_within(between, -1.0, 1.0, table.targets)

    off, squares = moments_by_density(ends, table.shares.sum(axis=0))
    rows = table.shares.sum(axis=1)
    variance = float(rows @ powers - (rows @ targets) ** 2)

    def determined(shares: Doubles) -> float:
        own = shares.sum(axis=1)
        spread = float(own @ powers - (own @ targets) ** 2)
        return 1 - safe(float(shares.sum(axis=0) @ squares), spread)

    # Sums of unbiased shares: those that are none below zero would make far errors too frequent.
    square = table.sum_of(squares[None], POSITIVE)
    value, low, high = (math.sqrt(x) for x in (square.value, square.low, square.high))
    root = Estimate(value, low, high, square.error / (2 * max(value, _STEP)))
    about = table.told_by(determined, (-math.inf, math.inf))
    moved = (1 - safe(square.value, variance)) - about.value
    value, low, high = (min(1.0, x + moved) for x in (about.value, about.low, about.high))
    metrics = {
        "R²": Estimate(value, low, high, about.error),
        "mean error": table.sum_of(off[None], POSITIVE),
        "root mean squared error": root,
    }
    return Part(metrics, calibration=_errors_by_target(table, off, targets))


def _errors_by_target(table: Table, off: Doubles, targets: Doubles) -> tuple[Calibration, ...]:
    """The mean error in each bin of the target."""

    def mean(row: int) -> Function:
        return lambda shares: safe(float(shares[row] @ off), float(shares[row].sum()))

    return tuple(
        Calibration(
            float(target),
            float(target),
            table.told_by(mean(row), (0.0, 2.0)),
            float(table.shares[row].sum()),
        )
        for row, target in enumerate(targets)
    )


_PARTS: dict[str, Callable[[Table], Part]] = {
    "scores": _of_scores,
    "predictions": _of_predictions,
    "confidence": _of_confidence,
    "residuals": _of_residuals,
    "spread": lambda table: Part({}),  # noqa: ARG005
}
