"""Records that judge linear models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.models import LinearModel
from fedsel.preparation import Preparation
from fedsel.simulation.records import LOSSES, records_of


@dataclass(frozen=True)
class EvaluationSet:
    """Records that judge a model: all rows of X (N, d), or some of them."""

    X: Any
    y: NDArray[np.int8]
    rows: NDArray[np.int64] | None = None

    def prepared(self, preparation: Preparation) -> EvaluationSet:
        """The same records, prepared as clients prepare theirs."""
        rows = slice(None) if self.rows is None else self.rows
        return EvaluationSet(preparation.records(self.X[rows]), self.y[rows])

    @property
    def labels(self) -> NDArray[np.int8]:
        """The labels of the records that judge."""
        return self.y if self.rows is None else self.y[self.rows]

    def margins(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """x·w of the records that judge."""
        X = self.X if self.rows is None else self.X[self.rows]
        return np.asarray(X @ weights.astype(np.float32), dtype=np.float64)

    def judge(
        self, weights: NDArray[np.float64], model: LinearModel
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Accuracy and regularised loss of each model of weights (models, d)."""
        from fedsel.sampling._kernels import native

        rows = np.arange(len(self.y)) if self.rows is None else self.rows
        hits, losses = np.zeros(len(weights)), np.zeros(len(weights))
        records, kind = records_of(self.X, self.y), LOSSES[model.loss]
        with np.errstate(over="ignore"):  # of a model that diverged
            models = np.ascontiguousarray(weights, dtype=np.float32)
        native.judge(records, np.ascontiguousarray(rows), kind, models, hits, losses)
        penalty = model.reg / 2 * np.einsum("md,md->m", weights, weights)
        return hits / len(rows), losses / len(rows) + penalty
