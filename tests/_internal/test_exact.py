"""Rational bounds of e^ε against 60-digit decimals, and 128-bit products against Python."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel._internal import exact
from fedsel._internal.exact import exceeds_exp, exp_lower, exp_upper, log, log_upper, mulhi


def decimal_exp(x: float) -> Fraction:
    with localcontext() as context:
        context.prec = 60
        return Fraction(Decimal(x).exp())


@given(st.floats(0, 60))
def test_bounds_enclose_exp_tightly(x):
    low, high = exp_lower(x), exp_upper(x)
    slack = decimal_exp(x) * Fraction(1, 10**55)
    assert low <= decimal_exp(x) + slack
    assert high >= decimal_exp(x) - slack
    assert 0 <= (high - low) / low < Fraction(1, 2**100)


@pytest.mark.parametrize("x", [0, 1e-300, 1e-9, 0.5, 50, 500])
def test_bounds_at_extremes(x):
    assert 1 <= exp_lower(x) <= exp_upper(x)


@given(st.floats(1e-6, 40))
def test_comparison_with_exp_is_exact_on_both_sides(x):
    nudge = Fraction(1, 2**200)
    assert not exceeds_exp(exp_lower(x, 256), x)
    assert exceeds_exp(exp_upper(x, 256) + nudge, x)


def test_comparison_at_zero():
    assert not exceeds_exp(Fraction(1), 0)
    assert exceeds_exp(Fraction(2**61 + 1, 2**61), 0)


def test_log_is_accurate_close_to_one_and_far_away():
    assert log(Fraction(2**59 + 1, 2**59)) == 2.0**-59
    assert log(Fraction(2**59 - 1, 2**59)) == -(2.0**-59)
    assert log(Fraction(10**30)) == pytest.approx(30 * 2.302585092994046, rel=1e-15)


def test_log_of_what_no_float_holds():
    assert log(Fraction(10**400)) == pytest.approx(400 * 2.302585092994046, rel=1e-15)
    assert log(Fraction(7**400, 10**800)) == pytest.approx(-1063.7040147731113, rel=1e-14)
    assert log(Fraction(3 * 2**5000, 2**4999)) == pytest.approx(1.791759469228055, rel=1e-15)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_mulhi_is_the_high_word(a, b):
    high = mulhi(np.array([a], np.uint64), np.array([b], np.uint64))
    assert int(high[0]) == (a * b) >> 64


@pytest.mark.parametrize(
    "ratio",
    [
        Fraction(1),
        Fraction(2**61 + 1, 2**61),
        Fraction(3, 2),
        Fraction(2**60, 3**30),
        Fraction(10**217, 7),
        exp_lower(Fraction(1, 10)),
        exp_lower(2),
    ],
)
def test_the_upper_logarithm_is_the_least_on_its_grid(ratio):
    upper = log_upper(ratio)
    assert not exceeds_exp(ratio, upper)
    assert upper == 0 or exceeds_exp(ratio, upper - Fraction(1, 2**36))


def test_the_precision_of_laws_and_charges_never_changes():
    """Weights are made of the one, and ledgers are filled with the other."""
    assert exp_lower(1) == exp_lower(1, bits=128) > exp_lower(1, bits=127)
    assert exp_lower(1) < exp_lower(1, bits=129)
    assert log_upper(Fraction(2)) == Fraction(47632711550, 1 << 36)


@pytest.mark.parametrize("off", [-1e-9, 2e-11, 1e-9])
def test_the_upper_logarithm_is_so_whatever_is_guessed(monkeypatch, off):
    ratio = Fraction(3, 2)
    expected = log_upper(ratio)
    monkeypatch.setattr(exact, "log", lambda ratio: math.log(ratio) + off)
    assert log_upper(ratio) == expected


def between(x: Fraction) -> tuple[Fraction, Fraction]:
    """Two rationals around e^x: 300 terms, and what is left is less than the last of them."""
    term = total = Fraction(1)
    for i in range(1, 300):
        term *= x / i
        total += term
    return total, total + term


@pytest.mark.parametrize("x", [Fraction(1, n) for n in (10**9, 16, 3)] + [Fraction(22, 7), 99])
@pytest.mark.parametrize("bits", [4, 20, 128])
def test_bounds_enclose_exp_in_rationals(x, bits):
    """No decimals and no floats: against partial sums of the series, also with few bits.

    1/16 with 4 bits rounds no term, so that the bound of the tail is all that lifts it.
    """
    low, high = between(Fraction(x))
    assert exp_lower(x, bits) <= low < high <= exp_upper(x, bits)
