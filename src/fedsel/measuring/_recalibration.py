"""Set a classifier's threshold and probabilities by what clients said of its scores.

The log-odds of a record are taken to be a·score + b. Both follow from the table of classes by bins:
they explain the second class's rate in each bin, weighed by the table's own errors, with a prior
about (1, 0), the model as it is. Noise alone then hardly moves them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel.measuring._bins import points_of, rates_of
from fedsel.measuring._tally import Estimate, Tally
from fedsel.wire._model_question import ModelQuestion

Doubles = NDArray[np.float64]

SURE = 0.99
"""The level at which "auto" must see a gain."""
SCALES, OFFSETS = 0.7, 1.5
"""Deviations of the prior: of log a, and of b."""
FARTHEST = 4.0
"""How many of them a and b may be away."""
FEWEST_BINS = 4
_PLACES, _REFINED = 41, 4


@final
@dataclass(frozen=True)
class Recalibration:
    """The log-odds scale·score + offset, and by how much the log loss falls with them.

    The ``gain`` was measured on the reports that gave both numbers.
    """

    scale: float
    offset: float
    gain: Estimate

    @property
    def wins(self) -> bool:
        """Whether the gain is more than what noise gives: 0 is below its interval of 99 %."""
        return self.gain.low > 0


def recalibration(
    questions: Sequence[ModelQuestion], tallies: Sequence[Tally]
) -> Recalibration | None:
    """What the answers of two classes by bins say; None where there are fewer than four bins."""
    for question, tally in zip(questions, tallies, strict=True):
        if question.kind == "scores" and tally.count and question.shape[1] >= FEWEST_BINS:
            return _recalibrated(question, tally)
    return None


def _recalibrated(question: ModelQuestion, tally: Tally) -> Recalibration:
    points = points_of(question.edges, tally.shares.reshape(2, -1).sum(axis=0))
    scale, offset = fit_log_odds(points, tally)
    found = scale * points + offset
    weights = np.stack(
        [(np.logaddexp(0, s * points) - np.logaddexp(0, s * found)).mean(axis=1) for s in (1, -1)]
    )
    gain = tally.linear(weights.ravel(), SURE, population=True)
    return Recalibration(scale, offset, gain)


def fit_log_odds(points: Doubles, tally: Tally) -> tuple[float, float]:
    """The a and b of log-odds a·score + b; ``points`` (bins, n) are scores in each bin."""
    raw = tally.raw.reshape(2, -1)
    errors = _errors(tally, rates_of(tally.shares.reshape(2, -1)))
    log, offset, steps = 0.0, 0.0, np.linspace(-FARTHEST, FARTHEST, _PLACES)
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
