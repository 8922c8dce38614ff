"""A cohort answers at once, with the very reports that its devices would draw."""

import math

import numpy as np
import pytest

from fedsel import InvalidArgument, InvalidData, solution
from fedsel._internal.random import Streams, fresh_seeds, own_stream, stream
from fedsel.sampling.answers import report_answers, report_numbers
from fedsel.sampling.simulated import cohort, report
from fedsel.solutions._blocks import MOST_ANSWERS


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("answers", [2, 3, 6, 20, 50, 300])
def test_a_cohort_draws_what_devices_draw(answers, epsilon):
    """The fast path and its slow twin, on the same words, seeded and from bits of their own."""
    made, who = solution("BR", epsilon=epsilon, dim=answers), np.arange(50)
    chosen = who * 7 % answers
    one_hot = np.eye(answers, dtype=np.float32)[chosen]
    chosen[::7] = -1  # no answer: a vector without a positive entry
    one_hot[::7] = 0
    fast = report_answers(made, chosen, Streams(3, 1, who), missing=True)
    assert fast == report(made, one_hot, cohort(50, seed=3, epoch=1))
    assert fast == report(made, one_hot, cohort(50, seed=3, epoch=1), "batch")
    bits, nothing = fresh_seeds(50), np.zeros(answers, dtype=np.float32)
    own = report_answers(made, chosen, Streams.of_bits(bits), missing=True)
    for i in who:
        assert made.encode(one_hot[i], nothing, own_stream(bits[i], 0))[0] == own.rows(i)


def test_the_largest_question():
    made = solution("BR", epsilon=1.0, dim=MOST_ANSWERS)
    drawn = report_answers(made, np.arange(0, MOST_ANSWERS, 997), Streams(0, 0, np.arange(66)))
    slow = made.encode(
        np.eye(1, MOST_ANSWERS, 997, dtype=np.float32)[0],
        np.zeros(MOST_ANSWERS, dtype=np.float32),
        stream(0, 0, 1),
    )[0]
    assert slow == drawn.rows(1)
    assert made.decode(drawn).shape == (MOST_ANSWERS,)
    assert math.isclose(blocks_sum(made, drawn), 1.0)


def blocks_sum(made, reports):
    """The sum over all v answers, those that nobody has included."""
    totals = made.totals()
    totals.add(reports)
    means = totals.mean()
    return float((means - means.sum() / len(means) + 1 / len(means)).sum())


@pytest.mark.parametrize("answers", [[-1], [4], [0.5], [[1]], ["a"]])
def test_answers_that_are_none_are_refused(answers):
    with pytest.raises(InvalidData, match="answers: "):
        report_answers(solution("BR", epsilon=1.0, dim=4), answers)


def test_a_solution_that_trains_reports_no_answers():
    with pytest.raises(InvalidArgument, match="solution = 'FJ': must be BR"):
        report_answers(solution("FJ", epsilon=1.0, dim=4), [1])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_cohort_reports_the_numbers_that_devices_would(epsilon):
    made, numbers = solution("OW", epsilon=epsilon, dim=1), np.linspace(-1, 1, 50)
    fast = report_numbers(made, numbers, Streams(3, 1, np.arange(50)))
    assert fast == report(made, numbers[:, None], cohort(50, seed=3, epoch=1))
    bits, nothing = fresh_seeds(50), np.zeros(1, dtype=np.float32)
    own = report_numbers(made, numbers, Streams.of_bits(bits))
    for i, row in enumerate(numbers.astype(np.float32)[:, None]):
        assert made.encode(row, nothing, own_stream(bits[i], 0))[0] == own.rows(np.array(i))


@pytest.mark.parametrize("numbers", [[], [np.nan], [np.inf], ["a"], [[0.5]]])
def test_numbers_that_are_none_are_refused(numbers):
    with pytest.raises(InvalidData, match="numbers: "):
        report_numbers(solution("OW", epsilon=1.0, dim=1), numbers)


def test_a_vector_is_no_number():
    with pytest.raises(InvalidArgument, match="solution = 'OW': must be one of vectors of one"):
        report_numbers(solution("OW", epsilon=1.0, dim=2), [0.5])
