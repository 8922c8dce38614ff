"""A start that was trained on public data: it is kept unless the reports show something better."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from fedsel.errors import InvalidArgument
from fedsel.torch import ClientUpdates, FederatedTrainer

pytestmark = pytest.mark.filterwarnings("ignore::fedsel.PrivacyLeakWarning")

CLASSES, FEATURES, CLIENTS = 5, 20, 8_000


def records(n, seed):
    """Classes that overlap: nobody tells them apart better than to about 85 %."""
    centres = np.random.default_rng(0).normal(0, 0.6, (CLASSES, FEATURES))
    draw = np.random.default_rng(seed)
    y = draw.integers(0, CLASSES, n)
    X = centres[y] + draw.normal(0, 1, (n, FEATURES))
    return torch.from_numpy(X).float(), torch.from_numpy(y)


def public_net(rows, hidden=None):
    """A layer that was trained on so many public rows; with a hidden one, that one is frozen."""
    net = nn.Linear(FEATURES, CLASSES)
    if hidden:
        net = nn.Sequential(nn.Linear(FEATURES, hidden), nn.Tanh(), nn.Linear(hidden, CLASSES))
    if rows:
        X, y = records(rows, 1)
        optimiser = torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=1e-2)
        for _ in range(200):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(X), y).backward()
            optimiser.step()
    if hidden:
        net[0].requires_grad_(False)
    return net


def accuracies(rows, epsilon, start, seeds=3, hidden=None):
    """Before and after one epoch."""
    X, y = records(CLIENTS, 2)
    test = records(20_000, 3)
    found = []
    for seed in range(seeds):
        torch.manual_seed(0)
        net = public_net(rows, hidden)
        before = score(net, *test)
        options = {"solution": "NP"} if epsilon is None else {"epsilon": epsilon}
        FederatedTrainer(net, start=start, seed=seed, **options).fit(X, y)
        found.append(score(net, *test))
    return before, found


def score(net, X, y):
    with torch.no_grad():
        return float((net(X).argmax(1) == y).float().mean())


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0, 8.0, None])
def test_a_good_start_is_not_harmed(epsilon):
    """Seeds are fixed, so this is no draw: torch's rounding alone could change it."""
    before, after = accuracies(5_000, epsilon, "trained")
    assert min(after) > before - 0.005
    if epsilon is not None and epsilon <= 1:
        assert max(accuracies(5_000, epsilon, "random")[1]) < before - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_nobody_need_say_that_a_last_layer_was_trained(epsilon):
    before, after = accuracies(5_000, epsilon, "auto", hidden=20)
    assert min(after) > before - 0.005
    if epsilon < 1:
        assert max(accuracies(5_000, epsilon, "random", hidden=20)[1]) < before - 0.005


@pytest.mark.slow
def test_a_poor_start_is_left_where_reports_tell_of_a_better_one():
    before, after = accuracies(30, 8.0, "trained")
    assert min(after) > before + 0.03


def noisy_trainer(net):
    return FederatedTrainer(net, epsilon=0.5, batch=50, start="trained", seed=1)


def test_a_second_fit_goes_on_from_where_the_first_was(monkeypatch):
    """And not from what the first has published, unless somebody else has changed the module."""
    X, y = records(500, 2)
    received = []
    receive = ClientUpdates.receive

    def recorded(self, weights):
        received.append(weights.copy())
        receive(self, weights)

    monkeypatch.setattr(ClientUpdates, "receive", recorded)
    net = public_net(500)
    start = [p.detach().clone() for p in net.parameters()]
    trainer = noisy_trainer(net).fit(X, y)
    # Nothing was confirmed: the module is what it was.
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), start, strict=True))
    first = len(received)
    reached = trainer._reached[1]
    trainer = pickle.loads(pickle.dumps(trainer))
    trainer.fit(X, y)
    np.testing.assert_array_equal(received[first], reached.average)
    assert not np.array_equal(received[first], received[0])
    course = trainer._reached[1].course
    assert len(course.legs) == 20
    np.testing.assert_array_equal(course.start, received[0])
    with torch.no_grad():
        trainer.module.bias.add_(1.0)
    before = trainer.layout.read(trainer.module)
    trainer.fit(X, y)
    np.testing.assert_array_equal(received[2 * first], before)
    assert len(trainer._reached[1].course.legs) == 10


def test_rounds_are_judged_by_what_would_be_published():
    X, y = records(500, 2)
    net = public_net(500)
    before = score(net, X, y)
    trainer = noisy_trainer(net).fit(X, y, eval_set=(X, y), evaluate="rounds")
    assert trainer.history.accuracy == pytest.approx(score(net, X, y)) == pytest.approx(before)


def test_it_goes_with_rounds_that_prepare():
    X, y = records(2_000, 2)
    net = nn.Linear(FEATURES, CLASSES)
    options = {"feature_range": (-1, 9), "centre": 0.2, "spread": 0.1, "start": "trained"}
    trainer = FederatedTrainer(net, epsilon=8.0, batch=100, seed=0, **options).fit(X, y)
    assert len(trainer._reached[1].course.legs) == 20 - 6
    trainer.fit(X, y)
    assert len(trainer._reached[1].course.legs) == 20 - 6 + 20


def test_steps_from_a_trained_start_are_smaller_where_there_is_noise():
    net = nn.Linear(FEATURES, CLASSES)
    one, other = (FederatedTrainer(net, epsilon=1.0, start=s) for s in ("trained", "random"))
    assert one.rate == pytest.approx(other.rate / 8)  # few weights: half of each, or a sixteenth
    one, other = (FederatedTrainer(net, solution="NP", start=s) for s in ("trained", "random"))
    assert one.rate == other.rate


def test_whether_a_start_seems_trained():
    """Where some parameters are frozen, by the weights that are not; decided in the first fit."""
    X, y = records(400, 2)

    def rate(net, **options):
        return FederatedTrainer(net, epsilon=1.0, batch=50, **options).rate

    def made(*grown, frozen=True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 5))
        net[0].requires_grad_(not frozen)
        with torch.no_grad():
            for layer in grown:
                net[layer].weight[0, 0] = 1.0
        return net

    for net, start in (
        (made(2, 3), "trained"),
        (made(3), "random"),  # one of two layers is new
        (made(0), "random"),
        (made(0, 2, 3, frozen=False), "random"),
    ):
        assert rate(net) == rate(net, start=start)
    assert rate(made(2, 3)) != rate(made(2, 3), start="random")
    trainer = FederatedTrainer(made(), epsilon=8.0, batch=50)
    with torch.no_grad():
        for layer in (2, 3):
            trainer.module[layer].weight[0, 0] = 1.0  # public weights that are loaded late
    trainer.fit(X, y)
    assert trainer._keeps_start
    grows = FederatedTrainer(made(), epsilon=8.0, batch=50).fit(X, y)
    with torch.no_grad():
        for layer in (2, 3):
            grows.module[layer].weight.add_(9.0)
    assert not grows.fit(X + 1e-3, y)._keeps_start


def test_another_start_is_refused():
    with pytest.raises(InvalidArgument, match=r"^start = 'warm': .*auto, random, trained"):
        FederatedTrainer(nn.Linear(2, 2), epsilon=1.0, start="warm")
