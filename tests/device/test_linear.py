"""A device's records: within their public scale, checked first, and told of by round."""

import numpy as np
import pytest

from fedsel._internal.models import LinearModel, MulticlassModel
from fedsel.device import LinearRecords
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.preparation import Plan, Preparation
from fedsel.simulation import Population
from fedsel.simulation._clients import MulticlassClients

PLAN = Plan(2, 3, 1, 1, (True, True), 0.5, 0.0)
PLAIN = Preparation.plain(2, unit=False)
WEIGHTS = np.array([0.25, -0.5, 1.0])


def told(X, y, number=9, **given):
    return LinearRecords(X, y, **given).update(number, PLAIN)(WEIGHTS).tolist()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_is_beyond_the_scale_is_told_as_its_end(number):
    """In rounds that learn spreads, and the centre, and in those that train."""
    for wide, end in (([[9.0, 0.25]], [[1.0, 0.25]]), ([[0.25, -1.5]], [[0.25, -1.0]])):
        assert told(wide, [1], number, plan=PLAN) == told(end, [1], number, plan=PLAN)


def test_rounds_that_prepare_are_not_told_of_by_gradients():
    assert told([[0.5, -1.0]], [1], 2, plan=PLAN) == told([[0.5, -1.0]], [1])
    for number in (0, 1):
        expected = PLAN.vector(number, np.array([[0.5, -1.0]]), PLAIN).tolist()
        assert told([[0.5, -1.0]], [1], number, plan=PLAN) == expected


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_number_beyond_its_scale_is_told_as_its_end(loss):
    model = LinearModel(loss, reg=0.0)
    for wide, end in ((1.5, 1.0), (-1.5, -1.0)):
        assert told([[0.5, 0.5]], [wide], model=model) == told([[0.5, 0.5]], [end], model=model)
    assert told([[0.5, 0.5]], [1.0], model=model) != told([[0.5, 0.5]], [0.5], model=model)


def test_a_device_adds_no_regulariser_unless_told():
    X, y = [[0.5, -1.0]], [-1]
    assert told(X, y) == told(X, y, model=LinearModel(reg=0.0))
    assert told(X, y) != told(X, y, model=LinearModel(reg=0.5))


@pytest.mark.parametrize("y", [[], [1, 1, 1], [[1], [1]], [0, 1], [1, -2], [1.0, 0.5], ["1", "1"]])
def test_labels_that_are_none(y):
    with pytest.raises(InvalidData, match=r"^y: must be −1 or \+1, one for each record$"):
        LinearRecords(np.zeros((2, 2)), y)


@pytest.mark.parametrize("y", [[0.5], [0.5, 0.5, 0.5]])
def test_as_many_numbers_as_records(y):
    with pytest.raises(InvalidData, match=r"^y: must be one number for each record$"):
        LinearRecords(np.zeros((2, 2)), y, LinearModel("squared"))


@pytest.mark.parametrize("features", [1, 3])
def test_a_plan_is_of_as_many_features(features):
    with pytest.raises(InvalidArgument, match=r"^plan.features = 2: must be as many as X has"):
        LinearRecords(np.zeros((1, features)), [1], plan=PLAN)


def test_what_is_no_model_no_plan_and_no_preparation():
    with pytest.raises(InvalidArgument, match=r"^model = 'logistic'"):
        LinearRecords([[0.0, 0.0]], [1], "logistic")
    with pytest.raises(InvalidArgument, match=r"^plan = 3"):
        LinearRecords([[0.0, 0.0]], [1], plan=3)
    with pytest.raises(InvalidArgument, match=r"^preparation = None"):
        LinearRecords([[0.0, 0.0]], [1]).update(0, None)


@pytest.mark.parametrize("loss", ["logistic", "svm"])
@pytest.mark.parametrize("classes", [3, 11])
def test_several_classes_are_told_of_as_the_simulator_does(loss, classes):
    rng = np.random.default_rng(classes)
    X, y = rng.uniform(-1, 1, (40, 5)), rng.integers(0, classes, 40)
    prepared = Preparation(rng.uniform(0.2, 1, 5), rng.uniform(-0.5, 0.5, 5), 0.5, True)
    weights = rng.normal(size=classes * 6)
    model = MulticlassModel(loss, reg=0.1)
    people = Population(prepared.records(X), y, np.arange(40), np.array([0, 12, 13, 40]))
    clients = MulticlassClients(people, classes, model)
    clients.receive(weights)
    (expected,) = clients.vectors(np.arange(3))
    for own, (first, last) in enumerate([(0, 12), (12, 13), (13, 40)]):
        records = LinearRecords(X[first:last], y[first:last].astype(float), model)
        found = records.update(0, prepared)(weights)
        assert found == pytest.approx(expected[own].reshape(-1), abs=1e-6)


@pytest.mark.parametrize("y", [[0], [0, -1], [0, 0.5], [0, np.nan], ["0", "1"], [[0], [1]]])
def test_what_is_no_class_number(y):
    with pytest.raises(InvalidData, match=r"^y: must be a class number"):
        LinearRecords(np.zeros((2, 2)), y, MulticlassModel())
