"""Rounds on vectors computed elsewhere: the same training as the engine's own."""

from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import solution
from fedsel._internal.models import LinearModel
from fedsel.auto import PublicFacts, learning_rate
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.mechanisms import FlatPicks, ReportMechanism
from fedsel.preparation import Plan
from fedsel.simulation import (
    Population,
    Simulation,
    Training,
    cross_validate,
    train,
    train_vectors,
)
from fedsel.simulation._clients import LinearClients
from fedsel.simulation._stages import CompiledStage, UpdateStage, training_stage

D, N, BATCH = 12, 57, 10
NAMES = [
    *("NP", "NP-RS", "NP-K", "PM", "PM-RP", "PS-PM", "PE-HM", "EXP-Duchi", "PS-PM-O", "PS"),
    *("J", "UJ", "RJ", "RC"),
]
MODEL = LinearModel(reg=0.01)


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)).astype(np.float32)
    X[:, ::3] = np.round(X[:, ::3])  # ties and zeros
    return X, np.where(X @ rng.normal(size=D) > 0, 1, -1).astype(np.int8)


class Linear:
    """Gradients of a linear model, in two parts."""

    def __init__(self, X, y, model, chunk=8, scales=None):
        self.X, self.y, self.model, self.chunk, self.scales = X, y, model, chunk, scales
        self.clients, self.largest = len(y), 0

    def receive(self, weights):
        self.weights = weights.copy()

    def vectors(self, clients):
        self.largest = max(self.largest, len(clients))
        X, y = self.X[clients], self.y[clients]
        slopes = self.model.slopes(X @ self.weights.astype(np.float32), y).astype(np.float32)
        made = slopes[:, None] * X + (self.model.reg * self.weights).astype(np.float32)
        return [made[:, :5], made[:, 5:]]


@dataclass(frozen=True)
class Stranger(ReportMechanism):
    """A mechanism that the kernels have never seen."""

    name: ClassVar[str] = "stranger"
    known: ReportMechanism

    @property
    def claimed(self):
        return self.known.claimed

    @property
    def decays_at_server(self):
        return self.known.decays_at_server

    @property
    def picks(self):
        return self.known.picks

    @property
    def whole(self):
        return self.known.whole

    def loss_ratio(self, d=None):
        return self.known.loss_ratio(d)

    def unit(self, size, codebook=None):
        return self.known.unit(size, codebook)

    def alphabet(self, size, codebook=None):
        return self.known.alphabet(size, codebook)

    def draw(self, scores, entropy):
        return self.known.draw(scores, entropy)

    def report_law(self, vector, values=None):
        return self.known.report_law(vector, values)

    def noise_power(self, size):
        return self.known.noise_power(size)

    def bits(self, size):
        return self.known.bits(size)


def a_stranger(made):
    return replace(made, mechanism=Stranger(made.mechanism))


def run(made, X, y, *, chunk=8, scales=None, **options):
    # Where the server decays the weights, clients do not add λw.
    own = replace(MODEL, reg=0.0) if made.decays_at_server else MODEL
    source = Linear(X, y, own, chunk, scales)
    training = Training(made, 0.3, BATCH, reg=0.01, seed=4)
    history = train_vectors(training, source, np.zeros(D), **options)
    assert source.largest <= chunk
    return history


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("stranger", [False, True])
def test_the_training_is_the_engines(name, epochs, stranger):
    X, y = data()
    made = solution(name, epsilon=8.0, dim=D, epochs=epochs, momentum=0.5, k=3, ratio=0.5)
    expected = train(Training(made, 0.3, BATCH, reg=0.01, seed=4), Population(X, y))
    history = run(a_stranger(made) if stranger else made, X, y)
    np.testing.assert_allclose(history.weights, expected.weights, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(history.rounds, expected.rounds, strict=True):
        assert (ours.round, ours.epoch, ours.reports) == (
            theirs.round,
            theirs.epoch,
            theirs.reports,
        )
        assert (ours.epsilon, ours.bits) == (theirs.epsilon, theirs.bits)


@pytest.mark.parametrize("name", ["NP", "PS-PM", "PS-PM-O", "RJ"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "groups"])
def test_linear_models_train_with_a_stranger_too(name, kind):
    X, y = data()
    people = Population(X, y)
    if kind == "sparse":
        people = Population(csr_array(X), y)
    elif kind == "groups":
        order, starts = np.random.default_rng(3).permutation(N), np.array([0, 3, 4, 20, 33, N])
        people = Population(X, y, order, starts)
    made = solution(name, epsilon=8.0, dim=D, epochs=2, momentum=0.5, k=3)
    given = {"learning_rate": 0.3, "batch": 5, "seed": 4, "dropout": 0.2, "averaging": 1.0}
    training = Training(made, reg=0.01, **given)
    unknown = replace(training, solution=a_stranger(made))
    clients = LinearClients(people, LinearModel())
    assert isinstance(training_stage(training, clients), CompiledStage)
    assert isinstance(training_stage(unknown, clients), UpdateStage)
    expected, history = train(training, people), train(unknown, people)
    np.testing.assert_allclose(history.weights, expected.weights, rtol=1e-4, atol=1e-5)
    assert [(r.round, r.bits, r.reports) for r in history.rounds] == [
        (r.round, r.bits, r.reports) for r in expected.rounds
    ]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", ["RJ", "PS-PM", "NP"])
def test_a_round_without_reports_changes_no_weight(name, compiled):
    X, y = data()
    made = solution(name, epsilon=8.0, dim=D)
    training = Training(made if compiled else a_stranger(made), 0.3, BATCH, reg=0.5)
    start, nobody = np.arange(D, dtype=float), np.array([], dtype=np.int64)
    clients = LinearClients(Population(X, y), LinearModel(reg=training.rule.client_reg))
    runner = Simulation(training, clients, start)
    for state in runner.run(0, nobody, np.array([0, 0]), keep=True):
        np.testing.assert_array_equal(state.weights, start)
    assert state.rounds == 2
    (state,) = runner.run(0, np.arange(3), np.array([3]), keep=True)
    assert not np.array_equal(state.weights, start)


@pytest.mark.parametrize("stranger", [False, True])
def test_without_a_seed_the_operating_system_decides(stranger):
    X, y = data()
    made = solution("RJ", epsilon=1.0, dim=D)
    training = Training(a_stranger(made) if stranger else made, 0.3, BATCH, reg=0.01)
    source = Linear(X, y, MODEL)
    runs = [train_vectors(training, source, np.zeros(D)) for _ in range(2)]
    assert (runs[0].weights != runs[1].weights).any()
    assert not runs[0].seeded
    assert train_vectors(replace(training, seed=0), source, np.zeros(D)).seeded
    with pytest.raises(InvalidArgument, match=r"^training\.seed = None: must be an integer"):
        cross_validate(training, Population(X, y))


@pytest.mark.parametrize(("evaluate", "judged"), [("rounds", 12), ("epochs", 2), ("end", 1)])
def test_when_the_model_is_judged(evaluate, judged):
    X, y = data()
    seen = []

    def judge(models):
        seen.extend(models)
        return [0.5] * len(models), [1.0] * len(models)

    made = solution("PS-PM", epsilon=3.0, dim=D, epochs=2)
    history = run(made, X, y, judge=judge, evaluate=evaluate)
    assert len(history.rounds) == len(seen) == judged
    np.testing.assert_array_equal(seen[-1], history.weights)
    assert history.rounds[-1].round == 12
    assert {(r.accuracy, r.loss) for r in history.rounds} == {(0.5, 1.0)}
    with pytest.raises(InvalidArgument, match=r"^evaluate = 'round': must be one of rounds, "):
        run(made, X, y, judge=judge, evaluate="round")


def test_training_starts_where_it_is_told_to():
    X, y = data()
    made = solution("NP", dim=D)
    training = Training(made, 0.3, BATCH, seed=0)
    start = np.arange(D, dtype=float)
    moved = train(training, Population(X, y), start=start).weights
    assert np.abs(moved - start).max() < np.abs(moved).max()
    assert start.tolist() == list(range(D))
    np.testing.assert_array_equal(
        train(training, Population(X, y), start=np.zeros(D)).weights,
        train(training, Population(X, y)).weights,
    )
    with pytest.raises(InvalidArgument, match="start = '3 weights'"):
        train(training, Population(X, y), start=np.zeros(3))
    with pytest.raises(InvalidData, match="start"):
        train(training, Population(X, y), start=np.full(D, np.nan))


def test_the_public_rate_sets_the_drift_of_the_noise():
    setting = PublicFacts(dim=50, clients=100, rounds=25)
    flat = solution("PM", epsilon=2.0, dim=50)
    assert isinstance(flat.mechanism, FlatPicks)
    assert flat.noise == pytest.approx(50 * np.sqrt(flat.mechanism.value.variance(0)))
    norm = np.hypot(flat.noise, 50 * 0.25)
    assert learning_rate(flat, setting) * norm * np.sqrt(25 / 100) == pytest.approx(3)
    # Where there is little noise or none, the size of the entries themselves counts.
    selected, plain = solution("PS-PM", epsilon=400.0, dim=50), solution("NP-K", dim=50)
    rates = [learning_rate(s, setting) for s in (selected, plain)]
    assert rates[0] == pytest.approx(rates[1], rel=0.01)
    for name, size in (("NP", 0.25 * np.sqrt(50)), ("NP-RS", 12.5), ("NP-K", 0.25)):
        assert learning_rate(solution(name, dim=50), setting) == pytest.approx(6 / size)
    inside = solution("PS-PM-O", epsilon=2.0, dim=50)
    assert learning_rate(inside, PublicFacts(dim=50, clients=9, rounds=9)) == 1.0
    # The clip is a unit: a vector and a clip of half the size are the same problem.
    half = solution("PM", epsilon=2.0, dim=50, clip=0.5)
    assert half.noise == pytest.approx(flat.noise / 2)


@pytest.mark.parametrize("seed", [4, None])
def test_a_run_goes_on_from_its_state(seed):
    """Wherever it was broken off, each client reports once an epoch."""
    X, y = data()
    plan = Plan(D - 1, D, 0, 2, (False,) * (D - 1), radius=0.4, noise=1.0)
    made = solution("RJ", epsilon=8.0, dim=D, epochs=2, rho=0.4)
    training = Training(made, 0.3, BATCH, averaging=1.0, plan=plan, seed=seed)

    def begun(start):
        return Simulation(training, LinearClients(Population(X[:, 1:], y), MODEL), start)

    whole = begun(np.zeros(D))
    reported = []
    run_round = Simulation.run

    def watched(self, epoch, clients, ends, keep):
        reported.extend((epoch, c) for c in clients.tolist())
        return run_round(self, epoch, clients, ends, keep)

    for stop in (1, 2, 5, 9):
        first = begun(np.zeros(D))
        reported.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Simulation, "run", watched)
            patch.setattr(CompiledStage, "rounds_at_a_time", 1)
            rounds = list(islice(first.rounds(), stop))
            assert first.history.epochs_heard == 1 + (stop > 6)
            rest = begun(first.state)
            rest.order, rest.past = first.order, first.past
            rounds += rest.rounds()
        assert sorted(reported) == [(e, c) for e in range(2) for c in range(N)]
        assert (
            [r.round for r in rounds] == [r.round for r in rest.history.rounds] == [*range(1, 13)]
        )
        assert (rest.history.epochs_heard, rest.history.fewest_reports) == (2, 9)
        if seed is not None:
            expected = whole.play() if whole.state.rounds == 0 else whole.history
            np.testing.assert_array_equal(rest.history.weights, expected.weights)
            assert rest.history.preparation == expected.preparation
