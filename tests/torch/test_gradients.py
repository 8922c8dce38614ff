"""Updates of a module's clients: autograd's gradients, in chunks."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from fedsel.data.partition import by_groups
from fedsel.simulation._stages import VectorReports
from fedsel.torch import ClientUpdates, FederatedTrainer, Local
from tests.torch.test_trainer import PAPER, cross_entropy, flat, mlp, records

# Tests repeat themselves, and their clients are nobody: test_release.py is on these warnings.
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3)
    )


MODELS = [(mlp, (6,)), (cnn, (1, 6, 6))]


def autograd(module, loss, x, y):
    """The gradient of the mean loss, by one backward pass."""
    module.zero_grad()
    loss(module(x), y).backward()
    slopes = [p.grad.reshape(-1) for p in module.parameters() if p.requires_grad]
    return torch.cat(slopes).numpy().copy()


@pytest.mark.parametrize(("make", "shape"), MODELS)
def test_vmapped_gradients_are_autograds(make, shape):
    module = make()
    X, y = records(shape)
    updates = ClientUpdates(module, cross_entropy, X, y)
    updates.receive(updates.layout.read(module))
    made = flat(updates.vectors(np.arange(11)))
    for i in range(11):
        expected = autograd(module, cross_entropy, X[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(made[i], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("make", "shape"), MODELS)
def test_a_group_has_the_gradient_of_its_mean_loss(make, shape):
    module = make()
    X, y = records(shape)
    clients = by_groups([0, 0, 1, 2, 2, 2, 2, 0, 1, 2, 3])
    updates = ClientUpdates(module, cross_entropy, X, y, partition=clients, reg=0.5)
    weights = updates.layout.read(module)
    updates.receive(weights)
    assert updates.clients == 4
    made = flat(updates.vectors(np.array([3, 0, 2, 1])))
    for row, client in zip(made, (3, 0, 2, 1), strict=True):
        mine = torch.from_numpy(clients.records(client))
        expected = autograd(module, cross_entropy, X[mine], y[mine]) + 0.5 * weights
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("grouped", [False, True])
def test_local_epochs_are_gradient_descent(batch, grouped):
    """The update is the difference of the weights after a plain loop of torch's own."""
    module = mlp()
    X, y = records((6,))
    owners = [0, 0, 1, 2, 2, 2, 2, 0, 1, 2, 3] if grouped else range(11)
    clients = by_groups(list(owners))
    local = Local(rate=0.1, epochs=3, batch=batch)
    updates = ClientUpdates(
        module, cross_entropy, X, y, partition=clients if grouped else None, local=local, reg=0.01
    )
    start = updates.layout.read(module)
    updates.receive(start)
    made = flat(updates.vectors(np.arange(updates.clients)))
    for client in range(updates.clients):
        updates.layout.write(module, start)
        mine = torch.from_numpy(clients.records(client))
        optimiser = torch.optim.SGD(module.parameters(), lr=0.1, weight_decay=0.01)
        for _, at in itertools.product(range(3), range(0, len(mine), batch or len(mine))):
            part = mine[at : at + (batch or len(mine))]
            optimiser.zero_grad()
            cross_entropy(module(X[part]), y[part]).backward()
            optimiser.step()
        expected = start - updates.layout.read(module)
        np.testing.assert_allclose(made[client], expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("recipe", [PAPER, {}])
def test_chunks_change_no_report(recipe):
    X, y = records((6,), 40)
    weights = []
    for chunk in (1, 16, 40):
        torch.manual_seed(1)
        trainer = FederatedTrainer(
            mlp(), epsilon=8.0, batch=20, chunk=chunk, learning_rate=5.0, seed=0, **recipe
        )
        weights.append(trainer.fit(X, y).history.weights)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)
    np.testing.assert_allclose(weights[0], weights[2], rtol=1e-6)


def test_no_more_than_a_chunk_is_ever_held(monkeypatch):
    held = []
    report = VectorReports.report

    def watched(self, epoch, clients, parts):
        held.append(flat(parts).size)
        report(self, epoch, clients, parts)

    monkeypatch.setattr(VectorReports, "report", watched)
    X, y = records((6,), 40)
    trainer = FederatedTrainer(mlp(), epsilon=8.0, batch=20, chunk=6)
    trainer.fit(X, y)
    assert held == [5 * trainer.layout.dim] * 8  # rounds of 20 in equal chunks, not 6 + 6 + 6 + 2
