"""Clients of several classes: a group reports the mean of its records, and sparse is dense."""

import numpy as np
from scipy.sparse import csr_array

from fedsel._internal.models import MulticlassModel
from fedsel.data.partition import by_groups
from fedsel.simulation import Population
from fedsel.simulation._clients import MulticlassClients

C, D, N = 4, 3, 9


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)).astype(np.float32)
    X[np.abs(X) < 0.3] = 0
    return X, rng.integers(0, C, N), rng.normal(size=C * D)


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
