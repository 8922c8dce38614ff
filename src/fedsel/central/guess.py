"""δ of shuffled reports in floating point: quick, and no proof. It tells where to prove."""

from __future__ import annotations

import numpy as np

from fedsel.mechanisms.blanket import Blanket

_POINTS = 1 << 18
_DEVIATIONS = 14
"""How far the lattice reaches to both sides of the mean of the sum."""


def rough_delta(blanket: Blanket, reports: int, growth: float) -> float:
    """About E[(G₁ + … + Gₙ)₊]/n, by one Fourier transform of the law of G.

    >>> from fedsel.mechanisms import RankLaw
    >>> round(rough_delta(Blanket.of_ranks(RankLaw([3, 1])), 8, 2.0), 3)
    0.027
    """
    g = np.array([c.first / c.least - growth * (c.second / c.least) for c in blanket.classes])
    p = np.array([c.least * c.count / blanket.total for c in blanket.classes])
    if g.max() <= 0:
        return 0.0
    mean = float(p @ g)
    deviation = np.sqrt(float(p @ g**2) - mean * mean)
    # All that a sum can be, or all that it will be: what lies further wraps around the lattice.
    width = min(reports * float(np.ptp(np.append(g, 0.0))), 2 * _DEVIATIONS * deviation * np.sqrt(reports))
    width = max(width, 2 * float(np.ptp(np.append(g, 0.0))))
    spacing = 1.01 * width / _POINTS
    place = g / spacing
    point = np.floor(place).astype(np.int64)
    law = np.zeros(_POINTS)
    np.add.at(law, point % _POINTS, p * (1 - (place - point)))
    np.add.at(law, (point + 1) % _POINTS, p * (place - point))
    law[0] += 1 - p.sum()
    total = np.fft.irfft(np.fft.rfft(law) ** reports, _POINTS)
    # The lattice is a circle: points count from the one opposite to the mean.
    middle = round(reports * mean / spacing)
    points = middle + (np.arange(_POINTS) - middle + _POINTS // 2) % _POINTS - _POINTS // 2
    return max(0.0, float(total @ np.maximum(points, 0)) * spacing / reports)
