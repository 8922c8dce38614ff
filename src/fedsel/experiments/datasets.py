"""Where a task finds its data: by name, or a data set in hand; prepared once per process."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fedsel.data import Dataset, load, partition
from fedsel.errors import InvalidArgument
from fedsel.simulation import Population

_LOADING = threading.Lock()


class Source(Hashable, Protocol):
    """A data set by name and draw; hashable, and picklable for a cluster."""

    @property
    def identity(self) -> str:
        """A digest of data that its name does not determine; empty where it does."""

    def data(self, name: str, data_seed: int) -> Dataset:
        """The data set."""


@dataclass(frozen=True)
class Named:
    """The catalogue: synthetic data by their seed, others by their checked files."""

    directory: Path | None = None
    notify: Callable[[str], None] | None = field(default=None, compare=False)

    @property
    def identity(self) -> str:
        return ""

    def data(self, name: str, data_seed: int) -> Dataset:
        return load(name, self.directory, data_seed, notify=self.notify)


@dataclass(frozen=True, eq=False)
class Given:
    """One data set in hand, whatever name is asked for."""

    dataset: Dataset

    @property
    def identity(self) -> str:
        return _digest(self.dataset)

    def data(self, name: str, data_seed: int) -> Dataset:  # noqa: ARG002
        return self.dataset


@dataclass(frozen=True)
class Ranges:
    """What is publicly known of features: which bounds may be too wide, and whether they are
    symmetric about zero."""

    loose: tuple[bool, ...]
    offset: bool


NO_RANGES = Ranges((), offset=False)
"""Of data without public bounds."""


def known_ranges(source: Source, name: str, data_seed: int, scale: str) -> Ranges | None:
    """The ranges of a data set on a scale that follows from public bounds; None on others."""
    bounds = source.data(name, data_seed).bounds if scale in ("unit", "symmetric") else None
    if bounds is None:
        return None
    low, high = bounds[:, 0], bounds[:, 1]
    tight = (high == 1) & ((low == 0) | (low == -1))
    return Ranges(tuple((~tight).tolist()), offset=bool((low != -high).any()))


def population(source: Source, name: str, data_seed: int, *shape: Any) -> Population:
    """The clients: scaled, with intercept, dealt out; the last few are remembered.

    ``shape`` is (scale, intercept, unit records, clients, skew, seed).
    """
    with _LOADING:
        return _prepared(source, name, data_seed, *shape)


@lru_cache(maxsize=4)
def _prepared(
    source: Source,
    name: str,
    data_seed: int,
    scale: str,
    intercept: bool,
    unit_records: bool,
    clients: int | None,
    skew: float | None,
    seed: int,
) -> Population:
    ready = source.data(name, data_seed).scaled(scale)
    if intercept:
        ready = ready.with_intercept()
    if unit_records:
        ready = ready.with_unit_records()
    if clients is None:
        if skew is not None:
            raise InvalidArgument("skew", skew, "given together with clients")
        return Population(ready.X, ready.y)
    if clients > ready.n:
        raise InvalidArgument("clients", clients, f"at most the {ready.n} records")
    # A large alpha is no skew: every client then has the labels of the whole.
    dealt = partition.dirichlet(ready.y, clients, 1e6 if skew is None else skew, seed)
    return Population(ready.X, ready.y, dealt.order, dealt.starts)


@lru_cache(maxsize=4)
def _digest(dataset: Dataset) -> str:
    digest = hashlib.sha256(repr((dataset.name, dataset.X.shape)).encode())
    X: Any = dataset.X
    arrays = [X.data, X.indices, X.indptr] if hasattr(X, "indptr") else [X]
    for array in (dataset.y, *arrays, *([] if dataset.bounds is None else [dataset.bounds])):
        digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()[:16]
