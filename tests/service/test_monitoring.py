"""A public test set: the model is measured on it after each round, on raw records."""

import numpy as np
import pytest

from fedsel.errors import InvalidArgument
from fedsel.service._monitoring import Evaluation
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


@pytest.fixture
def task(quick_path):
    (quick_path / "test.csv").write_text(ROWS)
    test_set = {"data": str(quick_path / "test.csv"), "label": "gone"}
    return task_of(**LINEAR, evaluation=test_set)


def test_a_model_is_measured_as_one_would_by_hand(task):
    test = Evaluation.of(task)
    assert test.X.tolist() == [[10, 20], [70, 80], [30, 60], [0, 10], [20, 90]]
    assert test.y.tolist() == [-1, 1, 1, -1, -1]
    state = task.begin
    weights = np.array([1.0, 1.0, -1.0])
    object.__setattr__(state.state, "average", weights)
    preparing = task.preparing(state)
    slopes, constants = preparing.linear(weights[None, :])
    sides = np.where(test.X @ slopes[0] + constants[0] >= 0, 1, -1)
    margins = preparing.records(test.X) @ weights
    measured = test.measured(state)
    assert measured["accuracy"] == np.mean(sides == test.y)
    assert measured["loss"] == pytest.approx(np.mean(np.log1p(np.exp(-test.y * margins))))


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
        ({"features": ["hours", "weight"]}, "with a column 'weight'"),
        ({"features": 3, "feature_range": [0, 1]}, "3, as the task has"),
        ({"loss": "squared", "labels": None, "target_range": [0, 1]}, "for classifiers"),
    ):
        values = {**LINEAR, "evaluation": {"data": path, "label": "gone"}, **change}
        with pytest.raises(InvalidArgument, match=message):
            Evaluation.of(task_of(**values))
    assert Evaluation.of(task_of()) is None
