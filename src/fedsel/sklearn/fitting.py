"""One wave of clients: two classes by a linear model, more by softmax or multi-class hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.data.partition import Clients
from fedsel.errors import InvalidArgument
from fedsel.models import MulticlassModel
from fedsel.random import key_of
from fedsel.simulation import (
    EvaluationSet,
    History,
    Population,
    Training,
    train,
    train_vectors,
)
from fedsel.simulation.multiclass import MulticlassClients, MulticlassJudge

WAVE = 21
"""The purpose of the streams from which the seeds of later waves come."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Records X (n, d), float32, dense or CSR, on the clients' scale, and classes 0 … C−1."""

    X: Any
    y: NDArray[np.int64]


def train_wave(
    training: Training,
    columns: int,
    used: Examples,
    clients: Clients | None,
    judges: Examples | None,
    start: NDArray[np.float64] | None,
) -> History:
    """Train on one wave of clients and tell its history.

    ``columns`` is 1 for two classes, else their number.
    """
    order, starts = (None, None) if clients is None else (clients.order, clients.starts)
    if columns == 1:
        test = None if judges is None else EvaluationSet(judges.X, _signs(judges.y))
        population = Population(used.X, _signs(used.y), order, starts)
        return train(training, population, test, start=start)
    solution, model = training.solution, training.model
    own = MulticlassModel(model.loss, 0.0 if solution.decays_at_server else model.reg)
    source = MulticlassClients(used.X, used.y, columns, own, order, starts)
    judge = None
    if judges is not None:
        whole = MulticlassModel(model.loss, model.reg)
        judge = MulticlassJudge(judges.X, judges.y, columns, whole)
    begin = np.zeros(solution.dim) if start is None else start
    return train_vectors(training, source, begin, judge)


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
