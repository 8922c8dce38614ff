"""Divide records among clients: one each (the paper), by groups, or skewed by label."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.data._dataset import plain_values
from fedsel.errors import InvalidArgument, check_count, check_finite


@dataclass(frozen=True, eq=False, repr=False)
class Clients:
    """A partition in which client i holds the records ``order[starts[i]:starts[i + 1]]``.

    >>> clients = by_groups(["b", "a", "b"])
    >>> clients
    Clients(n=2, records=3)
    >>> clients.records(0).tolist(), clients.records(1).tolist()
    ([1], [0, 2])
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for name in ("order", "starts"):
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != np.int64 or array.ndim != 1:
                raise InvalidArgument(name, type(array).__name__, "a 1-D int64 array")
        starts, size = self.starts, len(self.order)
        if len(starts) < 2 or starts[0] != 0 or starts[-1] != size or (np.diff(starts) < 1).any():
            raise InvalidArgument(
                "starts", f"{len(starts)} entries", f"increasing from 0 to {size}, the records"
            )
        if self.order.min() < 0 or len(np.unique(self.order)) != size:
            raise InvalidArgument("order", f"{size} entries", "distinct record numbers ≥ 0")

    @property
    def n(self) -> int:
        """The number of clients."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of records of each client."""
        return np.diff(self.starts)

    def records(self, client: int) -> NDArray[np.int64]:
        """The record numbers of one client."""
        client = check_count("client", client, least=0, most=self.n - 1)
        return self.order[self.starts[client] : self.starts[client + 1]]

    def __repr__(self) -> str:
        return f"Clients(n={self.n}, records={len(self.order)})"


def one_record_each(n: int) -> Clients:
    """n clients with one record each, as in the paper.

    >>> one_record_each(3).starts.tolist()
    [0, 1, 2, 3]
    """
    n = check_count("n", n)
    return Clients(np.arange(n, dtype=np.int64), np.arange(n + 1, dtype=np.int64))


def by_groups(groups: Any) -> Clients:
    """One client for each distinct value of ``groups`` (N,), sorted by value."""
    _, client = np.unique(plain_values("groups", groups), return_inverse=True)
    return _clients(client, int(client.max()) + 1)


def dirichlet(y: Any, n_clients: int, alpha: float, seed: int = 0) -> Clients:
    """Skew labels: each class is divided among the clients by its own draw from Dirichlet(alpha).

    With a small alpha clients hold few labels, with a large one all hold the same mixture. A client
    that would hold nothing takes one record from the largest client.

    >>> y = np.array([-1, 1] * 50)
    >>> dirichlet(y, 10, alpha=0.1, seed=1).sizes.sum()
    np.int64(100)

    Reference: Hsu, Qi & Brown, "Measuring the effects of non-identical data distribution for
    federated visual classification", 2019.
    """
    labels = plain_values("y", y)
    n_clients = check_count("n_clients", n_clients, most=len(labels))
    concentration = float(check_finite("alpha", alpha, "a finite number > 0"))
    if concentration <= 0:
        raise InvalidArgument("alpha", alpha, "a finite number > 0")
    sequence = np.random.SeedSequence(check_count("seed", seed, least=0))
    generator = np.random.Generator(np.random.Philox(sequence))
    client = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        records = generator.permutation(np.flatnonzero(labels == label))
        shares = generator.dirichlet(np.full(n_clients, concentration))
        ends = np.rint(np.cumsum(shares) / shares.sum() * len(records)).astype(np.int64)
        client[records] = np.repeat(np.arange(n_clients), np.diff(ends, prepend=0))
    _fill_empty(client, n_clients, generator.permutation(len(labels)))
    return _clients(client, n_clients)


def _clients(client: NDArray[np.int64], n_clients: int) -> Clients:
    """Sort the records by client, keeping their order within each client."""
    starts = np.zeros(n_clients + 1, np.int64)
    np.cumsum(np.bincount(client, minlength=n_clients), out=starts[1:])
    return Clients(np.argsort(client, kind="stable").astype(np.int64), starts)


def _fill_empty(client: NDArray[np.int64], n_clients: int, shuffled: NDArray[np.int64]) -> None:
    """Move a record of the largest client to every client that has none, in place."""
    sizes = np.bincount(client, minlength=n_clients)
    empty = np.flatnonzero(sizes == 0)
    if not empty.size:
        return
    held: list[list[int]] = [[] for _ in range(n_clients)]
    for record in shuffled:
        held[client[record]].append(int(record))
    largest = [(-int(size), i) for i, size in enumerate(sizes) if size > 1]
    heapq.heapify(largest)
    for receiver in empty:
        size, giver = heapq.heappop(largest)
        client[held[giver].pop()] = receiver
        if size + 1 < -1:
            heapq.heappush(largest, (size + 1, giver))
