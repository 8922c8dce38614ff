"""Scale and offset of scores, from what clients said of them."""

import numpy as np
import pytest

from fedsel.measuring._bins import points_of
from fedsel.measuring._recalibration import (
    BOLD,
    CAUTIOUS,
    _covariances,
    _gains,
    fit_log_odds,
    recalibration,
    rises_within,
)
from fedsel.wire._model_question import ModelQuestion
from tests.measuring.support import drawn_tally, exact_tally

EDGES = (-3.0, -1.5, -0.7, 0.0, 0.7, 1.5, 3.0)
QUESTION = ModelQuestion("scores", 2, edges=EDGES)
SIZES = np.full(8, 1 / 8)


def table_of(scale, offset):
    """The table of scores whose log-odds are scale·score + offset."""
    points = points_of(EDGES, SIZES)
    rates = (1 / (1 + np.exp(-(scale * points + offset)))).mean(axis=1)
    return np.stack([(1 - rates) * SIZES, rates * SIZES])


@pytest.mark.parametrize(
    ("scale", "offset"), [(1, 0), (0.6, 0), (1, -0.8), (1.7, 0.5), (0.55, 0.9)]
)
@pytest.mark.parametrize("doubt", [BOLD, CAUTIOUS])
def test_an_exact_table_gives_the_log_odds_that_made_it(scale, offset, doubt):
    tally = exact_tally(table_of(scale, offset))
    found = recalibration([QUESTION], [tally], doubt)
    assert found.scale == pytest.approx(scale, rel=0.06)
    assert found.offset == pytest.approx(offset, abs=0.06)
    assert found.moves == ((scale, offset) != (1, 0))
    assert found.gain.value >= -1e-6


@pytest.mark.parametrize(("scale", "offset"), [(0.6, 0.0), (1.5, -0.8)])
def test_the_fit_within_bins_is_theirs_too(scale, offset):
    tally = exact_tally(table_of(scale, offset))
    found = fit_log_odds(points_of(EDGES, SIZES), tally)
    np.testing.assert_allclose(found, (scale, offset), atol=0.02)


def test_noise_leaves_the_scores_as_they_are():
    """Caution makes it rare to move calibrated scores, and what few reports say moves none."""
    moved = dict.fromkeys((BOLD, CAUTIOUS), 0)
    for seed in range(60):
        tally = drawn_tally(table_of(1, 0), 1.0, 2000, seed)
        for doubt in moved:
            moved[doubt] += recalibration([QUESTION], [tally], doubt).moves
    assert moved[CAUTIOUS] < moved[BOLD]
    assert moved[CAUTIOUS] < 30  # about 5 of 60


def test_many_reports_show_what_is_wrong():
    tally = drawn_tally(table_of(0.5, 1.0), 4.0, 20_000, seed=1)
    found = recalibration([QUESTION], [tally], CAUTIOUS)
    assert found.moves
    assert found.gain.low > 0
    assert found.scale == pytest.approx(0.5, abs=0.1)


def test_covariances_are_those_of_linear_estimates():
    tally = drawn_tally(table_of(1, 0), 2.0, 500, seed=2)
    covariances = _covariances(tally)
    for seed in range(5):
        weights = np.random.default_rng(seed).normal(size=16)
        error = tally.error_of(weights, population=True)
        assert np.sqrt(weights @ covariances @ weights) == pytest.approx(error)


def test_the_model_as_it_is_gains_nothing_for_certain():
    points = points_of(EDGES, SIZES)
    gains = _gains(np.ones(1), np.zeros(1), points, rises_within(points, 1, 0))
    np.testing.assert_array_equal(gains, np.zeros((1, 16)))


def test_gains_are_differences_of_log_losses():
    """On the population of which the rule holds."""
    points = points_of(EDGES, SIZES)
    rates = 1 / (1 + np.exp(-(0.5 * points + 0.3)))

    def loss(odds):
        each = (1 - rates) * np.logaddexp(0, odds) + rates * np.logaddexp(0, -odds)
        return float(SIZES @ each.mean(axis=1))

    gains = _gains(np.array([0.7]), np.array([0.2]), points, rises_within(points, 0.5, 0.3))
    expected = loss(points) - loss(0.7 * points + 0.2)
    assert gains[0] @ table_of(0.5, 0.3).ravel() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("count", [0, 1, 2, 10])
def test_few_reports_never_fail(count):
    tally = drawn_tally(table_of(1, 0), 1.0, count, seed=3)
    found = recalibration([QUESTION], [tally])
    assert found is None if count == 0 else 0.5 <= found.scale <= 2


def test_two_bins_tell_no_scale():
    question = ModelQuestion("scores", 2, edges=(0.0,))
    assert recalibration([question], [exact_tally([[0.4, 0.1], [0.1, 0.4]])]) is None
    assert recalibration([], []) is None
