"""Partitions: who holds which records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel.data import Clients, partition
from fedsel.errors import InvalidArgument


def test_one_record_each():
    clients = partition.one_record_each(4)
    assert clients.n == 4
    assert clients.order.tolist() == [0, 1, 2, 3]
    assert clients.starts.tolist() == [0, 1, 2, 3, 4]
    assert clients.sizes.tolist() == [1] * 4


def test_groups_keep_the_order_of_their_records():
    for groups in (["b", "a", "b", "c"], np.array([5, 2, 5, 9])):
        clients = partition.by_groups(groups)
        assert clients.order.tolist() == [1, 0, 2, 3]
        assert clients.starts.tolist() == [0, 1, 3, 4]
        assert clients.records(1).tolist() == [0, 2]


@given(
    labels=st.lists(st.sampled_from([-1, 1]), min_size=1, max_size=60),
    share=st.floats(0, 1),
    alpha=st.sampled_from([1e-6, 0.01, 0.5, 10.0, 1e6]),
    seed=st.integers(0, 1000),
)
def test_dirichlet_deals_out_every_record_and_leaves_nobody_empty(labels, share, alpha, seed):
    n_clients = max(1, round(share * len(labels)))
    clients = partition.dirichlet(np.array(labels), n_clients, alpha, seed)
    assert sorted(clients.order.tolist()) == list(range(len(labels)))
    assert clients.n == n_clients
    assert clients.sizes.min() >= 1
    again = partition.dirichlet(np.array(labels), n_clients, alpha, seed)
    assert (again.order == clients.order).all()
    assert (again.starts == clients.starts).all()


def test_dirichlet_skews_labels_by_alpha():
    y = np.where(np.arange(10_000) % 2, 1, -1)

    def skew(alpha):
        clients = partition.dirichlet(y, 20, alpha, seed=2)
        shares = [np.mean(y[clients.records(i)] == 1) for i in range(clients.n)]
        return np.std(shares)

    assert skew(0.05) > 0.3
    assert skew(1000.0) < 0.05
    first, second = (partition.dirichlet(y, 20, 0.5, seed=s).order for s in (1, 2))
    assert (first != second).any()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: partition.one_record_each(0), "n"),
        (lambda: partition.by_groups([]), "groups"),
        (lambda: partition.by_groups([[1]]), "groups"),
        (lambda: partition.by_groups([1.0, float("nan")]), "groups"),
        (lambda: partition.by_groups(["a", None]), "groups"),
        (lambda: partition.dirichlet([1, -1], 3, 0.5), "n_clients"),
        (lambda: partition.dirichlet([1, -1], 1, 0.0), "alpha"),
        (lambda: partition.dirichlet([1, -1], 1, float("nan")), "alpha"),
        (lambda: partition.dirichlet([1, -1], 1, 0.5, seed=-1), "seed"),
        (lambda: partition.dirichlet([[1]], 1, 0.5), "y"),
        (lambda: partition.one_record_each(2).records(2), "client"),
        (lambda: Clients(np.array([0, 1]), np.array([0, 1])), "starts"),
        (lambda: Clients(np.array([0, 1]), np.array([0, 0, 2])), "starts"),
        (lambda: Clients(np.array([0, 0]), np.array([0, 2])), "order"),
        (lambda: Clients(np.array([0, -1]), np.array([0, 2])), "order"),
        (lambda: Clients(np.array([0.0]), np.array([0, 1])), "order"),
        (lambda: Clients([0], np.array([0, 1])), "order"),
    ],
)
def test_impossible_partitions_are_refused(call, name):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        call()
