"""The best k is the same on every machine: decided by real numbers, not by last bits."""

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import pytest

from fedsel.mechanisms import _decimals as module
from fedsel.mechanisms._decimals import best_top, rises_exactly

EPSILONS = [Fraction(e) for e in ("1/1000", "1/20", "1", "7/3", "4", "8", "12", "100", "500")]


@pytest.mark.parametrize("d", [1, 2, 5, 100, 1024, 1 << 16])
def test_floats_and_decimals_find_the_same(d):
    for epsilon in EPSILONS:
        k = best_top(epsilon, d)
        assert k == 1 or rises_exactly(epsilon, k - 1, d)
        assert k == d or not rises_exactly(epsilon, k, d)


@pytest.mark.parametrize("nudge", [-4e-16, 4e-16])
@pytest.mark.parametrize("d", [5, 100, 5000, 1 << 26])
def test_another_c_library_finds_the_same(d, nudge, monkeypatch):
    alignment = module._alignment
    found = [best_top(epsilon, d) for epsilon in EPSILONS]
    best_top.cache_clear()
    monkeypatch.setattr(
        module, "_alignment", lambda e, k, d: alignment(e, k, d) * (1 + nudge * (-1) ** k)
    )
    assert [best_top(epsilon, d) for epsilon in EPSILONS] == found
    best_top.cache_clear()


def test_floats_alone_would_be_off_among_tens_of_millions():
    """Where decimals decide: the two alignments are the same double."""
    k, d = best_top(Fraction(1), 1 << 26), 1 << 26
    here, there = (module._alignment(1.0, n, d) for n in (k, k + 1))
    assert abs(there - here) <= 4 * math.ulp(here)
    assert rises_exactly(Fraction(1), k - 1, d)
    assert not rises_exactly(Fraction(1), k, d)


@pytest.mark.parametrize(
    ("k", "d", "apart", "floats"),
    [
        (10, 10, 0.9e-13, False),
        (10, 10, 1.1e-13, True),
        (1, 1000, 1.0e-12, False),
        (1, 1000, 1.2e-12, True),
        (2, 1 << 26, 3.3e-8, False),
        (2, 1 << 26, 3.4e-8, True),
    ],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_floats_decide_where_they_can_tell(k, d, apart, floats, sign, monkeypatch):
    """Both ends of the bound that is claimed: 10^−13 + 10^−15·d/k of the alignment."""
    asked = []
    monkeypatch.setattr(module, "rises_exactly", lambda *given: asked.append(given) or "asked")
    monkeypatch.setattr(
        module, "_alignment", lambda e, n, size: 0.25 * (1 + sign * apart * (n == k + 1))
    )
    found = module._rises(Fraction(1), k, d)
    assert found == ((sign > 0) if floats else "asked")
    assert asked == ([] if floats else [(Fraction(1), k, d)])


@pytest.mark.parametrize("share", ["0.5", "0.25", "0.01", "1e-9"])
def test_decimals_are_right_to_seventy_digits(share):
    """Against a bisection of the tail, which has no step of Newton's."""
    with decimal.localcontext(module._WIDE):
        wanted, low, high = Decimal(share), Decimal(-1), Decimal(7)
        for _ in range(260):
            middle = (low + high) / 2
            low, high = (middle, high) if module._normal(middle)[1] > wanted else (low, middle)
        expected = module._normal(low)[0]
        assert abs(module._density_above(wanted) / expected - 1) < Decimal("1e-70")


def test_the_tail_of_a_normal_law():
    """φ(1) and the probability of more than 1, as tables have them."""
    density, tail = (float(x) for x in module._normal(Decimal(1)))
    assert density == pytest.approx(0.24197072451914337, rel=1e-15)
    assert tail == pytest.approx(0.15865525393145707, rel=1e-15)
