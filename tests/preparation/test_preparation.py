"""Private preparation: what clients report on, what the server learns, and that all agree on it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import PublicFacts, Recipe, Reports, resolve_auto
from fedsel._internal.models import LinearModel
from fedsel._internal.random import stream
from fedsel.auto._run_plan import plan_for
from fedsel.device import Client, LinearRecords, Policy
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.preparation import Plan, PlanState, Preparation, advanced
from fedsel.preparation._plan import INTERCEPT, KAPPA, MARGIN, OCTAVES
from fedsel.sampling._kernels import native
from fedsel.server import Aggregator, Verdict
from fedsel.simulation import EvaluationSet, Population, Training, train
from fedsel.simulation._clients import LinearClients, kernel_records, record_vectors

D = 5


def learnt(spread=0.5, centre=0.2, intercept=0.3, unit=True, d=D):
    return Preparation(np.full(d, spread), np.full(d, centre), intercept, unit)


def records(n=40, d=D, seed=0):
    X = np.random.default_rng(seed).uniform(-1, 1, (n, d)).astype(np.float32)
    X[np.abs(X) < 0.2] = 0
    return X


def plan_of(spread=2, centre=3, loose=(True,) * D, noise=0.0, radius=0.4, dim=D + 1, **more):
    return Plan(len(loose), dim, spread, centre, loose, radius, noise, **more)


# --- records ------------------------------------------------------------------------------------


def test_a_prepared_record_is_what_the_formula_says():
    X, prepared = records(), learnt(spread=0.5, centre=0.2, intercept=0.3)
    wide = np.hstack([np.clip(X / 0.5, -1, 1) - 0.2, np.full((len(X), 1), 0.3)])
    expected = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    np.testing.assert_allclose(prepared.records(X), expected, rtol=1e-6, atol=1e-7)
    plain = replace(prepared, unit=False).records(X)
    np.testing.assert_allclose(plain, wide, rtol=1e-6, atol=1e-7)
    assert prepared.records(X).dtype == plain.dtype == np.float32


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("centre", [0.0, 0.2])
def test_sparse_and_dense_records_are_the_same(unit, centre):
    X, prepared = records(), learnt(centre=centre, unit=unit)
    sparse = prepared.records(csr_array(X))
    assert hasattr(sparse, "indptr") == prepared.keeps_zeros == (centre == 0)
    dense = sparse.toarray() if prepared.keeps_zeros else sparse
    np.testing.assert_array_equal(dense, prepared.records(X))


@pytest.mark.parametrize("n", [1, 7, 40])
def test_a_record_does_not_depend_on_those_beside_it(n):
    """A device has one record, the simulator all of them: they must be the same to the bit."""
    X, plan = records(d=37), plan_of(loose=(True,) * 37, dim=38)
    prepared = learnt(d=37)
    together = [prepared.records(X), *(plan.vectors(t, X, prepared) for t in (0, 2))]
    for at in range(0, len(X), n):
        part = X[at : at + n]
        alone = [prepared.records(part), *(plan.vectors(t, part, prepared) for t in (0, 2))]
        for whole, own in zip(together, alone, strict=True):
            np.testing.assert_array_equal(whole[at : at + n], own)


def test_a_linear_model_stays_linear_in_the_record():
    X, weights = records() / 2, np.random.default_rng(1).normal(size=(2, D + 1))
    for unit in (True, False):
        prepared = learnt(unit=unit)
        slopes, constants = prepared.linear(weights)
        linear = X @ slopes.T + constants
        margins = prepared.records(X) @ weights.T
        np.testing.assert_array_equal(np.sign(margins), np.sign(linear))
        if not unit:
            np.testing.assert_allclose(margins, linear, rtol=1e-4, atol=1e-5)
    none = Preparation.plain(D, intercept=0.0)
    assert none.size == D
    assert none.linear(weights[:, :D])[1].tolist() == [0, 0]


def test_a_preparation_travels_as_plain_numbers():
    prepared = learnt()
    text = json.dumps(prepared.to_dict())
    again = Preparation.of_dict(json.loads(text))
    assert again == prepared
    assert again != learnt(centre=0.1)
    np.testing.assert_array_equal(again.records(records()), prepared.records(records()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spread": [0.0] * D}, "spread"),
        ({"spread": [2.1] * D}, "spread"),
        ({"spread": [math.nan] * D}, "spread"),
        ({"centre": [0.0]}, "centre"),
        ({"centre": [math.inf] * D}, "centre"),
        ({"intercept": -1.0}, "intercept"),
        ({"intercept": math.nan}, "intercept"),
        ({"unit": 1}, "unit"),
        ({"more": 1}, "preparation"),
    ],
)
def test_what_is_no_preparation_is_refused(change, message):
    with pytest.raises((InvalidArgument, InvalidData), match=message):
        Preparation.of_dict({**learnt().to_dict(), **change})


def test_records_of_another_size_are_refused():
    with pytest.raises(InvalidArgument, match=r"X = 'of shape \(2, 3\)'"):
        learnt().records(np.zeros((2, 3)))


# --- what is reported and learnt ----------------------------------------------------------------


def test_what_clients_report_on_is_short_enough():
    X, plan = records(), plan_of(radius=0.4)
    for number in range(plan.rounds):
        vectors = plan.vectors(number, X, learnt())
        assert vectors.shape == (len(X), plan.dim)
        assert np.linalg.norm(vectors, axis=1).max() <= 0.4 * (1 + 1e-6)
    with pytest.raises(InvalidArgument, match="the others train"):
        plan.vectors(plan.rounds, X, learnt())


def test_the_stages_follow_one_another():
    plan = plan_of(spread=2, centre=3)
    stages = [plan.stage(t) for t in range(7)]
    assert stages == ["spread"] * 2 + ["centre"] * 3 + ["training"] * 2
    assert plan.rounds == 5


def without_noise(plan, X):
    """What is learnt from all clients, in each round the same, if nothing is perturbed."""
    state = plan.begin
    for number in range(plan.rounds):
        mean = plan.vectors(number, X, state.preparation).mean(axis=0, dtype=np.float64)
        state = advanced(plan, state, number, mean, len(X))
    return state.preparation


@pytest.mark.parametrize("octaves", [3, 10])
def test_without_noise_the_spread_is_four_times_the_geometric_mean(octaves):
    X = np.random.default_rng(0).choice([-1.0, 1.0], (500, D)) * 2.0**-octaves
    X[:, 1] /= 4
    found = without_noise(plan_of(centre=0), X).spread
    expected = np.minimum(1, MARGIN * np.abs(X).mean(axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_zeros_tell_nothing_of_a_spread():
    X = np.zeros((100, D))
    X[np.arange(100), np.arange(100) % D] = 2.0**-6
    found = without_noise(plan_of(centre=0), X).spread
    np.testing.assert_allclose(found, MARGIN * 2.0**-6, rtol=1e-6)
    everywhere_zero = without_noise(plan_of(centre=0), np.zeros((10, D)))
    assert everywhere_zero.spread.tolist() == [1.0] * D


def test_spreads_are_learnt_twice_so_that_a_bias_counts_once():
    """RJ may tell a fifth too little of a structured vector: 20 % of ten octaves would be two."""
    X = np.full((50, D), 2.0**-12)
    plan, found = plan_of(spread=4, centre=0), []
    state = plan.begin
    for number in range(4):
        mean = 0.8 * plan.vectors(number, X, state.preparation).mean(axis=0, dtype=np.float64)
        state = advanced(plan, state, number, mean, len(X))
        found.append(float(np.log2(state.preparation.spread[0] / MARGIN)))
    assert found[0] == -2  # nothing learnt yet
    assert found[1] == found[2] == pytest.approx(-10, abs=0.1)
    assert found[3] == pytest.approx(-11.6, abs=0.1)


def test_only_loose_features_are_asked_for_their_spread():
    X = np.full((50, D), 2.0**-8)
    loose = (True, False, True, False, False)
    plan = plan_of(loose=loose)
    assert (plan.vectors(0, X, learnt())[0] != 0).tolist() == [*loose, False]
    spread = without_noise(plan, X).spread
    assert (spread < 1).tolist() == list(loose)


def test_without_noise_the_centre_is_a_mean_and_the_intercept_follows_the_spread():
    rng = np.random.default_rng(0)
    X = np.clip(rng.normal([0.5, -0.3, 0, 0.2, 0], 0.1, (4000, D)), -1, 1)
    found = without_noise(plan_of(spread=0), X)
    np.testing.assert_allclose(found.centre, X.mean(axis=0), atol=0.02)
    about = math.sqrt(D) * 0.1
    assert found.intercept == pytest.approx(INTERCEPT * about, rel=0.3)


def test_what_cannot_be_told_from_noise_changes_nothing():
    X = records(200)
    plan = plan_of(noise=1e3)
    found = without_noise(plan, X)
    assert not found.centre.any()
    assert found.spread.tolist() == [1.0] * D
    assert found.intercept > 0


def test_noise_shrinks_by_james_and_stein():
    """Against the formula: 1 − σ²/‖mean‖², with σ² the variance of the mean in all entries."""
    plan, reports = plan_of(spread=0, noise=2.0), 50
    mean = np.array([0.3, -0.2, 0.1, 0.0, 0.05, 0.2])
    direction, noise = mean[:D] / 0.4, (2.0 / 0.4) ** 2 / reports * D / (D + 1)
    kept = max(0.0, 1 - noise / (direction @ direction))
    expected = kept * direction * KAPPA * math.sqrt(D) / (mean[D] / 0.4)
    found = plan.learn_centre(plan.begin.preparation, mean, reports)
    np.testing.assert_allclose(found.centre, expected, rtol=1e-12)
    assert 0 < kept < 1


def test_a_stage_without_reports_teaches_nothing():
    plan = plan_of()
    state = plan.begin
    for number in range(plan.rounds):
        state = advanced(plan, state, number, np.zeros(plan.dim), 0)
    assert state.preparation == plan.begin.preparation
    assert isinstance(state, PlanState)


def test_rounds_count_as_their_reports():
    plan = plan_of(spread=0, centre=2)
    first, second = np.eye(D + 1)[0], np.eye(D + 1)[D]
    split = advanced(plan, advanced(plan, plan.begin, 0, first, 30), 1, second, 10)
    one = replace(plan, centre_rounds=1)
    whole = advanced(one, one.begin, 0, 0.75 * first + 0.25 * second, 40)
    np.testing.assert_allclose(split.preparation.centre, whole.preparation.centre, rtol=1e-12)


# --- what is automatic --------------------------------------------------------------------------


# --- simulator, devices and server --------------------------------------------------------------


CLIENTS, BATCH, EPOCHS = 120, 12, 2
ROUNDS = CLIENTS // BATCH
MODEL = LinearModel(reg=0.01)


def task(seed=0, spread=0.2, octaves=OCTAVES):
    rng = np.random.default_rng(seed)
    X = np.clip(rng.normal([0.05, 0.03, 0.001, 0.02, 0], 0.01, (CLIENTS, D)), -1, 1)
    y = np.where(X @ [1, 2, 3, -1, 1] > 0.093, 1, -1).astype(np.int8)
    known = PublicFacts(D + 1, BATCH, EPOCHS * ROUNDS, norm=1.0)
    asked = Recipe(epsilon=40.0, epochs=EPOCHS, reg=0.01, spread=spread, centre=0.2)
    recipe = resolve_auto(asked, known)
    plan = plan_for(recipe, recipe.build(), loose=(True,) * D, rounds=ROUNDS, octaves=octaves)
    return X.astype(np.float32), y, recipe, plan


def training_of(recipe, plan, seed):
    rate = float(recipe.learning_rate)
    averaging = float(recipe.averaging)
    given = {"reg": 0.01, "seed": seed, "averaging": averaging, "plan": plan}
    return Training(recipe.build(), rate, BATCH, **given)


def own_gradient(prepared, y, client):
    """The gradient of one client as the compiled rounds compute it."""

    def gradient(weights):
        out = np.empty(D + 1, dtype=np.float32)
        one, w = np.array([1]), weights.astype(np.float32)
        records = kernel_records(Population(prepared, y))
        native.nonprivate_rounds(records, np.array([client]), one, 0.0, 0.0, w, out)
        return out

    return gradient


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "octaves"), [(0.2, OCTAVES), (0.3, 64)])
def test_devices_and_server_give_preparation_and_weights_of_the_simulator(
    quick_path, spread, octaves
):
    """The same words, the same preparation and weights, to the bit.

    The server is closed and opened again in the middle of the preparation, and of the training.
    """
    X, y, recipe, plan = task(spread=spread, octaves=octaves)
    seed = 4
    training, people = training_of(recipe, plan, seed), Population(X, y)
    expected = train(training, people)
    policy = Policy(lifetime=40.0, per_report=20.0, solutions=["FJ"], dimensions=[D + 1])
    devices = [Client(policy, quick_path / f"{i}", create=True) for i in range(CLIENTS)]

    def opened():
        return Aggregator(recipe, quick_path / "server", rounds_per_epoch=ROUNDS, plan=plan)

    server = opened()
    for epoch in range(EPOCHS):
        order, ends = training.schedule(people.taking_part, people.clients, epoch)
        for part in np.split(order, ends[:-1]):
            if server.round in (1, 2, 3, 7):
                server.close()
                server = opened()
            request, prepared = server.request(), server.preparation.records(X)
            for i in part.tolist():
                devices[i]._entropy = stream(seed, epoch, i)
                update = own_gradient(prepared, y, i)
                if server.stage != "training":
                    mine = LinearRecords(X[i : i + 1], y[i : i + 1], plan=plan)
                    update = mine.update(server.round, server.preparation)
                report = devices[i].answer(request, server.weights, update)
                assert server.receive(i, report) is Verdict.ACCEPTED
            server.step()
    assert server.finished
    assert server.preparation == expected.preparation
    assert server.preparation.centre.any()
    assert (server.preparation.origin is not None) == (octaves == 64)
    assert (server.preparation.spread < 1).any()
    np.testing.assert_array_equal(server.model, expected.weights)
    # Who has helped to prepare has reported once in that epoch, like everybody else.
    for device in devices:
        assert [entry.epoch for entry in device.history().entries] == [0, 1]


def test_a_device_trains_on_its_prepared_records():
    X, y, _, plan = task()
    prepared, weights = learnt(), np.linspace(-1, 1, D + 1)
    mine = LinearRecords(X[:3], y[:3], LinearModel(reg=0.0), plan).update(plan.rounds, prepared)
    rows = prepared.records(X[:3]).astype(np.float64)
    slopes = -y[:3] / (1 + np.exp(y[:3] * (rows @ weights)))
    np.testing.assert_allclose(mine(weights), slopes @ rows / 3, rtol=1e-9)


def test_a_server_refuses_another_plan(quick_path):
    _, _, recipe, plan = task()
    with pytest.raises(InvalidArgument, match=r"plan = None.*fedsel.auto.plan_run"):
        Aggregator(recipe, quick_path / "a", rounds_per_epoch=ROUNDS)
    with pytest.raises(InvalidArgument, match="fewer than 4 rounds"):
        Aggregator(recipe, quick_path / "b", rounds_per_epoch=4, plan=plan)
    with Aggregator(recipe, quick_path / "c", rounds_per_epoch=ROUNDS, plan=plan) as server:
        assert server.stage == "spread"
    other = replace(plan, octaves=20)
    with pytest.raises(InvalidArgument, match="as in the checkpoint"):
        Aggregator(recipe, quick_path / "c", rounds_per_epoch=ROUNDS, plan=other)


def test_a_round_that_prepares_changes_no_weight(quick_path):
    X, y, recipe, plan = task()
    with Aggregator(recipe, quick_path, rounds_per_epoch=ROUNDS, plan=plan) as server:
        for i in range(BATCH):
            own = LinearRecords(X[i : i + 1], y[i : i + 1], MODEL, plan)
            vector = own.update(0, server.preparation)(server.weights).astype(np.float32)
            sent, _ = server.solution.in_round(0).encode(vector, np.zeros(D + 1), stream(0, 0, i))
            form = server._format
            assert (
                server.receive(i, form.encode(0, Reports(sent.slot, sent.symbol)))
                is Verdict.ACCEPTED
            )
        server.step()
        assert not server.weights.any()
        assert server.records[0].accepted == BATCH


def test_the_test_records_are_prepared_as_the_clients_are():
    X, y, recipe, plan = task()
    training = training_of(recipe, plan, 1)
    history = train(training, Population(X, y), EvaluationSet(X, y))
    margins = history.preparation.records(X) @ history.weights
    assert history.accuracy == np.mean((margins >= 0) == (y > 0))
    end = train(training, Population(X, y), EvaluationSet(X, y, np.arange(20)), evaluate="end")
    assert end.accuracy == np.mean((margins[:20] >= 0) == (y[:20] > 0))


def test_a_client_with_several_records_reports_on_their_mean():
    X, y, recipe, plan = task()
    order, starts = np.arange(CLIENTS), np.arange(0, CLIENTS + 1, 2)
    grouped = Population(X, y, order, starts)
    made = train(training_of(recipe, plan, 2), grouped)
    assert made.preparation is not None
    both = record_vectors(plan, 0, grouped, np.array([3]), plan.begin.preparation)
    each = plan.vectors(0, X[6:8], plan.begin.preparation)
    np.testing.assert_allclose(both[0], each.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    ("X", "y"),
    [([[math.nan]], [1]), ([[0.0]], [2]), ([[0.0]], [1, 1]), (["a"], [1])],
)
def test_records_of_a_device_are_checked_before_anything_is_asked(X, y):
    with pytest.raises(InvalidData):
        LinearRecords(X, y)


def test_a_device_keeps_its_records_within_their_public_scale():
    own = LinearRecords([[9.0, -9.0]], [1], LinearModel(reg=0.0))
    assert own.update(0, Preparation.plain(2, unit=False))(np.zeros(3)).tolist() == [
        -0.5,
        0.5,
        -0.5,
    ]


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_a_device_takes_part_in_a_regression(loss):
    """Its gradient is the simulator's for the same record and number."""
    X, _, _, plan = task()
    numbers = np.array([0.4, -3.0, 1.0])  # one is beyond its public scale
    model, prepared = LinearModel(loss, reg=0.0), learnt()
    weights = np.linspace(-1, 1, D + 1)
    mine = LinearRecords(X[:3], numbers, model, plan).update(plan.rounds, prepared)(weights)
    held = (np.arange(3), np.array([0, 3]))
    people = Population(prepared.records(X[:3]), np.zeros(3, np.int8), *held)
    clients = LinearClients(replace(people, y=np.clip(numbers, -1, 1)), model)
    clients.receive(weights)
    [theirs] = clients.vectors(np.array([0]))
    np.testing.assert_allclose(mine, theirs[0], rtol=1e-5, atol=1e-7)
    assert np.abs(mine).max() > 0.01


@pytest.mark.parametrize("y", [[math.nan], [math.inf], [0.5, 0.5], ["a"], [[0.5]]])
def test_numbers_of_a_device_are_checked_and_not_told(y):
    with pytest.raises(InvalidData) as refused:
        LinearRecords([[0.0]], y, LinearModel("squared"))
    assert "0.5" not in str(refused.value)
