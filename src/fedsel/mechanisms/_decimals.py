"""Machine-independent numbers that define laws: the best k of J, and PE's true loss.

A device and a server must derive the same law, but exponentials and logarithms of numpy and libc
differ in their last bits between machines. So these numbers are computed in decimals, which are
rounded correctly at every step, or in floats where the last bits cannot matter.

PE flips each top-k status bit with probability 1−p and reports one of the ones at random. The
paper's proof of Lemma 2 uses the *expected* number of ones on both sides of the ratio; but the
number of the other ones depends on whether the reported dimension is a top one. With
f(x) = (1−p+px)^(k−1) (p+(1−p)x)^(d−k−1) on [0, 1] the true loss is

    ε_true = ε₀ + log1p((2p−1) ∫(1−x) f dx / ∫(1−p+px) f dx).
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from statistics import NormalDist

from fedsel._internal.exact import decimal_context

_NORMAL = NormalDist()
_WIDE = decimal_context(90)
_SMALL = Decimal("1e-80")
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534"
)
_MOST_STEPS = 100


@lru_cache(maxsize=256)
def best_top(epsilon: Fraction, d: int) -> int:
    """The k with which a report aligns best with a vector of random direction.

    The alignment is (e^ε − 1)·U_k/(k(e^ε − 1) + 2d), with U_k the sum of the k largest of d
    half-normal magnitudes, about 2d·φ(c) where c cuts off a share k/d of them. It has one maximum.

    >>> [best_top(Fraction(e), 100) for e in (1, 2, 4, 8)]
    [69, 43, 13, 1]
    """
    low, high = 1, d
    while low < high:
        middle = (low + high) // 2
        if _rises(epsilon, middle, d):
            low = middle + 1
        else:
            high = middle
    return low


def upper_sum(k: int, d: int) -> float:
    """U_k: the expected sum of the k largest of d half-normal magnitudes, for d not small.

    >>> round(upper_sum(100, 100) / 100, 4)  # all of them: √(2/π)
    0.7979
    """
    if k >= d:
        return d * math.sqrt(2 / math.pi)
    return 2 * d * _NORMAL.pdf(_NORMAL.inv_cdf(1 - k / (2 * d)))


def _rises(epsilon: Fraction, k: int, d: int) -> bool:
    """Whether k + 1 aligns better than k: in floats if they suffice, else in decimals."""
    here, there = (_alignment(float(epsilon), n, d) for n in (k, k + 1))
    # The share of a tail is known to 2^−53, so U_k is off by some 2^−52·d/k.
    if abs(there - here) > (1e-13 + 1e-15 * d / k) * here:
        return there > here
    return rises_exactly(epsilon, k, d)


def _alignment(epsilon: float, k: int, d: int) -> float:
    growth = math.expm1(min(epsilon, 500.0))
    return growth * upper_sum(k, d) / (k * growth + 2 * d)


def rises_exactly(epsilon: Fraction, k: int, d: int) -> bool:
    """Whether k + 1 aligns better than k: the slow twin, in decimals.

    >>> rises_exactly(Fraction(1), 68, 100), rises_exactly(Fraction(1), 69, 100)
    (True, False)
    """
    with decimal.localcontext(_WIDE):
        growth = (Decimal(epsilon.numerator) / epsilon.denominator).exp() - 1
        here, there = (_density_above(Decimal(n) / (2 * d)) for n in (k, k + 1))
        return there * (k * growth + 2 * d) > here * ((k + 1) * growth + 2 * d)


def _density_above(share: Decimal) -> Decimal:
    """φ(c) at the c above which a normal number lies with this probability, at most ½."""
    c = Decimal(-_NORMAL.inv_cdf(float(share)))
    for _ in range(_MOST_STEPS):
        density, tail = _normal(c)
        step = (tail - share) / density
        c += step
        if abs(step) < _SMALL:
            break
    return _normal(c)[0]


def _normal(c: Decimal) -> tuple[Decimal, Decimal]:
    """φ(c) and the upper tail above c: ½ − φ(c)·(c + c³/3 + c⁵/15 + …)."""
    density = (-c * c / 2).exp() / (2 * _PI).sqrt()
    term = total = c
    n = 1
    while abs(term) > _SMALL:
        n += 2
        term *= c * c / n
        total += term
    return density, Decimal("0.5") - density * total


_CONTEXT = decimal_context(40)
_NODES = 96
_DECAY = 60
"""Beyond y = _DECAY/rate the integrand is below e^−60 of its peak."""
_PRECISE = Decimal("1e-30")


def true_epsilon(flip: float, k: int, d: int) -> float:
    """Exact loss of PE with k of d top dimensions, if it flips bits at ε₀ = flip.

    >>> round(true_epsilon(1.0, 1, 2), 3)
    1.311
    """
    with decimal.localcontext(_CONTEXT):
        return float(_true_loss(Decimal(flip), k, d))


def calibrated_epsilon(epsilon: float, k: int, d: int) -> float:
    """The ε₀ at which the bits must be flipped for a true loss of ε.

    >>> round(true_epsilon(calibrated_epsilon(1.0, 3, 10), 3, 10), 12)
    1.0
    """
    if k == d or epsilon == 0:
        return epsilon
    with decimal.localcontext(_CONTEXT):
        # Secants: the loss is smooth, and lies between ε₀ and 4/3 of it.
        wanted = Decimal(epsilon)
        before, here = wanted / 2, wanted
        off_before, off = (_true_loss(x, k, d) - wanted for x in (before, here))
        for _ in range(_MOST_STEPS):
            if abs(here - before) <= _PRECISE * wanted or off == off_before:
                break
            before, here = here, here - off * (here - before) / (off - off_before)
            off_before, off = off, _true_loss(here, k, d) - wanted
        return float(here)


def bottom_probability(flip: float, k: int, d: int) -> float:
    """P[⊥] = (1−p)^k p^(d−k), the probability that no bit is one. It is the same for every input.

    >>> bottom_probability(0.0, 1, 2)
    0.25
    """
    with decimal.localcontext(_CONTEXT):
        p, q = _chances(Decimal(flip))
        return float(q**k * p ** (d - k))


def _chances(flip: Decimal) -> tuple[Decimal, Decimal]:
    """p, the probability that a bit stays, and q = 1 − p."""
    odds = (-flip).exp()
    return 1 / (1 + odds), odds / (1 + odds)


def _true_loss(flip: Decimal, k: int, d: int) -> Decimal:
    if k == d:
        return Decimal(0)
    p, q = _chances(flip)
    # f in y = 1 − x falls from 1 at y = 0 at least as fast as e^(−rate·y).
    rate = (k - 1) * p + (d - k - 1) * q
    reach = min(Decimal(1), _DECAY / rate) if rate > 0 else Decimal(1)
    gap = norm = Decimal(0)
    for node, weight in _quadrature():
        y = reach * node
        f = weight * (1 - p * y) ** (k - 1) * (1 - q * y) ** (d - k - 1)
        gap += y * f
        norm += (1 - p * y) * f
    return flip + (1 + (p - q) * gap / norm).ln()


@cache
def _quadrature() -> tuple[tuple[Decimal, Decimal], ...]:
    """Gauss–Legendre nodes and weights on [0, 1], by Newton's method."""
    with decimal.localcontext(_CONTEXT):
        rules = []
        for number in range(1, _NODES // 2 + 1):
            # Tricomi's initial guess. Its cosine need not be precise.
            angle = (4 * number - 1) * Decimal("3.14159265358979323846") / (4 * _NODES + 2)
            x = _cosine(angle)
            step = Decimal(1)
            while abs(step) > _PRECISE:
                value, slope = _legendre(x)
                step = value / slope
                x -= step
            slope = _legendre(x)[1]
            weight = 1 / ((1 - x * x) * slope * slope)
            rules += [((1 - x) / 2, weight), ((1 + x) / 2, weight)]
        return tuple(rules)


def _legendre(x: Decimal) -> tuple[Decimal, Decimal]:
    """The Legendre polynomial of the degree _NODES at x, and its derivative."""
    before, here = Decimal(1), x
    for n in range(1, _NODES):
        before, here = here, ((2 * n + 1) * x * here - n * before) / (n + 1)
    return here, _NODES * (x * here - before) / (x * x - 1)


def _cosine(angle: Decimal) -> Decimal:
    """cos(angle) for 0 ≤ angle ≤ π/2, by its series."""
    term = total = Decimal(1)
    for n in range(1, 20):
        term *= -angle * angle / ((2 * n - 1) * 2 * n)
        total += term
    return total
