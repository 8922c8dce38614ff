"""What is asked about a model, and what a measurement says."""

import json
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel.measuring import Measured, answer_recipe, measurement, measuring_clients
from fedsel.measuring._model import quantiles_of
from fedsel.wire._model_question import ModelQuestion
from tests.measuring.support import drawn_tally, exact_tally

WEIGHTS = st.lists(
    st.one_of(
        st.floats(allow_nan=False),
        st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1e300, -1e308, math.inf]),
    ),
    min_size=1,
    max_size=4,
)
KINDS = [
    Measured(classes, linear, bins, spread, several)
    for classes in (0, 2, 3, 10, 1000)
    for linear in (False, True)
    for bins in (2, 4, 8)
    for spread in (False, True)
    for several in (False, True)
]
SCORES = ModelQuestion("scores", 2, edges=(-1.0, 0.0, 1.0))
TABLE = np.array([[0.3, 0.15, 0.05, 0.05], [0.02, 0.08, 0.15, 0.2]])


# --- how many measure ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measure", "clients", "many"),
    [(0.1, 1000, 100), (0.1, 1, 0), (0.1, 2, 1), (0.99, 2, 1), (0.001, 10, 1), (0.0, 10, 0)],
)
def test_some_measure_and_one_is_left_to_train(measure, clients, many):
    assert measuring_clients(measure, clients) == many


# --- what is asked -------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [1, 2, 10, 1000, 10**6])
@pytest.mark.parametrize("classes", [0, 2, 3, 10, 200, 5000])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, Fraction(1, 3), 50.0])
def test_a_plan_asks_every_client_one_question(classes, clients, epsilon):
    asked = Measured.planned(classes, clients, epsilon, linear=True)
    assert math.fsum(asked.shares) == pytest.approx(1)
    assert len(asked.counts) == len(asked.shares)
    for count in asked.counts:
        assert answer_recipe(count, epsilon).build().privacy.charge <= Fraction(str(epsilon))


def test_more_clients_bear_more_bins():
    bins = [Measured.planned(2, n, 1.0, linear=True).bins for n in (10, 10**4, 10**7)]
    assert bins == [2, 4, 8]


@pytest.mark.parametrize("asked", KINDS, ids=str)
@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 5, 20])
def test_every_question_has_a_round_where_there_are_enough(asked, rounds):
    numbers = asked.numbers(rounds)
    assert len(numbers) == rounds
    assert sorted(numbers) == [*numbers]
    if rounds >= len(asked.shares):
        assert set(numbers) == set(range(len(asked.shares)))


@pytest.mark.parametrize("asked", KINDS, ids=str)
@given(weights=WEIGHTS, seed=st.integers(0, 99), empty=st.booleans())
def test_edges_ascend_and_are_as_many_as_announced(asked, weights, seed, empty):
    """Whatever the weights, and whatever the first question's reports say."""
    given = np.array(weights)
    spread = None
    for number, count in enumerate(asked.counts):
        question = asked.question(number, given, spread)
        assert question.count == count
        for edges in (question.edges, question.targets):
            assert all(math.isfinite(edge) for edge in edges)
            assert all(a < b for a, b in pairwise(edges))
        assert ModelQuestion.of_dict(json.loads(json.dumps(question.to_dict()))) == question
        if question.kind == "scores":
            assert 0.0 in question.edges
        if question.kind == "spread":
            rows = np.random.default_rng(seed).dirichlet(np.full(count, 0.05))
            spread = drawn_tally(rows, 1.0, 0 if empty else 20, seed)


@pytest.mark.parametrize("place", [0, 3, 15, 16, 31])
def test_scores_in_one_place_leave_edges_apart(place):
    asked = Measured(2, linear=True, bins=8, spread=True)
    rows = np.zeros(asked.counts[0])
    rows[min(place, len(rows) - 1)] = 1
    edges = asked.question(1, np.ones(3), exact_tally(rows)).edges
    assert len(edges) == 7
    assert np.diff(edges).min() > 0


def test_bins_are_about_equally_full_on_both_sides_of_zero():
    asked, draw = Measured(2, linear=True, bins=8, spread=True), np.random.default_rng(0)
    scores = draw.normal(-0.15, 0.2, 100_000)
    first = asked.question(0, np.ones(1), None)
    labels = np.zeros(len(scores))
    histogram = np.bincount(first.answers(scores[:, None], labels), minlength=first.count)
    second = asked.question(1, np.ones(1), exact_tally(histogram / len(scores)))
    places = np.searchsorted(second.edges, scores, side="right")
    shares = np.bincount(places, minlength=8) / len(scores)
    assert 0.08 < shares.min() <= shares.max() < 0.18


def test_the_page_has_the_clients_that_are_needed():
    page = (Path(__file__).parents[2] / "docs" / "measuring.md").read_text(encoding="utf-8")
    for bins in (2, 4, 8):
        asked = Measured(2, linear=True, bins=bins, spread=bins > 2)
        needed = (f"{asked.clients_for(0.02, e):,}" for e in (0.5, 1.0, 2.0, 4.0))
        assert f"| {' | '.join(needed)} |" in page


@pytest.mark.parametrize("bins", [2, 4, 8])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_so_many_clients_have_so_wide_an_interval(bins, epsilon):
    n = Measured(2, linear=True, bins=bins).clients_for(0.05, epsilon)
    edges = tuple(float(x) for x in range(1 - bins // 2, bins // 2))
    right = np.zeros((2, bins))
    right[0, : bins // 2] = right[1, bins // 2 :] = 0.7
    tally = drawn_tally((right + 0.15) / bins, epsilon, n, 1)
    found = measurement([ModelQuestion("scores", 2, edges)], [tally], epsilon=epsilon)
    assert 1.96 * found["accuracy"].error == pytest.approx(0.05, rel=0.1)


def test_quantiles_by_straight_lines():
    found = quantiles_of((0.0, 1.0, 2.0), np.array([0.0, 0.5, 0.5, 0.0]), np.array([0.25, 0.75]))
    np.testing.assert_allclose(found, [0.5, 1.5], atol=1e-9)


# --- what a measurement says ---------------------------------------------------------------------


def test_nobody_says_nothing():
    assert measurement([SCORES], [drawn_tally(TABLE, 1.0, 0, 0)], epsilon=1.0) is None


def test_questions_that_tell_the_same_metric_count_by_their_variance():
    predictions = ModelQuestion("predictions", 3)
    confidence = ModelQuestion("confidence", 3, edges=(0.5, 1.0))
    tallies = [
        drawn_tally(np.full(9, 1 / 9), 2.0, 3000, 1),
        drawn_tally(np.full(6, 1 / 6), 2.0, 1000, 2),
    ]
    alone = [
        measurement([q], [t], epsilon=2.0)
        for q, t in zip((predictions, confidence), tallies, strict=True)
    ]
    both = measurement([predictions, confidence], tallies, epsilon=2.0)
    first, second, together = (m["accuracy"] for m in (*alone, both))
    assert together.error == pytest.approx((first.error**-2 + second.error**-2) ** -0.5)
    assert min(first.value, second.value) <= together.value <= max(first.value, second.value)
    assert both.clients == 4000
    assert set(both.metrics) == {"accuracy", "balanced accuracy", "AUC of the lead"}


def test_a_measurement_is_json_text_and_a_sentence():
    found = measurement([SCORES], [drawn_tally(TABLE, 2.0, 500, 3)], epsilon=Fraction(2))
    values = json.loads(json.dumps(found.as_dict()))
    assert values["clients"] == 500
    assert values["metrics"]["accuracy"]["value"] == found["accuracy"].value
    assert ModelQuestion.of_dict(values["questions"][0]) == SCORES
    assert "by 500 clients who measured and did not train, at ε = 2 each." in found.sentence
    assert all(name in str(found) for name in found.metrics)


def test_one_client_is_no_clients():
    found = measurement([SCORES], [drawn_tally(TABLE, 2.0, 1, 3)], epsilon=2.0)
    assert "by 1 client who" in found.sentence


def test_a_wider_level_has_wider_intervals():
    tally = drawn_tally(TABLE, 2.0, 500, 3)
    narrow, wide = (measurement([SCORES], [tally], epsilon=2.0, level=x) for x in (0.5, 0.99))
    for name in narrow.metrics:
        assert wide[name].low <= narrow[name].low <= narrow[name].high <= wide[name].high
