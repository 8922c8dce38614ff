"""Where a task finds its data: by name or in memory; clients are prepared once per process."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsel.auto import PublicRecords
from fedsel.data import Dataset, load, partition
from fedsel.errors import InvalidArgument
from fedsel.preparation import FeatureScale, PublicMeans
from fedsel.preparation._means import read_means
from fedsel.preparation._public import PRIVATE
from fedsel.simulation import Population

Rows = NDArray[np.float32]
Means = tuple[tuple[str, float], ...]
_LOADING = threading.Lock()


class Source(Hashable, Protocol):
    """A data set by name and draw; hashable, and picklable for a cluster."""

    @property
    def identity(self) -> str:
        """A digest of data that its name does not determine; empty where it does."""

    @property
    def public(self) -> Rows | None:
        """Public rows (m, d) of the same features, as they are; None if there are none."""

    @property
    def means(self) -> Means:
        """Public means of features in their units, each with its name; none if it is empty."""

    def data(self, name: str, data_seed: int) -> Dataset:
        """The data set."""


@dataclass(frozen=True)
class CatalogueSource:
    """Synthetic data by their name and seed."""

    means: Means = ()

    @property
    def identity(self) -> str:
        return _digest_of_means(self.means)

    @property
    def public(self) -> None:
        return None

    def data(self, name: str, data_seed: int) -> Dataset:
        return load(name, data_seed)


@dataclass(frozen=True, eq=False)
class InMemorySource:
    """One data set in memory, with public rows or means beside it, if any."""

    dataset: Dataset
    public: Rows | None = None
    means: Means = ()

    @property
    def identity(self) -> str:
        own = _digest(self.dataset) + _digest_of_means(self.means)
        if self.public is None:
            return own
        rows = np.ascontiguousarray(self.public).data.cast("B")
        return own + hashlib.sha256(rows).hexdigest()[:16]

    def data(self, name: str, data_seed: int) -> Dataset:  # noqa: ARG002
        return self.dataset


def with_public(dataset: Dataset, rows: Rows) -> InMemorySource:
    """A data set with public rows (m, d) beside it, for the bounds that it lacks."""
    if rows.ndim != 2 or rows.shape[1] != dataset.d:
        raise InvalidArgument("public", f"of shape {rows.shape}", f"of shape (m, {dataset.d})")
    if len(rows) < 2:
        raise InvalidArgument("public", f"{len(rows)} row", "at least 2 rows")
    if not dataset.bounded:
        low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        still = low == high  # such a feature may be a rare level: 0 and 1 lie within its bounds
        low, high = np.where(still & (low > 0), 0, low), np.where(still & (high < 1), 1, high)
        bounds = np.stack([low, high], axis=1)
        if dataset.bounds is not None:
            bounds = np.where(np.isfinite(dataset.bounds), dataset.bounds, bounds)
        dataset = replace(dataset, bounds=bounds)
    return InMemorySource(dataset, rows)


def public_records(
    source: Source, name: str, data_seed: int, scale: str, *, learnable: bool
) -> PublicRecords | None:
    """What is public about the records of a data set; None if nothing is, or nothing needs it.

    The first rounds may learn more about records that are ``learnable``. On the scale "private"
    the public bounds are those that anything lies within.
    """
    if not (learnable or source.means):
        return None
    data, known = source.data(name, data_seed), None
    if scale == PRIVATE:
        known = FeatureScale.unknown(data.d, data.bounds)
    elif scale in ("unit", "symmetric") and data.bounds is not None:
        known = FeatureScale(data.bounds[:, 0], data.bounds[:, 1])
    if known is None and source.means:
        allowed = "unit, symmetric or private: public means need a public scale"
        raise InvalidArgument("scale", scale, allowed)
    if known is None:
        return None
    means: PublicMeans | None = None
    rows: Any = source.public if learnable else None
    if source.means:
        raw = read_means(dict(source.means), known.low, known.high, data.feature_names)
        means = PublicMeans.scaled(raw, known, *data.public_scaling(scale))
    if rows is not None:
        unlabelled = np.ones(len(rows), np.int8)
        rows = replace(data, X=np.ascontiguousarray(rows, np.float32), y=unlabelled).scaled(scale).X
    return PublicRecords(known, means, rows, unit=learnable, learnable=learnable)


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
        return Population(ready.X, ready.y, classes=len(ready.classes))
    if clients > ready.n:
        raise InvalidArgument("clients", clients, f"at most {ready.n}, the number of records")
    # A large alpha is no skew: every client then has the labels of the whole.
    dealt = partition.dirichlet(ready.y, clients, 1e6 if skew is None else skew, seed)
    return Population(ready.X, ready.y, dealt.order, dealt.starts, classes=len(ready.classes))


def _digest_of_means(means: Means) -> str:
    return hashlib.sha256(repr(means).encode()).hexdigest()[:16] if means else ""


@lru_cache(maxsize=4)
def _digest(dataset: Dataset) -> str:
    digest = hashlib.sha256(repr((dataset.name, dataset.X.shape)).encode())
    X: Any = dataset.X
    arrays = [X.data, X.indices, X.indptr] if hasattr(X, "indptr") else [X]
    for array in (dataset.y, *arrays, *([] if dataset.bounds is None else [dataset.bounds])):
        digest.update(np.ascontiguousarray(array).data.cast("B"))
    return digest.hexdigest()[:16]
