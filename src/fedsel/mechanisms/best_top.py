"""The best k of a one-symbol report, the same on every machine.

The law of J, RJ and RC follows from k, so a device and a server must find the same one.
Exponentials and logarithms of the C library differ in their last bits from machine to machine;
where these would decide, decimals do.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from fedsel.exact import decimal_context

_NORMAL = NormalDist()
_WIDE = decimal_context(90)
_SMALL = Decimal("1e-80")
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534"
)
_MOST_STEPS = 100


@lru_cache(maxsize=256)
def best_top(epsilon: Fraction, d: int) -> int:
    """k that aligns a report best with a vector of random direction.

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
    """Whether k + 1 aligns better than k: in floating point, as long as it can tell."""
    here, there = (_alignment(float(epsilon), n, d) for n in (k, k + 1))
    # The share of a tail is known to 2^−53 of 1, so that U_k is off by some 2^−52·d/k.
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
    """φ(c), and the probability of more than c: ½ − φ(c)·(c + c³/3 + c⁵/15 + …)."""
    density = (-c * c / 2).exp() / (2 * _PI).sqrt()
    term = total = c
    n = 1
    while abs(term) > _SMALL:
        n += 2
        term *= c * c / n
        total += term
    return density, Decimal("0.5") - density * total
