"""The average of the weights over the rounds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedsel import InvalidArgument, Recipe, solution
from fedsel._internal.models import LinearModel, MulticlassModel
from fedsel.data import synthetic
from fedsel.experiments import Spec
from fedsel.server._step import ServerState, StepRule, averaged
from fedsel.simulation import Population, Simulation, Training, train, train_vectors
from fedsel.simulation._clients import LinearClients, MulticlassClients


def average_of(models, power):
    """The average of the weights of rounds, one after another."""
    state, rule = ServerState.begin(np.zeros(len(models[0]))), StepRule(1.0, averaging=power)
    for weights in models:
        state = averaged(state, rule, weights)
    return state.average


@pytest.mark.parametrize("evaluate", ["rounds", "epochs", "end"])
def test_clients_work_on_the_weights_and_the_model_is_their_average(evaluate):
    data = synthetic(d=8, n=400, seed=1)
    population = Population(data.X, data.y)
    made = solution("RJ", epsilon=4.0, dim=8, epochs=2)
    training = Training(made, batch=50, averaging=2.0, seed=0)
    history = train(training, population, evaluate=evaluate)
    clients = LinearClients(population, LinearModel(reg=training.rule.client_reg))
    runner = Simulation(replace(training, averaging=0.0), clients, np.zeros(8))
    seen = []
    for epoch in range(2):
        order, ends = training.schedule(population.taking_part, population.clients, epoch)
        seen += [state.weights for state in runner.run(epoch, order, ends, keep=True)]
    assert len(seen) == 16
    np.testing.assert_array_equal(history.weights, average_of(seen, 2.0))
    assert not np.array_equal(history.weights, runner.state.weights)
    assert len(history.rounds) == {"rounds": 16, "epochs": 2, "end": 1}[evaluate]


def test_softmax_is_averaged_too():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 4)).astype(np.float32), rng.integers(0, 3, 90)
    source = MulticlassClients(Population(X, y), 3, MulticlassModel())
    training = Training(solution("NP", dim=12), learning_rate=0.5, batch=10, seed=0)
    start, seen = np.zeros(12), []

    def judge(models):
        seen.extend(models)
        return np.zeros(len(models)), np.zeros(len(models))

    train_vectors(training, source, start, judge)
    told = train_vectors(replace(training, averaging=3.0), source, start).weights
    assert len(seen) == 9
    np.testing.assert_array_equal(told, average_of(seen, 3.0))


@pytest.mark.parametrize("power", [-1.0, math.nan, math.inf, "auto"])
def test_a_wrong_power_is_named(power):
    with pytest.raises(InvalidArgument, match="averaging"):
        Training(solution("NP", dim=2), averaging=power)
    if power != "auto":  # which a recipe decides with the rate
        for make in (
            lambda: Recipe("NP", averaging=power),
            lambda: Spec(recipe={"averaging": power}),
        ):
            with pytest.raises(InvalidArgument, match="averaging"):
                make()
