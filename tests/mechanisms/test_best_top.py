"""The best k is the same on every machine: decided by real numbers, not by last bits."""

import math
from fractions import Fraction

import pytest

from fedsel.mechanisms import best_top as module
from fedsel.mechanisms.best_top import best_top, rises_exactly

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
