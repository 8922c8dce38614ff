"""Sums on lattices are proved: never below the exact value, and near it."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel.central import lattice
from fedsel.central.guess import rough_delta
from fedsel.central.lattice import excess, product, values_of
from fedsel.mechanisms import Duchi, RankLaw
from fedsel.mechanisms.blanket import Blanket

LAWS = {
    "coin": Blanket.of_ranks(RankLaw([3, 1])),
    "1 of 6": Blanket.of_ranks(RankLaw([8, 1], [1, 5])),
    "three weights": Blanket.of_ranks(RankLaw([9, 3, 1], [1, 2, 3])),
    "value": Blanket.of_symbols(Duchi(1.0).law),
    "large ε": Blanket.of_ranks(RankLaw([10**6, 1], [2, 30])),
}


def exact(values, n):
    """E[(G₁ + … + Gₙ)₊]/n: the sum as a dictionary of rationals."""
    rest = 1 - sum(p for _, p in values)
    law = {Fraction(0): Fraction(1)}
    for _ in range(n):
        after = {}
        for (s, p), (g, q) in itertools.product(law.items(), [*values, (Fraction(0), rest)]):
            after[s + g] = after.get(s + g, Fraction(0)) + p * q
        law = after
    return sum(p * s for s, p in law.items() if s > 0) / n


coefficients = st.lists(st.integers(0, 10**25), min_size=1, max_size=9).filter(any)


@given(coefficients, coefficients)
def test_products_of_polynomials_are_exact(a, b):
    slow = [0] * (len(a) + len(b) - 1)
    for (i, x), (j, y) in itertools.product(enumerate(a), enumerate(b)):
        slow[i + j] += x * y
    assert product(a, b) == slow
    assert product(a, a) == product(a, list(a))


@pytest.mark.parametrize("growth", [Fraction(1), Fraction(11, 10), Fraction(2)], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16])
@pytest.mark.parametrize("name", LAWS)
def test_the_bound_is_never_below_the_exact_sum_and_near_it(name, n, growth):
    blanket = LAWS[name]
    true = exact(values_of(blanket, growth), n)
    bound = excess(blanket, n, growth, float(true))
    assert true <= bound <= true * Fraction(1003, 1000)
    assert rough_delta(blanket, n, float(growth)) == pytest.approx(float(true), rel=5e-3)


@pytest.mark.parametrize("name", LAWS)
def test_coarse_lattices_and_short_windows_are_safe_too(name, monkeypatch):
    """Whatever is cut or merged, the bound does not fall below the true value."""
    blanket, n, growth = LAWS[name], 16, Fraction(6, 5)
    true = exact(values_of(blanket, growth), n)
    monkeypatch.setattr(lattice, "_WIDENING", 0.02)
    coarse = excess(blanket, n, growth, float(true))
    assert true <= coarse
    # So few digits that both ends of every sum are cut off.
    monkeypatch.setattr(lattice, "_SPARE_DIGITS", 2)
    assert coarse <= excess(blanket, n, growth, 0.9) <= 2 * coarse + Fraction(1, 50)


def test_what_lies_beyond_the_last_point_counts_in_full():
    law = lattice.Sum(4, 0, -2, [5, 50, 900, 40, 5], 1000)
    cut = lattice._trimmed(law, 5)
    assert (cut.low, cut.masses, cut.beyond) == (-1, [55, 900, 40], 5)
    twice = lattice._sum_of(cut, cut)
    assert twice.beyond == 10
    assert sum(twice.masses) >= 990
    assert lattice._trimmed(law, 4) == law


def test_a_coarser_lattice_keeps_the_mean_and_widens():
    law = lattice.Sum(1, -3, -3, [10, 20, 30, 40], 100)
    coarse = lattice._coarser(law)

    def moment(x, power):
        return sum(m * (i * Fraction(2) ** x.step) ** power for i, m in enumerate(x.masses, x.low))

    assert moment(coarse, 0) == moment(law, 0)
    assert moment(coarse, 1) == moment(law, 1)
    assert moment(coarse, 2) > moment(law, 2)


def test_beyond_the_local_epsilon_nothing_is_left():
    blanket = LAWS["1 of 6"]
    assert excess(blanket, 100, Fraction(8), 1e-6) == 0
    assert rough_delta(blanket, 100, 8.0) == 0
    assert excess(blanket, 100, Fraction(799, 100), 1e-6) > 0
