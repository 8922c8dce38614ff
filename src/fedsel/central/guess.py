"""δ of shuffled reports in floating point: quick, and no proof. It tells where to prove.

Where the sum of n values G is seldom positive, its law there is nothing like its law as a whole: a
value that is large and negative makes the variance, and has no part in what is positive. So all
that is rough is done with the tilted law p(g)·e^(θg)/M, M = E[e^(θG)], with the θ ≥ 0 that puts its
mean at 0: E[(ΣG)₊] = Mⁿ·E_θ[e^(−θΣG)·(ΣG)₊].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.mechanisms._certificate import Blanket

_FEWEST_POINTS, _MOST_POINTS = 1 << 14, 1 << 18
"""Of the lattice: more reports need more of them for the same error."""
_DEVIATIONS = 14
"""How far the lattice reaches to both sides of the mean of the sum."""
_NEVER = 1e-18
"""A probability that is none in floats."""
_STEPS = 100
"""Halvings of the range of θ: beyond the digits of a float."""


class Tilted(NamedTuple):
    """The law of G that decides how often a sum is positive: e^(θg)/M times that of G."""

    theta: float
    log_mean: float
    """ln M: 0 where nothing is tilted."""
    law: NDArray[np.float64]

    @classmethod
    def of(cls, values: ArrayLike, probabilities: ArrayLike) -> Tilted:
        """Of a G that is sometimes positive; not tilted where its mean is not negative.

        >>> tilted = Tilted.of([-3.0, 1.0], [0.5, 0.5])
        >>> round(tilted.theta, 4), [round(float(p), 4) for p in tilted.law]
        (0.2747, [0.25, 0.75])
        """
        g, p = np.asarray(values, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
        low, high = 0.0, 1.0 / float(g.max())
        if float(p @ g) >= 0:
            return cls(0.0, 0.0, p)
        while cls._at(high, g, p)[1] < 0:
            low, high = high, 2 * high
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if cls._at(middle, g, p)[1] < 0 else (low, middle)
        law, _, log_mean = cls._at(high, g, p)
        return cls(high, log_mean, law)

    @staticmethod
    def _at(
        theta: float, g: NDArray[np.float64], p: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, float]:
        """The law tilted by θ, its mean, and ln M."""
        most = theta * float(g.max())
        weights = p * np.exp(theta * g - most)
        total = float(weights.sum())
        law = weights / total
        return law, float(law @ g), most + math.log(total)


def rough_delta(blanket: Blanket, reports: int, growth: float) -> float:
    """About E[(G₁ + … + Gₙ)₊]/n, by one Fourier transform of the tilted law of G.

    >>> from fedsel.mechanisms import RankLaw
    >>> round(rough_delta(Blanket.of_ranks(RankLaw([3, 1])), 8, 2.0), 3)
    0.034
    """
    g = np.array([c.first / c.least - growth * (c.second / c.least) for c in blanket.classes])
    p = np.array([c.least * c.outputs / blanket.total for c in blanket.classes])
    if g.max() <= 0:
        return 0.0
    g = np.maximum(g, -reports * g.max())  # with one such value no sum is positive
    g, p = np.append(g, 0.0), np.append(p, max(0.0, 1 - float(p.sum())))
    theta, log_mean, tilted = Tilted.of(g, p)
    count = min(_MOST_POINTS, max(_FEWEST_POINTS, 1 << (8 * reports).bit_length()))
    mean = float(tilted @ g)
    deviation = math.sqrt(max(0.0, float(tilted @ g**2) - mean * mean))
    # All that a sum can be, or all that it is likely to be: the rest wraps around the lattice.
    seen = np.append(g[reports * tilted > _NEVER], 0.0)
    span = float(np.ptp(seen))
    least, width = reports * float(seen.min()), reports * span
    likely = max(2 * span, 2 * _DEVIATIONS * deviation * math.sqrt(reports))
    if likely < width:
        least, width = reports * mean - likely / 2, likely
    # Splitting a value between two points moves a sum by less than a point for each report.
    spacing = width / (count - min(reports, count // 4) - 2)
    place = g / spacing
    point = np.floor(place).astype(np.int64)
    law = np.zeros(count)
    np.add.at(law, point % count, tilted * (1 - (place - point)))
    np.add.at(law, (point + 1) % count, tilted * (place - point))
    total = np.fft.irfft(np.fft.rfft(law) ** reports, count)
    first = math.floor(least / spacing) - 1
    sums = np.maximum(first + (np.arange(count) - first) % count, 0) * spacing
    inside = float(np.maximum(total, 0) @ (sums * np.exp(-theta * sums)))
    return inside * math.exp(reports * log_mean) / reports
