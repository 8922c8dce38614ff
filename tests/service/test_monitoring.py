"""A public test set: the model is measured on it after each round, on raw records."""

from dataclasses import replace

import numpy as np
import pytest

from fedsel.errors import InvalidArgument
from fedsel.service._monitoring import Evaluation
from fedsel.wire import Schema
from tests.service.support import reports_for, running, task_of

pytestmark = pytest.mark.xdist_group("processes")
LINEAR = {
    "dim": None,
    "solution": "RJ",
    "k": None,
    "mu": None,
    "learning_rate": None,
    "features": ["hours", "age"],
    "feature_range": [[0, 0], [80, 100]],
    "labels": ["no", "yes"],
    "spread": 0.0,
    "centre": 0.0,
}
ROWS = "age,gone,hours,town\n20,no,10,a\n80,yes,70,b\n60,yes,30,a\n10,no,0,b\n90,no,20,a\n"


def without(task, key):
    return {k: v for k, v in task.evaluation.items() if k != key}


@pytest.fixture
def task(quick_path):
    (quick_path / "test.csv").write_text(ROWS)
    test_set = {"data": str(quick_path / "test.csv"), "label": "gone"}
    return task_of(**LINEAR, evaluation=test_set)


def test_a_model_is_measured_as_one_would_by_hand(task):
    test = Evaluation.of(task)
    assert test.X.tolist() == [[10, 20], [70, 80], [30, 60], [0, 10], [20, 90]]
    assert test.y.tolist() == [0, 1, 1, 0, 0]
    state = task.begin
    weights = np.array([1.0, 1.0, -1.0])
    object.__setattr__(state.state, "average", weights)
    preparing = task.preparing(state)
    slopes, constants = preparing.linear(weights[None, :])
    sides = test.X @ slopes[0] + constants[0] >= 0
    margins = preparing.records(test.X) @ weights
    measured = test.measured(state)
    assert measured["accuracy"] == np.mean(sides == test.y)
    losses = np.log1p(np.exp((1 - 2 * test.y) * margins))
    assert measured["loss"] == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("loss", ["logistic", "svm"])
def test_several_classes_are_measured_by_the_largest_margin(task, loss):
    schema = replace(task.schema, columns={"age": (0, 100)}, label="town", classes=("c", "a", "b"))
    test = Evaluation.of(replace(task, schema=schema, loss=loss, evaluation=without(task, "label")))
    assert test.y.tolist() == [1, 2, 1, 2, 1]
    state = test.task.begin
    weights = np.random.default_rng(1).normal(size=6)
    object.__setattr__(state.state, "average", weights)
    margins = test.task.preparing(state).records(test.X) @ weights.reshape(3, 2).T
    right = margins[np.arange(5), test.y.astype(int)]
    measured = test.measured(state)
    assert measured["accuracy"] == np.mean(margins.argmax(axis=1) == test.y)
    others = margins.copy()
    others[np.arange(5), test.y.astype(int)] = -np.inf
    losses = np.log(np.exp(margins).sum(axis=1)) - right
    if loss == "svm":
        losses = np.maximum(0, 1 + others.max(axis=1) - right)
    assert measured["loss"] == pytest.approx(losses.mean())


def test_a_regression_is_measured_by_the_share_of_variance(task):
    schema = Schema({"age": (0, 100)}, label="hours", target_range=(0, 80))
    regression = replace(task, schema=schema, loss="squared", evaluation=without(task, "label"))
    test, state = Evaluation.of(regression), regression.begin
    assert test.y == pytest.approx([-0.75, 0.75, -0.25, -1, -0.5])
    weights = np.array([2.0, -1.0])
    object.__setattr__(state.state, "average", weights)
    residuals = regression.preparing(state).records(test.X) @ weights - test.y
    measured = test.measured(state)
    assert measured["r2"] == pytest.approx(1 - np.mean(residuals**2) / np.var(test.y))
    assert measured["loss"] == pytest.approx(np.mean(residuals**2) / 2)


def test_it_is_kept_with_the_round(task, store_url):
    with running(task, store_url) as client:
        for row in reports_for(client.request(), 5):
            client.send(row)
        client.wait_for(1)
        (first,) = client.get("/v1/rounds")["rounds"]
        assert set(first["measured"]) == {"accuracy", "loss"}
        accuracy = f'fedsel_accuracy{{run="test"}} {first["measured"]["accuracy"]}'
        assert accuracy in client.get("/metrics").decode()
    with running(task, store_url) as client:
        assert client.get("/v1/rounds")["rounds"] == [first]


def test_what_is_no_test_set(quick_path):
    (quick_path / "test.csv").write_text(ROWS)
    path = str(quick_path / "test.csv")
    for change, message in (
        ({"evaluation": {"data": path, "label": "left"}}, "left"),
        ({"evaluation": {"data": path + "x", "label": "gone"}}, "a test set"),
        ({"features": ["hours", "weight"]}, "column = 'weight'"),
        ({"features": 2, "feature_range": [0, 1]}, "2 columns beside the label"),
        ({"labels": ["here", "there"]}, "labels that the task knows"),
        ({"evaluation": {"data": path}}, "which the task does not say"),
    ):
        values = {**LINEAR, "evaluation": {"data": path, "label": "gone"}, **change}
        with pytest.raises(InvalidArgument, match=message):
            Evaluation.of(task_of(**values))
    assert Evaluation.of(task_of()) is None
