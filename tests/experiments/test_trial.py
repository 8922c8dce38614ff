"""Trials: curves, held-out clients, groups, skew and dropout."""

import pytest

from fedsel import InvalidArgument
from fedsel.experiments import (
    InMemorySource,
    Store,
    override,
)
from fedsel.simulation import EvaluationSet
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
