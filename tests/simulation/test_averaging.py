"""The average of the weights over the rounds, and the rates that go with it."""

import math

import numpy as np
import pytest
from fedsel.simulation.averaging import Average
from fedsel.simulation.rates import network_rate, public_rate

from fedsel import InvalidArgument, solution
from fedsel.data import synthetic
from fedsel.experiments.spec import Spec
from fedsel.experiments.trial import build
from fedsel.models import MulticlassModel
from fedsel.simulation import Population, Training, train
from fedsel.simulation.linear_rounds import Run
from fedsel.simulation.multiclass import MulticlassClients
from fedsel.simulation.rounds import VectorTraining, train_vectors


def test_round_t_counts_as_its_power():
    values = np.random.default_rng(0).normal(size=(60, 3))
    for power in (1.0, 2.0, 3.0):
        average = Average(power)
        for value in values:
            told = average.add(value)
        # t·(t + 1)·…·(t + p − 1): t^p but for lower powers.
        counts = np.array([math.prod(t + i for i in range(int(power))) for t in range(1, 61)])
        np.testing.assert_allclose(told, counts @ values / counts.sum())


def test_without_a_power_it_is_the_last_and_a_copy():
    average, value = Average(0.0), np.ones(2)
    told = average.add(value)
    value[:] = 5
    assert told.tolist() == [1.0, 1.0]
    assert average.add(value).tolist() == [5.0, 5.0]


@pytest.mark.parametrize("evaluate", ["rounds", "epochs", "end"])
def test_clients_work_on_the_weights_and_the_model_is_their_average(evaluate):
    data = synthetic(d=8, n=400, seed=1)
    population = Population(data.X, data.y)
    made = solution("RJ", epsilon=4.0, dim=8, epochs=2)
    training = Training(made, batch=50, averaging=2.0)
    history = train(training, population, evaluate=evaluate)
    run, average = Run(training, population), Average(2.0)
    for epoch in range(2):
        clients, ends = run.schedule(epoch)
        for weights in run.rounds(epoch, clients, ends, slice(0, len(ends)), keep=True):
            average.add(weights)
    np.testing.assert_array_equal(history.weights, average.weights)
    assert not np.array_equal(history.weights, run.weights)
    assert len(history.rounds) == {"rounds": 16, "epochs": 2, "end": 1}[evaluate]


def test_softmax_is_averaged_too():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)).astype(np.float32), rng.integers(0, 3, 90)
    source = MulticlassClients(X, y, 3, MulticlassModel())
    made = solution("NP", dim=12)
    start, seen, average = np.zeros(12), [], Average(3.0)

    def judge(weights):
        seen.append(weights.copy())
        return 0.0, 0.0

    train_vectors(VectorTraining(made, 0.5, 10), source, start, judge)
    for weights in seen:
        average.add(weights)
    told = train_vectors(VectorTraining(made, 0.5, 10, averaging=3.0), source, start).weights
    assert len(seen) == 9
    np.testing.assert_array_equal(told, average.weights)


@pytest.mark.parametrize("power", [-1.0, math.nan, math.inf, "auto"])
def test_a_wrong_power_is_named(power):
    with pytest.raises(InvalidArgument, match="averaging"):
        Average(power)
    with pytest.raises(InvalidArgument, match="averaging"):
        Training(solution("NP", dim=2), averaging=power)
    with pytest.raises(InvalidArgument, match="averaging"):
        Spec(averaging=power)


def test_the_automatic_rate_brings_its_average_and_unit_records():
    (auto,) = Spec(solutions=("RJ",), epsilons=(1.0,), learning_rate="auto", rho="auto").cells()
    assert (auto.averaging, auto.unit_records) == (3.0, True)
    (off,) = Spec(solutions=("RJ",), epsilons=(1.0,), learning_rate="auto", averaging=0.0).cells()
    assert off.averaging == 0
    (paper,) = Spec(solutions=("PS-PM",), epsilons=(1.0,)).cells()
    assert (paper.averaging, paper.unit_records) == (0.0, False)
    # Every part draws its own public matrix, and those without one are built once.
    first, second = (build(auto, dim=10, batch=5, part=part) for part in (0, 1))
    assert first.book.seed != second.book.seed
    assert build(paper, dim=10, batch=5, part=0) is build(paper, dim=10, batch=5, part=1)


def test_a_networks_rate_is_by_weight_and_stays_stable():
    made = solution("RJ", epsilon=1.0, dim=1600)
    assert network_rate(made, batch=100, rounds=50) == pytest.approx(
        public_rate(made, batch=100, rounds=50, drift=10.0)
    )
    # Much data and little noise: forty drifts in all rounds.
    sure = solution("RJ", epsilon=30.0, dim=1600, rho=2.0)
    assert network_rate(sure, batch=10**6, rounds=50) == pytest.approx(40 * 10 / (50 * 2.0))
    flat = solution("PM", epsilon=30.0, dim=1600)
    assert network_rate(flat, batch=10**8, rounds=50) == pytest.approx(40 * 10 / (50 * 0.25 * 40))
    assert network_rate(solution("PS-PM-O", epsilon=2.0, dim=9), batch=9, rounds=9) == 1.0
