"""One wave of clients: two classes or numbers by a linear model, more classes by softmax."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import key_of
from fedsel.data.partition import Clients
from fedsel.errors import InvalidArgument, InvalidData, check_vectors
from fedsel.models import LinearModel, Loss, MulticlassModel
from fedsel.preparation import Preparation
from fedsel.simulation import EvaluationSet, History, Population, Training, train
from fedsel.simulation.linear_clients import LinearClients
from fedsel.simulation.multiclass import MulticlassClients, MulticlassJudge
from fedsel.simulation.preparing import train_prepared
from fedsel.simulation.rounds import Judge
from fedsel.simulation.vector_rounds import Source, VectorRunner

WAVE = 21
"""The purpose of the streams from which the seeds of later waves come."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Records X (n, d), dense or CSR, on their public scale, and what they are labelled with."""

    X: Any
    y: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Wave:
    """One wave of clients, and how they train.

    ``used`` are their records and what they are labelled with, ``judges`` those that judge.
    Records are prepared as is ``known``, or as the first rounds learn if the training has a plan.
    """

    training: Training
    used: Examples
    known: Preparation
    clients: Clients | None = None
    judges: Examples | None = None
    start: NDArray[np.float64] | None = None

    @property
    def people(self) -> Population:
        """The clients, as a training takes them."""
        own = self.clients
        order, starts = (None, None) if own is None else (own.order, own.starts)
        return Population(self.shown(self.used.X), self.used.y, order, starts)

    def shown(self, X: Any) -> Any:
        """Records prepared already, unless the first rounds prepare."""
        return self.known.records(X) if self.training.plan is None else X

    def trained(
        self,
        source_of: Callable[[Population], Source],
        judge_of: Callable[[Any, NDArray[Any]], Judge],
    ) -> History:
        """Train on vectors: ``source_of`` clients with prepared records, ``judge_of`` (X, y)."""
        judges, training = self.judges, self.training

        def judge(learnt: Preparation | None) -> Judge:
            shown = cast(Examples, judges)
            return judge_of((learnt or self.known).records(shown.X), shown.y)

        return train_prepared(
            training,
            self.people,
            np.zeros(training.solution.dim) if self.start is None else self.start,
            lambda people, begun: VectorRunner(training, source_of(people), begun),
            None if judges is None else judge,
        )


class Task(ABC):
    """What is learnt of the records: ``columns`` of weights from ``targets``, one a record."""

    targets: NDArray[Any]
    loss: Loss
    regression: ClassVar[bool] = False
    """Whether numbers are learnt: dividing a record by its norm would change them."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Columns of weights."""

    @abstractmethod
    def train(self, wave: Wave) -> History:
        """Train on one wave of clients and tell its history."""


@dataclass(frozen=True, eq=False)
class Classification(Task):
    """Classes 0 … C−1: one column of weights for two of them, else C.

    ``factors`` (n,) in [0, 1] weigh the loss of each record.
    """

    targets: NDArray[np.int64]
    classes: int
    loss: Loss = "logistic"
    factors: NDArray[np.float64] | None = None

    @property
    def columns(self) -> int:
        return 1 if self.classes == 2 else self.classes

    def train(self, wave: Wave) -> History:
        return self._two(wave) if self.columns == 1 else self._several(wave)

    def _two(self, wave: Wave) -> History:
        training, factors = wave.training, self.factors
        model, reg, signs = training.model, training.reg_of_clients, _signs(wave.used.y)
        if factors is None:
            judges = wave.judges
            test = None
            if judges is not None:
                test = EvaluationSet(wave.shown(judges.X), _signs(judges.y))
            return train(training, replace(wave.people, y=signs), test, start=wave.start)
        return wave.trained(
            lambda people: LinearClients(people, model, reg, targets=signs, factors=factors),
            lambda X, y: partial(EvaluationSet(X, _signs(y)).judge, model=model),
        )

    def _several(self, wave: Wave) -> History:
        training, columns = wave.training, self.columns
        own = MulticlassModel(self.loss, training.reg_of_clients)
        whole = MulticlassModel(self.loss, training.model.reg)
        return wave.trained(
            lambda people: MulticlassClients(
                people.X, self.targets, columns, own, people.order, people.starts, self.factors
            ),
            lambda X, y: MulticlassJudge(X, y, columns, whole),
        )


@dataclass(frozen=True, eq=False)
class Regression(Task):
    """Numbers in [−1, 1], by one column of weights; ``factors`` as in `Classification`."""

    targets: NDArray[np.float64]
    loss: Loss = "squared"
    factors: NDArray[np.float64] | None = None
    regression: ClassVar[bool] = True

    @property
    def columns(self) -> int:
        return 1

    def train(self, wave: Wave) -> History:
        model, reg = wave.training.model, wave.training.reg_of_clients
        return wave.trained(
            lambda people: LinearClients(
                people, model, reg, targets=self.targets, factors=self.factors
            ),
            lambda X, y: RegressionJudge(X, y, model),
        )


@dataclass(frozen=True, eq=False)
class RegressionJudge:
    """R² and regularised loss of models of weights (models, d) on records that judge."""

    X: Any
    y: NDArray[np.float64]
    model: LinearModel

    def __call__(
        self, weights: NDArray[np.float64], /
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        predicted = np.asarray(self.X @ weights.T, dtype=np.float64)
        spread = max(float(np.var(self.y)), 1e-30)
        errors = np.mean((predicted - self.y[:, None]) ** 2, axis=0)
        losses = self.model.losses(predicted, self.y).mean(axis=0)
        penalty = self.model.reg / 2 * np.einsum("md,md->m", weights, weights)
        return 1 - errors / spread, losses + penalty


def factors_of(
    n: int,
    sample_weight: Any,
    bound: float | None,
    of_classes: NDArray[np.float64] | None = None,
) -> NDArray[np.float64] | None:
    """What each record's loss is multiplied with, in [0, 1]; None for 1.

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
    """y as the numbers of its labels."""
    codes = np.minimum(np.searchsorted(labels, y), len(labels) - 1).astype(np.int64)
    if not np.array_equal(labels[codes], y):
        raise InvalidArgument(name, "a label beyond the classes", allowed)
    return codes


def seed_of_wave(seed: int | None, wave: int) -> int | None:
    """Who comes later draws from other streams; the first wave from those of the seed."""
    if seed is None or wave == 1:
        return seed
    low, high = key_of(seed, WAVE, wave)
    return low | high << 32


def _signs(y: NDArray[np.int64]) -> NDArray[np.int8]:
    return (2 * y - 1).astype(np.int8)
