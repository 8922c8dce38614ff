"""Chains of linear layers: the gradient of each at one record is an outer product, and stays one.

A batch goes through such a network once, forth and back, and each layer's inputs a (n, b) and
slopes δ (n, a) are all there is to know: the gradient of its weight at record i is δ_i a_iᵀ, that
of its bias δ_i. What vmap would write out, (n, d) numbers, is never written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import nn

_ENTRY_BY_ENTRY = (
    nn.CELU,
    nn.ELU,
    nn.GELU,
    nn.Hardtanh,
    nn.Identity,
    nn.LeakyReLU,
    nn.LogSigmoid,
    nn.Mish,
    nn.ReLU,
    nn.ReLU6,
    nn.SELU,
    nn.Sigmoid,
    nn.SiLU,
    nn.Softplus,
    nn.Softsign,
    nn.Tanh,
    nn.Tanhshrink,
)
"""Functions of single entries: no record can see another. Only these very classes are taken."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

Losses = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""losses(outputs (n, …), targets (n, …)) → the loss of each record (n,)."""


@final
@dataclass(frozen=True)
class Chain:
    """Linear layers in a row, each used once, with functions of single entries between them.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    >>> [name for name, _ in Chain.of(net, torch.ones(1, 2)).layers]
    ['0', '1', '2']
    """

    layers: tuple[tuple[str, nn.Module], ...]

    @classmethod
    def of(cls, module: nn.Module, X: torch.Tensor) -> Self | None:
        """The chain that a module is on records X; None for what is more than that."""
        layers = list(_in_order(module))
        flat = X.ndim == 2
        for _, layer in layers:
            kind = type(layer)
            if kind is nn.Flatten:
                if (layer.start_dim, layer.end_dim) != (1, -1) or X.ndim < 2:
                    return None
                flat = True
            elif kind is nn.Linear:
                if not flat or layer.weight.dtype != torch.float32:
                    return None
            elif kind not in _ENTRY_BY_ENTRY or getattr(layer, "inplace", False):
                return None
        parameters = [id(p) for _, layer in layers for p in layer.parameters()]
        used_once = len(set(parameters)) == len(parameters)
        hooked = any(getattr(part, name) for part in module.modules() for name in _HOOKS)
        return cls(tuple(layers)) if used_once and not hooked else None

    def slopes(
        self, weights: dict[str, torch.Tensor], x: torch.Tensor, losses: Losses, y: torch.Tensor
    ) -> dict[str, tuple[torch.Tensor, ...]]:
        """The gradient of each record's loss: (δ, inputs) of a weight, (δ,) of a bias.

        ``weights`` are all of the chain's; the gradients are those of the trainable ones.
        """
        inputs: dict[str, torch.Tensor] = {}
        outputs: dict[str, torch.Tensor] = {}
        with torch.enable_grad():
            for name, layer in self.layers:
                if not isinstance(layer, nn.Linear):
                    x = layer(x)
                    continue
                before = name + "." if name else ""
                parameters = weights[before + "weight"], weights.get(before + "bias")
                inputs[name], x = x.detach(), nn.functional.linear(x, *parameters)
                if any(p.requires_grad for p in layer.parameters()):
                    # The first of them is where the way back ends.
                    outputs[name] = x if x.requires_grad else x.requires_grad_()
            each = losses(x, y)
            ones = torch.ones(len(y), dtype=each.dtype, device=each.device)
            deltas = torch.autograd.grad(each, list(outputs.values()), ones, materialize_grads=True)
        slopes: dict[str, tuple[torch.Tensor, ...]] = {}
        for name, delta in zip(outputs, deltas, strict=True):
            before = name + "." if name else ""
            slopes[before + "weight"] = (delta, inputs[name])
            slopes[before + "bias"] = (delta,)
        return slopes


def _in_order(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The layers of nested sequences, with the names that their parameters have."""
    if type(module) is not nn.Sequential:
        yield name, module
        return
    for child, layer in module._modules.items():  # named_children() tells a layer used twice once
        yield from _in_order(layer, f"{name}.{child}" if name else child)
