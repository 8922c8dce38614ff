"""Clients that measure a module and do not train it."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsel import InvalidArgument
from fedsel.torch import FederatedTrainer
from fedsel.torch._measuring import classes_told

pytestmark = [
    pytest.mark.filterwarnings("ignore::fedsel.errors.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning"),
]
BCE = nn.functional.binary_cross_entropy_with_logits


def made(n=2000, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).astype(np.float32)
    scores = X @ rng.normal(size=(4, classes)) * 2
    return torch.from_numpy(X), torch.from_numpy(scores.argmax(axis=1))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_share_of_the_clients_measures_the_trained_module(classes):
    X, y = made(classes=classes)
    torch.manual_seed(0)
    module = nn.Linear(4, classes)
    trainer = FederatedTrainer(
        module, nn.functional.cross_entropy, epsilon=8.0, measure=0.2, seed=1, batch=0.05
    )
    trainer.fit(X, y, evaluate="rounds")
    found = trainer.measurement
    assert found.clients == 400
    assert found.epsilon == 8.0
    assert sum(one.reports for one in trainer.history.rounds) == 1600
    truth = float((module(X).argmax(dim=1) == y).double().mean())
    assert abs(found["accuracy"].value - truth) < 7 * found["accuracy"].error + 0.02
    assert len(found.shares) == classes


def test_results_depend_on_the_seed_alone_and_groups_measure_with_one_record():
    X, y = made(600)
    results = []
    for _ in range(2):
        torch.manual_seed(0)
        trainer = FederatedTrainer(
            nn.Linear(4, 2), nn.functional.cross_entropy, epsilon=4.0, measure=0.25, seed=3
        )
        trainer.fit(X, y, groups=np.arange(600) // 3)
        results.append(trainer.measurement)
    assert results[0].as_dict() == results[1].as_dict()
    assert results[0].clients == 50


@pytest.mark.filterwarnings("ignore::fedsel.errors.TooFewClientsWarning")
def test_one_output_is_a_margin_or_a_number():
    X, y = made(400)
    two = FederatedTrainer(
        nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), BCE, epsilon=8.0, measure=0.5
    )
    two.fit(X, y.float())
    assert "balanced accuracy" in two.measurement.metrics
    number = FederatedTrainer(
        nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), nn.MSELoss(), epsilon=8.0, measure=0.5
    )
    number.fit(X, torch.tanh(X[:, 0]))
    assert "R²" in number.measurement.metrics


def test_without_measure_nobody_measures():
    X, y = made(300)
    trainer = FederatedTrainer(nn.Linear(4, 2), nn.functional.cross_entropy, epsilon=8.0)
    assert trainer.fit(X, y).measurement is None


def test_a_run_that_goes_on_measures_at_its_end_with_the_same_clients():
    X, y = made(400)

    def trainer():
        torch.manual_seed(0)
        return FederatedTrainer(
            nn.Linear(4, 2), nn.functional.cross_entropy, epsilon=8.0, measure=0.25, seed=2
        )

    whole = trainer().fit(X, y)
    begun = trainer()
    for row in begun.rounds(X, y):
        if row.round == 3:
            break
    assert begun.measurement is None
    resumed = trainer().load_state_dict(begun.state_dict()).fit(X, y)
    assert resumed.measurement.as_dict() == whole.measurement.as_dict()


@pytest.mark.parametrize(
    ("loss", "outputs", "classes"),
    [
        (nn.functional.cross_entropy, 2, 2),
        (nn.CrossEntropyLoss(), 10, 10),
        (BCE, 1, 2),
        (nn.BCEWithLogitsLoss(), 1, 2),
        (nn.functional.huber_loss, 1, 0),
        (nn.L1Loss(), 1, 0),
    ],
)
def test_what_a_loss_tells(loss, outputs, classes):
    assert classes_told(loss, outputs) == classes


@pytest.mark.parametrize(
    ("loss", "outputs"),
    [(BCE, 2), (nn.functional.cross_entropy, 1), (nn.MSELoss(), 3), (lambda a, b: a.sum(), 2)],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_spent(loss, outputs):
    X, y = made(100)
    trainer = FederatedTrainer(nn.Linear(4, outputs), loss, epsilon=8.0, measure=0.1)
    with pytest.raises(InvalidArgument, match="measure = "):
        trainer.fit(X, y)
    assert trainer.history.epochs_heard == 0
