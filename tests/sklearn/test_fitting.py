"""Waves of an estimator's fit."""

import numpy as np

from fedsel import solution
from fedsel.preparation import Preparation
from fedsel.simulation import Training
from fedsel.sklearn._fitting import Classification, train_wave


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
