"""Records that judge models: accuracy or R², and regularised loss, of several models at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, MulticlassModel
from fedsel.preparation import Preparation
from fedsel.simulation._clients import LOSSES, Population, kernel_records

Doubles = NDArray[np.float64]


class Judge(Protocol):
    """Test records that score models."""

    def __call__(self, weights: Doubles, /) -> tuple[Iterable[float], Iterable[float]]:
        """Accuracy and loss of each model of weights (models, d)."""


class RecordJudge(Judge, Protocol):
    """A judge whose records can be prepared as clients prepare theirs."""

    def prepared(self, preparation: Preparation) -> Judge:
        """The same judge on prepared records."""


@dataclass(frozen=True)
class EvaluationSet:
    """Test records, all rows of X (N, d) or some, of two classes ±1 or of more, by number."""

    X: Any
    y: NDArray[Any]
    rows: NDArray[np.int64] | None = None

    def prepared(self, preparation: Preparation) -> EvaluationSet:
        """The same records, prepared as clients prepare theirs."""
        rows = slice(None) if self.rows is None else self.rows
        return EvaluationSet(preparation.records(self.X[rows]), self.y[rows])

    @property
    def labels(self) -> NDArray[Any]:
        """The labels of the records that judge."""
        return self.y if self.rows is None else self.y[self.rows]

    @property
    def records(self) -> Any:
        """The records that judge."""
        return self.X if self.rows is None else self.X[self.rows]

    def margins(self, weights: Doubles) -> Doubles:
        """x·w of the records that judge."""
        return np.asarray(self.records @ weights.astype(np.float32), dtype=np.float64)

    def judge(self, weights: Doubles, model: LinearModel) -> tuple[Doubles, Doubles]:
        """Accuracy and regularised loss of each model of weights (models, d)."""
        from fedsel.sampling._kernels import native

        rows = np.arange(len(self.y)) if self.rows is None else self.rows
        hits, losses = np.zeros(len(weights)), np.zeros(len(weights))
        records, kind = kernel_records(Population(self.X, self.y)), LOSSES[model.loss]
        with np.errstate(over="ignore"):  # of a model that diverged
            models = np.ascontiguousarray(weights, dtype=np.float32)
        native.judge(records, np.ascontiguousarray(rows), kind, models, hits, losses)
        return hits / len(rows), losses / len(rows) + _penalties(model.reg, weights)


@dataclass(frozen=True, eq=False)
class LinearJudge:
    """Accuracy and regularised loss of linear models of two classes."""

    test: EvaluationSet
    model: LinearModel

    def prepared(self, preparation: Preparation) -> Self:
        return replace(self, test=self.test.prepared(preparation))

    def __call__(self, weights: Doubles, /) -> tuple[Doubles, Doubles]:
        return self.test.judge(weights, self.model)


@dataclass(frozen=True, eq=False)
class RegressionJudge:
    """R² and regularised loss of linear models of a number."""

    X: Any
    y: Doubles
    model: LinearModel

    def prepared(self, preparation: Preparation) -> Self:
        return replace(self, X=preparation.records(self.X))

    def __call__(self, weights: Doubles, /) -> tuple[Doubles, Doubles]:
        predicted = np.asarray(self.X @ weights.T, dtype=np.float64)
        variance = max(float(np.var(self.y)), 1e-30)
        errors = np.mean((predicted - self.y[:, None]) ** 2, axis=0)
        losses = self.model.losses(predicted, self.y).mean(axis=0)
        return 1 - errors / variance, losses + _penalties(self.model.reg, weights)


@dataclass(frozen=True, eq=False)
class MulticlassJudge:
    """Accuracy and regularised loss of models of several classes, of weights (models, C·d)."""

    X: Any
    y: NDArray[np.int64]
    classes: int
    model: MulticlassModel

    def prepared(self, preparation: Preparation) -> Self:
        return replace(self, X=preparation.records(self.X))

    def __call__(self, weights: Doubles, /) -> tuple[Doubles, Doubles]:
        judged = [self._judged(model) for model in weights]
        return np.array([hit for hit, _ in judged]), np.array([loss for _, loss in judged])

    def _judged(self, weights: Doubles) -> tuple[float, float]:
        margins = np.asarray(self.X @ weights.reshape(self.classes, -1).T)
        hits = np.mean(margins.argmax(axis=1) == self.y)
        penalty = self.model.reg / 2 * float(weights @ weights)
        return float(hits), float(np.mean(self.model.losses(margins, self.y))) + penalty


def _penalties(reg: float, weights: Doubles) -> Doubles:
    """λ/2·‖w‖² of each model."""
    return np.asarray(reg / 2 * np.einsum("md,md->m", weights, weights))
