"""Simulated cohorts: independent of executor, order and batches; bad input named."""

import numpy as np
import pytest

from fedsel import InvalidArgument, InvalidData, TwoStage
from fedsel._internal.random import stream
from fedsel.mechanisms import (
    Duchi,
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    TopK,
)
from fedsel.sampling import device, simulated

MECHANISM = TwoStage(PerturbedEncoding(0.7, k=2), Piecewise(1.3), clip=0.8)


def rows(n, d=20, dtype=np.float64):
    return np.random.default_rng(n).normal(size=(n, d)).astype(dtype)


@pytest.mark.parametrize("executor", ["kernel", "batch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results_depend_on_the_client_and_not_on_batch_or_order(executor, dtype):
    vectors = rows(50, dtype=dtype)
    whole = simulated.report(MECHANISM, vectors, simulated.cohort(50, seed=3, epoch=2), executor)
    order = np.random.default_rng(0).permutation(50)
    for part in np.array_split(order, 7):
        who = simulated.Cohort(3, part, epoch=2)
        some = simulated.report(MECHANISM, vectors[part], who, executor)
        assert some == whole.rows(part)


def test_seeds_and_epochs_differ():
    vectors = rows(200)
    selection = Exponential(1.0)
    runs = [
        simulated.select(selection, vectors, simulated.cohort(200, seed=seed, epoch=epoch)).tolist()
        for seed, epoch in ((0, 0), (1, 0), (0, 1))
    ]
    assert len({tuple(r) for r in runs}) == 3


def test_one_row_serves_all():
    vector = rows(1)
    who = simulated.cohort(300, seed=5)
    one = simulated.select(PerturbedSampling(1.0), vector, who)
    many = simulated.select(PerturbedSampling(1.0), np.repeat(vector, 300, axis=0), who)
    np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("executor", ["kernel", "batch"])
def test_large_d_and_many_ties(executor):
    vectors = np.zeros((20, 5000))
    vectors[:, 123] = 1
    chosen = simulated.select(TopK(), vectors, simulated.cohort(20, seed=1), executor)
    assert set(chosen.tolist()) == {123}
    spread = simulated.select(TopK(k=2), vectors, simulated.cohort(20, seed=1), executor)
    assert len(set(spread.tolist())) > 5


@pytest.mark.parametrize(
    "vectors",
    [[[1.0, np.nan]], [[np.inf, 0.0]], [1.0, 2.0], [[]], np.ones((3, 2)), [["a", "b"]]],
)
def test_bad_vectors_are_refused(vectors):
    with pytest.raises(InvalidData, match=r"^vectors: "):
        simulated.select(PerturbedSampling(1.0), vectors, simulated.cohort(2, seed=0))


@pytest.mark.parametrize("t", [[1.5, 0.0], [np.nan, 0.0], [[0.0, 0.0]], [0.1, 0.2, 0.3]])
def test_bad_values_are_refused(t):
    with pytest.raises(InvalidData, match=r"^t: "):
        simulated.perturb(Duchi(1.0), t, simulated.cohort(2, seed=0))


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n": 0}, "n"),
        ({"seed": -1}, "seed"),
        ({"epoch": -1}, "epoch"),
        ({"epoch": 2**32}, "epoch"),
        ({"first": -1}, "first"),
        ({"first": 2**62 + 1}, "first"),
    ],
)
def test_impossible_cohorts_are_refused(arguments, name):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        simulated.cohort(**{"n": 3, "seed": 0, **arguments})


def test_an_unknown_executor_is_refused():
    with pytest.raises(InvalidArgument, match="executor = 'gpu'"):
        simulated.select(TopK(), [[1.0]], simulated.cohort(1, seed=0), "gpu")


@pytest.mark.parametrize("clients", [[-1], [1.5], [], [[1]], np.arange(0), 5])
def test_impossible_clients_are_refused(clients):
    with pytest.raises(InvalidArgument, match=r"^clients = "):
        simulated.Cohort(0, np.array(clients))


def test_the_last_cohorts_that_there_are():
    assert simulated.cohort(1, seed=0, first=2**62).clients.tolist() == [2**62]
    assert simulated.cohort(1, seed=0, epoch=2**32 - 1).epoch == 2**32 - 1
    few = simulated.Cohort(0, np.array([3, 1], dtype=np.uint16)).clients
    assert (few.dtype, few.tolist()) == (np.int64, [3, 1])


@pytest.mark.parametrize("executor", ["kernel", "batch"])
def test_single_draws_are_those_of_a_device(executor):
    vectors, who = rows(50), simulated.Cohort(9, np.arange(50) * 7, epoch=2)
    for selection in (PerturbedEncoding(0.7, k=2), Exponential(1.0), TopK(3)):
        found = simulated.select(selection, vectors, who, executor).tolist()
        pairs = zip(vectors, who.clients.tolist(), strict=True)
        assert found == [device.select(selection, v, stream(9, 2, i)) for v, i in pairs]
    t = np.linspace(-1, 1, 50)
    for value in (Duchi(1.0), Piecewise(1.3)):
        found = simulated.perturb(value, t, who, executor).tolist()
        streams = [stream(9, 2, i, simulated.VALUES_ALONE) for i in who.clients.tolist()]
        assert found == [device.perturb(value, x, e) for x, e in zip(t, streams, strict=True)]
        one = simulated.perturb(value, t[:1], who, executor).tolist()
        assert one == simulated.perturb(value, np.full(50, t[0]), who, executor).tolist()


def test_the_wrong_kind_is_named():
    who = simulated.cohort(1, seed=0)
    for call, name in (
        (lambda: simulated.select(MECHANISM, [[1.0]], who), "selection"),
        (lambda: simulated.select(TopK(), [[1.0]], 5), "who"),
        (lambda: simulated.perturb(TopK(), [1.0], who), "value"),
        (lambda: simulated.perturb(Duchi(1.0), [1.0], None), "who"),
        (lambda: simulated.report(TopK(), [[1.0]], who), "target"),
        (lambda: simulated.report(MECHANISM, [[1.0] * 3], "all"), "who"),
    ):
        with pytest.raises(InvalidArgument, match=f"^{name} = "):
            call()


class OfSomebodyElse(TwoStage):
    """No executor but a device's knows it."""


def test_mechanisms_of_somebody_else_run_as_a_device_runs_them():
    own = OfSomebodyElse(PerturbedEncoding(0.7, k=2), Piecewise(1.3), clip=0.8)
    vectors, who = rows(20), simulated.cohort(20, seed=3)
    assert simulated.report(own, vectors, who) == simulated.report(MECHANISM, vectors, who)


def test_all_clients_of_a_call_may_abstain():
    selection = PerturbedEncoding(5.0, k=1)
    vectors = rows(1, d=100)
    who = simulated.cohort(2000, seed=0)
    fast = simulated.select(selection, vectors, who)
    quiet = np.flatnonzero(fast == -1)
    assert len(quiet) > 0
    for client in quiet[:3]:
        alone = simulated.Cohort(0, np.array([client]))
        assert simulated.select(selection, vectors, alone, "batch").tolist() == [-1]


def test_selection_and_value_drawn_apart_are_independent():
    who = simulated.cohort(100_000, seed=4)
    j = simulated.select(TopK(k=0.05), np.ones((1, 100)), who)
    s = simulated.perturb(Duchi(1.0), [0.0], who)
    low, high = s[j < 50].mean(), s[j >= 50].mean()
    assert abs(low - high) < 6 * 2 * 0.5 / np.sqrt(50_000)
