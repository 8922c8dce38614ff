"""Twenty browsers and three Python devices train one model, to the bit the simulator's."""

import json
from itertools import islice

import numpy as np
import pytest

from fedsel._internal.models import LinearModel
from fedsel._internal.random import stream, words_of
from fedsel.device import Client, LinearRecords, Policy
from fedsel.service import Task
from fedsel.service.inviting import invitations_of
from fedsel.simulation import Population, Training, train
from fedsel.wire import RecordPipeline, Request
from tests.service.support import Http, ServiceProcess, wait_until
from tests.service.visiting import GIVEN_WORDS, Visitor, choose

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

BROWSERS, DEVICES, SHARE, EPOCHS, SEED = 20, 3, 4, 3, 5
CLIENTS = BROWSERS + DEVICES
FEATURES = ["a", "b", "c", "d", "e"]
WORDS = 1000
TASK = f"""
epsilon = 12
epochs = {EPOCHS}
features = {json.dumps(FEATURES)}
feature_range = [-2, 2]
labels = ["no", "yes"]
clients = {CLIENTS}
close_after = {{ reports = {CLIENTS} }}
spread = 0
centre = 0
limits = {{ per_client = 1e9, per_address = 1e9 }}
"""


def people():
    """The records of all, on a grid that text keeps exactly, and their labels."""
    rng = np.random.default_rng(1)
    X = np.round(np.clip(rng.normal(0, 0.7, (CLIENTS * SHARE, len(FEATURES))), -2, 2), 4)
    y = np.where(X @ [1, 2, 0.5, -1, 0.3] > 0.1, 1, -1).astype(np.int8)
    return X.astype(np.float32), y


def table(X, y):
    rows = [
        ",".join([*(f"{x:.4f}" for x in row), "yes" if label > 0 else "no"])
        for row, label in zip(X, y, strict=True)
    ]
    return "\n".join([",".join([*FEATURES, "answer"]), *rows])


def simulated(task, X, y):
    """What the simulator learns from the same people with the same words."""
    recipe, preparing = task.begin.recipe, task.preparing(task.begin)
    assert preparing.plan is None
    training = Training(
        recipe.build(), float(recipe.learning_rate), CLIENTS, reg=recipe.reg, seed=SEED,
        averaging=float(recipe.averaging),
    )  # fmt: skip
    starts = np.arange(0, len(X) + 1, SHARE)
    return train(training, Population(preparing.records(X), y, np.arange(len(X)), starts)).weights


def answer(service, device, token, records):
    """One device in Python answers the open round."""
    message = service.get("/v1/rounds/open/request")
    request = Request.decode(message)
    weights = service.get(f"/v1/rounds/{request.round}/weights")
    told = service.get(f"/v1/rounds/{request.round}/preparing")
    preparing = RecordPipeline.decode(json.dumps(told), len(FEATURES))
    X, y = records
    mine = LinearRecords(preparing.scale.apply(X), y, LinearModel())
    update = mine.update(request.round, preparing.preparation)
    report = device.answer(message, weights, update)
    assert service.send(report, token) == (200, "accepted")


def test_browsers_and_devices_learn_what_the_simulator_learns(browser, quick_path):
    file, store = quick_path / "many.toml", quick_path / "store"
    file.write_text(TASK)
    task, (X, y) = Task.load(file), people()
    shares = [slice(SHARE * i, SHARE * (i + 1)) for i in range(CLIENTS)]
    invitations = invitations_of(task, store)
    recipe = task.begin.recipe
    policy = Policy(EPOCHS * recipe.charge, recipe.charge, [recipe.solution], [recipe.dim])
    with ServiceProcess(file, store) as process:
        visitors, tabs = [], []
        for i, share in enumerate(shares[:BROWSERS]):
            words = [
                [str(word) for word in islice(words_of(SEED, epoch, i), WORDS)]
                for epoch in range(EPOCHS)
            ]
            visitor = Visitor(browser, process.address)
            visitor.context.add_init_script(f"({GIVEN_WORDS})({json.dumps(words)})")
            tab = visitor.open(invitations.invite("device"))
            choose(tab, table(X[share], y[share]), f"{SHARE} records are ready.")
            tab.check("#anew-yes")
            tab.click("#go")
            visitors.append(visitor)
            tabs.append(tab)
        service = Http(process.address)
        devices = [Client(policy, quick_path / f"{i}", create=True) for i in range(DEVICES)]
        tokens = [invitations.invite("device") for _ in devices]
        for epoch in range(EPOCHS):
            service.wait_for(epoch)
            for i, (device, token) in enumerate(zip(devices, tokens, strict=True), BROWSERS):
                device._entropy = stream(SEED, epoch, i)
                answer(service, device, token, (X[shares[i]], y[shares[i]]))
            # The browser's events are handled while this waits for them.
            wait_until(lambda done=epoch: _round(tabs[0], service) > done)
        for tab in tabs:
            tab.get_by_text("The run is over. Thank you").wait_for()
            assert tab.locator("#reports [data-outcome=accepted]").count() == EPOCHS
        told = service.get("/v1/rounds")
        learnt = np.frombuffer(service.get("/v1/model"), "<f8")
        service.close()
        for visitor in visitors:
            assert [len(body) for body, _ in visitor.uploads()] == [16] * EPOCHS
            visitor.close()
    assert [record["accepted"] for record in told["rounds"]] == [CLIENTS] * EPOCHS
    np.testing.assert_array_equal(learnt, simulated(task, X, y))
    assert np.abs(learnt).max() > 0


def _round(tab, service):
    tab.wait_for_timeout(200)
    return service.get("/v1/rounds/open")["round"]
