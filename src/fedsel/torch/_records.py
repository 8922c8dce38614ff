"""The records of clients: tensors, or a Dataset that is read when a client's round comes.

What is public about them is their number, and the shape and type of one record: `Records.like`. All
else is private. A Dataset is read once before the first round, batch by batch, so that what is
wrong with a record is said before any ε is spent, and so that groups are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
)

from fedsel._internal.progress import note
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.simulation._account import digests_of

_BYTES_AT_A_TIME = 2**24
LEFT_OUT = -100
"""The target of a record that torch leaves out, unless a loss has another ``ignore_index``."""

Rows = NDArray[np.int64]
Pair = tuple[torch.Tensor, torch.Tensor]


class Records(Protocol):
    """Inputs and targets of records by their number."""

    like: Pair
    """Zeros (1, …) of the shape and type of one input and one target."""
    groups: NDArray[Any] | None
    """The owner of each record, if a Dataset says it."""
    classes: tuple[int, int] | None
    """The smallest and the largest target that torch does not leave out, if each is an integer."""

    @property
    def digests(self) -> NDArray[np.uint64]:
        """Digests by which records that were fitted before in this process are recognised."""

    def __len__(self) -> int: ...

    def read(self, rows: Rows, /) -> Pair:
        """Inputs and targets (n, …) of records (n,), or (n, s, …) of records (n, s), on the CPU."""


class TensorRecords:
    """Records that are in memory."""

    groups: NDArray[Any] | None = None

    def __init__(self, X: Any, y: Any, dtype: torch.dtype, *, floats: bool, name: str = "") -> None:
        self.X, self.y = as_tensor(name or "X", X, dtype), as_tensor(name or "y", y, dtype)
        if len(self.X) != len(self.y) or len(self.X) == 0:
            actual, allowed = f"{len(self.y)} targets", f"one a record: {len(self.X)}"
            raise InvalidArgument(name or "y", actual, allowed)
        self.X = self.X.to(dtype) if floats else self.X
        self.like = torch.zeros_like(self.X[:1]), torch.zeros_like(self.y[:1])
        self.classes = _classes(self.y)

    @property
    def digests(self) -> NDArray[np.uint64]:
        return digests_of(self.X.numpy())

    def __len__(self) -> int:
        return len(self.X)

    def read(self, rows: Rows, /) -> Pair:
        numbers = torch.from_numpy(rows)
        return self.X[numbers], self.y[numbers]


class DatasetRecords:
    """Records of a map-style Dataset of (x, y) or (x, y, group), read whenever they are needed."""

    groups: NDArray[Any] | None
    classes: tuple[int, int] | None
    digests: NDArray[np.uint64]

    def __init__(self, data: Any, dtype: torch.dtype, *, floats: bool, name: str) -> None:
        self._name, self._dtype, self._floats = name, dtype, floats
        self._dataset, self._collate = _unwrapped(name, data)
        if len(self) == 0:
            raise InvalidArgument(name, "an empty Dataset", "a Dataset of at least one record")
        (x, y), _ = self._items([0])
        self.like = torch.zeros_like(x), torch.zeros_like(y)
        size = x.element_size() * x.numel() + y.element_size() * y.numel()
        digests, owners, classes = [], [], list[int]()
        step = max(1, _BYTES_AT_A_TIME // max(1, size))
        with note("reading the records", len(self)) as advance:
            for at in range(0, len(self), step):
                (x, y), groups = self._items(range(at, min(at + step, len(self))))
                digests.append(digests_of(x.numpy()))
                classes += _classes(y) or ()
                owners += [] if groups is None else [groups]
                advance(len(x))
        self.digests = np.concatenate(digests)
        self.groups = np.concatenate(owners) if owners else None
        self.classes = (min(classes), max(classes)) if classes else None
        if self.groups is not None and len(self.groups) != len(self):
            raise InvalidData(f"{name}: every item must have a group, or none")

    def __len__(self) -> int:
        return len(self._dataset)

    def read(self, rows: Rows, /) -> Pair:
        numbers, places = np.unique(rows, return_inverse=True)
        where = torch.from_numpy(places.reshape(rows.shape))
        (x, y), _ = self._items(numbers.tolist())
        return x[where], y[where]

    def _items(self, numbers: Sequence[int]) -> tuple[Pair, NDArray[Any] | None]:
        """Items of the Dataset, checked, and their groups."""
        together = getattr(self._dataset, "__getitems__", None)
        items = together(list(numbers)) if together else [self._dataset[i] for i in numbers]
        try:
            batch = self._collate(items)
            if isinstance(batch, Mapping):  # which would unpack to its keys
                raise TypeError
            x, y, *more = batch
            (groups,) = map(np.asarray, more) if more else (None,)
        except (TypeError, ValueError, RuntimeError):
            raise InvalidData(
                f"{self._name}: every item must be (x, y) or (x, y, group), with x and y of one"
                " shape in all items"
            ) from None
        x, y = (as_tensor(self._name, part, self._dtype) for part in (x, y))
        x = x.to(self._dtype) if self._floats else x
        like = getattr(self, "like", (x, y))
        return (self._checked(x, like[0]), self._checked(y, like[1])), groups

    def _checked(self, part: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Inputs or targets of the shape and type of the first; whole numbers may be floats."""
        fits = part.dtype == like.dtype or like.is_floating_point()
        if part.shape[1:] != like.shape[1:] or not fits:
            raise InvalidData(f"{self._name}: all items must have one shape and one type")
        return part.to(like.dtype)


def records_of(
    X: Any, y: Any, dtype: torch.dtype, *, floats: bool = False, name: str = ""
) -> Records:
    """Records from X and y, a Dataset or a DataLoader; with ``floats`` inputs become ``dtype``.

    ``name`` is the argument that holds both, if one does.
    """
    if not isinstance(X, Dataset | DataLoader):
        return TensorRecords(X, y, dtype, floats=floats, name=name)
    if y is not None:
        given = f"targets beside {type(X).__name__}"
        raise InvalidArgument("y", given, "omitted: a Dataset has the targets in its items")
    return DatasetRecords(X, dtype, floats=floats, name=name or "X")


def _unwrapped(name: str, data: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The Dataset of a loader, and how it makes a batch of items."""
    dataset = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InvalidArgument(
            name,
            f"{type(dataset).__name__}, a stream",
            "a map-style Dataset, with __len__ and __getitem__: each client is asked in its own"
            " round, in an order that a stream does not have; write the stream to files or a"
            " numpy.memmap first",
        )
    if not isinstance(data, DataLoader):
        return dataset, default_collate
    sampler = data.sampler
    plain = type(sampler) is SequentialSampler or (
        type(sampler) is RandomSampler
        and not sampler.replacement
        and sampler.num_samples == len(dataset)
    )
    if data.batch_size is None or not plain:
        raise InvalidArgument(
            name,
            "a DataLoader with a sampler or batches of its own",
            "one with a batch_size and with shuffle=True or False: who reports when is drawn from"
            " the seed; choose records with torch.utils.data.Subset",
        )
    return dataset, data.collate_fn


def _classes(y: torch.Tensor) -> tuple[int, int] | None:
    whole = y.ndim == 1 and not y.is_floating_point()
    counted = y[y != LEFT_OUT] if whole else y[:0]
    return (int(counted.min()), int(counted.max())) if len(counted) else None


def as_tensor(name: str, values: Any, dtype: torch.dtype) -> torch.Tensor:
    """Records or targets as a tensor on the CPU: integers stay, floats become ``dtype``."""
    try:
        tensor = torch.as_tensor(values).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InvalidData(f"{name}: must be a tensor or an array of numbers") from None
    if tensor.is_complex() or tensor.ndim == 0:
        raise InvalidData(f"{name}: must be real, with one row a record")
    if tensor.is_floating_point():
        tensor = tensor.to(dtype)
        if not bool(torch.isfinite(tensor).all()):
            raise InvalidData(f"{name}: every entry must be finite")
    return tensor
