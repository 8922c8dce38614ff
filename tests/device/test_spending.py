"""How charges are added up: never too little, in a number that no server makes long."""

import math
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel._internal.exact import exceeds_exp
from fedsel.mechanisms import Duchi
from fedsel.solutions._privacy import GRID, added, rounded_up, total
from tests.device.support import primes_below

WORD = st.integers(1, (1 << 64) - 1)
CHARGES = st.one_of(
    st.builds(lambda n, d, e: Fraction(n, d) / e, WORD, WORD, st.integers(1, (1 << 32) - 1)),
    st.integers(1, 1 << 40).map(lambda steps: Fraction(steps, 1 << 36)),
    st.sampled_from([Fraction(1, 10), Fraction(1, 3), Fraction(1, 101), Fraction(2, 707)]),
)
MOST_BITS = GRID.bit_length() + 96


@given(st.lists(CHARGES, max_size=30))
def test_the_sum_is_never_less_than_was_spent_and_stays_short(charges):
    spent = true = Fraction(0)
    for number, charge in enumerate(charges, 1):
        spent, true = added(spent, charge), true + charge
        assert true <= spent <= true + Fraction(number, GRID)
        assert spent.denominator.bit_length() <= MOST_BITS
    assert total(map(str, charges)) == spent


@given(CHARGES, st.integers(1, 500), st.integers(0, 10**6))
def test_one_price_is_added_up_exactly(charge, reports, before):
    """From any sum on the grid: so a lifetime of E reports of ε/E is met to the last of them."""
    start = Fraction(before, 10**4)
    *_, spent = accumulate([charge] * reports, added, initial=start)
    assert spent == start + reports * charge == added(start, charge, reports)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 100)), max_size=20))
def test_decimals_over_up_to_a_hundred_epochs_are_exact_in_any_order(plans):
    charges = [Fraction(steps, 10**6) / epochs for steps, epochs in plans]
    assert total(map(str, charges)) == sum(charges)


def test_a_run_that_is_finished_leaves_its_epsilon_and_no_more():
    """Whatever the number of its epochs, the next price finds the sum on the grid."""
    charges = [Fraction(1, 10) / 101] * 101 + [Fraction(2, 10) / 997] * 997 + [Fraction(7, 10)]
    assert total(map(str, charges)) == 1


def test_the_grid_is_one_number_for_good():
    """A sum that a ledger holds was rounded to it: with another it is not believed."""
    squares = {2: 40, 3: 4, 5: 17, 7: 2}
    rest = [11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97]
    assert math.prod(p**power for p, power in squares.items()) * math.prod(rest) == GRID


@pytest.mark.parametrize("amount", [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(3, 1 << 36)])
def test_what_is_on_the_grid_stays(amount):
    assert rounded_up(amount) == amount


@pytest.mark.slow
def test_ten_thousand_hostile_denominators():
    primes = primes_below(1 << 64, 10_000)
    spent = total(f"1/{p}" for p in primes)
    assert spent.denominator.bit_length() <= MOST_BITS
    # The true sum has 640,000 bits; it lies between these two, which are 10,000/2^400 apart.
    low, high = (sum(((1 << 400) + up) // p for p in primes) for up in (0, 1 << 64))
    assert Fraction(low, 1 << 400) <= spent <= Fraction(high, 1 << 400) + Fraction(10_000, GRID)


def test_no_transcript_loses_more_than_the_lifetime_whoever_chooses_the_prices():
    """Every transcript of a server that asks for ε by what it was told before, in rationals.

    The next price follows from the reports so far, and the device refuses by the sum: what two
    clients with the values −1 and 1 send has a ratio of at most e^lifetime.
    """
    lifetime, prices = Fraction(3, 2), (Fraction(1, 3), Fraction(1, 2), Fraction(5, 7))
    ended = []

    def follow(told, spent, ratio):
        charge = prices[sum(told) % 3 if told else 0]
        if added(spent, charge) > lifetime:
            ended.append((spent, ratio))
            return
        law = Duchi(charge).law
        one, other = (law.probabilities(Fraction(t)) for t in (-1, 1))
        for symbol in range(2):
            paid = added(spent, charge)
            follow((*told, symbol), paid, ratio * one[symbol] / other[symbol])

    follow((), Fraction(0), Fraction(1))
    assert (
        len({spent for spent, _ in ended}) > 1
    )  # servers that were told otherwise asked otherwise
    for spent, ratio in ended:
        assert spent <= lifetime
        assert not exceeds_exp(max(ratio, 1 / ratio), spent)
