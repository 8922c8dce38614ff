"""Chains of linear layers: factored gradients are vmap's, and nothing else is taken for one."""

import numpy as np
import pytest
import torch
from torch import nn

from fedsel.data.partition import by_groups
from fedsel.sampling.parts import Outer, rows_of
from fedsel.torch import ClientUpdates, Local
from fedsel.torch.chains import Chain

cross_entropy = nn.functional.cross_entropy
SIGMOID = nn.Sigmoid()
N = 12


def weighted(outputs, targets):
    """A mean that weights cancel from where there is one record: not the batch's mean loss."""
    return cross_entropy(outputs, targets, weight=torch.tensor([1.0, 5.0, 0.2]))


def frozen(module, *names):
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in names)
    return module


CHAINS = {
    "one layer": (lambda: nn.Linear(6, 3), (6,)),
    "without a bias": (lambda: nn.Sequential(nn.Linear(6, 3, bias=False)), (6,)),
    "two layers": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), (6,)),
    "nested": (
        lambda: nn.Sequential(
            nn.Sequential(nn.Linear(6, 4), nn.GELU()),
            nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.Linear(4, 3)),
        ),
        (6,),
    ),
    "images": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 3)),
        (1, 3, 4),
    ),
    "a function used twice": (
        lambda: nn.Sequential(nn.Linear(6, 4), SIGMOID, nn.Linear(4, 3), SIGMOID),
        (6,),
    ),
    "a frozen layer": (
        lambda: frozen(
            nn.Sequential(nn.Linear(6, 5), nn.ELU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)),
            "0.weight", "0.bias", "4.weight",
        ),
        (6,),
    ),
}  # fmt: skip


def both(module, loss, X, y):
    """The updates by the chain, and by vmap."""
    updates = ClientUpdates(module, loss, X, y)
    updates.receive(updates.layout.read(module))
    clients = np.array([3, 0, 7, 7, N - 1])
    assert updates._chain is not None
    factored = updates.vectors(clients)
    updates._chain = None
    return factored, updates.vectors(clients)


@pytest.mark.parametrize("loss", [cross_entropy, weighted])
@pytest.mark.parametrize("what", CHAINS)
def test_a_chains_gradients_are_vmaps(what, loss):
    make, shape = CHAINS[what]
    module = make()
    factored, plain = both(module, loss, torch.randn(N, *shape), torch.randint(0, 3, (N,)))
    assert any(isinstance(part, Outer) for part in factored)
    for one, other in zip(factored, plain, strict=True):
        np.testing.assert_allclose(rows_of(one), rows_of(other), rtol=1e-5, atol=1e-7)
        assert np.abs(rows_of(other)).max() > 0


def test_known_losses_are_those_of_single_records_to_the_bit():
    outputs, y = torch.randn(N, 3), torch.randint(0, 3, (N,))
    known, other = (
        ClientUpdates(nn.Linear(6, 3), loss, torch.randn(N, 6), y)
        for loss in (cross_entropy, nn.CrossEntropyLoss())
    )
    assert known._classes
    assert not other._classes
    assert torch.equal(known._losses(outputs, y), other._losses(outputs, y))
    for targets in (torch.rand(N, 3), torch.where(y == 0, -100, y)):  # shares; some left out
        assert not ClientUpdates(
            nn.Linear(6, 3), cross_entropy, torch.randn(N, 6), targets
        )._classes


def test_records_are_on_their_own_whatever_the_others_are():
    module = CHAINS["two layers"][0]()
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    alone, together = (ClientUpdates(module, weighted, X, y) for _ in range(2))
    for updates in (alone, together):
        updates.receive(updates.layout.read(module))
    whole = together.vectors(np.arange(N))
    for client in range(N):
        for one, other in zip(alone.vectors(np.array([client])), whole, strict=True):
            np.testing.assert_allclose(
                rows_of(one)[0], rows_of(other)[client], rtol=1e-5, atol=1e-7
            )


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Centred(nn.Sequential):
    def forward(self, x):
        x = super().forward(x)
        return x - x.mean(0)


def used_twice():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer)


def tied():
    module = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    module[2].weight = module[0].weight
    return module


def hooked():
    module = nn.Sequential(nn.Linear(6, 3))
    module[0].register_forward_hook(lambda _module, _inputs, outputs: 2 * outputs)
    return module


OTHERS = {
    "another class of layer": lambda: Doubled(6, 3),
    "another class of sequence": lambda: Centred(nn.Linear(6, 3)),
    "a layer used twice": used_twice,
    "tied weights": tied,
    "a hook": hooked,
    "a function in place": lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU(inplace=True)),
    "a normalisation": lambda: nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4)),
    "a function with a parameter": lambda: nn.Sequential(nn.Linear(6, 4), nn.PReLU()),
    "a function along an axis": lambda: nn.Sequential(nn.Linear(6, 4), nn.Softmax(dim=0)),
    "another way to flatten": lambda: nn.Sequential(nn.Flatten(0), nn.Linear(6, 4)),
    "double precision": lambda: nn.Linear(6, 3).double(),
    "weights under a parametrisation": lambda: nn.utils.parametrizations.weight_norm(
        nn.Linear(6, 3)
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_nothing_else_is_taken_for_a_chain(what):
    assert Chain.of(OTHERS[what](), torch.randn(N, 6)) is None


def test_records_of_several_rows_are_no_chain_unless_flattened():
    assert Chain.of(nn.Linear(6, 3), torch.randn(N, 2, 6)) is None
    assert Chain.of(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), torch.randn(N, 2, 6)) is not None


def test_updates_that_are_more_than_a_gradient_are_vmaps():
    X, y = torch.randn(N, 6), torch.randint(0, 3, (N,))
    for more in (
        {"reg": 0.1},
        {"local": Local(rate=0.1)},
        {"partition": by_groups([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])},
    ):
        assert ClientUpdates(nn.Linear(6, 3), cross_entropy, X, y, **more)._chain is None
    single = by_groups(np.arange(N)[::-1])
    assert ClientUpdates(nn.Linear(6, 3), cross_entropy, X, y, partition=single)._chain is not None


def test_a_loss_of_several_numbers_is_refused():
    def each(outputs, targets):
        return cross_entropy(outputs, targets, reduction="none")

    updates = ClientUpdates(nn.Linear(6, 3), each, torch.randn(N, 6), torch.randint(0, 3, (N,)))
    updates.receive(np.zeros(21))
    with pytest.raises(RuntimeError, match="shape"):
        updates.vectors(np.arange(N))
