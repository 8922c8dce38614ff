"""Softmax regression and the multi-class SVM: one client, one vector of C·d entries, one report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.models import MulticlassModel

_ENTRIES_AT_A_TIME = 2**21


@dataclass(eq=False)
class MulticlassClients:
    """Clients with records X (N, d), dense float32 or CSR, and classes y (N,) of 0 … C−1.

    A source of vectors for `train_vectors`: the gradient by W (C, d), row after row. ``order`` and
    ``starts`` say who holds which records, as in `Population`; ``factors`` (N,) weigh their losses.
    """

    X: Any
    y: NDArray[np.int64]
    classes: int
    model: MulticlassModel
    order: NDArray[np.int64] | None = None
    starts: NDArray[np.int64] | None = None
    factors: NDArray[np.float64] | None = None
    _weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def dim(self) -> int:
        return self.classes * int(self.X.shape[1])

    @property
    def clients(self) -> int:
        return int(self.X.shape[0]) if self.starts is None else len(self.starts) - 1

    @property
    def chunk(self) -> int:
        return max(1, _ENTRIES_AT_A_TIME // self.dim)

    @property
    def scales(self) -> None:
        return None

    def receive(self, weights: NDArray[np.float64], /) -> None:
        self._weights = weights.reshape(self.classes, -1)

    def vectors(self, clients: NDArray[np.int64], /) -> list[NDArray[np.float32]]:
        decay = (self.model.reg * self._weights).astype(np.float32)
        if self.starts is None or self.order is None:
            X, slopes = self._slopes(clients)
            return [slopes[:, :, None] * X[:, None, :] + decay]
        gradients = np.empty((len(clients), *decay.shape), dtype=np.float32)
        for row, client in enumerate(clients.tolist()):
            X, slopes = self._slopes(self.order[self.starts[client] : self.starts[client + 1]])
            gradients[row] = slopes.T @ X / np.float32(len(X)) + decay
        return [gradients]

    def _slopes(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        X = self.X[rows]
        dense = X.toarray() if hasattr(X, "toarray") else X
        margins = dense @ self._weights.astype(np.float32).T
        slopes = self.model.slopes(margins, self.y[rows])
        if self.factors is not None:
            slopes = slopes * self.factors[rows, None]
        return dense, slopes.astype(np.float32)


@dataclass(frozen=True, eq=False)
class MulticlassJudge:
    """Accuracy and regularised loss of models of weights (models, C·d) on records that judge."""

    X: Any
    y: NDArray[np.int64]
    classes: int
    model: MulticlassModel

    def __call__(
        self, weights: NDArray[np.float64], /
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        judged = [self._judged(model) for model in weights]
        return np.array([hit for hit, _ in judged]), np.array([loss for _, loss in judged])

    def _judged(self, weights: NDArray[np.float64]) -> tuple[float, float]:
        margins = np.asarray(self.X @ weights.reshape(self.classes, -1).T)
        hits = np.mean(margins.argmax(axis=1) == self.y)
        penalty = self.model.reg / 2 * float(weights @ weights)
        return float(hits), float(np.mean(self.model.losses(margins, self.y))) + penalty
