"""One wave of clients: two classes by a linear model, more by softmax or multi-class hinge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from fedsel.data.partition import Clients
from fedsel.errors import InvalidArgument, InvalidData, check_vectors
from fedsel.models import LinearModel, MulticlassModel
from fedsel.preparation import Preparation
from fedsel.random import key_of
from fedsel.simulation import EvaluationSet, History, Population, Training, train
from fedsel.simulation.linear_clients import LinearClients
from fedsel.simulation.multiclass import MulticlassClients, MulticlassJudge
from fedsel.simulation.preparing import train_prepared
from fedsel.simulation.rounds import Judge

WAVE = 21
"""The purpose of the streams from which the seeds of later waves come."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Records X (n, d), dense or CSR, on their public scale, and what they are labelled with."""

    X: Any
    y: NDArray[Any]


class Task(ABC):
    """What is learnt of the records: ``columns`` of weights from ``targets``, one a record."""

    targets: NDArray[Any]
    regression: ClassVar[bool] = False
    """Whether numbers are learnt: dividing a record by its norm would change them."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """Columns of weights."""

    @abstractmethod
    def train(
        self,
        training: Training,
        used: Examples,
        known: Preparation,
        clients: Clients | None,
        judges: Examples | None,
        start: NDArray[np.float64] | None,
    ) -> History:
        """Train on one wave of clients and tell its history.

        Records are prepared as is ``known``, or as the first rounds learn.
        """


@dataclass(frozen=True, eq=False)
class Classification(Task):
    """Classes 0 … C−1: one column of weights for two of them, else C.

    ``factors`` (n,) in [0, 1] weigh the loss of each record.
    """

    targets: NDArray[np.int64]
    classes: int
    factors: NDArray[np.float64] | None = None

    @property
    def columns(self) -> int:
        return 1 if self.classes == 2 else self.classes

    def train(
        self,
        training: Training,
        used: Examples,
        known: Preparation,
        clients: Clients | None,
        judges: Examples | None,
        start: NDArray[np.float64] | None,
    ) -> History:
        people = _population(training, used, known, clients)
        if self.columns == 1:
            people = replace(people, y=_signs(used.y))
            test = None
            if judges is not None:
                test = EvaluationSet(_shown(training, judges.X, known), _signs(judges.y))
            if self.factors is None:
                return train(training, people, test, start=start)
            return self._weighted(training, people, test, start)
        model = training.model
        own = MulticlassModel(model.loss, training.reg_of_clients)
        whole = MulticlassModel(model.loss, model.reg)

        def source(X: Any) -> MulticlassClients:
            held = (people.order, people.starts, self.factors)
            return MulticlassClients(X, used.y, self.columns, own, *held)

        def judge(learnt: Preparation | None) -> MulticlassJudge:
            X = (learnt or known).records(shown.X)
            return MulticlassJudge(X, shown.y, self.columns, whole)

        shown = judges if judges is not None else used
        begin = np.zeros(training.solution.dim) if start is None else start
        return train_prepared(training, people, source, begin, None if judges is None else judge)

    def _weighted(
        self,
        training: Training,
        people: Population,
        test: EvaluationSet | None,
        start: NDArray[np.float64] | None,
    ) -> History:
        model, reg, factors = training.model, training.reg_of_clients, self.factors

        def source(X: Any) -> LinearClients:
            return LinearClients(replace(people, X=X), model, reg, factors=factors)

        def judge(learnt: Preparation | None) -> Judge:
            shown = test if learnt is None or test is None else test.prepared(learnt)
            return partial(cast(EvaluationSet, shown).judge, model=model)

        begin = np.zeros(training.solution.dim) if start is None else start
        return train_prepared(training, people, source, begin, None if test is None else judge)


@dataclass(frozen=True, eq=False)
class Regression(Task):
    """Numbers in [−1, 1], by one column of weights."""

    targets: NDArray[np.float64]
    factors: NDArray[np.float64] | None = None
    regression: ClassVar[bool] = True

    @property
    def columns(self) -> int:
        return 1

    def train(
        self,
        training: Training,
        used: Examples,
        known: Preparation,
        clients: Clients | None,
        judges: Examples | None,
        start: NDArray[np.float64] | None,
    ) -> History:
        people = _population(training, used, known, clients)
        model, reg = training.model, training.reg_of_clients

        def source(X: Any) -> LinearClients:
            shown = replace(people, X=X)
            return LinearClients(shown, model, reg, targets=used.y, factors=self.factors)

        def judge(learnt: Preparation | None) -> RegressionJudge:
            return RegressionJudge((learnt or known).records(shown.X), shown.y, model)

        shown = judges if judges is not None else used
        begin = np.zeros(training.solution.dim) if start is None else start
        return train_prepared(training, people, source, begin, None if judges is None else judge)


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


def _population(
    training: Training, used: Examples, known: Preparation, clients: Clients | None
) -> Population:
    order, starts = (None, None) if clients is None else (clients.order, clients.starts)
    return Population(_shown(training, used.X, known), used.y, order, starts)


def _shown(training: Training, X: Any, known: Preparation) -> Any:
    """Records as a training takes them: prepared already, unless its first rounds prepare."""
    return known.records(X) if training.plan is None else X


def factors_of(
    n: int,
    sample_weight: Any,
    bound: float | None,
    of_classes: NDArray[np.float64] | None = None,
) -> NDArray[np.float64] | None:
    """What each record's loss is multiplied with, in [0, 1]; None for 1.

    A client divides its weight by the public bound and clips it to 1.
    """
    factors = None if of_classes is None else of_classes / of_classes.max()
    if sample_weight is None:
        return factors
    weights = check_vectors("sample_weight", sample_weight, ndim=1).astype(np.float64)
    if len(weights) != n or not (weights >= 0).all() or not weights.any():
        raise InvalidData(f"sample_weight: must be {n} numbers ≥ 0, and not all zero")
    if bound is None:
        bound = float(weights.max())
    own = np.minimum(weights / bound, 1.0)
    return own if factors is None else own * factors


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
