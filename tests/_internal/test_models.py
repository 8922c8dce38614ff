"""Linear models: gradients against finite differences, and margins of any size."""

import numpy as np
import pytest

from fedsel._internal.models import MulticlassModel, softmax
from fedsel.errors import InvalidArgument
from fedsel.simulation import Population
from fedsel.simulation._clients import MulticlassClients
from tests.simulation.test_clients import C, D, N, data


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


def test_margins_of_any_size_are_safe():
    margins = np.array([[1e4, -1e4, 0.0]])
    model = MulticlassModel()
    assert softmax(margins).tolist() == [[1.0, 0.0, 0.0]]
    assert model.losses(margins, np.array([1])).tolist() == [2e4]


@pytest.mark.parametrize(("name", "value"), [("loss", "ridge"), ("reg", -1.0), ("reg", np.nan)])
def test_wrong_parameters_are_refused(name, value):
    with pytest.raises(InvalidArgument, match=name):
        MulticlassModel(**{name: value})
