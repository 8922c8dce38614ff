"""One wave of clients: two classes by the engine, more by softmax or multi-class hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.data.partition import Clients
from fedsel.models import LinearModel, MulticlassModel
from fedsel.models.linear import Loss
from fedsel.simulation import History, Population, Test, Training, train
from fedsel.simulation.multiclass import MulticlassClients, MulticlassJudge
from fedsel.simulation.rounds import VectorTraining, train_vectors
from fedsel.solutions import Solution


@dataclass(frozen=True, eq=False)
class Examples:
    """Records X (n, d), float32, dense or CSR, on the clients' scale, and classes 0 … C−1."""

    X: Any
    y: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Wave:
    """How to train: ``columns`` is 1 for two classes, else their number."""

    solution: Solution
    loss: Loss
    reg: float
    rate: float
    batch: int
    seed: int
    columns: int
    start: NDArray[np.float64] | None = None
    averaging: float = 0.0


def train_wave(
    wave: Wave, used: Examples, clients: Clients | None, judges: Examples | None
) -> History:
    """Train on one wave of clients and tell its history."""
    order, starts = (None, None) if clients is None else (clients.order, clients.starts)
    if wave.columns == 1:
        test = None if judges is None else Test(judges.X, _signs(judges.y))
        training = Training(
            wave.solution,
            LinearModel(wave.loss, wave.reg),
            wave.rate,
            wave.batch,
            seed=wave.seed,
            averaging=wave.averaging,
        )
        population = Population(used.X, _signs(used.y), order, starts)
        return train(training, population, test, start=wave.start)
    model = MulticlassModel(wave.loss, wave.reg)
    at_server = wave.reg if wave.solution.decays_at_server else 0.0
    told = MulticlassModel(wave.loss, 0.0 if at_server else wave.reg)
    source = MulticlassClients(used.X, used.y, wave.columns, told, order, starts)
    judge = None if judges is None else MulticlassJudge(judges.X, judges.y, wave.columns, model)
    return train_vectors(
        VectorTraining(wave.solution, wave.rate, wave.batch, wave.seed, at_server, wave.averaging),
        source,
        np.zeros(wave.solution.dim) if wave.start is None else wave.start,
        judge,
    )


def _signs(y: NDArray[np.int64]) -> NDArray[np.int8]:
    return (2 * y - 1).astype(np.int8)
