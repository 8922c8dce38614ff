"""Plans of questions: recipes that devices accept, and how exact so many answers will be."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, solution
from fedsel._internal.random import Streams
from fedsel.measuring import (
    Tally,
    clients_for,
    expected_error,
    half_width,
    least_clients,
    question_recipe,
)
from fedsel.sampling.answers import report_answers
from fedsel.solutions import best_blocks
from fedsel.wire import Question, Request, check_sendable

COUNT = Question("count", {"job": ["cook", "smith"]}, where={"job": "cook"})
AGES = Question("histogram", {"age": (0, 100)}, bins=20)
MANY = Question("histogram", {"age": (0, 100)}, bins=256)
MEAN = Question("mean", {"age": (0, 100)})


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1, Fraction(7, 3), 8.0, 500])
@pytest.mark.parametrize("question", [COUNT, AGES, MANY, MEAN], ids=str)
def test_a_recipe_can_be_sent(question, epsilon, epochs):
    recipe = check_sendable(question_recipe(question, epsilon, epochs))
    request = Request(bytes(16), 0, 0, recipe)
    assert request.recipe == recipe  # nothing of it is the server's own
    assert Request.decode(request.encode()) == request
    made = recipe.build()
    assert made.dim == question.count
    assert (
        made.budget == Fraction(repr(epsilon) if isinstance(epsilon, float) else epsilon) / epochs
    )
    assert recipe.charge * epochs <= epsilon
    if question.count > 1:
        assert made.transform == best_blocks(made.budget, question.count)


def test_a_recipe_of_a_mean_is_that_of_one_number():
    recipe = question_recipe(MEAN, 1.0)
    assert (recipe.solution, recipe.dim, recipe.clip) == ("OW", 1, 1.0)


@pytest.mark.parametrize("question", [AGES, MEAN], ids=str)
@pytest.mark.parametrize("epsilon", [math.nan, math.inf, 0, -1, 501, None, "1", True])
def test_wrong_epsilon(question, epsilon):
    with pytest.raises(InvalidArgument, match=r"epsilon = .*: must be a number > 0"):
        question_recipe(question, epsilon)


@pytest.mark.parametrize("question", [AGES, MEAN], ids=str)
def test_too_little_epsilon_for_an_integer_law(question):
    with pytest.raises(InvalidArgument, match="epsilon = 2e-12: must be at least 3e-12"):
        question_recipe(question, 2e-12, epochs=3)
    assert least_clients(question_recipe(question, 3e-12, epochs=3).build()) > 10**24


def test_the_least_clients_are_those_of_the_rule():
    """The half-width of a share of equally common answers, and a quarter of a mean's range."""
    for question in (COUNT, AGES, MANY):
        for epsilon in (0.5, 1.0, 4.0):
            made = question_recipe(question, epsilon).build()
            n, error = least_clients(made), made.transform.error(Fraction(epsilon))
            half = 0.5 * made.alphabet.units[0]
            assert 1.96 * math.sqrt(error / n) + half / n <= 0.2501
            assert 1.96 * math.sqrt(error / (n - 1)) + half / (n - 1) > 0.2499
    for epsilon in (0.5, 1.0, 4.0):
        made = question_recipe(MEAN, epsilon).build()
        value = made.mechanism.value
        n, worst, kappa = least_clients(made), float(value.worst_variance), value.law.kappas[0]
        # On [−1, 1] a quarter of the range is 0.5, and half a step of a symbol is κ.
        assert 1.96 * math.sqrt(worst / n) + kappa / n <= 0.5001
        assert n == 1 or 1.96 * math.sqrt(worst / (n - 1)) + kappa / (n - 1) > 0.4999


def test_clients_for_a_width_are_the_fewest():
    for question in (COUNT, AGES, MANY, MEAN):
        for epsilon in (0.5, 2.0, 8.0):
            made = question_recipe(question, epsilon).build()
            for width in (0.01, 0.05, 0.25):
                n = clients_for(made, width, 0.9)
                assert half_width(made, n, 0.9) <= width
                assert n == 1 or half_width(made, n - 1, 0.9) > width


@pytest.mark.parametrize("answers", [2, 20, 256])
def test_the_expected_width_is_that_of_the_intervals(answers):
    """Of drawn reports with a fixed seed, to a few percent."""
    made, n = solution("BR", epsilon=1.0, dim=answers), 20_000
    totals = made.totals()
    who = np.arange(n)
    totals.add(report_answers(made, who % answers, Streams(1, 0, who)))
    tally = Tally.of(made, totals)
    ends = tally.intervals()
    inside = (ends[:, 0] > 0) & (ends[:, 1] < 1)
    widths = np.diff(ends[inside], axis=1) / 2
    if inside.any():
        assert np.allclose(widths, half_width(made, n), rtol=0.1)
    assert abs(tally.raw - 1 / answers).max() < 6 * expected_error(made, n)


@pytest.mark.parametrize("clients", [0, -1, 1.5, None])
def test_wrong_numbers_of_clients(clients):
    made = solution("BR", epsilon=1.0, dim=2)
    for function in (expected_error, half_width):
        with pytest.raises(InvalidArgument, match="clients = "):
            function(made, clients)
