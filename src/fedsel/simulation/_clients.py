"""The simulated clients: who holds which records, and what a client reports on in a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, MulticlassModel
from fedsel.preparation import Plan, Preparation
from fedsel.sampling._batch import Part

LOSSES = {"logistic": 0, "svm": 1}
"""The losses of linear models as the kernels number them."""


@dataclass(frozen=True)
class Population:
    """The clients: records X (N, d), dense float32 or CSR, labels y (N,), and who holds which.

    Labels are ±1, class numbers or numbers, as the model needs them. Without ``starts`` each client
    holds one record; else client i holds the records order[starts[i]] … order[starts[i+1]−1].
    ``members`` are the clients that take part, by number; None is all of them. A subset does not
    copy X. Of more than two ``classes`` labels are numbers, 0 … C−1.
    """

    X: Any
    y: NDArray[Any]
    order: NDArray[np.int64] | None = None
    starts: NDArray[np.int64] | None = None
    members: NDArray[np.int64] | None = None
    classes: int = 2

    @property
    def rows(self) -> int:
        """The weights' rows of a linear model: one for each of more than two classes, else one."""
        return self.classes if self.classes > 2 else 1

    @property
    def clients(self) -> int:
        """How many clients there are, members or not."""
        return int(self.X.shape[0]) if self.starts is None else len(self.starts) - 1

    @property
    def taking_part(self) -> NDArray[np.int64]:
        """The numbers of the members."""
        return np.arange(self.clients, dtype=np.int64) if self.members is None else self.members

    def prepared(self, preparation: Preparation) -> Population:
        """The same clients after each of them has prepared its records."""
        return replace(self, X=preparation.records(self.X))

    def records_of(self, clients: NDArray[np.int64]) -> list[NDArray[np.int64]] | None:
        """The record numbers of each of these clients; None where each holds its own number."""
        if self.starts is None or self.order is None:
            return None
        return [self.order[self.starts[c] : self.starts[c + 1]] for c in clients.tolist()]

    def all_records_of(self, clients: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of all records that these clients hold."""
        own = self.records_of(clients)
        return clients if own is None else np.concatenate(own)


class Records(NamedTuple):
    """Records as the kernels read them: dense rows, or the three arrays of CSR; the rest is None.

    Client i holds the records order[starts[i]] … order[starts[i+1]−1]; without ``starts`` each
    client holds the record of its own number.
    """

    dim: int
    dense: NDArray[np.float32] | None
    indptr: NDArray[np.int64] | None
    indices: NDArray[np.int32] | None
    data: NDArray[np.float32] | None
    labels: NDArray[np.int8]
    order: NDArray[np.int64] | None
    starts: NDArray[np.int64] | None


def kernel_records(people: Population) -> Records:
    """The records for the kernels; arrays are copied only where their layout differs."""
    X, order, starts = people.X, people.order, people.starts
    sparse = hasattr(X, "indptr")
    return Records(
        dim=X.shape[1],
        dense=None if sparse else np.ascontiguousarray(X, dtype=np.float32),
        indptr=np.ascontiguousarray(X.indptr, dtype=np.int64) if sparse else None,
        indices=np.ascontiguousarray(X.indices, dtype=np.int32) if sparse else None,
        data=np.ascontiguousarray(X.data, dtype=np.float32) if sparse else None,
        labels=np.ascontiguousarray(people.y, dtype=np.int8),
        order=None if order is None else np.ascontiguousarray(order, dtype=np.int64),
        starts=None if starts is None else np.ascontiguousarray(starts, dtype=np.int64),
    )


_ENTRIES_AT_A_TIME = 1 << 21


class Source(Protocol):
    """The clients' side of a round: where the vectors come from that are reported."""

    @property
    def clients(self) -> int:
        """How many clients there are."""

    @property
    def chunk(self) -> int:
        """How many clients' vectors may be held at a time."""

    @property
    def scales(self) -> NDArray[np.float32] | None:
        """The factor of the clip for each entry (d,), if clients are to divide by one."""

    def receive(self, weights: NDArray[np.float64], /) -> None:
        """Take the weights (d,) of a new round."""

    def vectors(self, clients: NDArray[np.int64], /) -> Sequence[Part]:
        """The updates of these clients at the weights received, in parts (n, …) of d entries."""


class RecordSource(Source, Protocol):
    """Clients that train on records, which may have to be prepared first."""

    @property
    def population(self) -> Population:
        """The clients with their records."""

    def prepared(self, preparation: Preparation, /) -> Source:
        """The same clients after each of them has prepared its records."""


@dataclass(eq=False)
class LinearClients:
    """The gradient of each client's mean loss under a linear model.

    λ of the ``model`` is what clients add themselves; ``factors`` (N,) weigh the loss of each
    record.
    """

    population: Population
    model: LinearModel
    factors: NDArray[np.float64] | None = None
    scales: None = None
    _weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), repr=False)

    @property
    def compiled(self) -> bool:
        """Whether the kernels know these clients."""
        return self.factors is None and self.model.loss in LOSSES

    @property
    def clients(self) -> int:
        return self.population.clients

    @property
    def chunk(self) -> int:
        return max(1, _ENTRIES_AT_A_TIME // int(self.population.X.shape[1]))

    def prepared(self, preparation: Preparation, /) -> Self:
        return replace(self, population=self.population.prepared(preparation))

    def receive(self, weights: NDArray[np.float64], /) -> None:
        self._weights = weights

    def vectors(self, clients: NDArray[np.int64], /) -> list[NDArray[np.float32]]:
        own = self.population.records_of(clients)
        if own is None:
            gradients = self._terms(clients)
        else:
            gradients = np.stack([self._terms(rows).mean(axis=0) for rows in own])
        if self.model.reg:
            gradients += self.model.reg * self._weights
        return [gradients.astype(np.float32)]

    def _terms(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gradient of the loss of each of these records."""
        X: Any = self.population.X[rows]
        dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        slopes = self.model.slopes(dense @ self._weights, self.population.y[rows])
        if self.factors is not None:
            slopes = slopes * self.factors[rows]
        return np.asarray(slopes[:, None] * dense)


@dataclass(eq=False)
class MulticlassClients:
    """The gradient by W (C, d), row after row, of softmax regression or a multi-class SVM.

    Labels are class numbers 0 … C−1; λ and ``factors`` are as in `LinearClients`.
    """

    population: Population
    classes: int
    model: MulticlassModel
    factors: NDArray[np.float64] | None = None
    scales: None = None
    _weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    @property
    def clients(self) -> int:
        return self.population.clients

    @property
    def chunk(self) -> int:
        return max(1, _ENTRIES_AT_A_TIME // (self.classes * int(self.population.X.shape[1])))

    def prepared(self, preparation: Preparation, /) -> Self:
        return replace(self, population=self.population.prepared(preparation))

    def receive(self, weights: NDArray[np.float64], /) -> None:
        self._weights = weights.reshape(self.classes, -1)

    def vectors(self, clients: NDArray[np.int64], /) -> list[NDArray[np.float32]]:
        decay = (self.model.reg * self._weights).astype(np.float32)
        own = self.population.records_of(clients)
        if own is None:
            X, slopes = self._slopes(clients)
            return [slopes[:, :, None] * X[:, None, :] + decay]
        gradients = np.empty((len(clients), *decay.shape), dtype=np.float32)
        for row, rows in enumerate(own):
            X, slopes = self._slopes(rows)
            gradients[row] = slopes.T @ X / np.float32(len(X)) + decay
        return [gradients]

    def _slopes(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        X = self.population.X[rows]
        dense = X.toarray() if hasattr(X, "toarray") else X
        margins = dense @ self._weights.astype(np.float32).T
        slopes = self.model.slopes(margins, self.population.y[rows])
        if self.factors is not None:
            slopes = slopes * self.factors[rows, None]
        return dense, slopes.astype(np.float32)


def record_vectors(
    plan: Plan, number: int, people: Population, clients: NDArray[np.int64], learnt: Preparation
) -> NDArray[np.float32]:
    """What these clients report on in a round that prepares, (n, dim).

    A client that holds several records reports on their mean.
    """
    own = people.records_of(clients)
    if own is None:
        return plan.vectors(number, people.X[clients], learnt)
    return np.stack([plan.vector(number, people.X[rows], learnt) for rows in own])
