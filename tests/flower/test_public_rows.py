"""Public rows and a trained start on Flower: no round prepares, and steps are smaller."""

import logging

import numpy as np
import pytest

import fedsel.flower._session as session_module
from fedsel import InvalidArgument
from fedsel.flower import FedSelStrategy
from fedsel.preparation._public import LENGTH
from fedsel.simulation import Population, Training, train_vectors
from tests.flower.messages import SEED, Replayed
from tests.flower.test_preparing import (
    EPOCHS,
    FEATURES,
    NODES,
    ROUNDS,
    Nodes,
    Simulated,
    model,
    records,
)
from tests.flower.test_preparing import strategy as strategy_of

pytestmark = pytest.mark.usefixtures("flower_identity")


def public(seed=7, count=60):
    """Rows like those of the nodes, with labels of their own."""
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal([0.2, 0.1, 0.04, 0.3, 0.1], 0.03, (count, FEATURES)), 0, 4)


def strategy(folder, **changes):
    given = {"spread": "auto", "centre": "auto", "public_rows": public(), "epsilon": 8.0}
    return strategy_of(folder, **{**given, **changes})


@pytest.mark.slow
@pytest.mark.parametrize("feature_range", [(0, 4), "private"])
def test_nodes_learn_what_the_simulator_learns(feature_range, quick_path, monkeypatch, caplog):
    """On the same words and cohorts; the strategy is begun anew in the middle."""
    made = strategy(quick_path / "server", feature_range=feature_range)
    recipe = made.recipe_of(FEATURES + 1)
    begun = made.planned.preparing_of(recipe)
    assert begun.plan is None
    assert begun.preparation.mixing.shape == (FEATURES + 1, FEATURES + 1)
    if feature_range == "private":
        np.testing.assert_array_equal(begun.scale.high, public().max(axis=0))
    X, y = records()
    people = Population(
        begun.scale.apply(X), y, np.arange(2 * NODES), np.arange(0, 2 * NODES + 1, 2)
    )
    training = Training(
        recipe.build(), float(recipe.learning_rate), NODES // ROUNDS, reg=0.0, seed=SEED,
        averaging=float(recipe.averaging),
    )  # fmt: skip
    source = Simulated(people).prepared(begun.preparation)
    expected = train_vectors(training, source, np.zeros(FEATURES + 1))
    cohorts = []
    for epoch in range(EPOCHS):
        drawn, ends = training.schedule(people.taking_part, people.clients, epoch)
        cohorts += [(part + 1).tolist() for part in np.split(drawn, ends[:-1])]

    class Chance:
        def sample(self, candidates, count):
            return cohorts[made.session.server.round][:count]

    monkeypatch.setattr(session_module, "_CHANCE", Chance())
    grid = Nodes(quick_path, Replayed, lifetime=40.0)
    for number in (3, None):
        made = strategy(quick_path / "server", feature_range=feature_range)
        made.start(grid, model(), num_rounds=number)
    assert made.session.server.finished
    assert made.preparing.preparation == begun.preparation
    assert grid.trained == NODES * EPOCHS  # nobody reported on records
    np.testing.assert_allclose(made.history.weights, expected.weights, rtol=1e-9)
    assert np.abs(expected.weights).max() > 0
    assert made.statement.to_dict()["public_rows"] == 60
    assert "60 of them say how records are prepared" in made.statement.to_html()
    with caplog.at_level(logging.INFO, logger="flwr"):
        made.summary()


def test_other_rows_are_not_those_of_the_checkpoint(quick_path):
    strategy(quick_path / "server").start(Nodes(quick_path), model(), num_rounds=1)
    for rows, words in ((public(8), "60 rows"), (None, "None")):
        with pytest.raises(InvalidArgument, match=rf"public_rows = '?{words}.*60 rows \(SHA-256"):
            strategy(quick_path / "server", public_rows=rows).start(Nodes(quick_path), model())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"feature_range": None}, "public_rows.*omitted without feature_range"),
        ({"public_rows": public()[:5]}, "public_rows = '5 rows'.*at least 10"),
        ({"public_rows": np.full((20, FEATURES), np.nan)}, "public_rows.*NaN.*column 0"),
        ({"features": FEATURES - 1}, r"public_rows.*\(60, 5\).*\(m, 4\).*no label"),
        ({"public_mean": {0: 0.2}}, "public_mean = .*omitted with public_rows"),
        ({"centre": 0.1}, "centre = 0.1.*public rows already give it"),
        ({"start": "warm"}, "start = 'warm'.*'random' or 'trained'"),
        ({"start": "trained"}, "start = 'trained'.*\"random\" with norm"),
    ],
)
def test_what_is_wrong_is_told_before_nodes_are_asked(changes, words, quick_path):
    with pytest.raises(InvalidArgument, match=words):
        strategy(quick_path, **changes).start(Nodes(quick_path), model())


def test_rows_of_another_width_than_the_model(quick_path):
    made = strategy(quick_path, public_rows=public()[:, :4])
    with pytest.raises(InvalidArgument, match=r"^public_rows = 'of 4 columns'.*6 parameters"):
        made.start(Nodes(quick_path), model())


def test_from_a_trained_start_a_network_takes_smaller_steps():
    given = {"epsilon": 2.0, "nodes": 1000, "rounds_per_epoch": 20}
    rates = [
        FedSelStrategy(**given, start=start).recipe_of(5000).learning_rate
        for start in ("random", "trained")
    ]
    assert rates[1] == pytest.approx(rates[0] / 4)  # a sixteenth for a quarter of a weight
    small = [
        FedSelStrategy(**given, start=start).recipe_of(500).learning_rate
        for start in ("random", "trained")
    ]
    assert small[1] == pytest.approx(small[0] / 8)


def test_a_network_gets_centred_and_bent_inputs_that_keep_their_norm():
    rows = public(count=200)
    given = {"epsilon": 2.0, "nodes": 2000, "rounds_per_epoch": 20, "feature_range": (0, 4)}
    planned = FedSelStrategy(**given, public_rows=rows).planned
    recipe = planned.recipe_of(46)
    begun = planned.preparing_of(recipe)
    learnt = begun.preparation
    assert (recipe.rho, recipe.centre, begun.plan) == (None, 0, None)
    assert (learnt.unit, learnt.intercept, learnt.mixing.shape) == (False, 0, (FEATURES,) * 2)
    prepared = begun.records(rows)
    np.testing.assert_allclose(prepared.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(np.mean((prepared**2).sum(axis=1)), LENGTH**2, rtol=1e-4)
