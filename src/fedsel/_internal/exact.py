"""Integer and rational arithmetic for every layer: bounds of e^ε, and 64-bit products."""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np

WEIGHT_BUDGET = 1 << 59
"""Integer laws are scaled so that their weights sum to at most this: every executor can then
draw from the very same law with 64-bit integers, ten times the budget included."""


def exp_lower(x: Fraction | float, bits: int = 128) -> Fraction:
    """Rational lower bound of e^x for x ≥ 0: Taylor terms, each rounded down to 2^−bits.

    Proof: docs/proofs/exact.md, E1.

    >>> exp_lower(0)
    Fraction(1, 1)
    >>> abs(float(exp_lower(1)) - math.e) < 1e-15
    True
    """
    numerator, denominator = Fraction(x).as_integer_ratio()
    term = total = 1 << bits
    i = 1
    while term:
        term = term * numerator // (denominator * i)
        total += term
        i += 1
    return Fraction(total, 1 << bits)


def exp_upper(x: Fraction | float, bits: int = 128) -> Fraction:
    """Rational upper bound of e^x for x ≥ 0: Taylor terms rounded up, plus a bound of the tail.

    Proof: docs/proofs/exact.md, E2.

    >>> exp_lower(1) < exp_upper(1) < exp_lower(1) + Fraction(1, 2**120)
    True
    """
    x = Fraction(x)
    if x == 0:
        return Fraction(1)
    numerator, denominator = x.as_integer_ratio()
    term = total = 1 << bits
    i = 1
    # From i > 2x on each term is at most half of the one before, so the tail is at most the last.
    while term > 1 or i <= 2 * x + 1:
        term = -(-term * numerator // (denominator * i))
        total += term
        i += 1
    return Fraction(total + term, 1 << bits)


def exceeds_exp(ratio: Fraction, epsilon: Fraction | float) -> bool:
    """Decide ratio > e^ε exactly, for ε ≥ 0.

    e^ε is irrational for every rational ε ≠ 0, so doubling the precision always ends.

    Proof: docs/proofs/exact.md, E3.

    >>> exceeds_exp(Fraction(27182818284590452353, 10**19), 1)
    False
    >>> exceeds_exp(Fraction(27182818284590452354, 10**19), 1)
    True
    """
    if epsilon == 0:
        return ratio > 1
    bits = 128
    while True:
        if ratio <= exp_lower(epsilon, bits):
            return False
        if ratio > exp_upper(epsilon, bits):
            return True
        bits *= 2


def log(ratio: Fraction) -> float:
    """ln(ratio) for ratio > 0, accurate also close to 1.

    >>> log(Fraction(1)), log(Fraction(2**61 + 1, 2**61)) == 2**-61
    (0.0, True)
    """
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(float(ratio - 1))
    try:
        return math.log(float(ratio))
    except (OverflowError, ValueError):  # more than any float holds, or so little that it is 0
        return math.log(ratio.numerator) - math.log(ratio.denominator)


def log_upper(ratio: Fraction, bits: int = 36) -> Fraction:
    """The smallest multiple of 2^−bits that is proved to be ≥ ln(ratio), for ratio ≥ 1.

    A guess in floating point is corrected by exact comparisons.

    Proof: docs/proofs/exact.md, E4.

    >>> log_upper(Fraction(1)), float(log_upper(Fraction(2))) - math.log(2) < 2**-36
    (Fraction(0, 1), True)
    """
    if ratio <= 1:
        return Fraction(0)
    steps = math.floor(log(ratio) * (1 << bits))
    while exceeds_exp(ratio, Fraction(steps, 1 << bits)):
        steps += 1
    while not exceeds_exp(ratio, Fraction(steps - 1, 1 << bits)):
        steps -= 1
    return Fraction(steps, 1 << bits)


def nearest_decay(count: int, x: Fraction) -> int:
    """The integer nearest to count·e^(−x), for x ≥ 0: decided exactly, as e^−x is irrational.

    Proof: docs/proofs/exact.md, E6.

    >>> nearest_decay(256, Fraction(1)), nearest_decay(7, Fraction(0))
    (94, 7)
    """
    if x == 0:
        return count
    bits = 128
    while True:
        least, most = (
            math.floor(count / bound(x, bits) + Fraction(1, 2)) for bound in (exp_upper, exp_lower)
        )
        if least == most:
            return least
        bits *= 2


def decimal_context(digits: int) -> decimal.Context:
    """Decimals that are rounded correctly at every step, whatever context the program has set."""
    return decimal.Context(
        prec=digits,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        capitals=1,
        clamp=0,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def mulhi(a: Any, b: Any) -> Any:
    """High 64 bits of the 128-bit product of two uint64, arrays or scalars.

    Proof: docs/proofs/exact.md, E5.

    >>> int(mulhi(np.array([2**63], np.uint64), np.array([6], np.uint64))[0])
    3
    """
    a_low, a_high = a & _LOW, a >> _HALF
    b_low, b_high = b & _LOW, b >> _HALF
    middle = a_high * b_low + ((a_low * b_low) >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF)
