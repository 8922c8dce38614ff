"""δ of shuffled reports in floating point: quick, and no proof. It tells where to prove."""

from __future__ import annotations

import math

import numpy as np

from fedsel.mechanisms.blanket import Blanket

_FEWEST_POINTS, _MOST_POINTS = 1 << 14, 1 << 18
"""Of the lattice: more reports need more of them for the same error."""
_DEVIATIONS = 14
"""How far the lattice reaches to both sides of the mean of the sum."""


def rough_delta(blanket: Blanket, reports: int, growth: float) -> float:
    """About E[(G₁ + … + Gₙ)₊]/n, by one Fourier transform of the law of G.

    >>> from fedsel.mechanisms import RankLaw
    >>> round(rough_delta(Blanket.of_ranks(RankLaw([3, 1])), 8, 2.0), 3)
    0.034
    """
    g = np.array([c.first / c.least - growth * (c.second / c.least) for c in blanket.classes])
    p = np.array([c.least * c.outputs / blanket.total for c in blanket.classes])
    if g.max() <= 0:
        return 0.0
    count = min(_MOST_POINTS, max(_FEWEST_POINTS, 1 << (8 * reports).bit_length()))
    mean = float(p @ g)
    deviation = math.sqrt(float(p @ g**2) - mean * mean)
    # All that a sum can be, or all that it is likely to be: the rest wraps around the lattice.
    span = float(np.ptp(np.append(g, 0.0)))
    least, width = reports * min(0.0, float(g.min())), reports * span
    likely = max(2 * span, 2 * _DEVIATIONS * deviation * math.sqrt(reports))
    if likely < width:
        least, width = reports * mean - likely / 2, likely
    # Splitting a value between two points moves a sum by less than a point for each report.
    spacing = width / (count - min(reports, count // 4) - 2)
    place = g / spacing
    point = np.floor(place).astype(np.int64)
    law = np.zeros(count)
    np.add.at(law, point % count, p * (1 - (place - point)))
    np.add.at(law, (point + 1) % count, p * (place - point))
    law[0] += 1 - p.sum()
    total = np.fft.irfft(np.fft.rfft(law) ** reports, count)
    first = math.floor(least / spacing) - 1
    points = first + (np.arange(count) - first) % count
    return max(0.0, float(total @ np.maximum(points, 0)) * spacing / reports)
