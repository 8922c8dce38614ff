"""What a bin hides: middles, tails, pairs and losses beside those of whole populations."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from fedsel.measuring._bins import (
    THICKEST,
    THINNEST,
    all_pairs,
    mean_log_loss,
    moments_by_density,
    moments_within,
    pairs_in_order,
    points_of,
    rates_of,
    safe,
)
from fedsel.measuring._recalibration import rises_within

EDGES = (-1.5, -0.5, 0.0, 0.5, 1.5)


def normal_scores(n=200_000, apart=1.5, share=0.3, seed=0):
    """Log-odds of two normal classes, which are calibrated."""
    draw = np.random.default_rng(seed)
    y = (draw.uniform(size=n) < share).astype(int)
    scores = apart * (draw.normal(size=n) + apart * (y - 0.5)) + np.log(share / (1 - share))
    return scores, y


def table_of(scores, y, edges):
    places = np.searchsorted(edges, scores, side="right")
    return np.bincount(y * (len(edges) + 1) + places, minlength=2 * len(edges) + 2).reshape(
        2, -1
    ) / len(y)


def even_edges(scores, bins):
    return tuple(np.quantile(scores, np.arange(1, bins) / bins).tolist())


def test_points_lie_in_their_bins_and_inner_ones_are_even():
    sizes = np.full(6, 1 / 6)
    points = points_of(EDGES, sizes)
    ends = np.array([-np.inf, *EDGES, np.inf])
    assert ((points >= ends[:-1, None]) & (points <= ends[1:, None])).all()
    np.testing.assert_allclose(points[1:-1].mean(axis=1), [-1.0, -0.25, 0.25, 1.0])


def test_the_lowest_lead_is_zero():
    points = points_of((0.5, 1.0), np.full(3, 1 / 3), least=0.0)
    assert points[0].mean() == pytest.approx(0.25)
    assert points[0].min() > 0


@pytest.mark.parametrize("sizes", [[0, 0, 0, 1.0], [1.0, 0, 0, 0], [0, 0.5, 0.5, 0]])
def test_a_tail_reaches_neither_nowhere_nor_everywhere(sizes):
    low, *_, high = points_of((-1.0, 0.0, 2.0), np.array(sizes)).mean(axis=1)
    assert THINNEST * 1 <= -1 - low <= THICKEST * 1
    assert THINNEST * 2 <= high - 2 <= THICKEST * 2


def test_one_edge_is_enough():
    for edge in (0.0, -3.0, 5.0):
        assert np.isfinite(points_of((edge,), np.array([0.5, 0.5]))).all()


def test_tails_of_a_normal_law_reach_about_as_far_as_they_do():
    scores, _ = normal_scores(share=0.5)
    edges = even_edges(scores, 8)
    found = points_of(edges, np.full(8, 1 / 8)).mean(axis=1)
    places = np.searchsorted(edges, scores, side="right")
    truth = np.array([scores[places == place].mean() for place in range(8)])
    np.testing.assert_allclose(found, truth, atol=0.15)


def test_ties_count_half_as_scikit_learn_has_it():
    """Where the rate never rises, nothing is added to what ties are worth."""
    table = np.array([[0.05, 0.15, 0.2, 0.2], [0.2, 0.1, 0.07, 0.03]])
    labels = np.repeat([0, 1], 4)
    tied = roc_auc_score(labels, np.tile(np.arange(4), 2), sample_weight=table.ravel())
    assert pairs_in_order(table) / all_pairs(table) == pytest.approx(tied)


@pytest.mark.parametrize("bins", [4, 8])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_pairs_within_a_bin_bring_the_auc_nearer_to_that_of_the_scores(bins, share):
    scores, y = normal_scores(share=share)
    table = table_of(scores, y, even_edges(scores, bins))
    truth = roc_auc_score(y, scores)
    tied = roc_auc_score(
        np.repeat([0, 1], bins), np.tile(np.arange(bins), 2), sample_weight=table.ravel()
    )
    found = pairs_in_order(table) / all_pairs(table)
    assert abs(found - truth) < abs(tied - truth) / 2
    assert found == pytest.approx(truth, abs=0.02 if bins == 4 else 0.005)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (0.4, -1.0), (2.0, 0.5)])
def test_the_log_loss_is_that_of_a_population_of_which_the_rule_holds(scale, offset):
    """Eight records in each bin, and rates by the same log-odds: exact."""
    sizes = np.array([0.1, 0.15, 0.2, 0.25, 0.2, 0.1])
    points = points_of(EDGES, sizes)
    rates = 1 / (1 + np.exp(-(scale * points + offset)))
    each = sizes[:, None] / 8
    table = np.stack([((1 - rates) * each).sum(axis=1), (rates * each).sum(axis=1)])
    said = np.tile(1 / (1 + np.exp(-points.ravel())), 2)
    labels = np.repeat([0, 1], points.size)
    weights = np.concatenate([((1 - rates) * each).ravel(), (rates * each).ravel()])
    truth = log_loss(labels, said, sample_weight=weights)
    found = mean_log_loss(table, points, rises_within(points, scale, offset))
    assert found == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("bins", [4, 8])
def test_the_log_loss_of_normal_scores_is_nearly_right(bins):
    scores, y = normal_scores()
    edges = even_edges(scores, bins)
    table = table_of(scores, y, edges)
    points = points_of(edges, table.sum(axis=0))
    truth = log_loss(y, 1 / (1 + np.exp(-scores)))
    assert mean_log_loss(table, points, rises_within(points, 1, 0)) == pytest.approx(
        truth, abs=0.01
    )


def test_an_empty_bin_has_the_rate_of_all():
    table = np.array([[0.3, 0.0, 0.3], [0.1, 0.0, 0.3]])
    assert rates_of(table)[1] == pytest.approx(0.4)


def test_nothing_is_a_part_of_nothing():
    assert safe(0.0, 0.0) == 0.0
    assert safe(1.0, 2.0) == 0.5


@pytest.mark.parametrize("shape", ["half-normal", "exponential", "even"])
def test_moments_by_density_are_those_of_a_smooth_law(shape):
    draw = np.random.default_rng(0)
    x = {
        "half-normal": np.abs(draw.normal(0, 0.12, 200_000)),
        "exponential": draw.exponential(0.08, 200_000),
        "even": draw.uniform(0, 0.6, 200_000),
    }[shape]
    x, ends = x[x < 0.6], np.array([0, 0.05, 0.1, 0.2, 0.4, 0.6])
    sizes = np.histogram(x, ends)[0] / len(x)
    means, squares = moments_by_density(ends, sizes)
    assert sizes @ means == pytest.approx(x.mean(), rel=0.03)
    assert sizes @ squares == pytest.approx((x**2).mean(), rel=0.1)


def test_moments_of_an_empty_bin_are_finite():
    means, squares = moments_by_density((0.0, 0.1, 0.2, 0.4), np.array([1.0, 0.0, 0.0]))
    assert ((means >= [0, 0.1, 0.2]) & (means <= [0.1, 0.2, 0.4])).all()
    assert (squares >= means**2).all()


@pytest.mark.parametrize("edges", [(-0.3, 0.05, 0.4), (0.0,), (-0.9, 0.9)])
def test_moments_within_bins_follow_the_histogram(edges):
    histogram = np.random.default_rng(1).dirichlet(np.ones(16))
    x = np.concatenate(
        [
            np.linspace(-1 + k / 8, -1 + (k + 1) / 8, round(400_000 * s))
            for k, s in enumerate(histogram)
        ]
    )
    place = np.searchsorted(edges, x, "right")
    means, squares = moments_within(edges, -1.0, 1.0, histogram)
    for row in range(len(edges) + 1):
        assert means[row] == pytest.approx(x[place == row].mean(), abs=1e-3)
        assert squares[row] == pytest.approx((x[place == row] ** 2).mean(), abs=1e-3)
    even, _ = moments_within((0.0,), -1.0, 1.0)
    assert even.tolist() == [-0.5, 0.5]
