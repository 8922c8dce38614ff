"""Judges: accuracy and loss of a model of several classes."""

import numpy as np
import pytest

from fedsel._internal.models import MulticlassModel, softmax
from fedsel.simulation._judges import MulticlassJudge
from tests.simulation.test_clients import C, D, N, data


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
