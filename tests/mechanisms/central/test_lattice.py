"""Sums on lattices are proved: never below the exact value, and near it."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel.mechanisms import Duchi, RankLaw
from fedsel.mechanisms._certificate import Blanket
from fedsel.mechanisms.central import _lattice as lattice
from fedsel.mechanisms.central._lattice import excess, product, rough_delta, values_of

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


def stop_losses(law, places):
    """Σ mass·(point − s)₊ in units, for points s of the lattice."""
    points = [(i, m) for i, m in enumerate(law.masses, law.low)]
    return [sum(m * max(i - s, 0) for i, m in points) for s in places]


@pytest.mark.parametrize("step", [-4, -1, 2])
@pytest.mark.parametrize("unit", [10**3, 10**9])
def test_one_report_on_a_lattice_is_rounded_up_and_by_no_more(step, unit):
    """At a point of the lattice the split changes nothing: what is left is rounding, upwards."""
    values = [(Fraction(7, 3), Fraction(1, 7)), (Fraction(-5, 7), Fraction(2, 9)),
              (Fraction(4), Fraction(1, 11)), (Fraction(-4), Fraction(1, 13))]  # fmt: skip
    law = lattice._on_lattice(values, step, unit)
    assert (law.copies, law.step, law.unit, law.beyond) == (1, step, unit, 0)
    rest = 1 - sum(p for _, p in values)
    scale = Fraction(2) ** step
    places = range(law.low - 1, law.low + len(law.masses) + 1)
    span = len(law.masses) + 2
    for s, found in zip(places, stop_losses(law, places), strict=True):
        exact_loss = sum(p * max(g / scale - s, 0) for g, p in [*values, (Fraction(0), rest)])
        assert 0 <= found - unit * exact_loss <= 2 * len(values) * span
    assert 0 <= sum(law.masses) - unit <= 2 * len(values)


def test_values_on_points_of_the_lattice_stay_there():
    law = lattice._on_lattice(
        [(Fraction(3), Fraction(1, 4)), (Fraction(-1), Fraction(1, 2))], 0, 100
    )
    assert (law.low, law.masses) == (-1, [50, 25, 0, 0, 25])


def test_sums_are_rounded_up_and_by_less_than_one():
    a = lattice.Sum(2, -1, -1, [333, 1, 667], 1000, beyond=3)
    b = lattice.Sum(3, -1, 4, [10, 991], 1000, beyond=5)
    both = lattice._sum_of(a, b)
    assert (both.copies, both.step, both.low, both.unit, both.beyond) == (5, -1, 3, 1000, 8)
    exact_masses = [Fraction(m, 1000) for m in (3330, 330013, 7661, 660997)]
    assert all(0 <= m - e < 1 for m, e in zip(both.masses, exact_masses, strict=True))


def test_a_coarser_lattice_rounds_halves_up():
    law = lattice.Sum(1, 0, -3, [5, 2, 7, 4, 9], 100)
    coarse = lattice._coarser(law)
    assert (coarse.low, coarse.step, coarse.masses) == (-2, 1, [3, 9, 13, 5])
    for s in range(-3, 3):
        assert 2 * stop_losses(coarse, [s])[0] >= stop_losses(law, [2 * s])[0]


def test_ends_are_cut_off_up_to_the_tolerance_and_one_point_is_left():
    law = lattice.Sum(1, 0, 5, [1, 2, 4], 7)
    assert lattice._trimmed(law, 3) == lattice.Sum(1, 0, 7, [7], 7)
    assert lattice._trimmed(law, 2) == lattice.Sum(1, 0, 6, [3, 4], 7)
    assert lattice._trimmed(law, 0) == law
    everything = lattice._trimmed(law, 7)
    assert (everything.masses, everything.low, everything.beyond) == ([7], 7, 0)
    upper = lattice._trimmed(lattice.Sum(1, 0, 0, [9, 1, 2, 3], 15, beyond=4), 5)
    assert (upper.low, upper.masses, upper.beyond) == (0, [9, 1], 9)


def test_the_positive_part_begins_above_zero():
    law = lattice.Sum(3, -2, -2, [7, 5, 11, 2, 3], 100)
    assert law.positive_part == Fraction(2 * 1 + 3 * 2, 100) / 4
