"""Service, devices and simulator end with the same weights, to the bit, on the same words."""

import json

import numpy as np
import pytest

from fedsel._internal.models import LinearModel
from fedsel._internal.random import stream
from fedsel.device import Client, LinearRecords, Policy
from fedsel.sampling._kernels import native
from fedsel.simulation import Population, Training, train
from fedsel.simulation._clients import kernel_records
from fedsel.wire import RecordPipeline, Request
from tests.service.support import running, task_of

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.slow]

CLIENTS, BATCH, EPOCHS, SEED, FEATURES = 96, 12, 2, 4, 5
ROUNDS = CLIENTS // BATCH
COMMON = {
    "clients": CLIENTS,
    "rounds_per_epoch": ROUNDS,
    "epochs": EPOCHS,
    "close_after": {"reports": BATCH},
    "solution": None,
    "k": None,
    "mu": None,
    "learning_rate": None,
    "dim": None,
}
RUNS = {
    "PS-PM": {"solution": "PS-PM", "epsilon": 6.0, "dim": FEATURES + 1, "k": 2, "mu": 0.2},
    "recommended, with its waves": {
        "epsilon": 40.0,
        "reg": 0.01,
        "spread": 0.25,
        "centre": 0.25,
        "features": FEATURES,
        "feature_range": [-2, 2],
    },
    "public means of some features": {
        "epsilon": 40.0,
        "spread": 0.25,
        "centre": 0.25,
        "features": list("abcde"),
        "feature_range": [-2, 2],
        "public_mean": {"a": 0.1, "d": 0.04},
    },
    "public means of all features": {
        "epsilon": 40.0,
        "spread": 0.0,
        "features": FEATURES,
        "feature_range": [-2, 2],
        "public_mean": {"0": 0.1, "1": 0.06, "2": 0.002, "3": 0.04, "4": 0.0},
    },
}


def people_of():
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal([0.05, 0.03, 0.001, 0.02, 0], 0.01, (CLIENTS, FEATURES)), -1, 1)
    y = np.where(X @ [1, 2, 3, -1, 1] > 0.093, 1, -1).astype(np.int8)
    return X.astype(np.float32), y


def own_gradient(records, y, client, model, decays_at_server):
    """The gradient of one client as the compiled rounds compute it."""

    def gradient(weights):
        out = np.empty(len(weights), dtype=np.float32)
        one, w = np.array([1]), weights.astype(np.float32)
        people = kernel_records(Population(records, y))
        native.nonprivate_rounds(people, np.array([client]), one, 0.0, 0.0, w, out)
        own = 0.0 if decays_at_server else model.reg
        return out + (own * weights).astype(np.float32)

    return gradient


@pytest.mark.parametrize("run", RUNS)
def test_the_same_words_give_the_same_weights(run, quick_path):
    """The service is stopped and started again in the middle of the preparation and the training.

    Each device speaks to the service over HTTP alone: request, weights, preparation, report.
    """
    task = task_of(**{**COMMON, **RUNS[run]})
    recipe, plan = task.begin.recipe, task.begin.plan
    X, y = people_of()
    X = X if plan is not None else np.hstack([X, np.ones((CLIENTS, 1), np.float32)])
    model, solution = LinearModel(reg=recipe.reg), recipe.build()
    training = Training(
        solution, float(recipe.learning_rate), BATCH, reg=recipe.reg, seed=SEED,
        averaging=float(recipe.averaging), plan=plan,
    )  # fmt: skip
    people = Population(X, y)
    expected = train(training, people)
    charge = recipe.charge
    policy = Policy(EPOCHS * charge, charge, [recipe.solution], [recipe.dim])
    devices = [Client(policy, quick_path / f"{i}", create=True) for i in range(CLIENTS)]
    number = 0
    cohorts = []
    for epoch in range(EPOCHS):
        order, ends = training.schedule(people.taking_part, people.clients, epoch)
        cohorts += [(epoch, part) for part in np.split(order, ends[:-1])]
    while number < len(cohorts):
        with running(task, quick_path / "service") as client:
            tokens = [client.invitations.invite("device") for _ in devices]
            for epoch, part in cohorts[number : number + 5]:
                message = client.get("/v1/rounds/open/request")
                request = Request.decode(message)
                assert request.round == number
                weights = client.get(f"/v1/rounds/{number}/weights")
                preparing = _preparing(client.get(f"/v1/rounds/{number}/preparing"))
                records = X if preparing is None else preparing.preparation.records(X)
                for i in part.tolist():
                    devices[i]._entropy = stream(SEED, epoch, i)
                    update = own_gradient(records, y, i, model, solution.decays_at_server)
                    if preparing is not None and preparing.learns_in(number):
                        mine = preparing.scale.apply(2 * X[i : i + 1])  # raw records are in [−2, 2]
                        update = LinearRecords(mine, y[i : i + 1], plan=preparing.plan).update(
                            number, preparing.preparation
                        )
                    report = devices[i].answer(message, weights, update)
                    assert client.send(report, tokens[i]) == (200, "accepted")
                number += 1
                client.wait_for(number)
            model_bytes = client.get("/v1/model")
            told = client.get("/v1/rounds")
    assert told["finished"]
    assert [r["accepted"] for r in told["rounds"]] == [BATCH] * len(cohorts)
    np.testing.assert_array_equal(np.frombuffer(model_bytes, "<f8"), expected.weights)
    assert np.abs(expected.weights).max() > 0
    if plan is not None:
        assert preparing.preparation == expected.preparation
        assert preparing.preparation.centre.any()
    for device in devices:
        assert device.history().spent == EPOCHS * charge


def _preparing(told):
    return None if told is None else RecordPipeline.decode(json.dumps(told), FEATURES)
