"""Linear models of several classes: gradients against finite differences, and one report each."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import solution
from fedsel._internal.models import MulticlassModel, softmax
from fedsel.data.partition import by_groups
from fedsel.errors import InvalidArgument
from fedsel.preparation import Preparation
from fedsel.simulation import Population, Training
from fedsel.simulation._clients import MulticlassClients
from fedsel.simulation._judges import MulticlassJudge
from fedsel.sklearn._fitting import Classification, train_wave

C, D, N = 4, 3, 9


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    X[np.abs(X) < 0.3] = 0
    return X, rng.integers(0, C, N), rng.normal(size=C * D)


@pytest.mark.parametrize("loss", ["logistic", "svm"])
def test_gradients_are_the_slopes_of_the_loss(loss):
    X, y, weights = data()
    model = MulticlassModel(loss, reg=0.1)
    source = MulticlassClients(Population(X, y), C, model)
    source.receive(weights)
    (made,) = source.vectors(np.arange(N))

    def objective(w, row):
        margins = X[row : row + 1].astype(float) @ w.reshape(C, D).T
        return model.losses(margins, y[row : row + 1])[0] + 0.05 * w @ w

    step = 1e-6 * np.eye(C * D)
    for row in range(N):
        slopes = [(objective(weights + e, row) - objective(weights - e, row)) / 2e-6 for e in step]
        np.testing.assert_allclose(made[row].ravel(), slopes, atol=1e-5)


def test_a_group_reports_the_mean_of_its_records_and_sparse_is_dense():
    X, y, weights = data()
    model = MulticlassModel(reg=0.1)
    alone = MulticlassClients(Population(X, y), C, model)
    sparse = MulticlassClients(Population(csr_array(X), y), C, model)
    clients = by_groups([0, 1, 0, 2, 2, 2, 1, 0, 0])
    grouped = MulticlassClients(Population(X, y, clients.order, clients.starts), C, model)
    assert (alone.clients, grouped.clients) == (N, 3)
    for source in (alone, sparse, grouped):
        source.receive(weights)
    each = alone.vectors(np.arange(N))[0]
    np.testing.assert_allclose(sparse.vectors(np.arange(N))[0], each, rtol=1e-6)
    means = grouped.vectors(np.array([2, 0]))[0]
    np.testing.assert_allclose(means[0], each[[3, 4, 5]].mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(means[1], each[[0, 2, 7, 8]].mean(axis=0), rtol=1e-5, atol=1e-6)


def test_judge_tells_accuracy_and_loss():
    X, y, weights = data()
    model = MulticlassModel(reg=0.1)
    models = np.stack([weights, -weights])
    accuracies, losses = MulticlassJudge(X, y, C, model)(models)
    for w, accuracy, loss in zip(models, accuracies, losses, strict=True):
        margins = X @ w.reshape(C, D).T
        assert accuracy == np.mean(margins.argmax(axis=1) == y)
        told = -np.log(softmax(margins)[np.arange(N), y]).mean() + 0.05 * w @ w
        assert loss == pytest.approx(told)


def test_margins_of_any_size_are_safe():
    margins = np.array([[1e4, -1e4, 0.0]])
    model = MulticlassModel()
    assert softmax(margins).tolist() == [[1.0, 0.0, 0.0]]
    assert model.losses(margins, np.array([1])).tolist() == [2e4]


@pytest.mark.parametrize(("name", "value"), [("loss", "ridge"), ("reg", -1.0), ("reg", np.nan)])
def test_wrong_parameters_are_refused(name, value):
    with pytest.raises(InvalidArgument, match=name):
        MulticlassModel(**{name: value})


def test_a_tiny_regulariser_does_not_decide_ties():
    """Where reports follow ranks the server decays the weights, not the clients their updates."""
    X = np.sign(np.random.default_rng(3).normal(size=(200, 6))).astype(np.float32)
    y = (np.arange(200) % 3).astype(np.int64)
    made = solution("RJ", epsilon=8.0, dim=18)
    as_they_are = Preparation.plain(X.shape[1], intercept=0.0, unit=False)
    weights = [
        train_wave(
            Training(made, 0.1, 20, reg=reg, seed=0), Classification(y, 3), X, as_they_are
        ).weights
        for reg in (0.0, 1e-9, 0.1)
    ]
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6, atol=1e-9)
    assert np.linalg.norm(weights[2]) < np.linalg.norm(weights[0])
