"""How many reports all rounds reach, where clients pick their rounds at random: by enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel.auto import reachable_n_min, waiting_probability
from fedsel.errors import InvalidArgument


def exactly_below(n, count, share):
    """P[Bin(count, share) < n] in rationals."""
    terms = (math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(n))
    return sum(terms, Fraction(0))


@pytest.mark.parametrize("count", [1, 7, 60, 400])
@pytest.mark.parametrize("rounds", [2, 3, 20])
@pytest.mark.parametrize("drop_out", [Fraction(0), Fraction(1, 4)])
def test_the_tail_of_a_round_is_that_of_the_binomial_law(count, rounds, drop_out):
    share = (1 - drop_out) / rounds
    for n in range(1, math.floor(share * count) + 1):
        exact = rounds * exactly_below(n, count, share)
        found = waiting_probability(n, count, rounds, drop_out=float(drop_out))
        if exact > 1:
            assert found == 1
        else:
            assert 1 <= found / float(exact) <= 1.00011
    assert waiting_probability(count + 1, count, rounds) == 1


@pytest.mark.parametrize(("count", "rounds"), [(9, 2), (7, 3), (6, 4)])
def test_no_round_waits_more_often_than_is_said(count, rounds):
    """All choices of all clients, and rounds that close at any number of reports from n on.

    A round that closes early leaves clients to later ones, which therefore have no fewer.
    """
    for n in range(1, count // rounds + 1):
        short = dict.fromkeys((*range(n, count + 1),), 0)
        for chosen in itertools.product(range(rounds), repeat=count):
            own = np.bincount(chosen, minlength=rounds)
            for most in short:
                left, waits = 0, False
                for clients in own:
                    left += int(clients)
                    waits |= left < n
                    left -= min(left, most)
                short[most] += waits
        probabilities = [Fraction(times, rounds**count) for times in short.values()]
        assert max(probabilities) == probabilities[-1]  # that which closes by time alone
        assert probabilities[-1] <= waiting_probability(n, count, rounds)


def test_what_is_reachable_is_the_most_that_is_as_certain():
    for clients, rounds, drop_out, failure in (
        (500, 5, 0.0, 1e-3),
        (500, 5, 0.3, 1e-6),
        (10**7, 20, 0.1, 1e-3),
        (4 * 10**9, 100, 0.5, 1e-9),
    ):
        known = {"drop_out": drop_out, "epochs": 2}
        n = reachable_n_min(clients, rounds, failure=failure, **known)
        assert waiting_probability(n, clients, rounds, **known) <= failure
        assert waiting_probability(n + 1, clients, rounds, **known) > failure


def test_one_round_has_everybody_and_few_clients_promise_nothing():
    assert reachable_n_min(1000, 1) == reachable_n_min(1000, 1, epochs=9) == 1000
    assert waiting_probability(1000, 1000, 1) == 0
    assert reachable_n_min(20, 20) == 0
    assert reachable_n_min(1, 20) == 0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"clients": 0}, "clients"),
        ({"rounds_per_epoch": 0}, "rounds_per_epoch"),
        ({"epochs": 0}, "epochs"),
        ({"drop_out": 1.0}, "drop_out"),
        ({"drop_out": float("nan")}, "drop_out"),
        ({"failure": 0}, "failure"),
        ({"failure": float("nan")}, "failure"),
    ],
)
def test_wrong_arguments(changes, name):
    known = {"clients": 100, "rounds_per_epoch": 5} | changes
    with pytest.raises(InvalidArgument) as caught:
        reachable_n_min(**known)
    assert caught.value.name == name
