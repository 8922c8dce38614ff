"""One wave of clients: two classes by a linear model, more by softmax or multi-class hinge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsel.data.partition import Clients
from fedsel.errors import InvalidArgument
from fedsel.models import MulticlassModel
from fedsel.preparation import Preparation
from fedsel.random import key_of
from fedsel.simulation import EvaluationSet, History, Population, Training, train
from fedsel.simulation.multiclass import MulticlassClients, MulticlassJudge
from fedsel.simulation.preparing import train_prepared

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
    """Classes 0 … C−1: one column of weights for two of them, else C."""

    targets: NDArray[np.int64]
    classes: int

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
            return train(training, people, test, start=start)
        model = training.model
        own = MulticlassModel(model.loss, training.reg_of_clients)
        whole = MulticlassModel(model.loss, model.reg)

        def source(X: Any) -> MulticlassClients:
            return MulticlassClients(X, used.y, self.columns, own, people.order, people.starts)

        def judge(learnt: Preparation | None) -> MulticlassJudge:
            X = (learnt or known).records(shown.X)
            return MulticlassJudge(X, shown.y, self.columns, whole)

        shown = judges if judges is not None else used
        begin = np.zeros(training.solution.dim) if start is None else start
        return train_prepared(training, people, source, begin, None if judges is None else judge)


def _population(
    training: Training, used: Examples, known: Preparation, clients: Clients | None
) -> Population:
    order, starts = (None, None) if clients is None else (clients.order, clients.starts)
    return Population(_shown(training, used.X, known), used.y, order, starts)


def _shown(training: Training, X: Any, known: Preparation) -> Any:
    """Records as a training takes them: prepared already, unless its first rounds prepare."""
    return known.records(X) if training.plan is None else X


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
