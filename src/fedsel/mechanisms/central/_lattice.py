"""A proved upper bound of E[(G₁ + … + Gₙ)₊]/n, in integers.

G has a few values. Each is split between its two neighbours on a lattice, with the same mean: that
makes G larger in the convex order, and so the bound. The sum of m copies is a list of integer
masses on the lattice. Sums are doubled by multiplying these lists as polynomials, exactly, and the
lattice is made coarser as the sums grow wider. Whatever is rounded is rounded up: G and all masses.
Values and sums so negative that they have next to no part in what is positive are raised, too. So
the result is never below the true value, whatever the lattice; a finer one is only nearer to it.
`Tilted`, the law of sums that are positive, decides how fine the lattice is and what is raised.
`rough_delta` estimates the same value in floats.

Proof: docs/proofs/shuffling.md, S7.
"""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.mechanisms._certificate import Blanket

_WIDENING = 4e-5
"""The share by which a change of lattice may widen the variance of a sum."""
_MOST_POINTS = 1 << 12
"""The most points of a lattice of integers."""
_PLACE_BITS = 64
"""The resolution of a value's place between two points, in bits."""
_SPARE_DIGITS = 6
"""Digits of δ that cutting off may not change."""

_NEPERS = 20.0
"""ln of the share of δ that raising negative sums may add: one part in 10^8, each time."""

_EXACT = decimal.Context(
    prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.Inexact]
)

Values = Sequence[tuple[Fraction, Fraction]]
"""The values of G other than 0 with their probabilities."""


@dataclass(frozen=True)
class Sum:
    """The sum of ``copies`` of G, on the points (low + i)·2^step.

    ``masses[i]`` over ``unit`` is at least the probability of point i, ``beyond`` over it at least
    that of all sums above the last point.
    """

    copies: int
    step: int
    low: int
    masses: list[int]
    unit: int
    beyond: int = 0

    @property
    def positive_part(self) -> Fraction:
        """E of the positive part, without what is beyond the last point."""
        above = sum(i * m for i, m in enumerate(self.masses, start=self.low) if i > 0)
        return Fraction(above, self.unit) * Fraction(2) ** self.step


def values_of(blanket: Blanket, growth: Fraction) -> Values:
    """G = (W(x₀) − growth·W(x₁))/w with the probability w/T of each class."""
    return [
        ((c.first - growth * c.second) / c.least, Fraction(c.least * c.outputs, blanket.total))
        for c in blanket.classes
    ]


def excess(blanket: Blanket, reports: int, growth: Fraction, delta: float) -> Fraction:
    """Return an upper bound of E[(G₁ + … + Gₙ)₊]/n for n reports and a ``growth`` of at most e^ε.

    ``delta`` is an estimate of the result, which decides how many digits are kept.

    >>> from fedsel.mechanisms import RankLaw
    >>> coin = Blanket.of_ranks(RankLaw([3, 1]))  # randomised response with ε₀ = ln 3
    >>> [round(float(excess(coin, n, Fraction(2), 0.1)), 4) for n in (1, 2, 8)]
    [0.25, 0.1875, 0.0336]
    """
    values = values_of(blanket, growth)
    largest = max(g for g, _ in values)
    if largest <= 0:
        return Fraction(0)
    least = -reports * largest  # with one such value no sum is positive
    theta, variance, share = _where_positive(_raised(values, least))
    if theta:
        least = max(least, Fraction(-(_NEPERS - math.log(delta)) / theta))
    values = _raised(values, least)
    worst = max(1.0, float(largest)) * reports / delta
    digits = math.ceil(math.log10(worst)) + 2 * _SPARE_DIGITS
    unit = 10**digits
    total = _on_lattice(values, _first_step(values, variance, share), unit)
    for bit in bin(reports)[3:]:
        total = _sum_of(total, total)
        if bit == "1":
            total = _sum_of(total, _on_lattice(values, total.step, unit))
        # What is cut off comes back reports/copies times and then counts as reports·largest: over
        # the fewer than 64 doublings at most one part of δ in 10^spare digits.
        total = _trimmed(total, 10**_SPARE_DIGITS * total.copies // 64, float(least))
        while (
            4.0 ** (total.step + 1) / 8 <= _WIDENING * total.copies * variance
            or len(total.masses) > _MOST_POINTS
        ):
            total = _coarser(total)
    return total.positive_part / reports + Fraction(total.beyond, unit) * largest


def _raised(values: Values, least: Fraction) -> Values:
    return [(max(g, least), p) for g, p in values]


def _where_positive(values: Values) -> tuple[float, float, float]:
    """Return θ of the tilted law, its variance, and its probability of G ≠ 0."""
    g, p = ([float(x) for x in part] for part in zip(*values, strict=True))
    tilted = Tilted.of([*g, 0.0], [*p, max(0.0, 1 - sum(p))])
    law = tilted.law.tolist()
    mean = math.fsum(x * q for x, q in zip(g, law, strict=False))
    variance = math.fsum(x * x * q for x, q in zip(g, law, strict=False)) - mean * mean
    return tilted.theta, max(0.0, variance), math.fsum(law[:-1])


def _first_step(values: Values, variance: float, share: float) -> int:
    """Choose the first lattice: splitting widens the variance by at most share·4^step/4."""
    finest = float(max(g for g, _ in values) - min(g for g, _ in values)) / _MOST_POINTS
    wanted = 2 * math.sqrt(_WIDENING * variance / share)
    return math.floor(math.log2(max(wanted, finest)))


def _on_lattice(values: Values, step: int, unit: int) -> Sum:
    """Put G on a lattice: split each value between its neighbours, the rest of the mass at 0."""
    masses: defaultdict[int, int] = defaultdict(int)
    places = Fraction(2) ** (_PLACE_BITS - step)
    left = Fraction(unit)
    for g, p in values:
        place, mass = math.ceil(g * places), math.ceil(p * unit)
        point, above = divmod(place, 1 << _PLACE_BITS)
        upper = mass * above
        masses[point] += mass - (upper >> _PLACE_BITS)
        if upper:
            masses[point + 1] += (upper >> _PLACE_BITS) + 1
        left -= p * unit
    masses[0] += math.ceil(left)
    return _dense(Sum(1, step, 0, [], unit), masses)


def _dense(law: Sum, masses: Mapping[int, int]) -> Sum:
    low, high = min(masses), max(masses)
    return replace(law, low=low, masses=[masses.get(i, 0) for i in range(low, high + 1)])


def _sum_of(a: Sum, b: Sum) -> Sum:
    """Convolve two independent sums on one lattice."""
    masses = [-(-m // a.unit) for m in product(a.masses, b.masses)]
    # Masses above the last point are not multiplied: each is there whatever the other sum is.
    beyond = a.beyond + b.beyond
    return Sum(a.copies + b.copies, a.step, a.low + b.low, masses, a.unit, beyond)


def product(a: list[int], b: list[int]) -> list[int]:
    """Multiply two polynomials with coefficients ≥ 0, exactly.

    The coefficients become the digits of one long number, with enough room between them, because
    `decimal` multiplies numbers of a million digits fast.

    >>> product([1, 2], [3, 0, 99])
    [3, 6, 99, 198]
    """
    width = len(str(max(a) * max(b) * min(len(a), len(b))))
    count = len(a) + len(b) - 1
    first = _number(a, width)
    whole = _EXACT.multiply(first, first if a is b else _number(b, width))
    text = format(whole, "f").zfill(width * count)
    return [int(text[i : i + width]) for i in range(0, width * count, width)]


def _number(coefficients: list[int], width: int) -> decimal.Decimal:
    return _EXACT.create_decimal("".join([str(c).zfill(width) for c in coefficients]))


def _trimmed(law: Sum, tolerance: int, least: float = -math.inf) -> Sum:
    """Cut off ends that weigh at most ``tolerance``: move the lower up, count the upper as beyond.

    Masses below ``least`` are moved up whatever they weigh.
    """
    masses, below, above = law.masses, 0, 0
    start, end = 0, len(masses)
    while start < end - 1 and (
        below + masses[start] <= tolerance or (law.low + start + 1) * 2.0**law.step <= least
    ):
        below += masses[start]
        start += 1
    while end > start + 1 and above + masses[end - 1] <= tolerance:
        end -= 1
        above += masses[end]
    kept = masses[start:end]
    kept[0] += below
    return replace(law, low=law.low + start, masses=kept, beyond=law.beyond + above)


def _coarser(law: Sum) -> Sum:
    """Keep every second point: the masses of the others go to both neighbours in halves."""
    masses: defaultdict[int, int] = defaultdict(int)
    for i, mass in enumerate(law.masses, start=law.low):
        point, odd = divmod(i, 2)
        if odd:
            half = (mass + 1) // 2
            masses[point] += half
            masses[point + 1] += half
        else:
            masses[point] += mass
    return _dense(replace(law, step=law.step + 1), masses)


_FEWEST_FLOATS, _MOST_FLOATS = 1 << 14, 1 << 18
"""The points of the lattice of floats. More reports need more of them for the same error."""
_DEVIATIONS = 14
"""How far the lattice reaches to both sides of the mean of the sum, in deviations."""
_NEVER = 1e-18
"""A probability that counts as zero."""
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
        """Tilt a G that is sometimes positive; one whose mean is not negative stays as it is.

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
        """Return the law tilted by θ, its mean, and ln M."""
        most = theta * float(g.max())
        weights = p * np.exp(theta * g - most)
        total = float(weights.sum())
        law = weights / total
        return law, float(law @ g), most + math.log(total)


def rough_delta(blanket: Blanket, reports: int, growth: float) -> float:
    """Estimate E[(G₁ + … + Gₙ)₊]/n by one Fourier transform of the tilted law of G.

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
    count = min(_MOST_FLOATS, max(_FEWEST_FLOATS, 1 << (8 * reports).bit_length()))
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
