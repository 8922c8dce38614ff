"""Training on one wave of clients: a linear model for two classes or numbers, softmax for more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, Loss, MulticlassModel
from fedsel._internal.random import philox_key
from fedsel.data.partition import Clients
from fedsel.errors import InvalidArgument, InvalidData, check_vectors
from fedsel.preparation import Preparation
from fedsel.simulation import EvaluationSet, History, Population, Simulation, Training
from fedsel.simulation._clients import LinearClients, MulticlassClients, RecordSource
from fedsel.simulation._judges import LinearJudge, MulticlassJudge, RecordJudge, RegressionJudge
from fedsel.tracking import Tracking
from fedsel.wire import Model, RecordPipeline, Schema

WAVE = 21
"""The purpose of the streams that provide the seeds of later waves."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Records X (n, d), dense or CSR, on their public scale, and their labels."""

    X: Any
    y: NDArray[Any]


class Task(ABC):
    """A learning task: ``columns`` of weights from ``targets``, one for each record."""

    targets: NDArray[Any]
    loss: Loss
    columns: int
    regression: ClassVar[bool] = False
    """Whether targets are numbers, which dividing a record by its norm would change."""

    @abstractmethod
    def source(self, people: Population, reg: float) -> RecordSource:
        """The clients' updates, to which they add λ = ``reg``."""

    @abstractmethod
    def judge(self, test: Examples, reg: float) -> RecordJudge:
        """Evaluate models on test records, with the penalty of λ = ``reg``."""

    @abstractmethod
    def model(self, weights: NDArray[np.float64], pipeline: RecordPipeline) -> Model:
        """What predicts with trained weights; its classes are 0 … C−1."""


@dataclass(frozen=True, eq=False)
class Classification(Task):
    """Classes 0 … C−1: one column of weights for two of them, else C.

    ``factors`` (n,) in [0, 1] weigh the loss of each record; ``log_prior`` (C,) as in `Model`.
    """

    targets: NDArray[np.int64]
    classes: int
    loss: Loss = "logistic"
    factors: NDArray[np.float64] | None = None
    log_prior: NDArray[np.float64] | None = None

    @property
    def columns(self) -> int:  # type: ignore[override]
        return 1 if self.classes == 2 else self.classes

    def source(self, people: Population, reg: float) -> RecordSource:
        if self.columns > 1:
            model = MulticlassModel(self.loss, reg)
            return MulticlassClients(people, self.columns, model, self.factors)
        signed = replace(people, y=_signs(people.y))
        return LinearClients(signed, LinearModel(self.loss, reg), self.factors)

    def judge(self, test: Examples, reg: float) -> RecordJudge:
        if self.columns > 1:
            model = MulticlassModel(self.loss, reg)
            return MulticlassJudge(test.X, test.y, self.columns, model)
        return LinearJudge(EvaluationSet(test.X, _signs(test.y)), LinearModel(self.loss, reg))

    def model(self, weights: NDArray[np.float64], pipeline: RecordPipeline) -> Model:
        schema, classes = Schema(pipeline.preparation.features), tuple(range(self.classes))
        return Model(weights, schema, self.loss, classes, pipeline, self.log_prior)


@dataclass(frozen=True, eq=False)
class Regression(Task):
    """Numbers in [−1, 1] for those of ``target_range``, by one column of weights.

    ``factors`` are as in `Classification`.
    """

    targets: NDArray[np.float64]
    target_range: tuple[float, float]
    loss: Loss = "squared"
    factors: NDArray[np.float64] | None = None
    columns: int = 1
    regression: ClassVar[bool] = True

    def source(self, people: Population, reg: float) -> RecordSource:
        return LinearClients(people, LinearModel(self.loss, reg), self.factors)

    def judge(self, test: Examples, reg: float) -> RecordJudge:
        return RegressionJudge(test.X, test.y, LinearModel(self.loss, reg))

    def model(self, weights: NDArray[np.float64], pipeline: RecordPipeline) -> Model:
        schema = Schema(pipeline.preparation.features, target_range=self.target_range)
        return Model(weights, schema, self.loss, None, pipeline)


def train_wave(
    training: Training,
    task: Task,
    X: Any,
    known: Preparation,
    *,
    clients: Clients | None = None,
    members: NDArray[np.int64] | None = None,
    test: Examples | None = None,
    start: NDArray[np.float64] | None = None,
    tracking: Tracking | None = None,
) -> History:
    """Train on one wave of clients with records X (n, d) on their public scale.

    Clients prepare their records as ``known`` says, or as the first rounds learn if there is a
    plan. Without ``members`` all of them train.
    """

    def shown(rows: Any) -> Any:
        return known.records(rows) if training.plan is None else rows

    order, starts = (None, None) if clients is None else (clients.order, clients.starts)
    source = task.source(
        Population(shown(X), task.targets, order, starts), training.rule.client_reg
    )
    weights = np.zeros(training.solution.dim) if start is None else start
    judge = None if test is None else task.judge(replace(test, X=shown(test.X)), training.reg)
    return Simulation(training, source, weights).play(members, judge, tracking=tracking)


def factors_of(
    n: int,
    sample_weight: Any,
    bound: float | None,
    of_classes: NDArray[np.float64] | None = None,
) -> NDArray[np.float64] | None:
    """The factor in [0, 1] of each record's loss; None for 1.

    ``of_classes`` (n,) is the public factor of each record's class. A client divides its weight by
    the public bound and clips it to 1.
    """
    if sample_weight is None:
        return of_classes
    weights = check_vectors("sample_weight", sample_weight, ndim=1).astype(np.float64)
    if len(weights) != n or not (weights >= 0).all():
        raise InvalidData(f"sample_weight: must be {n} numbers ≥ 0")
    if bound is None:
        bound = float(weights.max())
        if bound == 0:
            raise InvalidData("sample_weight: must not be all zero without a weight_bound")
    own = np.minimum(weights / bound, 1.0)
    return own if of_classes is None else own * of_classes


def codes_of(name: str, y: NDArray[Any], labels: NDArray[Any], allowed: str) -> NDArray[np.int64]:
    """Encode y as indices of labels."""
    codes = np.minimum(np.searchsorted(labels, y), len(labels) - 1).astype(np.int64)
    if not np.array_equal(labels[codes], y):
        raise InvalidArgument(name, "a label beyond the classes", allowed)
    return codes


def seed_of_wave(seed: int | None, wave: int) -> int | None:
    """The seed of a wave. The first wave uses the given seed, later ones independent streams."""
    if seed is None or wave == 1:
        return seed
    low, high = philox_key(seed, WAVE, wave)
    return low | high << 32


def _signs(y: NDArray[np.int64]) -> NDArray[np.int8]:
    return (2 * y - 1).astype(np.int8)
