"""Automatic numbers of a recipe: they follow from public quantities alone."""

import math

import pytest

from fedsel import PublicFacts, solution
from fedsel.auto import learning_rate


def test_the_automatic_rate_moves_a_margin_by_a_fixed_length():
    made = solution("RJ", epsilon=1.0, dim=100, rho=0.4)
    rate = learning_rate(made, PublicFacts(dim=100, clients=400, rounds=100, norm=1.0))
    noise = rate * made.noise * math.sqrt(100 / (400 * 100))
    assert noise == pytest.approx(1.4)
    assert learning_rate(made, PublicFacts(100, 400, 100, norm=4.0)) == pytest.approx(rate / 4)
    assert learning_rate(solution("NP", dim=100), PublicFacts(100, 400, 100, norm=2.0)) == 16.0
