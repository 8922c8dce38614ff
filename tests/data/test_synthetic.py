"""Synthetic data: their law, their recorded stream, their parameters."""

import numpy as np
import pytest

from fedsel.data import synthetic
from fedsel.errors import InvalidArgument


def test_synthetic_data_follow_their_law():
    data = synthetic(d=50, n=4000, c1=0.1, c2=0.6, seed=3)
    assert data.X.shape == (4000, 50)
    assert set(data.y.tolist()) == {-1, 1}
    strengths = data.X.std(axis=0)
    # B is in (0.6, 1] or in [0, 0.06]; the deviation of 4,000 normals is within 10 % of it.
    assert ((strengths > 0.54) | (strengths < 0.066)).all()
    assert 0.3 < (strengths < 0.066).mean() < 0.9
    assert (np.abs(data.X) < data.bounds[:, 1]).all()


def test_dense_labels_need_weights_that_a_regularised_model_does_not_reach():
    """Both are linear in x: least squares finds either, ridge regression only the sparse ones."""
    accuracy = {}
    for labels in ("sparse", "dense"):
        data = synthetic(n=20_000, labels=labels, seed=1)
        X, y = data.X.astype(np.float64), data.y
        for ridge in (0.0, 1e-2 * len(y)):
            weights = np.linalg.solve(X.T @ X + ridge * np.eye(data.d), X.T @ y)
            accuracy[labels, ridge > 0] = np.mean(np.sign(X @ weights) == y)
    assert min(accuracy["sparse", False], accuracy["sparse", True]) > 0.95
    assert accuracy["dense", False] > 0.95
    assert accuracy["dense", True] < 0.7


def test_synthetic_data_depend_on_the_seed_alone(monkeypatch):
    first = synthetic(d=7, n=1000, seed=4)
    assert (first.X == synthetic(d=7, n=1000, seed=4).X).all()
    assert (first.X != synthetic(d=7, n=1000, seed=5).X).any()
    monkeypatch.setattr("fedsel.data._synthetic._BLOCK", 50)
    chunked = synthetic(d=7, n=300, seed=4)
    assert (chunked.X == first.X[:300]).all()
    assert (chunked.y == first.y[:300]).all()


def test_synthetic_stream_is_the_recorded_one():
    """A change of these numbers changes every published result."""
    data = synthetic(d=3, n=2, c2=0.0, seed=0)
    np.testing.assert_allclose(data.X[0], [0.15067324, -0.04241011, -0.65749615], rtol=1e-6)


def test_a_score_of_zero_is_labelled_plus_one():
    data = synthetic(d=2, n=10, c1=0.0, c2=1.0)
    assert not data.X.any()
    assert data.y.tolist() == [1] * 10


@pytest.mark.parametrize(
    "wrong",
    [
        {"d": 0},
        {"n": 0},
        {"n": 2.5},
        {"c1": -0.1},
        {"c1": float("nan")},
        {"c2": 1.5},
        {"labels": "both"},
        {"seed": -1},
    ],
)
def test_synthetic_parameters_are_checked(wrong):
    with pytest.raises(InvalidArgument, match=f"^{next(iter(wrong))} = "):
        synthetic(**wrong)
