"""The number of codewords in a fresh basis, how many of them are raised, and their alignment.

These numbers are part of a law. They follow from sums, products, quotients and square roots of
doubles in a fixed order, so every machine computes the same.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from fedsel._internal.exact import exp_lower
from fedsel.errors import check_count
from fedsel.solutions._rotated import width_for
from fedsel.solutions._transforms import Doubles

SMALL = 64
"""Codewords of fewer entries are drawn one by one; longer ones are rotations."""
FEWEST_CODEWORDS, MOST_CODEWORDS, _MOST_BLOCKS, _FEW_CODEWORDS = 64, 1 << 22, 64, 1 << 13
"""Limits of one basis. It may have more blocks while it has few codewords."""
_WELL_MIXED, _MANY_RAISED, _MOST_MIXED = 256, 16, 1 << 12
"""When two factors suffice: from the first width on if this many codewords are raised, and always
above the last width. Two factors turn a vector of two equal entries into pairs of equal scores,
which shortens the mean if few are raised: by 0.3 % with 33 of 256, by 2.4 % with 3. Up to the last
width, three factors keep integers below 2^24, where float32 is exact."""
_CELLS, _REACH = 1024, 8.0
"""The grid of the search for the best cap, and its end in standard deviations of a cosine."""
_RAISED, _RAISED_OF_FEW = 4, 32
"""The least number of raised codewords, as a real number: the first, or the second over d."""


def mixings_for(epsilon: Fraction, dim: int) -> int:
    """The number of factors H·D of a block of codewords; 0 if codewords are drawn one by one.

    >>> [mixings_for(Fraction(e), d) for e, d in ((1, 10), (1, 100), (1, 1000), (8, 1000))]
    [0, 3, 2, 3]
    """
    if dim < SMALL:
        return 0
    width = width_for(dim)
    many = raised_for(epsilon, dim) >= _MANY_RAISED
    return 2 if width >= _WELL_MIXED and (many or width > _MOST_MIXED) else 3


@lru_cache(maxsize=256)
def codewords_for(epsilon: Fraction, dim: int) -> int:
    """The number of codewords of a basis: doubled until enough of them are raised, within bounds.

    >>> [codewords_for(Fraction(e), 100) for e in (1, 4, 8, 12)]
    [128, 128, 1024, 8192]
    """
    check_count("dim", dim, most=MOST_CODEWORDS)
    share = cap_share(epsilon, dim)
    size = max(FEWEST_CODEWORDS, width_for(dim))
    blocks = min(max(_MOST_BLOCKS * size, _FEW_CODEWORDS), MOST_CODEWORDS)
    most = _FEW_CODEWORDS if dim < SMALL else blocks
    least = max(_RAISED, _RAISED_OF_FEW / dim)
    while size < most and size * share < least:
        size *= 2
    return size


def raised_for(epsilon: Fraction, dim: int) -> int:
    """The number k of raised signed codewords: the share of the sphere that the best cap covers.

    >>> [raised_for(Fraction(e), 100) for e in (1, 4, 8, 12)]
    [88, 17, 7, 2]
    """
    size = codewords_for(epsilon, dim)
    return max(1, math.floor(size * cap_share(epsilon, dim) + 0.5))


@lru_cache(maxsize=256)
def cap_share(epsilon: Fraction, dim: int) -> float:
    """The share of unsigned directions in R^d to raise for reports of ε.

    Directions with |cos| ≥ γ to the update are raised. On a grid, γ maximises
    moment/(2·total + (e^ε − 1)·mass): PrivUnit's choice, and the most accurate.

    >>> round(cap_share(Fraction(1), 2), 3), round(cap_share(Fraction(8), 1000), 6)
    (0.801, 0.00601)
    """
    if dim == 1:
        return 1.0
    growth = float(exp_lower(epsilon) - 1)
    end = min(1.0, _REACH / math.sqrt(dim))
    grid = [(i + 0.5) / _CELLS for i in range(_CELLS)]
    cosines = [(1.0 - v * v) * end for v in grid]  # from the end down, finest there
    cells = [_density(t, dim) * v for t, v in zip(cosines, grid, strict=True)]
    total = 0.0
    for cell in cells:
        total += cell
    mass = moment = best = share = 0.0
    for t, cell in zip(cosines, cells, strict=True):
        mass += cell
        moment += cell * t
        worth = moment / (2.0 * total + growth * mass)
        if worth > best:
            best, share = worth, mass / total
    return share


def _density(t: float, dim: int) -> float:
    """(1 − t²)^((d−3)/2), the density of a cosine up to a factor, by squaring and one root."""
    base = 1.0 - t * t
    if dim == 2:
        return 1.0 / math.sqrt(base)
    power, n = 1.0, (dim - 3) // 2
    root = math.sqrt(base) if dim % 2 == 0 else 1.0
    while n:
        if n & 1:
            power *= base
        base *= base
        n >>= 1
    return power * root


@lru_cache(maxsize=256)
def cosines_of_top(k: int, size: int, dim: int, width: int) -> float:
    """Expected sum of the k largest |cos| of ``size`` independent codewords to a direction.

    A codeword is a random unit vector of ``width`` entries, cut to ``dim`` of them. Codewords are
    ranked by the inner product of the whole vector; cutting it makes the cosine larger. The share
    above the k-th largest of M is Beta(k, M − k), and the sum is M times its expected moment.

    >>> round(cosines_of_top(1, 1, 1, 1), 6), round(cosines_of_top(64, 64, 2, 2) / 64, 4)  # 2/π
    (1.0, 0.6366)
    """
    if dim == 1:
        return float(k)
    fine = 8 * _CELLS
    end = min(1.0, 1.5 * _REACH / math.sqrt(width))
    # Finer towards 1, where the density of few dimensions has a pole.
    angle = (np.arange(fine) + 0.5) / fine * math.asin(end)
    t = np.sin(angle)[::-1]
    mass = np.exp((width - 2) * np.log(np.cos(angle)))[::-1]
    above = np.cumsum(mass) / mass.sum()
    moment = np.cumsum(mass * _cosine(t, dim, width)) / mass.sum()
    if k >= size:
        return size * float(moment[-1])
    share, weight = _beta(k, size - k)
    return size * float(np.interp(share, above, moment) @ weight)


def _cosine(t: Doubles, dim: int, width: int) -> Doubles:
    """Expected cosine of a codeword whose inner product is t.

    The square of its length is t² + (1 − t²)·b, b from Beta((d−1)/2, (w−d)/2).
    """
    if dim == width:
        return t
    b, weight = _beta((dim - 1) / 2, (width - dim) / 2)
    squares = t[:, None] ** 2
    return np.asarray((t[:, None] / np.sqrt(squares + (1 - squares) * b)) @ weight)


def _beta(a: float, b: float) -> tuple[Doubles, Doubles]:
    """Points and weights for integrals over Beta(a, b): sin² of an even grid of angles."""
    mean, deviation = a / (a + b), math.sqrt(a * b / (a + b + 1)) / (a + b)
    low, high = max(0.0, mean - 9 * deviation), min(1.0, mean + 12 * deviation)
    ends = math.asin(math.sqrt(low)), math.asin(math.sqrt(high))
    angle = ends[0] + (np.arange(512) + 0.5) / 512 * (ends[1] - ends[0])
    log = (2 * a - 1) * np.log(np.sin(angle)) + (2 * b - 1) * np.log(np.cos(angle))
    weight = np.exp(log - log.max())
    return np.sin(angle) ** 2, weight / weight.sum()
