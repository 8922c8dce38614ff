"""Per-client gradients of any module by vmap; linear layers keep theirs in two factors.

While the loss of a client is computed, F.linear(x, W, b) of a trainable W and a single row x is
taken as F.linear(x, W.detach(), b) + δ with δ = -0, which changes no bit of it. By the chain rule

    ∂loss/∂W = ∂loss/∂δ ⊗ x + rest,

where the rest is the gradient on all other ways from W to the loss. It is differentiated as ever,
so what the module does with W elsewhere need not be known. Where the rest is nothing, the gradient
stays in its two factors, and the (n, a·b) numbers that vmap would write are never written.

All of it happens inside vmap: a client's records are all that its forward pass can see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import grad, vmap
from torch.overrides import TorchFunctionMode, has_torch_function

Tensors = dict[str, torch.Tensor]
"""Tensors by the name of a parameter."""
ClientLoss = Callable[[Tensors, torch.Tensor, torch.Tensor], torch.Tensor]
"""loss(weights, x (s, …), y (s, …)) → the mean loss of one client, a scalar."""

# How deep in transforms of torch.func a call is. Without it nothing is factored.
_level: Callable[[], int] | None = getattr(torch._C._functorch, "current_level", None)
# What differentiates within the loss, or leads to nodes that do; torch allows no backward() there.
_DIFFERENTIATE = {torch.autograd.grad, torch.Tensor.grad_fn.__get__}


class Gradients:
    """The gradient of each client's loss: (δ, x) of a weight that stays factored, (numbers,) else.

    >>> layer, x, y = nn.Linear(3, 2), torch.randn(5, 1, 3), torch.zeros(5, 1, 2)
    >>> weights = {name: p.detach() for name, p in layer.named_parameters()}
    >>> def loss(weights, x, y):
    ...     return nn.functional.mse_loss(torch.func.functional_call(layer, weights, (x,)), y)
    >>> gradients = Gradients(loss)
    >>> gradients.learn(weights, x, y)  # entries a client: δ and x, the slope of b, and outputs
    10
    >>> {name: [tuple(f.shape) for f in g] for name, g in gradients(weights, x, y).items()}
    {'weight': [(5, 2), (5, 3)], 'bias': [(5, 2)]}
    """

    def __init__(self, loss: ClientLoss) -> None:
        self._loss = loss
        self._deltas: Tensors = {}

    def learn(self, weights: Tensors, x: torch.Tensor, y: torch.Tensor) -> int:
        """Find what can be factored by the records of two clients or more; entries held for one."""
        looked = self._watched(weights, {}, x, y)
        if looked is not None:
            self._deltas = {
                name: torch.full(shape, -0.0, dtype=torch.float32, device=weights[name].device)
                for name, shape in looked[0].shapes.items()
            }
        gradients = self(weights, x, y)  # what turns out to be more than a product is dropped
        held = sum(int(f[0].numel()) for factors in gradients.values() for f in factors)
        return held if looked is None else looked[0].entries + held

    def __call__(
        self, weights: Tensors, x: torch.Tensor, y: torch.Tensor
    ) -> dict[str, tuple[torch.Tensor, ...]]:
        """The gradients of n clients, of x (n, s, …) and y (n, s, …): tensors (n, …)."""
        if self._deltas and len(x) > 1:  # of one client, a constant is not told from its own
            watched = self._watched(weights, self._deltas, x, y)
            if watched is not None:
                return self._joined(*watched[1:])
            self._deltas = {}
        slopes = vmap(lambda x, y: grad(self._loss)(weights, x, y))(x, y)
        return {name: (slope,) for name, slope in slopes.items()}

    def _watched(
        self, weights: Tensors, deltas: Tensors, x: torch.Tensor, y: torch.Tensor
    ) -> tuple[_Watch, Tensors, Tensors, Tensors] | None:
        """A watch, the rest of ∂loss/∂W, ∂loss/∂δ, and x where a δ was used; None if in doubt."""
        watches = []

        def loss(
            both: tuple[Tensors, Tensors], x: torch.Tensor, y: torch.Tensor
        ) -> tuple[torch.Tensor, Tensors]:
            watches.append(watch := _Watch(*both))
            with watch:
                value = self._loss(both[0], x, y)
            watch.end()
            return value, watch.inputs

        gradient = grad(loss, has_aux=True)
        try:
            (rest, slopes), inputs = vmap(lambda x, y: gradient((weights, deltas), x, y))(x, y)
        except Exception:  # the plain pass below reports what is wrong with the module
            return None
        return None if watches[0].doubtful else (watches[0], rest, slopes, inputs)

    def _joined(
        self, rests: Tensors, slopes: Tensors, inputs: Tensors
    ) -> dict[str, tuple[torch.Tensor, ...]]:
        """Factors where they are all there is; else the sum, and an ordinary weight later on."""
        gradients: dict[str, tuple[torch.Tensor, ...]] = {}
        for name, rest in rests.items():
            if name not in inputs or _nothing(slopes[name]):
                gradients[name] = (rest,)
                continue
            left, right = (factor.flatten(1) for factor in (slopes[name], inputs[name]))
            if _nothing(rest):
                gradients[name] = (left, right)
            else:
                gradients[name] = (rest + left[:, :, None] * right[:, None, :],)
        self._deltas = {name: d for name, d in self._deltas.items() if len(gradients[name]) == 2}
        return gradients


def entries_of(loss: Callable[..., torch.Tensor], weights: Tensors, *records: torch.Tensor) -> int:
    """The entries of all tensors on the way to one client's loss, from records (n, s, …).

    >>> weights, x = {"w": torch.ones(3)}, torch.ones(2, 1, 3)
    >>> entries_of(lambda weights, x: (x * weights["w"]).sum(), weights, x)  # a product, a sum
    4
    """
    watches = []

    def watched(*own: torch.Tensor) -> torch.Tensor:
        watches.append(watch := _Watch(weights, {}))
        with watch:
            return loss(weights, *own)

    vmap(watched)(*records)
    return watches[0].entries


class _Watch(TorchFunctionMode):  # type: ignore[misc]
    """Sees the functions of torch that a loss calls, and moves weights out of linear layers.

    Without deltas it only looks: ``shapes`` of the outputs of linear layers, and the ``entries`` of
    all outputs. ``doubtful`` is whether ∂loss/∂W may be more than the product and the rest.
    """

    def __init__(self, weights: Tensors, deltas: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._weights, self._deltas = weights, deltas
        self._names = {id(weight): name for name, weight in weights.items()}
        self._level = None if _level is None else _level()
        self._ended = False
        self.inputs: Tensors = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.entries = 0
        self.doubtful = False

    # Where a module is compiled, this is not; vmap needs the compiler's modules anyway.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _DIFFERENTIATE:
            self.doubtful = True
        made = self._linear(*args, **kwargs) if func is nn.functional.linear else None
        if made is None:
            made = func(*args, **kwargs)
        if not self._deltas and isinstance(made, torch.Tensor):
            self.entries += made.numel()
        return made

    def _linear(self, input: Any, weight: Any, bias: Any = None) -> torch.Tensor | None:  # noqa: A002
        """A linear layer whose weight is out of the way; None if it has to stay."""
        name = self._names.get(id(weight))
        if name is None or name in self.inputs or not self._product(input, weight, bias):
            return None
        shape = (*input.shape[:-1], len(weight))
        if not self._deltas:
            self.shapes[name] = shape
            return None
        delta = self._deltas.get(name)
        if delta is None or delta.shape != shape:
            return None
        made: torch.Tensor = nn.functional.linear(input, weight.detach(), bias)
        if made.dtype != delta.dtype:  # double precision, or autocast
            return None
        made = made + delta
        made.register_hook(self._differentiate)
        # Whatever is done to the input in place, later, this is what the layer has seen.
        self.inputs[name] = input.detach().clone()
        return made

    def _product(self, x: torch.Tensor, weight: torch.Tensor, bias: Any) -> bool:
        """Whether the gradient by the weight is ∂loss/∂output ⊗ x."""
        return (
            weight.ndim == 2
            and x.numel() == weight.shape[1]
            and not has_torch_function((x, bias))  # nor has an outer mode: linear is torch's own
            and torch.is_grad_enabled()
            and _level is not None
            and _level() == self._level  # in a transform of the module's own, x may be many rows
            and forward_ad.unpack_dual(x).tangent is None
        )

    def _differentiate(self, _slope: torch.Tensor) -> None:
        """A hook of outputs: before the loss is known, somebody else differentiates."""
        self.doubtful |= not self._ended

    def end(self) -> None:
        """The loss is known. A hook of a weight would not be called with its whole gradient."""
        self._ended = True
        hooked = any(self._weights[name]._backward_hooks for name in self.inputs)
        self.doubtful |= hooked


def _nothing(slopes: torch.Tensor) -> bool:
    """Whether slopes (n, …) are the zero that torch gives for what was not used: one for all."""
    return slopes.stride(0) == 0 and not bool(slopes[0].any())
