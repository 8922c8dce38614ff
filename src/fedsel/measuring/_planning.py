"""Before a question is asked: its recipe, and how exact so many answers will be."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import cast

from fedsel.auto import PublicFacts, resolve_auto
from fedsel.errors import Epsilon, InvalidArgument, check_count
from fedsel.measuring._model import answer_recipe
from fedsel.measuring._tally import LEVEL, deviations
from fedsel.mechanisms._two_stage import ValueReports
from fedsel.recipe import Recipe, decimal
from fedsel.solutions import Solution
from fedsel.wire import Question

LEAST_EPSILON = Fraction(1, 10**12)
"""Below this an integer law cannot tell answers apart."""
WIDEST = 0.25
"""The half-width of an interval, in parts of the range, from which on it says nothing."""


def question_recipe(question: Question, epsilon: Epsilon, epochs: int = 1) -> Recipe:
    """The recipe by which devices answer: the best blocks for its answers, or OW for a mean.

    ``epsilon`` is what a device may spend on all ``epochs``.

    >>> recipe = question_recipe(Question("histogram", {"age": (0, 100)}, bins=20), 1.0)
    >>> recipe.solution, recipe.dim, recipe.build().bits
    ('BR', 20, 8)
    >>> question_recipe(Question("mean", {"age": (0, 100)}), 1.0).solution
    'OW'
    """
    exact, epochs = decimal("epsilon", epsilon), check_count("epochs", epochs)
    if exact < LEAST_EPSILON * epochs:
        allowed = f"at least {float(LEAST_EPSILON * epochs):g}: so little tells no answers apart"
        raise InvalidArgument("epsilon", float(exact), allowed)
    if question.count > 1:
        return answer_recipe(question.count, exact, epochs)
    asked = Recipe(
        question.solution,
        epsilon=exact,
        epochs=epochs,
        learning_rate=1.0,
        averaging=0.0,
        spread=0.0,
        centre=0.0,
        mu=0.0,
    )
    return resolve_auto(asked, PublicFacts(1, 1, epochs)).with_unused_zeroed


def expected_error(solution: Solution, clients: int) -> float:
    """The standard deviation of what so many clients say, in parts of the range.

    Of a share where all answers are equally common; of a mean where the law of a report varies
    most.

    >>> from fedsel import solution
    >>> round(expected_error(solution("BR", epsilon=1.0, dim=2), 1000), 3)
    0.03
    """
    return math.sqrt(_power(solution) / check_count("clients", clients))


def _power(solution: Solution) -> float:
    """n times the mean squared error of n reports."""
    blocks = solution.transform.blocks
    if blocks is not None:
        return blocks.error(solution.mechanism.claimed)
    law = cast(ValueReports, solution.mechanism).value.law
    return float(law.variance(law.worst_input)) / 4  # the range is [−1, 1]


def half_width(solution: Solution, clients: int, level: float = LEVEL) -> float:
    """Half the width of an interval, in parts of the range.

    >>> from fedsel import solution
    >>> round(half_width(solution("BR", epsilon=1.0, dim=2), 1000), 3)
    0.061
    """
    return deviations(level) * expected_error(solution, clients) + _step(solution) / (2 * clients)


def clients_for(solution: Solution, width: float, level: float = LEVEL) -> int:
    """The fewest clients whose answers have an interval of this half-width, in parts of the range.

    >>> from fedsel import solution
    >>> made = solution("BR", epsilon=1.0, dim=2)
    >>> n = clients_for(made, 0.01)
    >>> half_width(made, n) <= 0.01 < half_width(made, n - 1)
    True
    """
    reach = deviations(level) * math.sqrt(_power(solution))
    root = (reach + math.sqrt(reach**2 + 2 * width * _step(solution))) / (2 * width)
    return max(1, math.ceil(root**2))


def least_clients(solution: Solution) -> int:
    """The clients below which nothing can be said: intervals would reach over half of the range.

    >>> least_clients(question_recipe(Question("mean", {"age": (0, 100)}), 1.0).build())
    81
    """
    return clients_for(solution, WIDEST)


def _step(solution: Solution) -> float:
    """What one block more, or one symbol higher, adds to n times the estimate.

    Intervals reach half of it further. Symbols are two units apart on [−1, 1].
    """
    return float(solution.alphabet.units[0])
