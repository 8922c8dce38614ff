"""What a module must be to be trained by clients, and its parameters as one vector."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from operator import is_
from types import CellType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call

from fedsel.errors import InvalidArgument, check_count, check_kind, check_positive

_HOLDERS = (dict, list, set, deque, CellType)
"""What can be filled, and put back as it was."""
_NOT_DESCENDED = {"torch", "numpy", *sys.stdlib_module_names}
"""Packages whose objects are taken as they are, modules of torch aside."""


def check_module(module: nn.Module) -> None:
    """Refuse what cannot be trained from reports on the parameters alone.

    >>> check_module(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: module = 'BatchNorm1d at "1"': must be without batch norm, ...
    """
    check_kind("module", module, nn.Module)
    for name, part in module.named_modules():
        place = f'{type(part).__name__} at "{name}"'
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            raise InvalidArgument(
                "module",
                place,
                "without batch norm, which mixes the records of clients and keeps statistics of"
                " them that nobody has made private; fedsel.torch.replace_batchnorm(module) puts"
                " GroupNorm in its place",
            )
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 and part.training:
            raise InvalidArgument(
                "module",
                place,
                "without dropout, which module.eval() turns off: it draws from torch's own"
                " generator, and results would depend on more than the seed",
            )
    parameters = [p for p in module.parameters() if p.requires_grad]
    if not parameters:
        raise InvalidArgument("module", type(module).__name__, "a module with trainable parameters")
    if not all(p.dtype in (torch.float32, torch.float64) for p in parameters):
        raise InvalidArgument("module", type(module).__name__, "of float32 or float64 parameters")
    if not all(bool(torch.isfinite(p).all()) for p in parameters):
        raise InvalidArgument("module", "NaN or infinite parameters", "finite")


def check_buffers(module: nn.Module, own: Mapping[str, torch.Tensor], x: torch.Tensor) -> None:
    """Refuse buffers that a forward pass changes; constants are fine.

    ``own`` are the parameters that the module is tried with, on records x (n, …) of nobody.

    >>> check_buffers(nn.BatchNorm1d(3), {}, torch.rand(2, 3))
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: module = 'BatchNorm1d, whose forward pass changes running_mean...
    """
    kept = {name: buffer.detach().to(x.device) for name, buffer in module.named_buffers()}
    if not kept:
        return
    tried = {name: buffer.clone() for name, buffer in kept.items()}
    with torch.no_grad(), Untouched(module):
        functional_call(module, both := {**own, **tried}, (x,))
    changed = [name for name, buffer in kept.items() if not torch.equal(both[name], buffer)]
    if changed:
        raise InvalidArgument(
            "module",
            f"{type(module).__name__}, whose forward pass changes {', '.join(changed[:3])}",
            "a module of constant buffers: reports are on parameters alone, and nobody has made"
            " private what a buffer keeps of records",
        )


def replace_batchnorm(module: nn.Module, *, channels: int = 16) -> nn.Module:
    """Put GroupNorm in the place of every batch norm, in the module itself, and return it.

    A group has at least ``channels`` channels, or all that a layer has. Scales and shifts are kept,
    running statistics are not: a network that was trained with batch norm gives other outputs, and
    should be trained on public data again.

    >>> replace_batchnorm(nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32)))[1].num_groups
    2
    """
    check_kind("module", module, nn.Module)
    check_count("channels", channels)
    batch_norm = nn.modules.batchnorm._BatchNorm
    made: dict[int, nn.Module] = {}
    parts = [part for part in module.modules() if isinstance(part, batch_norm)]
    for part in parts:  # check them all before any is replaced
        if part.num_features < 1:
            allowed = "one that has seen an input, so that its channels are known"
            raise InvalidArgument("module", f"{type(part).__name__} without channels", allowed)
        made[id(part)] = _group_norm(part, channels)
    for parent in list(module.modules()):
        for name, child in list(parent._modules.items()):  # each name, of a shared one too
            if id(child) in made:
                setattr(parent, name, made[id(child)])
    return made.get(id(module), module)


def _group_norm(norm: Any, channels: int) -> nn.GroupNorm:
    count = norm.num_features
    groups = max(g for g in range(1, max(1, count // channels) + 1) if count % g == 0)
    made = nn.GroupNorm(groups, count, eps=norm.eps, affine=norm.affine)
    if norm.affine:
        made.weight, made.bias = norm.weight, norm.bias
    return made.train(norm.training)


def seems_trained(module: nn.Module) -> bool:
    """Whether what is left to train, beside frozen parameters, was trained before.

    torch draws the weights of a new linear or convolutional layer from ±1/√(inputs of an output).
    A layer with a weight beyond that has been trained, or was made in another way; all that are
    trained must have one. A network without frozen parameters is taken as new.

    >>> net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    >>> _ = net[0].requires_grad_(False)
    >>> seems_trained(net), net[2].weight.data.add_(1.0) is None, seems_trained(net)
    (False, False, True)
    """
    if all(p.requires_grad for p in module.parameters()):
        return False
    layers = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    weights = [
        part.weight.detach()
        for part in module.modules()
        if isinstance(part, layers) and part.weight.requires_grad
    ]
    return bool(weights) and all(
        float(w.abs().max()) > 1.001 / math.sqrt(w[0].numel()) for w in weights
    )


class Untouched:
    """A context in which forward passes leave no trace in what is given: a module and its loss.

    What they set, add or remove is put back at the end, in attributes, lists, dictionaries, sets
    and closures alike: no pass finds anything of an earlier one. (That a tensor is changed in place
    is refused by torch itself while it differentiates.)

    >>> net = nn.Linear(2, 1)
    >>> net.seen = []
    >>> with Untouched(net):
    ...     net.last = 4
    ...     net.seen.append(net.last)
    >>> net.seen, hasattr(net, "last")
    ([], False)
    """

    def __init__(self, *roots: object) -> None:
        self._roots = roots
        self._holders = list(_holders(*roots))

    def _changed(self) -> list[tuple[Any, list[Any]]]:
        """The holders that hold something else than they did, and what that was."""
        return [(holder, held) for holder, held in self._holders if not _holds(holder, held)]

    def __enter__(self) -> None:
        if self._changed():  # by who owns the module: that is how it is from now on
            self._holders = list(_holders(*self._roots))

    def __exit__(self, *_: object) -> None:
        for holder, held in self._changed():
            _put_back(holder, held)


def _holders(*roots: object) -> Iterator[tuple[Any, list[Any]]]:
    """All that can be filled and is reached from the roots, and what it holds now."""
    seen, waiting = dict[int, object](), list[Any](roots)
    while waiting:
        value = waiting.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            if isinstance(value, _HOLDERS):
                yield value, _held(value)
            waiting += _parts(value)


def _parts(value: Any) -> Iterable[Any]:
    """What a value holds, or leads to."""
    if isinstance(value, (*_HOLDERS, tuple, frozenset)):
        return _held(value)
    if isinstance(value, MethodType):
        return value.__self__, value.__func__
    if isinstance(value, partial):
        return value.func, value.args, value.keywords
    if isinstance(value, type | ModuleType) or not hasattr(value, "__dict__"):
        return ()
    is_function = isinstance(value, FunctionType)
    package = str((value if is_function else type(value)).__module__).split(".")[0]
    ours = isinstance(value, nn.Module | SimpleNamespace | torch.Tensor)
    if package in _NOT_DESCENDED and not ours:
        return ()
    more = (value.__closure__, value.__defaults__, value.__kwdefaults__) if is_function else ()
    return (vars(value), *more)


def _holds(holder: Any, held: list[Any]) -> bool:
    """Whether a holder still holds the same objects."""
    now = _held(holder)
    return len(now) == len(held) and all(map(is_, now, held))


def _held(holder: Any) -> list[Any]:
    """What a holder holds, in its order."""
    if isinstance(holder, dict):
        return [*holder, *holder.values()]
    if isinstance(holder, CellType):
        try:
            return [holder.cell_contents]
        except ValueError:  # empty
            return []
    return list(holder)


def _put_back(holder: Any, held: list[Any]) -> None:
    if isinstance(holder, CellType):
        if held:
            holder.cell_contents = held[0]
        else:
            del holder.cell_contents
        return
    holder.clear()
    if isinstance(holder, dict):
        keys = len(held) // 2
        holder.update(zip(held[:keys], held[keys:], strict=True))
    elif isinstance(holder, set):
        holder.update(held)
    else:
        holder.extend(held)


class Layout:
    """The trainable parameters of a module as one vector (d,), in the order of the module.

    >>> layout = Layout(nn.Linear(3, 2))
    >>> layout.dim, layout.names
    (8, ['weight', 'bias'])
    """

    def __init__(self, module: nn.Module) -> None:
        trainable = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        self.names = [name for name, _ in trainable]
        self.shapes = [p.shape for _, p in trainable]
        self.ends = np.cumsum([p.numel() for _, p in trainable]).tolist()

    @property
    def dim(self) -> int:
        """d, the number of trainable parameters."""
        return int(self.ends[-1])

    @property
    def slices(self) -> list[slice]:
        """Where each parameter lies in the vector."""
        return [slice(a, b) for a, b in zip([0, *self.ends], self.ends, strict=False)]

    def read(self, module: nn.Module) -> NDArray[np.float64]:
        """The parameters of a module as a vector."""
        parameters = dict(module.named_parameters())
        flat = [parameters[name].detach().double().cpu().reshape(-1) for name in self.names]
        vector: NDArray[np.float64] = torch.cat(flat).numpy()
        return vector

    def write(self, module: nn.Module, vector: NDArray[np.float64]) -> None:
        """Set the parameters of a module from a vector."""
        parameters = dict(module.named_parameters())
        with torch.no_grad():
            for name, place in zip(self.names, self.slices, strict=True):
                parameter = parameters[name]
                part = torch.from_numpy(vector[place]).reshape(parameter.shape)
                parameter.copy_(part)

    def scales(self, clip_scale: Mapping[str, float] | None) -> NDArray[np.float32] | None:
        """The factor of the clip for each entry (d,), from factors by parameter or submodule.

        >>> net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        >>> Layout(net).scales({"0": 0.5, "1.bias": 2.0}).tolist()
        [0.5, 0.5, 1.0, 2.0]
        """
        if clip_scale is None:
            return None
        factors = np.ones(self.dim, dtype=np.float32)
        # The shorter name first: "1.bias" overrides "1".
        for prefix in sorted(clip_scale, key=len):
            factor = check_positive(f"clip_scale[{prefix!r}]", clip_scale[prefix])
            hits = [n == prefix or n.startswith(prefix + ".") for n in self.names]
            if not any(hits):
                raise InvalidArgument(
                    "clip_scale", prefix, f"names of parameters or submodules: {self.names}"
                )
            for place, hit in zip(self.slices, hits, strict=True):
                if hit:
                    factors[place] = factor
        return factors
