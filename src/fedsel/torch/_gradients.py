"""Per-client updates of any module by torch.func: vmap over clients, chunk by chunk.

Memory is bounded by the chunk, not by the number of clients. Gradients of linear layers stay
factored, and not even a chunk (n, d) is held of them (`fedsel.torch._factored`).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call, grad, vmap

from fedsel.data.partition import Clients
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive
from fedsel.preparation import Preparation
from fedsel.sampling._batch import Outer, Part, rows_of
from fedsel.simulation import Population
from fedsel.torch._factored import Gradients, entries_of
from fedsel.torch._inputs import Inputs, Loss
from fedsel.torch._modules import Layout, Untouched, check_buffers, check_module
from fedsel.torch._records import DatasetRecords, Records, TensorRecords, records_of

CHUNK_BYTES = 2**26
_COPIES = 2
"""What is held for a chunk, and what torch needs on the way to it."""


@dataclass(frozen=True)
class _OnScale:
    """Flat records (N, features) on their public scale, read row by row."""

    records: Records
    inputs: Inputs

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.records), self.inputs.features

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.inputs.records(self.records.read(rows)[0])


@dataclass(frozen=True)
class Local:
    """How a client trains for itself; the update is then the difference of the weights.

    ``epochs`` passes over its records in steps of ``batch`` records (all at once if None) at the
    learning rate ``rate``. The records keep their order.
    """

    rate: float
    epochs: int = 1
    batch: int | None = None

    def __post_init__(self) -> None:
        check_positive("rate", self.rate)
        check_count("epochs", self.epochs)
        if self.batch is not None:
            check_count("batch", self.batch)


class ClientUpdates:
    """The update of each client: the gradient of its mean loss, or its local training.

    A source of vectors for `fedsel.simulation.train_vectors`. Client i holds row i of X and y, or
    the rows that ``partition`` gives it; X may be a Dataset of both. ``reg`` adds λw to every
    gradient.

    >>> net = nn.Linear(2, 1, bias=False)
    >>> X, y = torch.eye(2), torch.zeros(2, 1)
    >>> updates = ClientUpdates(net, nn.functional.mse_loss, X, y)
    >>> updates.receive(np.array([3.0, 5.0]))
    >>> updates.vectors(np.arange(2))[0].rows().tolist()  # a linear layer's come in two factors
    [[6.0, 0.0], [0.0, 10.0]]
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        X: Any,
        y: Any = None,
        *,
        partition: Clients | None = None,
        local: Local | None = None,
        reg: float = 0.0,
        clip_scale: Mapping[str, float] | None = None,
        chunk: int | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        check_module(module)
        if not callable(loss):
            raise InvalidArgument("loss", loss, "a function of outputs and targets")
        if check_finite("reg", reg) < 0:
            raise InvalidArgument("reg", reg, "a finite number ≥ 0")
        self.module, self.loss, self.local, self.reg = module, loss, local, float(reg)
        self.layout = Layout(module)
        parameter = next(p for p in module.parameters() if p.requires_grad)
        self.device = parameter.device if device is None else torch.device(device)
        self._dtype = parameter.dtype
        given = isinstance(X, TensorRecords | DatasetRecords)
        self.records: Records = X if given else records_of(X, y, parameter.dtype)
        self.inputs: Inputs | None = None
        self.preparation: Preparation | None = None
        self.partition = partition
        if partition is not None and int(partition.order.max()) >= len(self.records):
            raise InvalidArgument("partition", repr(partition), f"of {len(self.records)} records")
        self.scales = self.layout.scales(clip_scale)
        self._frozen = {
            name: p.detach().to(self.device)
            for name, p in module.named_parameters()
            if not p.requires_grad
        }
        self._buffers = {name: b.detach().to(self.device) for name, b in module.named_buffers()}
        self._weights: dict[str, torch.Tensor] = {}
        self._single = partition is None  # not: if all hold one record, which is their affair
        dims = (None, 0, 0) if self._single else (None, 0, 0, 0)
        self._updates = vmap(self._update, in_dims=dims)
        self._classes = (
            loss is nn.functional.cross_entropy
            and self.records.like[1].ndim == 1
            and not self.records.like[1].is_floating_point()
        )
        self._untouched = Untouched(module, loss)
        self._gradients: Gradients | None = None
        try:
            entries = self._tried(self._tensors(self.layout.read(module)))
        except RuntimeError as error:
            if not str(error).startswith("vmap:"):
                raise
            actual = f"{type(module).__name__}, which torch.func.vmap cannot run"
            allowed = (
                "a module that takes many clients at a time: nothing in it is random or decided by"
                " the values of tensors (.item(), if x.any())"
            )
            raise InvalidArgument("module", actual, allowed) from error
        fits = max(1, CHUNK_BYTES // (4 * _COPIES * entries))
        self.chunk = fits if chunk is None else check_count("chunk", chunk)

    def _tried(self, start: dict[str, torch.Tensor]) -> int:
        """Try the module on records of nobody; how many entries are held for one client."""
        made_up = self._made_up(0)
        check_buffers(self.module, {**start, **self._frozen}, made_up[0][:, 0])
        with self._untouched:
            if self._single and self.local is None and self.reg == 0:
                self._gradients = Gradients(self._mean_loss)
                entries = self._gradients.learn(start, made_up[0], made_up[1])
            else:
                held = entries_of(self._mean_loss, start, *made_up)
                entries = self.layout.dim + held * self._together
        self._check_passes(start)
        return entries

    @property
    def _together(self) -> int:
        """The most records of a client that are in one step of its training."""
        largest = 1 if self.partition is None else int(self.partition.sizes.max())
        return min(largest, (self.local and self.local.batch) or largest)

    def _made_up(self, seed: int) -> tuple[torch.Tensor, ...]:
        """Made-up records of two clients, with the shape and type of real ones."""
        x, y = self.records.like
        if x.is_floating_point():
            # In [0, 1): taken as numbers of words they are all 0, which every embedding has.
            x = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed)).to(x.dtype)
        there = () if self._single else (torch.ones(1, dtype=torch.bool),)
        return tuple(torch.stack([part, part]).to(self.device) for part in (x, y, *there))

    def _check_passes(self, weights: dict[str, torch.Tensor]) -> None:
        """Refuse a module whose update of a client depends on clients before it.

        What a module keeps where `Untouched` does not look, in a global variable or an attribute of
        a class, shows itself here: the same made-up client, before and after another.
        """
        other = {name: 1.5 * weight for name, weight in weights.items()}
        passes = ((weights, 1), (other, 2), (weights, 1))
        first, _, again = (self._parts(w, *self._made_up(seed)) for w, seed in passes)
        for one, two in zip(map(rows_of, first), map(rows_of, again), strict=True):
            size = np.abs(one).max(initial=0.0, where=np.isfinite(one))
            if not np.allclose(one, two, rtol=1e-4, atol=1e-6 * size, equal_nan=True):
                raise InvalidArgument(
                    "module",
                    f"{type(self.module).__name__}, whose update for a client depends on the"
                    " clients before it",
                    "one that keeps nothing of a forward pass: not in a global variable, a class or"
                    " the loss either",
                )

    @property
    def clients(self) -> int:
        return len(self.records) if self.partition is None else self.partition.n

    @property
    def population(self) -> Population:
        """The clients with their records on the public scale, which are read when asked for."""
        own, flat = self.partition, _OnScale(self.records, cast(Inputs, self.inputs))
        order, starts = (None, None) if own is None else (own.order, own.starts)
        return Population(flat, np.empty(0), order, starts)

    def on_scale(self, inputs: Inputs, preparation: Preparation) -> ClientUpdates:
        """The same clients, after each has put its inputs on a public scale and prepared them."""
        other = copy(self)
        other.inputs, other.preparation = inputs, preparation
        return other

    def prepared(self, preparation: Preparation, /) -> ClientUpdates:
        return self.on_scale(cast(Inputs, self.inputs), preparation)

    def receive(self, weights: NDArray[np.float64], /) -> None:
        self._weights = self._tensors(weights)

    def _tensors(self, weights: NDArray[np.float64]) -> dict[str, torch.Tensor]:
        """A vector (d,) split into the parameters of the module."""

        def own(place: slice, shape: torch.Size) -> torch.Tensor:
            # A copy, in float64 too: what a module does to its parameters stays with it.
            part = torch.from_numpy(weights[place])
            return part.to(self.device, self._dtype, copy=True).reshape(shape)

        places = zip(self.layout.names, self.layout.slices, self.layout.shapes, strict=True)
        return {name: own(place, shape) for name, place, shape in places}

    def vectors(self, clients: NDArray[np.int64], /) -> list[Part]:
        """The updates (n, d) of these clients, in parts (n, …) as the parameters are."""
        return self._parts(self._weights, *self._records(clients))

    def _parts(self, weights: dict[str, torch.Tensor], *records: torch.Tensor) -> list[Part]:
        with self._untouched:
            if self._gradients is not None:
                gradients = self._gradients(weights, *records)
            else:
                updates = self._updates(weights, *records)
                gradients = {name: (update,) for name, update in updates.items()}
        return [self._part(*gradients[name]) for name in self.layout.names]

    @staticmethod
    def _part(*factors: torch.Tensor) -> Part:
        held = [factor.detach().to("cpu", torch.float32).numpy() for factor in factors]
        return held[0] if len(held) == 1 else Outer(*held)

    def _records(self, clients: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
        """X (n, s, …), y (n, s, …) and, unless each holds one record, which are there (n, s)."""
        if self.partition is None:
            return self._read(clients[:, None])
        starts, sizes = self.partition.starts[clients], self.partition.sizes[clients]
        place = np.arange(int(sizes.max()))
        there = place < sizes[:, None]
        # Where a client has fewer records than the largest, its first one stands in with weight 0.
        rows = self.partition.order[starts[:, None] + np.where(there, place, 0)]
        return *self._read(rows), torch.from_numpy(there).to(self.device)

    def _read(self, rows: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets (n, s, …) of records (n, s), as clients train on them."""
        x, y = self.records.read(rows)
        if self.inputs is not None and self.preparation is not None:
            x = self.inputs.prepared(x.flatten(0, 1), self.preparation).reshape(x.shape)
        return x.to(self.device), y.to(self.device)

    def _update(
        self, weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, *there: Any
    ) -> dict[str, torch.Tensor]:
        """One client's update, from its records x (s, …) and targets y (s, …)."""
        if self.local is None:
            return self._gradient(weights, x, y, *there)
        own = weights
        size = self.local.batch or len(x)
        for _ in range(self.local.epochs):
            for at in range(0, len(x), size):
                part = slice(at, at + size)
                slope = self._gradient(own, x[part], y[part], *(t[part] for t in there))
                own = {name: own[name] - self.local.rate * slope[name] for name in own}
        return {name: weights[name] - own[name] for name in weights}

    def _gradient(
        self, weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, *there: Any
    ) -> dict[str, torch.Tensor]:
        slopes: dict[str, torch.Tensor] = grad(self._mean_loss)(weights, x, y, *there)
        if self.reg == 0:
            return slopes
        if there:  # a step without records is no step
            kept = self.reg * there[0].any()
            return {name: slopes[name] + kept * weights[name] for name in slopes}
        return {name: slopes[name] + self.reg * weights[name] for name in slopes}

    def _mean_loss(
        self, weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, *there: Any
    ) -> torch.Tensor:
        constant = {name: buffer.clone() for name, buffer in self._buffers.items()}
        own = {**weights, **self._frozen, **constant}
        outputs = functional_call(self.module, own, (x,))
        if not there:
            return self._scalar(self.loss(outputs, y))
        losses = self._losses(outputs, y)
        present = there[0].to(losses.dtype)
        return (losses * present).sum() / present.sum().clamp(min=1)

    def _losses(self, outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The loss of each record alone (n,), from outputs (n, …) and targets (n, …)."""
        if self._classes and outputs.ndim == 2:  # the same numbers, without vmap's overhead
            return nn.functional.cross_entropy(outputs, y, reduction="none")
        each = vmap(lambda o, t: self._scalar(self.loss(o.unsqueeze(0), t.unsqueeze(0))))
        losses: torch.Tensor = each(outputs, y)
        return losses

    @staticmethod
    def _scalar(loss: torch.Tensor) -> torch.Tensor:
        if loss.ndim:
            actual, allowed = f"of shape {tuple(loss.shape)}", "one number, the mean over records"
            raise InvalidArgument("loss", actual, f'{allowed}: reduction="mean" in torch\'s own')
        return loss
