"""The gradients of linear clients as vectors: for whatever the compiled rounds do not know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.models import LinearModel
from fedsel.simulation.population import Population

_ENTRIES_AT_A_TIME = 1 << 21


class LinearClients:
    """A source of vectors for `train_vectors`: the gradient of each client's mean loss.

    ``reg`` is the λ that clients add themselves. ``targets`` stand for the population's labels
    where they are no classes; ``factors`` (N,) weigh the loss of each record.
    """

    def __init__(
        self,
        population: Population,
        model: LinearModel,
        reg: float,
        *,
        targets: NDArray[Any] | None = None,
        factors: NDArray[np.float64] | None = None,
    ) -> None:
        self._people, self._model, self._reg = population, model, reg
        self._targets = population.y if targets is None else targets
        self._factors = factors
        self._weights = np.zeros(population.X.shape[1])
        self.clients, self.scales = population.clients, None
        self.chunk = max(1, _ENTRIES_AT_A_TIME // population.X.shape[1])

    def receive(self, weights: NDArray[np.float64], /) -> None:
        self._weights = weights

    def vectors(self, clients: NDArray[np.int64], /) -> list[NDArray[np.float32]]:
        people = self._people
        if people.starts is None or people.order is None:
            gradients = self._terms(clients)
        else:
            spans = [people.order[people.starts[c] : people.starts[c + 1]] for c in clients]
            gradients = np.stack([self._terms(rows).mean(axis=0) for rows in spans])
        if self._reg:
            gradients += self._reg * self._weights
        return [gradients.astype(np.float32)]

    def _terms(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gradient of the loss of each of these records."""
        X: Any = self._people.X[rows]
        dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        slopes = self._model.slopes(dense @ self._weights, self._targets[rows])
        if self._factors is not None:
            slopes = slopes * self._factors[rows]
        return np.asarray(slopes[:, None] * dense)
