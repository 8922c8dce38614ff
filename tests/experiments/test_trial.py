"""Trials: curves, held-out clients, groups, skew and dropout."""

from dataclasses import replace

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel._internal.models import MulticlassModel
from fedsel.data import Dataset
from fedsel.experiments import (
    InMemorySource,
    Store,
    override,
)
from fedsel.simulation import EvaluationSet, Population, train, train_vectors
from fedsel.simulation._clients import MulticlassClients
from fedsel.simulation._judges import MulticlassJudge
from fedsel.simulation._validation import held_out_run
from tests.experiments.test_running import SMALL, small_data, sweep


def test_curves_and_holdout_give_what_cross_validation_gives(tmp_path):
    spec = override(SMALL, {"solutions": ["PS-PM"], "epsilons": [2.0]})
    (plain,) = sweep(spec, small_data(), Store(tmp_path / "a"))
    (curve,) = sweep(override(spec, {"curve": True}), small_data(), Store(tmp_path / "a"))
    assert curve["mean"][-1] == pytest.approx(plain["misclassification"], abs=1e-12)
    (held,) = sweep(override(spec, {"protocol": "holdout"}), small_data(), Store(tmp_path / "a"))
    assert len(held["validation"]) == len(held["test"]) == 2
    (stopped,) = sweep(
        override(spec, {"curve": True, "rounds": 7}), small_data(), Store(tmp_path / "a")
    )
    assert stopped["mean"] == curve["mean"][:7]


def test_the_test_split_is_untouched(monkeypatch):
    """No run trains or validates on a client of the test fifth, and that fifth never changes."""
    cell = next(override(SMALL, {"protocol": "holdout"}).cells())
    people, training = cell.setup(InMemorySource(small_data()))
    seen = []
    import fedsel.simulation._validation as validation

    def spy(training, population, **_):
        seen.append(set(population.members.tolist()))
        return real(training, population, evaluate="end")

    real = validation.train
    judged = []
    monkeypatch.setattr(validation, "train", spy)
    monkeypatch.setattr(
        validation,
        "_judges",
        lambda p, clients: judged.append(set(clients.tolist())) or EvaluationSet(p.X, p.y, clients),
    )
    for number in range(3):
        held_out_run(training, people, number)
    validations, tests = judged[::2], judged[1::2]
    assert tests[0] == tests[1] == tests[2]
    assert len(tests[0]) == len(validations[0]) == 120
    assert len(seen[0]) == 360
    assert validations[0] != validations[1]
    for members, validating in zip(seen, validations, strict=True):
        assert not members & validating
        assert not (members | validating) & tests[0]


@pytest.mark.parametrize(
    "changes", [{"clients": 40}, {"clients": 40, "skew": 0.3}, {"dropout": 0.4}, {"batch": 50}]
)
def test_groups_skew_dropout_and_batches(tmp_path, changes):
    spec = override(SMALL, changes)
    rows = sweep(spec, small_data(), Store(tmp_path / "cells"))
    assert all(0.4 < row["accuracy"] <= 1 for row in rows)
    plain = sweep(SMALL, small_data(), Store(tmp_path / "plain"))
    assert rows[1]["runs"] != plain[1]["runs"]


def test_skew_needs_clients(tmp_path):
    with pytest.raises(InvalidArgument, match=r"skew = 0\.3"):
        sweep(override(SMALL, {"skew": 0.3}), small_data(), Store(tmp_path / "cells"))


def three_classes(n=3_000, d=4):
    """Of uniform records: which of three directions they lie in most."""
    X = np.random.default_rng(5).uniform(0, 1, (n, d)).astype(np.float32)
    y = (X[:, :3] * [1.2, 1.0, 0.9]).argmax(axis=1)
    bounds = np.tile([0.0, 1.0], (d, 1))
    return Dataset("three", X, y, tuple("abcd"), bounds, ("red", "green", "blue"))


@pytest.mark.parametrize(
    ("name", "scale"), [("FJ", "unit"), ("FJ", "private"), ("NP", "unit"), ("PS-PM", "unit")]
)
def test_three_classes_are_learnt_by_the_softmax(tmp_path, name, scale):
    own = {"solutions": [name], "epsilons": [16.0], "scale": scale, "unit_records": name == "FJ"}
    spec = override(SMALL, own)
    (row,) = sweep(spec, three_classes(), Store(tmp_path / "cells"))
    assert row["majority"] == np.bincount(three_classes().y).max() / 3_000
    assert name == "NP" or row["epsilon_total"] <= 16.0
    assert row["majority"] + 0.1 * (name != "PS-PM") < row["accuracy"] <= 1


def test_three_classes_in_groups_and_held_out(tmp_path):
    spec = override(SMALL, {"solutions": ["NP"], "clients": 500})
    (row,) = sweep(spec, three_classes(), Store(tmp_path / "cells"))
    assert row["accuracy"] > row["majority"]
    with pytest.raises(InvalidArgument, match="protocol = 'holdout': must be \"folds\" with more"):
        sweep(override(spec, {"protocol": "holdout"}), three_classes(), Store(tmp_path / "cells"))


def test_a_model_of_three_classes_is_that_of_the_estimators_source():
    cell = next(override(SMALL, {"solutions": ["FJ"], "epsilons": [4.0]}).cells())
    people, training = cell.setup(InMemorySource(three_classes()))
    assert (people.rows, training.solution.dim) == (3, 3 * people.X.shape[1])
    training = replace(training, plan=None, rounds=20)
    test = EvaluationSet(people.X, people.y, np.arange(100))
    history = train(training, people, test)
    model = MulticlassModel(reg=training.rule.client_reg)
    source = MulticlassClients(Population(people.X, people.y), 3, model)
    judge = MulticlassJudge(people.X[:100], people.y[:100], 3, MulticlassModel(reg=training.reg))
    same = train_vectors(training, source, np.zeros(training.solution.dim), judge)
    assert history.weights.tobytes() == same.weights.tobytes()
    assert [r.loss for r in history.rounds] == [r.loss for r in same.rounds]
    with pytest.raises(InvalidArgument, match=r"solution.dim = .* as in X"):
        train(training, replace(people, classes=2), test)
