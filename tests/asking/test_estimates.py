"""Means, quantiles and margins: what they estimate, and how often their intervals hold it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import Reports, solution
from fedsel._internal.random import Streams
from fedsel.asking._estimates import margins_of, mean_of, quantile_of
from fedsel.measuring import Tally, question_recipe
from fedsel.sampling.answers import report_answers
from fedsel.wire import Question
from tests.asking.people import TABLE

MEAN = Question("mean", {"age": (0, 80)})


# --- means ---------------------------------------------------------------------------------------


def totals_of(made, steps, count):
    """Totals whose only sum is so many steps."""
    totals = made.totals()
    totals.add(Reports([[0]] * count, [[0]] * count))
    totals.sums[:] = steps
    return totals


def law_of_sums(made, numbers):
    """The exact law of the sum of steps of clients with these numbers: (first step, chances)."""
    law = made.mechanism.value.law
    _, steps = law.steps(np.arange(law.symbols))
    first, chances = 0, np.ones(1)
    for number, times in numbers.items():
        own = np.array([float(p) for p in law.probabilities(Fraction(number))])
        spread = np.zeros(int(steps[-1] - steps[0]) + 1)
        spread[steps - steps[0]] = own
        for _ in range(times):
            chances = np.convolve(chances, spread)
        first += int(steps[0]) * times
    return first, chances


@pytest.mark.slow
def test_intervals_of_means_hold_the_truth():
    """Enumerated: equal numbers, and people at both ends.

    Where ε is large a report is rarely far off, and then very far: for few clients who are all at
    the ends of the range, an interval of 95 % holds the mean with a probability of 92.7 %.
    """
    worst, average = {}, []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
        made = question_recipe(MEAN, epsilon).build()
        for n in (20, 50, 100):
            for numbers in ({0: n}, {"0.5": n}, {"-0.9": n}, {1: n}, {-1: n // 2, 1: n // 2}):
                truth = sum(float(Fraction(t)) * times for t, times in numbers.items()) / n
                first, chances = law_of_sums(made, numbers)
                held = 0.0
                for place in np.flatnonzero(chances > 1e-15):
                    found = mean_of(made, totals_of(made, first + place, n), 0.95)
                    held += chances[place] * (found.low <= truth + 1e-12 <= found.high + 2e-12)
                average.append(held)
                worst[epsilon] = min(held, worst.get(epsilon, 1.0))
    assert min(worst.values()) >= 0.9269
    assert min(worst[0.5], worst[1.0], worst[2.0]) >= 0.945
    assert 0.95 < np.mean(average) < 0.98


def test_the_error_of_a_mean_is_that_of_its_law():
    made = question_recipe(MEAN, 1.0).build()
    worst = float(made.mechanism.value.worst_variance)
    found = mean_of(made, totals_of(made, 0, 100), 0.95)
    assert math.isclose(found.error, math.sqrt(worst / 100))
    assert found.value == 0
    people = mean_of(made, totals_of(made, 0, 100), 0.95, population=True)
    ends = float(made.mechanism.value.law.variance(Fraction(1)))
    assert math.isclose(people.error, math.sqrt((ends + 1) / 100))
    outside = mean_of(made, totals_of(made, 10_000, 100), 0.95)
    assert (outside.value, outside.high) == (1.0, 1.0)


# --- quantiles -----------------------------------------------------------------------------------


def tally_of(shares, count=10_000, epsilon=8.0):
    """The tally whose unbiased shares are these, about."""
    made = solution("BR", epsilon=epsilon, dim=len(shares))
    own, other = Tally(made, np.zeros(made.transform.places, dtype=np.int64), 0).coins
    held = np.zeros(made.transform.places)
    held[: len(shares)] = np.asarray(shares) * (own - other)
    return Tally(made, np.rint(count * (other + held)).astype(np.int64), count)


def test_a_quantile_is_interpolated_within_its_bin():
    edges = np.array([0.0, 10, 20, 30])
    tally = tally_of([0.25, 0.5, 0.25])
    for q, expected in ((0.125, 5), (0.25, 10), (0.5, 15), (0.625, 17.5), (0.875, 25)):
        found = quantile_of(tally, edges, q, 0.95)
        assert math.isclose(found.value, expected, abs_tol=0.1)
        assert found.low in edges
        assert found.high in edges
        assert found.low <= found.value <= found.high
    middle = quantile_of(tally, edges, 0.5, 0.95)
    assert (middle.low, middle.high) == (10, 20)
    at_an_edge = quantile_of(tally, edges, 0.25, 0.95)
    assert (at_an_edge.low, at_an_edge.high) == (0, 20)


def test_an_interval_of_a_quantile_is_what_the_distribution_function_allows():
    """Beside the slow rule: an edge is out if the interval of the share below it excludes q."""
    edges = np.linspace(0, 1, 13)
    rng = np.random.default_rng(5)
    for epsilon in (0.5, 2.0):
        tally = tally_of(rng.dirichlet(np.ones(12)), 2000, epsilon)
        below = [
            tally.linear((np.arange(12) < edge).astype(float), 0.9, population=True)
            for edge in range(13)
        ]
        for q in (0.1, 0.5, 0.9):
            found = quantile_of(tally, edges, q, 0.9, population=True)
            possible = [edge for edge in range(1, 12) if below[edge].low <= q <= below[edge].high]
            first = min([*possible, *(e for e in range(1, 13) if below[e].high >= q or e == 12)])
            assert math.isclose(found.low, min(edges[first - 1], found.value))
            last = max([*possible, *(e for e in range(12) if below[e].low <= q or e == 0)])
            assert math.isclose(found.high, max(edges[last + 1], found.value))


def test_quantiles_are_of_those_who_have_a_number():
    edges = np.array([0.0, 10, 20])
    found = quantile_of(tally_of([0.3, 0.3, 0.4]), edges, 0.25, 0.95)
    assert math.isclose(found.value, 5, abs_tol=0.1)
    nobody = quantile_of(tally_of([0.0, 0.0, 1.0], 50, 20.0), edges, 0.25, 0.95)
    assert (nobody.value, nobody.low, nobody.high) == (10, 0, 20)


@pytest.mark.slow
def test_intervals_of_quantiles_hold_the_truth():
    """400 runs with a fixed seed; fewer than 95 % on average fall here in one of 1e9."""
    made, n, edges = solution("BR", epsilon=1.0, dim=8), 600, np.linspace(0, 1, 9)
    numbers = np.random.default_rng(2).beta(2, 4, n)
    answers = np.minimum((numbers * 8).astype(np.int64), 7)
    for q in (0.25, 0.5):
        truth, held = np.quantile(numbers, q), 0
        for run in range(400):
            totals = made.totals()
            totals.add(report_answers(made, answers, Streams(run, 1, np.arange(n))))
            found = quantile_of(Tally.of(made, totals), edges, q, 0.95)
            held += found.low <= truth <= found.high
        assert held >= 400 * 0.95 - 6 * math.sqrt(400 * 0.95 * 0.05)


# --- margins -------------------------------------------------------------------------------------


def test_margins_are_sums_of_shares():
    tally = tally_of([0.1, 0.2, 0.05, 0.15, 0.3, 0.2])
    rows, columns = margins_of(tally, (2, 3), 0.95)
    table = tally.shares.reshape(2, 3)
    np.testing.assert_allclose([one.value for one in rows], table.sum(axis=1))
    np.testing.assert_allclose([one.value for one in columns], table.sum(axis=0))
    for one in (*rows, *columns):
        assert one.low < one.value < one.high
    alone = tally.estimates()
    assert rows[0].error > alone[0].error  # more coins, more noise


def test_margins_of_three_columns():
    shares = np.arange(1, 13) / 78
    first, second, third = margins_of(tally_of(shares), (2, 2, 3), 0.95)
    cube = tally_of(shares).shares.reshape(2, 2, 3)
    np.testing.assert_allclose([one.value for one in first], cube.sum(axis=(1, 2)))
    np.testing.assert_allclose([one.value for one in second], cube.sum(axis=(0, 2)))
    np.testing.assert_allclose([one.value for one in third], cube.sum(axis=(0, 1)))


def test_the_mean_of_people():
    """Unbiased: on average over draws of fixed seeds it is theirs, to 6 standard errors."""
    from fedsel.sampling.answers import report_numbers

    made = question_recipe(MEAN, 1.0).build()
    numbers = MEAN.numbers(TABLE)
    means = []
    for run in range(200):
        totals = made.totals()
        totals.add(report_numbers(made, numbers, Streams(run, 0, np.arange(len(numbers)))))
        means.append(mean_of(made, totals, 0.95).value)
    error = mean_of(made, totals, 0.95).error
    assert abs(np.mean(means) - numbers.mean()) < 6 * error / math.sqrt(200)
    assert np.std(means) < 1.2 * error
