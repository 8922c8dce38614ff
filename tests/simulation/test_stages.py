"""The simulator against Algorithm 1 line by line, one Python client at a time."""

import itertools

import numpy as np
import pytest

from examples.algorithm1 import algorithm_1
from fedsel import solution
from fedsel._internal.models import LinearModel
from fedsel._internal.random import philox_key
from fedsel.simulation import EvaluationSet, Population, Training, train
from fedsel.simulation._rounds import SHUFFLE
from fedsel.solutions import names

D, N, BATCH = 12, 57, 10


def data(seed=0, d=D, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    X[:, ::3] = np.round(X[:, ::3])  # ties and zeros
    y = np.where(X @ rng.normal(size=d) > 0, 1, -1).astype(np.int8)
    return X, y


def permutation(seed, epoch, n):
    """Fisher and Yates, from the stream of client 0 of the purpose "shuffle"."""
    from fedsel._internal.random import Stream, _block

    def words():
        block = 0
        while True:
            client = np.zeros(1, np.uint64)
            pair = _block(philox_key(seed, SHUFFLE), epoch, client, np.array([block], np.uint64))
            yield from (int(w[0]) for w in pair)
            block += 1

    order, entropy = list(range(n)), Stream(words())
    for i in range(n - 1, 0, -1):
        j = entropy.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def by_hand(training, X, y, groups=None, loss="logistic"):
    """The example's Algorithm 1 on the simulator's schedule: the weights and all reports."""
    clients, m = len(y if groups is None else groups), training.batch

    def rounds(epoch):
        order, count = permutation(training.seed, epoch, clients), -(-clients // m)
        ends = [t * clients // count for t in range(count + 1)]
        return [order[a:b] for a, b in itertools.pairwise(ends)]

    made, model, alpha = training.solution, LinearModel(loss, training.reg), training.learning_rate
    w, sent = algorithm_1(made, model, alpha, X, y, rounds, seed=training.seed, groups=groups)
    return w, [report for reports in sent for report in reports]


PAPER_NAMES = [
    *("NP", "NP-RS", "NP-K", "PM", "HM", "Duchi", "PM-RP", "HM-RP", "Duchi-RP"),
    *("J", "UJ", "RJ", "RC", "RS", "RS-PM"),
    *("EXP-PM", "PE-PM", "PS-PM", "EXP-HM", "PE-Duchi", "PS-Duchi", "PS-OW"),
    *("PS-PM-C", "EXP-HM-C", "PE-PM-O", "PS-PM-O", "EXP", "PE", "PS", "PE-published-PM"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER_NAMES)
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("loss", ["logistic", "svm"])
def test_the_simulator_is_algorithm_1(name, epochs, loss):
    X, y = data()
    made = solution(name, epsilon=8.0, dim=D, epochs=epochs, momentum=0.5, k=3, ratio=0.5)
    training = Training(made, 0.3, BATCH, reg=0.01, seed=4)
    expected, _ = by_hand(training, X, y, loss=loss)
    history = train(training, Population(X, y), EvaluationSet(X, y), loss=loss)
    np.testing.assert_allclose(history.weights, expected, rtol=1e-4, atol=1e-5)
    assert len(history.rounds) == epochs * 6


def test_many_flat_picks():
    X, y = data()
    made = solution("PM", epsilon=13.0, dim=D)
    assert made.mechanism.picks == 5
    training = Training(made, learning_rate=0.3, batch=BATCH, seed=1)
    expected, sent = by_hand(training, X, y)
    assert all(len({j for j, _ in report.pairs()[0]}) == 5 for report in sent)
    history = train(training, Population(X, y))
    np.testing.assert_allclose(history.weights, expected, rtol=1e-4, atol=1e-5)


def test_every_client_reports_once_an_epoch_in_a_new_order():
    X, y = data()
    made = solution("PS-PM", epsilon=2.0, dim=D, epochs=3)
    training, population = Training(made, batch=BATCH, seed=0), Population(X, y)
    epochs = [training.schedule(population.taking_part, population.clients, e) for e in range(3)]
    for clients, ends in epochs:
        assert np.diff(ends, prepend=0).tolist() == [9, 10, 9, 10, 9, 10]  # none is left over
        assert sorted(clients.tolist()) == list(range(N))
    assert len({tuple(clients.tolist()) for clients, _ in epochs}) == 3


def test_history_counts_epsilon_and_bits():
    X, y = data()
    made = solution("PS-PM", epsilon=3.0, dim=D, epochs=3)
    history = train(Training(made, batch=BATCH), Population(X, y), EvaluationSet(X, y))
    assert [r.epsilon for r in history.rounds][::6] == pytest.approx([1.0, 2.0, 3.0])
    assert history.rounds[0].bits == 9 * made.bits
    assert history.rounds[5].bits == BATCH * made.bits
    last = history.rounds[-1]
    model = LinearModel()
    margins = X @ history.weights
    assert last.accuracy == pytest.approx(np.mean(np.where(margins >= 0, 1, -1) == y))
    assert last.misclassification == pytest.approx(1 - last.accuracy)
    assert last.loss == pytest.approx(model.objective(history.weights, X, y), rel=1e-5)


def test_evaluation_at_the_end_or_after_epochs_sees_the_same_model():
    X, y = data()
    made = solution("PS-PM", epsilon=3.0, dim=D, epochs=3)
    training = Training(made, batch=BATCH, seed=0)
    runs = {
        how: train(training, Population(X, y), EvaluationSet(X, y), evaluate=how)
        for how in ("rounds", "epochs", "end")
    }
    assert [len(h.rounds) for h in runs.values()] == [18, 3, 1]
    assert len({h.accuracy for h in runs.values()}) == 1


def test_residual_on_disk_changes_nothing(tmp_path):
    X, y = data()
    training = Training(solution("PS-PM", epsilon=3.0, dim=D, epochs=3), batch=BATCH, seed=0)
    in_memory = train(training, Population(X, y))
    on_disk = train(training, Population(X, y), residual_directory=tmp_path)
    np.testing.assert_array_equal(in_memory.weights, on_disk.weights)
    assert (tmp_path / "residual.f32").stat().st_size == N * D * 4


def test_every_name_trains():
    X, y = data()
    for name in names():
        made = solution(name, epsilon=2.0, dim=D)
        training = Training(made, batch=BATCH)
        history = train(training, Population(X, y), EvaluationSet(X, y), evaluate="end")
        assert np.isfinite(history.weights).all()
