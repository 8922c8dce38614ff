"""Modules of one's own, and updates that are compared with vmap's."""

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from fedsel.sampling._batch import Outer, rows_of
from fedsel.torch import ClientUpdates

N = 12
CLIENTS = np.array([3, 0, 7, 7, N - 1])


class Own(nn.Module):
    """Two layers and a forward pass that is a function of theirs."""

    def __init__(self, forward):
        super().__init__()
        self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 3)
        self.way = forward

    def forward(self, x):
        return self.way(self, x)


def plain(own, x):
    return own.two(torch.tanh(own.one(x)))


def by_vmap(updates, x, y):
    """The slow twin: vmap of the plain gradient."""

    def loss(weights, x, y):
        return updates.loss(functional_call(updates.module, weights, (x,)), y)

    weights = {k: p.detach().clone() for k, p in updates.module.named_parameters()}
    free = {k: weights[k] for k in updates.layout.names}
    held = {k: weights[k] for k in weights if k not in free}
    slopes = vmap(grad(lambda free, x, y: loss({**free, **held}, x, y)), in_dims=(None, 0, 0))(
        free, x.unsqueeze(1), y.unsqueeze(1)
    )
    return [slopes[name].detach().flatten(1).numpy() for name in updates.layout.names]


def check(updates, clients=CLIENTS):
    """Compare with vmap, and return the names of the weights that came in two factors."""
    updates.receive(updates.layout.read(updates.module))
    parts = updates.vectors(clients)
    rows = torch.from_numpy(clients)
    X, y = updates.records.X, updates.records.y
    for one, other in zip(parts, by_vmap(updates, X[rows], y[rows]), strict=True):
        np.testing.assert_allclose(rows_of(one), other, rtol=1e-5, atol=1e-7)
    return {
        name
        for name, part in zip(updates.layout.names, parts, strict=True)
        if isinstance(part, Outer)
    }


def updates_of(module, loss=nn.functional.cross_entropy, shape=(6,)):
    return ClientUpdates(module, loss, torch.randn(N, *shape), torch.randint(0, 3, (N,)))
