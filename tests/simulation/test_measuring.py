"""Simulated clients that measure: who they are, what each answers, and what follows."""

import numpy as np
import pytest

from fedsel.measuring import Measured
from fedsel.simulation._measuring import measured, told_apart

N = 3000
LINEAR = np.ones(4) / 2


def people(n=N, seed=0):
    """Margins of two calibrated classes, and labels."""
    draw = np.random.default_rng(seed)
    margins = draw.normal(0, 0.3, n)
    labels = (draw.uniform(size=n) < 1 / (1 + np.exp(-8 * margins))).astype(float)
    return margins[:, None], labels


def answering_of(margins, labels, seen=None):
    def answering(clients):
        if seen is not None:
            seen.append(clients.copy())
        return margins[clients], labels[clients]

    return answering


# --- who measures --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 10, 1000])
@pytest.mark.parametrize("measure", [0.0, 0.001, 0.1, 0.999])
def test_members_train_or_measure_and_none_does_both(n, measure):
    members = np.arange(n) * 3
    trains, measures = told_apart(members, measure, order=5)
    assert sorted([*trains, *measures]) == members.tolist()
    assert (trains[:-1] < trains[1:]).all()
    assert len(trains) >= min(n, 1)
    assert len(measures) == (0 if not measure or n < 2 else min(n - 1, max(1, round(measure * n))))


def test_who_measures_follows_from_the_order_alone():
    members = np.arange(100)
    first, again, other = (told_apart(members, 0.2, order)[1] for order in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert set(first) != set(other)


# --- what they say -------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [2, 10, N])
@pytest.mark.parametrize(
    "asked",
    [
        Measured(2, True, 8, True),
        Measured(3, False, 4, True),
        Measured(3, True),
        Measured(0, False),
    ],
    ids=str,
)
def test_every_client_answers_one_question(asked, clients):
    margins, labels = people()
    if asked.classes > 2:
        margins = np.column_stack([margins, -margins, margins / 2])
    seen = []
    order = np.random.default_rng(0).permutation(N)[:clients]
    found = measured(asked, answering_of(margins, labels, seen), order, LINEAR, 1.0, seed=1)
    assert np.concatenate(seen).tolist() == order.tolist()
    assert sum(tally.count for tally in found.tallies) == clients == found.clients
    assert found.epsilon == 1.0


def test_nobody_says_nothing():
    nobody = np.arange(0)
    assert measured(Measured(2, True), answering_of(*people()), nobody, LINEAR, 1.0) is None


def test_results_follow_from_the_seed_alone():
    asked, everyone = Measured.planned(2, N, 4.0, linear=True), np.arange(N)
    answering = answering_of(*people())
    first, again, other = (
        measured(asked, answering, everyone, LINEAR, 4.0, seed=seed).as_dict() for seed in (1, 1, 2)
    )
    assert first == again != other


def test_without_a_seed_no_two_runs_are_alike():
    asked, everyone = Measured.planned(2, N, 4.0, linear=True), np.arange(N)
    runs = [measured(asked, answering_of(*people()), everyone, LINEAR, 4.0) for _ in range(2)]
    assert runs[0].as_dict() != runs[1].as_dict()


def test_much_privacy_loss_tells_the_truth():
    """At ε = 20 a report is the answer itself: the metrics are those of the clients."""
    margins, labels = people()
    asked = Measured.planned(2, N, 20.0, linear=True)
    found = measured(asked, answering_of(margins, labels), np.arange(N), LINEAR, 20.0, seed=0)
    told = np.arange(N)[round(N * asked.shares[0]) :]
    truth = ((margins[told, 0] >= 0) == labels[told]).mean()
    assert found["accuracy"].value == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("broken", ["labels", "margins"])
def test_what_is_none_is_reported_as_no_answer(broken):
    """The reports of such clients are spread evenly, and nothing fails."""
    margins, labels = people()
    (labels if broken == "labels" else margins)[:] = np.nan
    asked = Measured.planned(2, N, 4.0, linear=True)
    found = measured(asked, answering_of(margins, labels), np.arange(N), LINEAR, 4.0, seed=0)
    assert found.clients == N
    assert found["accuracy"].low < 0.5 < found["accuracy"].high


@pytest.mark.parametrize("weights", [np.zeros(3), np.full(3, np.nan), np.full(3, 1e300)])
def test_any_weights_are_measured(weights):
    asked = Measured.planned(2, N, 4.0, linear=True)
    found = measured(asked, answering_of(*people()), np.arange(N), weights, 4.0, seed=0)
    assert 0 <= found["accuracy"].value <= 1
