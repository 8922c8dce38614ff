"""Several classes over the wire: what the simulator learns, and what the estimator decides."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest

from fedsel import FedSelClassifier, Recipe
from fedsel._internal.models import MulticlassModel
from fedsel._internal.random import stream
from fedsel.device import Client, Policy, RawRecords, join
from fedsel.simulation import Population, Simulation, Training
from fedsel.simulation._clients import MulticlassClients
from fedsel.sklearn import _base
from fedsel.wire import Announcement, RecordPipeline
from tests.service.support import FREE, running, task_of, wait_until

pytestmark = pytest.mark.xdist_group("processes")
CLASSES = ["blue", "green", "red"]
OWN = {"solution": None, "k": None, "mu": None, "learning_rate": None, "dim": None}
SCHEMA = {
    "label": "colour",
    "classes": CLASSES,
    "columns": {"a": [-4, 4], "b": [0, 40], "kind": ["x", "y"]},
}


def records_of(count, seed=0):
    """Messy records of three classes, as their owners have them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    a = np.array([-0.3, 0.3, 0.3])[y] + rng.normal(0, 0.05, count)
    b = np.array([3, 1, 5])[y] + rng.normal(0, 0.5, count)
    kinds = np.where(rng.random(count) < 0.5, "x", "y")
    rows = [
        {"a": f"{a[i]:.5f}", "b": float(b[i]), "kind": str(kinds[i]), "colour": CLASSES[y[i]]}
        for i in range(count)
    ]
    for row in rows[::9]:
        row["kind"], row["shoe"] = None, 41
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "svm"])
def test_devices_learn_what_the_simulator_learns(loss, quick_path):
    """On the same words, in rounds that prepare and in those that train."""
    clients, batch, seed = 90, 15, 3
    task = task_of(
        **OWN, schema=SCHEMA, loss=loss, epsilon=60.0, spread=0.2, centre=0.2, clients=clients,
        rounds_per_epoch=clients // batch, close_after={"reports": batch},
    )  # fmt: skip
    recipe, plan, schema = task.begin.recipe, task.begin.plan, task.schema
    assert (recipe.dim, plan.scattered) == (15, True)
    assert (plan.spread_rounds, plan.centre_rounds) == (2, 2)
    records = records_of(clients)
    X, y = schema.encode(records), schema.targets([row["colour"] for row in records])
    scaled = task.preparing(task.begin).scale.apply(X)
    training = Training(
        recipe.build(), float(recipe.learning_rate), batch, reg=recipe.reg, seed=seed,
        averaging=float(recipe.averaging), plan=plan,
    )  # fmt: skip
    people = Population(scaled, y.astype(np.int64))
    source = MulticlassClients(people, 3, MulticlassModel(loss, reg=0.0))
    expected = Simulation(training, source, np.zeros(15)).play()
    policy = Policy(recipe.charge, recipe.charge, [recipe.solution], [15])
    order, ends = training.schedule(people.taking_part, clients, 0)
    with running(task, quick_path / "service") as service:
        announced = Announcement.decode(json.dumps(service.get("/v1/task")).encode())
        for number, cohort in enumerate(np.split(order, ends[:-1])):
            message = service.get("/v1/rounds/open/request")
            weights = service.get(f"/v1/rounds/{number}/weights")
            told = json.dumps(service.get(f"/v1/rounds/{number}/preparing"))
            pipeline = RecordPipeline.decode(told, schema.feature_count)
            for i in cohort.tolist():
                suited = RawRecords(records[i : i + 1]).suited(announced.schema, announced.loss)
                device = Client(policy, quick_path / str(i), create=True)
                device._entropy = stream(seed, 0, i)
                report = device.answer(message, weights, suited.update(number, pipeline, 15))
                assert service.send(report) == (200, "accepted")
            service.wait_for(number + 1)
        learnt = np.frombuffer(service.get("/v1/model"), "<f8")
    np.testing.assert_allclose(learnt, expected.weights, rtol=1e-9)
    assert np.abs(learnt).max() > 0
    assert pipeline.preparation == expected.preparation
    assert pipeline.preparation.centre.any()


@pytest.mark.slow
def test_devices_of_three_classes_join_and_the_model_has_learnt(quick_path):
    """Forty devices in threads of their own, each with some records; two rounds prepare."""
    devices, test = 40, quick_path / "test.csv"
    rows = records_of(300, seed=9)
    header = ["colour", "kind", "b", "a"]
    lines = [",".join(str(row[name] or "") for name in header) for row in rows]
    test.write_text("\n".join([",".join(header), *lines]))
    task = task_of(
        **OWN, schema=SCHEMA, epsilon=100.0, epochs=3, spread=0.25, centre=0.25, clients=devices,
        rounds_per_epoch=4, close_after={"reports": 6, "seconds": 1.0, "least": 0},
        records_per_client=20, evaluation={"data": str(test)}, limits=FREE,
    )  # fmt: skip
    recipe = task.begin.recipe
    policy = Policy(recipe.epsilon, recipe.charge, [recipe.solution], [15])

    def take_part(number):
        records = RawRecords([*records_of(20, seed=100 + number), {"colour": "pink"}])
        client = Client(policy, quick_path / str(number), create=True)
        token = service.invitations.invite("device")
        return join(service.address, client, records, token=token, every=0.05)

    with running(task, quick_path / "service") as service, ThreadPoolExecutor(devices) as pool:
        outcomes = list(pool.map(take_part, range(devices)))
        # A device ends with its report in the last epoch; its rounds go on.
        wait_until(lambda: service.get("/v1/rounds/open")["finished"])
        told = service.get("/v1/rounds")
        model = service.get("/v1/model.json")
        page = service.get("/").decode()
    assert all(outcome.regular for outcome in outcomes)
    assert {outcome.left_out for outcome in outcomes if outcome.accepted} == {1}
    stages = [task.begin.plan.stage(number) for number in range(12)]
    assert (stages.count("spread"), stages.count("centre")) == (1, 1)
    assert sum(outcome.accepted for outcome in outcomes) == sum(
        record["accepted"] for record in told["rounds"]
    )
    assert np.shape(model["linear"]["coefficients"]) == (3, 4)
    assert np.shape(model["linear"]["constants"]) == (3,)
    # Sixty reports from the system's entropy: 0.62 to 0.98 in eleven runs, where guessing has 0.37.
    assert told["rounds"][-1]["measured"]["accuracy"] > 0.5
    assert "blue, green, red" in page


CASES = {
    "two classes": {"classes": ["-1", "1"]},
    "three": {"classes": ["a", "b", "c"]},
    "twelve, svm": {"classes": [*"abcdefghijkl"], "loss": "svm"},
    "no bounds": {"classes": ["a", "b", "c"], "columns": {"p": "private", "q": "private"}},
    "little privacy": {"classes": ["a", "b", "c"], "epsilon": 30.0, "epochs": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_a_task_decides_what_the_estimator_decides(case, monkeypatch):
    """From the same public facts: classes, bounds, clients, rounds and loss."""
    columns = {"p": [0, 9], "q": [-9, 9]}
    given = {"epsilon": 2.0, "epochs": 1, "loss": "logistic", "columns": columns, **CASES[case]}
    schema = {"columns": given["columns"], "classes": given["classes"], "label": "y"}
    rng, clients, rounds = np.random.default_rng(1), 3000, 30
    table = {"p": rng.uniform(0, 9, clients), "q": rng.normal(size=clients)}
    labels = rng.choice(given["classes"], clients)
    plans, plan_run = [], _base.plan_run
    monkeypatch.setattr(_base, "plan_run", lambda *a: plans.append(plan_run(*a)) or plans[-1])
    own = {"epsilon": given["epsilon"], "epochs": given["epochs"], "reg": 0.01}
    model = FedSelClassifier(**own, model=given["loss"], schema=schema, batch_fraction=1 / rounds)
    model.fit(table, labels)
    task = task_of(
        **OWN, **own, loss=given["loss"], schema=schema, clients=clients,
        rounds_per_epoch=rounds, close_after={"reports": 100},
    )  # fmt: skip
    found, wanted = task.begin.recipe, plans[-1].recipe
    for name in (one.name for one in fields(Recipe)):
        assert getattr(found, name) == getattr(wanted, name), name
    assert task.begin.plan is not None
    assert task.begin.plan == plans[-1].preparation
