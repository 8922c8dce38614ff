"""Reports on vectors computed elsewhere: the same training as the engine's own."""

from dataclasses import dataclass

import numpy as np
import pytest
from fedsel.simulation.rates import public_rate
from fedsel.solutions.steps import report_size

from fedsel import Solution, solution
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.models import LinearModel
from fedsel.simulation import Population, Training, train
from fedsel.simulation import rounds as vectors_module
from fedsel.simulation.vector_rounds import train_vectors
from fedsel.solutions import Picks

D, N, BATCH = 12, 57, 10
NAMES = ["NP", "NP-RS", "NP-K", "PM", "PM-RP", "PS-PM", "PE-HM", "EXP-Duchi", "PS-PM-O", "PS"]


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
class Stranger(Solution):
    """A solution that the kernel has never seen."""

    known: Solution = None

    @property
    def accumulates(self):
        return self.known.accumulates

    @property
    def rate_inside(self):
        return self.known.rate_inside

    @property
    def privacy(self):
        return self.known.privacy

    @property
    def bits(self):
        return self.known.bits

    def encode(self, gradient, residual, entropy):
        return self.known.encode(gradient, residual, entropy)

    def decode(self, messages):
        return self.known.decode(messages)


def run(made, X, y, *, chunk=8, scales=None, **options):
    source = Linear(X, y, LinearModel(reg=0.01), chunk, scales)
    history = train_vectors(
        VectorTraining(made, 0.3, BATCH, seed=4), source, np.zeros(D), **options
    )
    assert source.largest <= chunk
    return history


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("stranger", [False, True])
def test_the_training_is_the_engines(name, epochs, stranger):
    X, y = data()
    made = solution(name, epsilon=8.0, dim=D, epochs=epochs, momentum=0.5, k=3, ratio=0.5)
    expected = train(Training(made, LinearModel(reg=0.01), 0.3, BATCH, seed=4), Population(X, y))
    used = Stranger(made.name, D, epochs, made) if stranger else made
    history = run(used, X, y)
    np.testing.assert_allclose(history.weights, expected.weights, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(history.rounds, expected.rounds, strict=True):
        assert (ours.round, ours.epoch, ours.reports) == (
            theirs.round,
            theirs.epoch,
            theirs.reports,
        )
        assert (ours.epsilon, ours.bits) == (theirs.epsilon, theirs.bits)


@pytest.mark.parametrize("name", ["NP", "PS-PM", "PM-RP"])
def test_chunks_change_nothing_not_a_bit(name):
    X, y = data()
    made = solution(name, epsilon=8.0, dim=D, epochs=2)
    # One record at a time, so that numpy's own sums are alike in every chunk.
    gradients = [Linear(X, y, LinearModel()) for _ in range(3)]
    means = []
    for chunk, source in zip((1, 7, N), gradients, strict=True):
        source.receive(np.zeros(D))
        rounds = VectorRounds(made, N, seed=3)
        for at in range(0, N, chunk):
            clients = np.arange(at, min(at + chunk, N))
            rows = [source.vectors(clients[i : i + 1]) for i in range(len(clients))]
            rounds.report(0, clients, [np.concatenate(part) for part in zip(*rows, strict=True)])
        means.append(rounds.mean())
    np.testing.assert_array_equal(means[0], means[1])
    np.testing.assert_array_equal(means[0], means[2])


def test_a_scale_of_one_and_a_scale_for_all_are_a_clip():
    """Dividing everything by s and clipping at c is clipping at s·c."""
    X, y = data()
    half = solution("PS-PM", epsilon=8.0, dim=D, clip=0.5)
    whole = solution("PS-PM", epsilon=8.0, dim=D, clip=1.0)
    expected = run(half, X, y).weights
    scaled = run(whole, X, y, scales=np.full(D, 0.5, np.float32)).weights
    np.testing.assert_allclose(scaled, expected, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["NP", "PS-PM", "PM-RP"])
def test_vectors_that_are_not_finite_are_refused(bad, name):
    rounds = VectorRounds(solution(name, epsilon=1.0, dim=3), 2, seed=0)
    rows = np.ones((2, 3), np.float32)
    rows[1, 2] = bad
    with pytest.raises(InvalidData, match="must be finite") as caught:
        rounds.report(0, np.arange(2), [rows])
    assert "nan" not in str(caught.value)


def test_large_finite_vectors_pass():
    rounds = VectorRounds(solution("PS-PM", epsilon=1.0, dim=3), 2, seed=0)
    rounds.report(0, np.arange(2), [np.full((2, 3), 3e38, np.float32)])
    assert np.isfinite(rounds.mean()).all()


def test_parts_that_do_not_fit_are_refused():
    rounds = VectorRounds(solution("NP", dim=3), 2, seed=0)
    with pytest.raises(InvalidArgument, match="3 in all"):
        rounds.report(0, np.arange(2), [np.ones((2, 2), np.float32)])


def test_no_reports_are_a_mean_of_zero():
    assert VectorRounds(solution("PS-PM", epsilon=1.0, dim=3), 2, seed=0).mean().tolist() == [0] * 3


def test_residuals_are_bounded_or_on_disk(tmp_path, monkeypatch):
    X, y = data()
    made = solution("PS-PM", epsilon=3.0, dim=D, epochs=2)
    in_memory = run(made, X, y)
    on_disk = run(made, X, y, residual_directory=tmp_path)
    np.testing.assert_array_equal(in_memory.weights, on_disk.weights)
    assert (tmp_path / "residual.f32").stat().st_size == N * D * 4
    monkeypatch.setattr(vectors_module, "RESIDUAL_LIMIT", N * D * 4 - 1)
    with pytest.raises(InvalidArgument, match="residual_directory = None: must be a folder"):
        run(made, X, y)
    run(solution("PS-PM", epsilon=3.0, dim=D), X, y)  # one epoch keeps nothing


@pytest.mark.parametrize(("evaluate", "judged"), [("rounds", 12), ("epochs", 2), ("end", 1)])
def test_when_the_model_is_judged(evaluate, judged):
    X, y = data()
    seen = []

    def judge(weights):
        seen.append(weights.copy())
        return 0.5, 1.0

    made = solution("PS-PM", epsilon=3.0, dim=D, epochs=2)
    history = run(made, X, y, judge=judge, evaluate=evaluate)
    assert len(history.rounds) == len(seen) == judged
    np.testing.assert_array_equal(seen[-1], history.weights)
    assert history.rounds[-1].round == 12


def test_training_starts_where_it_is_told_to():
    X, y = data()
    made = solution("NP", dim=D)
    training = Training(made, LinearModel(), 0.3, BATCH)
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
    flat = solution("PM", epsilon=2.0, dim=50)
    assert isinstance(flat, Picks)
    assert report_size(flat) == pytest.approx(50 * np.sqrt(flat.value.variance(0)))
    rate = public_rate(flat, batch=100, rounds=25)
    norm = np.hypot(report_size(flat), 50 * 0.25)
    assert rate * norm * np.sqrt(25 / 100) == pytest.approx(3)
    # Where there is little noise or none, the size of the entries themselves counts.
    selected, plain = solution("PS-PM", epsilon=400.0, dim=50), solution("NP-K", dim=50)
    rates = [public_rate(s, batch=100, rounds=25) for s in (selected, plain)]
    assert rates[0] == pytest.approx(rates[1], rel=0.01)
    for name, size in (("NP", 0.25 * np.sqrt(50)), ("NP-RS", 12.5), ("NP-K", 0.25)):
        plain = public_rate(solution(name, dim=50), batch=100, rounds=25)
        assert plain == pytest.approx(6 / size)
    assert public_rate(solution("PS-PM-O", epsilon=2.0, dim=50), batch=9, rounds=9) == 1.0
    # The clip is a unit: a vector and a clip of half the size are the same problem.
    half = solution("PM", epsilon=2.0, dim=50, clip=0.5)
    assert report_size(half) == pytest.approx(report_size(flat) / 2)
