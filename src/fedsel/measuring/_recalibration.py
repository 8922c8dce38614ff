"""Set a classifier's threshold and probabilities by what clients said of its scores.

The log-odds of a record are taken to be a·score + b. Those a and b win whose measured gain in
log loss is largest after some of its own standard errors are taken off. A table that is mostly
noise then leaves the model as it is: a = 1, b = 0, which gains nothing for certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel.measuring._bins import points_of, rates_of
from fedsel.measuring._tally import LEVEL, Estimate, Tally
from fedsel.wire._model_question import ModelQuestion

Doubles = NDArray[np.float64]

BOLD, CAUTIOUS = 1.0, 2.0
"""How many standard errors are taken off a gain: by "private", and by "auto"."""
STEEPEST, FARTHEST = math.log(2), 1.0
"""The bounds of |log a| and |b|."""
FEWEST_BINS = 4
SCALES, OFFSETS = 0.35, 0.5
"""Deviations of the prior of what scores mean within a bin: of log a, and of b."""
_PLACES, _REFINED, _REACH = 41, 4, 4.0


@final
@dataclass(frozen=True)
class Recalibration:
    """The log-odds scale·score + offset, and by how much the log loss falls with them.

    The ``gain`` was measured by the reports that gave both numbers.
    """

    scale: float
    offset: float
    gain: Estimate

    @property
    def moves(self) -> bool:
        """Whether it changes anything."""
        return (self.scale, self.offset) != (1.0, 0.0)


def recalibration(
    questions: Sequence[ModelQuestion],
    tallies: Sequence[Tally],
    doubt: float = BOLD,
    level: float = LEVEL,
) -> Recalibration | None:
    """What the answers of two classes by bins say; None where there are fewer than four bins.

    ``doubt`` is how many standard errors are taken off a gain.
    """
    for question, tally in zip(questions, tallies, strict=True):
        if question.kind == "scores" and tally.count and question.shape[1] >= FEWEST_BINS:
            return _recalibrated(question, tally, doubt, level)
    return None


def _recalibrated(
    question: ModelQuestion, tally: Tally, doubt: float, level: float
) -> Recalibration:
    points = points_of(question.edges, tally.shares.reshape(2, -1).sum(axis=0))
    rises = rises_within(points, *fit_log_odds(points, tally))
    steps = np.linspace(-1.0, 1.0, _PLACES)
    scales, offsets = (found.ravel() for found in np.meshgrid(steps, steps, indexing="ij"))
    scales, offsets = np.exp(STEEPEST * scales), FARTHEST * offsets
    weights = _gains(scales, offsets, points, rises)
    variances = np.einsum("gi,ij,gj->g", weights, _covariances(tally), weights)
    cautious = weights @ tally.shares - doubt * np.sqrt(np.maximum(variances, 0.0))
    best = int(cautious.argmax())
    gain = tally.linear(weights[best], level, population=True)
    return Recalibration(float(scales[best]), float(offsets[best]), gain)


def _gains(scales: Doubles, offsets: Doubles, points: Doubles, rises: Doubles) -> Doubles:
    """How much each a and b gain in each cell of the table: (len(scales), cells)."""
    found = scales[:, None, None] * points + offsets[:, None, None]
    within = (scales[:, None] - 1) * rises
    each = [
        (np.logaddexp(0, side * points) - np.logaddexp(0, side * found)).mean(axis=2) + within
        for side in (1, -1)
    ]
    return np.concatenate(each, axis=1)


def _covariances(tally: Tally) -> Doubles:
    """The covariances of the raw shares (M, M)."""
    cells = np.eye(len(tally.shares))
    own = np.array([tally.error_of(cell, population=True) ** 2 for cell in cells])
    found = np.diag(own)
    for i, j in combinations(range(len(cells)), 2):
        both = tally.error_of(cells[i] + cells[j], population=True) ** 2
        found[i, j] = found[j, i] = (both - own[i] - own[j]) / 2
    return found


def fit_log_odds(points: Doubles, tally: Tally) -> tuple[float, float]:
    """The a and b of log-odds a·score + b that explain the rate in each bin, with a prior.

    ``points`` (bins, n) are scores in each bin.
    """
    raw = tally.raw.reshape(2, -1)
    errors = _errors(tally, rates_of(tally.shares.reshape(2, -1)))
    log, offset, steps = 0.0, 0.0, np.linspace(-_REACH, _REACH, _PLACES)
    for _ in range(_REFINED):
        logs, offsets = log + SCALES * steps, offset + OFFSETS * steps
        cost = _costs(logs, offsets, points, raw, errors)
        best = np.unravel_index(int(cost.argmin()), cost.shape)
        log, offset = float(logs[best[0]]), float(offsets[best[1]])
        steps = steps / 8
    return math.exp(log), offset


def rises_within(points: Doubles, scale: float, offset: float) -> Doubles:
    """In each bin the covariance of a score with the second class's rate, by its log-odds."""
    rates = _sigmoid(scale * points + offset)
    return np.asarray((rates * points).mean(axis=1) - rates.mean(axis=1) * points.mean(axis=1))


def _sigmoid(odds: Doubles) -> Doubles:
    return np.asarray(0.5 * (1 + np.tanh(odds / 2)))


def _errors(tally: Tally, rates: Doubles) -> Doubles:
    """The standard error of (1 − rate)·second − rate·first in each bin."""
    errors = np.empty(len(rates))
    for column, rate in enumerate(rates.tolist()):
        weights = np.zeros((2, len(rates)))
        weights[:, column] = -rate, 1 - rate
        errors[column] = tally.error_of(weights.ravel(), population=True)
    return np.maximum(errors, 1e-9)


def _costs(
    logs: Doubles, offsets: Doubles, points: Doubles, raw: Doubles, errors: Doubles
) -> Doubles:
    """Minus twice the log posterior for each log a and each b: (len(logs), len(offsets))."""
    costs = np.empty((len(logs), len(offsets)))
    for place, log in enumerate(logs.tolist()):
        odds = math.exp(log) * points[None] + offsets[:, None, None]
        said = _sigmoid(odds).mean(axis=2)
        off = ((1 - said) * raw[1] - said * raw[0]) / errors
        costs[place] = (off**2).sum(axis=1) + (log / SCALES) ** 2 + (offsets / OFFSETS) ** 2
    return costs
