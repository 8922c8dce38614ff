"""What a bin hides, said by a rule.

Within an inner bin scores are spread evenly, and beyond an outer edge they thin out exponentially,
at first as dense as in the bin beside it. Within a bin the rate of the second row rises: for pairs
as it does from bin to bin, for the log loss as log-odds do that explain the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

FEW = 0.01
"""A bin with a much smaller share than this has about the rate of all, so that nothing jumps."""
FEW_BEYOND = 0.1
"""The same of tails."""
THINNEST, THICKEST = 0.25, 2.0
"""How far a tail reaches on average, in widths of the bin beside it."""
_POINTS = (np.arange(8) + 0.5) / 8
_TAIL = -np.log1p(-_POINTS) / -np.log1p(-_POINTS).mean()


def points_of(edges: Sequence[float], sizes: Doubles, *, least: float | None = None) -> Doubles:
    """Eight scores in each bin (bins, 8), equally frequent; the lowest bin may begin at ``least``.

    ``sizes`` are the shares of the bins.

    >>> points_of((-1.0, 0.0, 2.0), np.full(4, 0.25)).mean(axis=1).round(2).tolist()
    [-2.0, -0.5, 1.0, 4.0]
    """
    inner = np.array(edges, dtype=np.float64)
    found = np.empty((len(inner) + 1, len(_POINTS)))
    found[1:-1] = inner[:-1, None] + np.diff(inner)[:, None] * _POINTS
    found[-1] = inner[-1] + _reach(inner, sizes) * _TAIL
    if least is None:
        found[0] = inner[0] - _reach(-inner[::-1], sizes[::-1]) * _TAIL
    else:
        found[0] = least + (inner[0] - least) * _POINTS
    return found


def _reach(edges: Doubles, sizes: Doubles) -> float:
    """How far beyond the last edge a score lies on average.

    A tail that begins as dense as the bin before it reaches as far as its share takes at that
    density.
    """
    if len(edges) < 2:
        return max(abs(float(edges[-1])), 0.1)
    width = float(edges[-1] - edges[-2])
    dense = (float(sizes[-1]) + FEW_BEYOND) / (float(sizes[-2]) + FEW_BEYOND)
    return width * min(THICKEST, max(THINNEST, dense))


def moments_by_density(ends: Sequence[float], sizes: Doubles) -> tuple[Doubles, Doubles]:
    """The mean of a number ≥ 0 and of its square within each bin between these ends.

    The density is a straight line in each bin, as steep as between the bins beside it, and level
    at 0.

    >>> means, squares = moments_by_density((0.0, 1.0, 2.0), np.array([0.8, 0.2]))
    >>> means.round(3).tolist(), squares.round(3).tolist()
    ([0.469, 1.333], [0.302, 1.833])
    """
    edges = np.array(ends)
    width, middle = np.diff(edges), (edges[:-1] + edges[1:]) / 2
    slope = np.gradient(sizes / width, middle)
    slope[0] /= 2
    tilt = slope * width**3 / 12 / np.maximum(sizes, 1e-9)
    tilt = np.clip(tilt, -width / 6, width / 6)  # else the density would be below 0
    return middle + tilt, middle**2 + width**2 / 12 + 2 * middle * tilt


def moments_within(
    edges: Sequence[float], low: float, high: float, histogram: Doubles | None = None
) -> tuple[Doubles, Doubles]:
    """The mean of a number in [low, high] and of its square within each bin.

    By the shares of equally wide parts of [low, high], within which it is spread evenly.

    >>> found = moments_within((0.0,), -1.0, 1.0, np.array([0.0, 0.5, 0.0, 0.5]))
    >>> [x.round(3).tolist() for x in found]
    [[-0.25, 0.75], [0.083, 0.583]]
    """
    known = np.ones(1) if histogram is None else histogram
    fine, ends = np.linspace(low, high, len(known) + 1), np.array([low, *edges, high])
    begin = np.maximum(ends[:-1, None], fine[:-1])
    length = np.maximum(np.minimum(ends[1:, None], fine[1:]) - begin, 0.0)
    # A bin that nobody is in counts as evenly filled.
    sizes = (known + 1e-9) * length
    middle = begin + length / 2
    whole = sizes.sum(axis=1)
    mean = (sizes * middle).sum(axis=1) / whole
    return mean, (sizes * (middle**2 + length**2 / 12)).sum(axis=1) / whole


def safe(part: float, whole: float) -> float:
    """The quotient, or 0 where nothing is there to divide."""
    return part / whole if whole > 0 else 0.0


def rates_of(shares: Doubles) -> Doubles:
    """The rate of the second row in each column."""
    sizes = shares.sum(axis=0)
    return np.asarray((shares[1] + FEW * safe(shares[1].sum(), sizes.sum())) / (sizes + FEW))


def pairs_in_order(shares: Doubles) -> float:
    """The pairs of one of each row of which the second has the higher score: AUC times all pairs.

    If the second row's rate rises by Δ within a bin that has the share m of all, pairs within it
    add m²·Δ/12 to what ties add.

    >>> pairs_in_order(np.array([[0.5, 0.0], [0.0, 0.5]]))
    0.25
    """
    sizes = shares.sum(axis=0)
    below = np.cumsum(shares[0]) - shares[0] / 2  # of two in one bin either may be first
    within = 0.0
    if len(sizes) > 2:
        within = float(np.maximum(np.gradient(rates_of(np.maximum(shares, 0))), 0) @ sizes**2) / 12
    return float(shares[1] @ below) + within


def all_pairs(shares: Doubles) -> float:
    """The pairs of one of each row."""
    return float(shares[0].sum() * shares[1].sum())


def mean_log_loss(shares: Doubles, points: Doubles, rises: Doubles) -> float:
    """The log loss of scores that are log-odds: the mean of log(1 + exp(s)) − y·s.

    ``points`` (bins, n) are scores in each bin; ``rises`` is in each bin the covariance of a score
    with the second row's rate.
    """
    sizes, means = shares.sum(axis=0), points.mean(axis=1)
    alike = float(sizes @ np.logaddexp(0, points).mean(axis=1) - shares[1] @ means)
    return alike - float(sizes @ rises)
