"""Shares from the reports of BR: intervals that hold what they say, errors that are exact."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel import InvalidArgument, Reports, solution
from fedsel._internal.random import Streams
from fedsel.measuring import Estimate, Tally, consistent
from fedsel.measuring._tally import deviations, score_intervals
from fedsel.sampling.answers import report_answers

LEVEL = 0.95
ANSWERS = (2, 3, 10, 256)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
CLIENTS = (20, 100, 1000)


def design(answers, epsilon, taken=None, points=None, classes=None):
    given = {} if taken is None else {"k": taken, "words": points, "bases": classes}
    return solution("BR", epsilon=epsilon, dim=answers, **given)


def tally_of(made, held, count):
    return Tally(made, np.asarray(held, dtype=np.int64), count)


def empty(answers, epsilon):
    made = design(answers, epsilon)
    return tally_of(made, np.zeros(made.transform.places), 0)


# --- intervals hold what they say ----------------------------------------------------------------


@cache
def log_factorials(n):
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])


def binomial(n, p):
    """The law of a binomial count: (n + 1,)."""
    k, logs = np.arange(n + 1), log_factorials(1000)
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = np.where(k, k * np.log(p), 0) + np.where(k < n, (n - k) * np.log1p(-p), 0)
    return np.exp(logs[n] - logs[k] - logs[n - k] + powers)


def test_the_law_of_a_binomial_count():
    np.testing.assert_allclose(binomial(3, 0.25) * 64, [27, 27, 9, 1])
    assert binomial(2, 0.0).tolist() == [1, 0, 0]
    assert binomial(2, 1.0).tolist() == [0, 0, 1]


def places(n):
    """All counts of clients who have an answer, or for many clients the extreme ones and some."""
    return sorted(
        {*range(min(n, 30) + 1), *range(0, n + 1, max(1, n // 100)), *range(max(0, n - 30), n + 1)}
    )


@cache
def coverages(population):
    """For each setting, with how much probability an interval holds each true share: exact."""
    found = {}
    for answers in ANSWERS:
        for epsilon in EPSILONS:
            own, other = empty(answers, epsilon).coins
            for n in CLIENTS:
                counts = np.arange(n + 1.0)
                low, high = score_intervals(counts, n, (own, other), LEVEL, population=population).T
                held = []
                for m in places(n):
                    f = m / n
                    # The blocks that hold an answer: of those who have it, and of the others.
                    law = np.convolve(binomial(m, own), binomial(n - m, other))
                    if population:
                        law = binomial(n, other + f * (own - other))
                    held.append(law[(low <= f + 1e-12) & (f <= high + 1e-12)].sum())
                found[answers, epsilon, n] = np.array(held)
    return found


@pytest.mark.parametrize("population", [False, True])
def test_intervals_of_95_percent_hold_the_truth_with_at_least_93(population):
    """Enumerated, not drawn. The widening that holds the consistent share can only add to it."""
    found = coverages(population)
    worst = {setting: held.min() for setting, held in found.items()}
    assert min(worst.values()) >= (0.9501 if population else 0.9399), min(worst.items())
    assert 0.95 < np.mean([held.mean() for held in found.values()]) < 0.97
    assert sum(one < 0.945 for one in worst.values()) <= 1


@pytest.mark.parametrize("population", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_handful_of_clients(n, population):
    for answers in ANSWERS:
        for epsilon in EPSILONS:
            own, other = empty(answers, epsilon).coins
            found = score_intervals(
                np.arange(n + 1.0), n, (own, other), LEVEL, population=population
            )
            for m in range(n + 1):
                law = np.convolve(binomial(m, own), binomial(n - m, other))
                if population:
                    law = binomial(n, other + m / n * (own - other))
                inside = (found[:, 0] <= m / n + 1e-12) & (m / n <= found[:, 1] + 1e-12)
                assert law[inside].sum() >= 0.945, (answers, epsilon, m)


@pytest.mark.parametrize("population", [False, True])
@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_an_interval_is_what_a_search_finds(answers, epsilon, population):
    """The roots of the equation, beside the shares on a fine grid that the test accepts."""
    own, other = empty(answers, epsilon).coins
    n, z, grid = 50, deviations(LEVEL), np.linspace(0, 1, 20_001)
    counts = np.arange(n + 1.0)
    found = score_intervals(counts, n, (own, other), LEVEL, population=population)
    theta = other + grid * (own - other)
    variance = grid * own * (1 - own) + (1 - grid) * other * (1 - other)
    reach = z * np.sqrt(n * (theta * (1 - theta) if population else variance))
    for count, (low, high) in zip(counts, found, strict=True):
        accepted = grid[np.abs(count - n * theta) <= reach + 0.5]
        if len(accepted):
            np.testing.assert_allclose([low, high], accepted[[0, -1]], atol=1e-4)
        else:  # less than nobody, or more than everybody
            assert high - low < 1e-9


def test_no_report_says_nothing():
    assert empty(4, 1.0).intervals().tolist() == [[0.0, 1.0]] * 4


@pytest.mark.parametrize("level", [0, 1, -0.5, math.nan, 95, "0.95", None, True])
def test_levels_that_are_none(level):
    with pytest.raises(InvalidArgument, match="level = "):
        tally_of(design(4, 1.0), [5, 5, 5, 5], 10).intervals(level)


@given(st.lists(st.integers(0, 40), min_size=3, max_size=3), st.sampled_from(EPSILONS))
def test_an_interval_holds_the_consistent_share(counts, epsilon):
    for population in (False, True):
        tally = tally_of(design(3, epsilon), counts, 40)
        for estimate in tally.estimates(population=population):
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
            assert estimate.error > 0


# --- consistent shares ---------------------------------------------------------------------------


def slowly_projected(raw):
    """The nearest point of the simplex, by bisection for the surplus: no sorting."""
    low, high = min(raw) - 1, max(raw)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(raw - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(raw - low, 0)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12).map(np.array))
def test_consistent_shares_are_the_nearest(raw):
    shares = consistent(raw)
    assert shares.min() >= 0
    assert math.isclose(shares.sum(), 1)
    np.testing.assert_allclose(shares, slowly_projected(raw), atol=1e-9)
    # No point of the simplex is nearer: the angle to each of its corners is right or obtuse.
    corners = np.eye(len(raw))
    assert ((corners - shares) @ (raw - shares)).max() <= 1e-9


# --- errors of what is linear --------------------------------------------------------------------

DESIGNS = [(2, 1), (5, 2), (6, 3), (7, 1), (3, 1, 5, 2), (7, 1, 7, 3), (6, 2, 7, 6), (11, 2, 13, 4)]


def law_of_estimates(made, weights):
    """For each answer, the probability (M, b) of each report, and what it adds: one by one."""
    blocks, law = made.transform, made.mechanism.selection.law(made.transform.size)
    added, rows = [], []
    for slot in range(blocks.size * blocks.bases):
        totals = made.totals()
        totals.add(Reports([[slot]], [[0]]))
        added.append(Tally.of(made, totals).linear(weights).value)
        held = np.isin(np.arange(blocks.dim), blocks.members(np.array([slot]))[0])
        rows.append(np.where(held, law.maximum, law.minimum) / (law.total * blocks.bases))
    return np.array(rows).T, np.array(added)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("given", DESIGNS, ids=repr)
def test_errors_are_those_over_all_reports(given, epsilon):
    """Exactly unbiased, with the variance that the tally says, against brute force."""
    made = design(given[0], epsilon, given[1], *given[2:])
    weights = np.cos(np.arange(given[0]) ** 2) + 3.0
    law, added = law_of_estimates(made, weights)
    np.testing.assert_allclose(law.sum(axis=1), 1)
    means = law @ added
    np.testing.assert_allclose(means, weights, atol=1e-9)
    rng = np.random.default_rng(7)
    held = rng.integers(0, 50, made.transform.places)
    tally = tally_of(made, held, 100)
    expected = tally.shares @ (law @ added**2)
    fixed = math.sqrt((expected - tally.shares @ means**2) / 100)
    sampled = math.sqrt((expected - (tally.shares @ means) ** 2) / 100)
    assert math.isclose(tally.error_of(weights), fixed, rel_tol=1e-9)
    assert math.isclose(tally.error_of(weights, population=True), sampled, rel_tol=1e-9)
    # Only differences matter: a share more of everything is one more for certain.
    assert math.isclose(tally.error_of(weights + 100), fixed, rel_tol=1e-6)
    moved = tally.linear(weights + 100).value - tally.linear(weights).value
    assert math.isclose(moved, 100)


@pytest.mark.parametrize("given", [(5, 2), (7, 1, 7, 3)], ids=repr)
def test_errors_of_single_shares_agree_with_those_of_linear_ones(given):
    """Where all answers of a design exist, a share is a linear estimate."""
    made = design(given[0], 1.0, given[1], *given[2:])
    tally = tally_of(made, np.arange(10, 10 + given[0]), 60)
    for population in (False, True):
        for x, estimate in enumerate(tally.estimates(population=population)):
            error = tally.error_of(np.eye(given[0])[x], population=population)
            assert math.isclose(estimate.error, error, rel_tol=1e-9)


def test_the_expected_error_of_blocks_is_that_of_equal_shares():
    for answers in (2, 10, 256):
        made = design(answers, 1.0)
        n = 10_000
        own, other = empty(answers, 1.0).coins
        equal = np.full(made.transform.places, round(n * (other + (own - other) / answers)))
        tally = tally_of(made, equal, n)
        variances = [estimate.error**2 for estimate in tally.estimates()]
        assert math.isclose(n * np.mean(variances), made.transform.error(1.0), rel_tol=0.01)


def test_the_largest_design_takes_no_minute():
    """Its blocks have millions of members: they are never listed."""
    made = design(65_536, 1.0)
    counts = np.full(made.transform.places, 400)
    counts[:100] += 300
    error = tally_of(made, counts, 2000).error_of(np.arange(65_536.0) / 65_536)
    assert 0 < error < 10


def test_the_share_of_several_answers():
    tally = tally_of(design(4, 2.0), [60, 40, 10, 5], 100)
    half = tally.together(np.array([1.0, 1.0, 0.0, 0.0]))
    rest = tally.together(np.array([0.0, 0.0, 1.0, 1.0]))
    assert math.isclose(half.value, tally.shares[:2].sum())
    assert math.isclose(half.value + rest.value, 1)
    assert math.isclose(half.low + rest.high, 1, abs_tol=1e-9)
    assert math.isclose(half.error, rest.error)
    everybody = tally.together(np.ones(4))
    assert everybody.as_dict() == {"value": 1.0, "low": 1.0, "high": 1.0, "error": 0.0}


def test_what_follows_from_shares():
    """A ratio by the delta method, and a linear function, which is its own."""
    tally = tally_of(design(3, 2.0), [500, 300, 200], 800)
    weights = np.array([1.0, 0.0, 0.5])
    derived = tally.derived(lambda shares: float(weights @ shares))
    linear = tally.linear(weights)
    assert math.isclose(derived.error, linear.error, rel_tol=1e-6)
    ratio = tally.derived(lambda shares: float(shares[0] / (shares[0] + shares[1])))
    assert ratio.low < ratio.value < ratio.high
    bounded = tally.derived(lambda shares: float(shares[2]) - 5.0, bounds=(0.0, 1.0))
    assert (bounded.value, bounded.low) == (0.0, 0.0)


@pytest.mark.slow
def test_intervals_of_linear_estimates_hold_the_truth():
    """600 runs with a fixed seed; of fewer than 93 % on average a run falls here in one of 1e9."""
    made, n, weights = design(12, 1.0), 400, np.arange(12) / 11
    answers = np.arange(n) ** 2 % 12
    truth, held = float(weights[answers].mean()), 0
    for run in range(600):
        totals = made.totals()
        totals.add(report_answers(made, answers, Streams(run, 0, np.arange(n))))
        estimate = Tally.of(made, totals).linear(weights)
        held += estimate.low <= truth <= estimate.high
    assert held >= 600 * 0.95 - 6 * math.sqrt(600 * 0.95 * 0.05)


def test_an_estimate_as_text():
    assert str(Estimate(0.5, 0.25, 0.75, 0.125)) == "0.500 (0.250 to 0.750)"
    inside = Estimate.around(1.2, 0.1, 0.95, (0.0, 1.0), half=0.01)
    assert (inside.value, inside.high) == (1.0, 1.0)
    assert math.isclose(inside.low, 1.2 - 1.959964 * 0.1 - 0.01, abs_tol=1e-6) or inside.low == 1.0
