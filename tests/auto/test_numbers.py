"""Automatic numbers of a recipe: they follow from public quantities alone."""

import math
from dataclasses import replace

import pytest

from fedsel import Recipe, resolve_auto, solution
from fedsel.auto import PublicFacts, learning_rate
from fedsel.auto._numbers import BASES
from fedsel.experiments import Spec, override
from fedsel.solutions._rotated import MOST_CODEWORDS


def test_the_automatic_rate_moves_a_margin_by_a_fixed_length():
    made = solution("RJ", epsilon=1.0, dim=100, rho=0.4)
    rate = learning_rate(made, PublicFacts(dim=100, clients=400, rounds=100, norm=1.0))
    noise = rate * made.noise * math.sqrt(100 / (400 * 100))
    assert noise == pytest.approx(1.4)
    assert learning_rate(made, PublicFacts(100, 400, 100, norm=4.0)) == pytest.approx(rate / 4)
    assert learning_rate(solution("NP", dim=100), PublicFacts(100, 400, 100, norm=2.0)) == 16.0


def test_the_automatic_rate_brings_its_average_and_unit_records():
    one = Spec(solutions=("RJ",), epsilons=(1.0,))
    (auto,) = override(one, {"learning_rate": "auto", "rho": "auto"}).cells()
    assert (auto.recipe.averaging, auto.unit_records) == (3.0, True)
    (off,) = override(one, {"learning_rate": "auto", "averaging": 0.0}).cells()
    assert off.recipe.averaging == 0
    (paper,) = Spec(solutions=("PS-PM",), epsilons=(1.0,)).cells()
    assert (paper.recipe.averaging, paper.unit_records) == (0.0, False)

    def made(cell, part):
        return cell.plan(dim=10, batch=5, members=100, part=part).solution

    # Every part draws its own public matrix, and those without one are built once.
    assert made(auto, 0).transform.seed != made(auto, 1).transform.seed
    assert made(paper, 0) is made(paper, 1)


def test_a_networks_rate_is_by_weight_and_stays_stable():
    made = solution("RJ", epsilon=1.0, dim=1600)
    network = PublicFacts(dim=1600, clients=100, rounds=50, model="network")
    by_length = learning_rate(made, PublicFacts(dim=1600, clients=100, rounds=50))
    assert learning_rate(made, network) == pytest.approx(by_length * 14 / 3)
    for dim, drift in ((16, 3), (400, 10), (784, 14), (3136, 14), (6400, 20)):  # by the weights
        sized = replace(network, dim=dim)
        alone = learning_rate(solution("RJ", epsilon=1.0, dim=dim), replace(sized, model="linear"))
        rate = learning_rate(solution("RJ", epsilon=1.0, dim=dim), sized)
        assert rate == pytest.approx(alone * drift / 3)
    kept = replace(network, trained=True)
    assert learning_rate(made, kept) == pytest.approx(by_length * (40 / 16) / 3)
    # Without noise it does not depend on the number of rounds.
    plain = solution("NP", dim=1600)
    assert (
        learning_rate(plain, network) == learning_rate(plain, replace(network, rounds=500)) == 0.8
    )
    # Much data and little noise: forty drifts in all rounds.
    sure = solution("RJ", epsilon=30.0, dim=1600, rho=2.0)
    much = replace(network, clients=10**6)
    assert learning_rate(sure, much) == pytest.approx(40 * 14 / (50 * 2.0))
    flat = solution("PM", epsilon=30.0, dim=1600)
    much = replace(network, clients=10**8)
    assert learning_rate(flat, much) == pytest.approx(40 * 14 / (50 * 0.25 * 40))
    inside = solution("PS-PM-O", epsilon=2.0, dim=9)
    assert learning_rate(inside, PublicFacts(dim=9, clients=9, rounds=9, model="network")) == 1.0


def test_the_automatic_number_of_bases():
    def bases(rounds, epsilon=2.0, name="RJ", **given):
        setting = PublicFacts(dim=100, clients=50, rounds=rounds, norm=1.0)
        return resolve_auto(Recipe(name, epsilon=epsilon, **given), setting).bases

    assert [bases(t) for t in (1, 4, 63, 64, 1000)] == [BASES, BASES // 4, 2, None, None]
    assert bases(100, epsilon=12.0) == 1  # one basis, of several rotations
    assert bases(100, epsilon=12.0, epochs=6) is None
    assert bases(1, name="PS-PM") is bases(1, name="RC") is None
    assert bases(1, bases=3) == 3
    large = resolve_auto(Recipe(epsilon=2.0), PublicFacts(dim=MOST_CODEWORDS, clients=50, rounds=1))
    assert large.bases is None
