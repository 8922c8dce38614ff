"""A trained module that is released: no seed unless asked for, and clients who come again."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from fedsel import FedSelClassifier, FitAccount
from fedsel.errors import (
    LifetimeExceeded,
    PrivacyLeakWarning,
    RepeatedFitWarning,
    SeededNoiseWarning,
)
from fedsel.torch import FederatedTrainer


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def records(n=60):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, 4, generator=generator), torch.arange(n) % 2


def trained(X, y, **given):
    module = nn.Linear(4, 2)
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    return FederatedTrainer(module, epsilon=1.0, batch=20, **given).fit(X, y)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
def test_without_a_seed_no_two_trainings_are_alike():
    X, y = records()
    one, two = trained(X, y), trained(X, y)
    assert one.seed is None
    assert (one.history.weights != two.history.weights).any()
    assert not one.history.seeded
    assert "seed" not in one.privacy.note
    # What a small number would have given is not what was released.
    stolen = pickle.loads(pickle.dumps(one))
    with pytest.warns(SeededNoiseWarning):
        guesses = [trained(X, y, seed=seed).history.weights for seed in range(20)]
    assert not any(np.array_equal(stolen.history.weights, guess) for guess in guesses)


@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
def test_a_seed_repeats_and_warns():
    X, y = records()
    runs = []
    for _ in range(2):
        trainer = FederatedTrainer(nn.Linear(4, 2), epsilon=1.0, batch=20, seed=7)
        with torch.no_grad():
            for parameter in trainer.module.parameters():
                parameter.zero_()
        with pytest.warns(SeededNoiseWarning, match="seed is fixed.*Do not release") as caught:
            trainer.fit(X, y)
        assert caught[0].filename == __file__
        runs.append(trainer)
    np.testing.assert_array_equal(runs[0].history.weights, runs[1].history.weights)
    assert runs[0].history.seeded
    assert "does not hold against whoever knows or guesses the seed" in runs[0].privacy.note
    assert runs[0].privacy.total == pytest.approx(1.0)
    plain = FederatedTrainer(nn.Linear(4, 2), solution="NP", seed=7).fit(X + 1, y)
    assert "seed" not in plain.privacy.note


def test_who_trains_again_pays_again():
    X, y = records()
    trainer = FederatedTrainer(nn.Linear(4, 2), epsilon=1.5, batch=20).fit(X, y)
    assert trainer.spent == pytest.approx(1.5)
    with pytest.warns(RepeatedFitWarning, match=r"30 of 30 .*spent ε = 3 so far") as caught:
        trainer.fit(X[:30], y[:30])
    assert caught[0].filename == __file__
    assert issubclass(caught[0].category, PrivacyLeakWarning)
    assert trainer.spent == pytest.approx(3.0)
    assert not hasattr(pickle.loads(pickle.dumps(trainer)), "spent")
    assert FederatedTrainer(nn.Linear(4, 2), epsilon=1.5).fit(X + 1, y).spent == pytest.approx(1.5)


def test_one_account_counts_trainers_and_estimators():
    X, y = records()
    module = nn.Linear(4, 2)
    before = [p.clone() for p in module.parameters()]
    with FitAccount(lifetime=2.5) as account:
        FedSelClassifier(epsilon=2.0, feature_range=(-9, 9)).fit(X + 1, y)
        with pytest.raises(LifetimeExceeded, match="this fit costs ε = 1"):
            FederatedTrainer(module, epsilon=1.0, batch=20).fit(X, y)
        assert all(torch.equal(p, q) for p, q in zip(before, module.parameters(), strict=True))
        trainer = FederatedTrainer(module, epsilon=0.5, batch=20).fit(X, y)
    assert (account.fits, account.spent) == (2, 2.5)
    assert trainer.spent == pytest.approx(0.5)
