"""The simulated clients, and which of them hold which records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsel.preparation import Preparation

LOSSES = {"logistic": 0, "svm": 1}
"""The losses of linear models as the kernels number them."""


@dataclass(frozen=True)
class Population:
    """The clients: records X (N, d), dense float32 or CSR, labels y (N,), and who holds which.

    Labels are ±1, class numbers or numbers, as the model needs them. Without ``starts`` each client
    holds one record; else client i holds the records order[starts[i]] … order[starts[i+1]−1].
    ``members`` are the clients that take part, by number; None is all of them. A subset does not
    copy X.
    """

    X: Any
    y: NDArray[Any]
    order: NDArray[np.int64] | None = None
    starts: NDArray[np.int64] | None = None
    members: NDArray[np.int64] | None = None

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
