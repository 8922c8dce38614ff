"""Populations: sparse records, groups of records, and clients that drop out."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import solution
from fedsel._internal.random import philox_key
from fedsel.sampling._kernels import native
from fedsel.simulation import EvaluationSet, Population, Training, train
from fedsel.simulation._rounds import DROP
from tests.simulation.test_stages import BATCH, D, N, by_hand, data


@pytest.mark.parametrize("name", ["NP", "PS-PM", "PM-RP"])
def test_sparse_records_give_the_same(name):
    X, y = data()
    X[np.abs(X) < 0.7] = 0
    training = Training(solution(name, epsilon=6.0, dim=D, epochs=2), batch=BATCH, seed=2)
    dense = train(training, Population(X, y))
    sparse = train(training, Population(csr_array(X), y))
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["NP", "PS-PM"])
def test_groups_of_records(name):
    X, y = data()
    rng = np.random.default_rng(3)
    order = rng.permutation(N)
    starts = np.array([0, 3, 4, 20, 33, N])
    groups = [order[a:b].tolist() for a, b in itertools.pairwise(starts)]
    training = Training(solution(name, epsilon=6.0, dim=D, epochs=2), reg=0.01, batch=2, seed=2)
    expected, _ = by_hand(training, X, y, groups)
    history = train(training, Population(X, y, order, starts))
    np.testing.assert_allclose(history.weights, expected, rtol=1e-4, atol=1e-5)


def test_dropping_out():
    X, y = data(n=5000)
    made = solution("PS-PM", epsilon=2.0, dim=D, epochs=1)
    training = Training(made, batch=100, dropout=0.3, seed=0)
    history = train(training, Population(X, y), EvaluationSet(X, y))
    reports = sum(r.reports for r in history.rounds)
    assert 3300 < reports < 3700  # 3500 ± 6 σ
    stays = np.ones(5000, dtype=bool)
    native.drop(stays, 0.3, philox_key(0, DROP), 0)
    assert stays.sum() == reports
