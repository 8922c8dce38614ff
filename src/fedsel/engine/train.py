"""Algorithm 1: federated SGD over simulated clients, each of whom reports once an epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from fedsel.engine.history import History, Round, Test
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive
from fedsel.models.linear import LinearModel
from fedsel.random import key_of
from fedsel.solutions import Projected, Solution

SHUFFLE, DROP = 1, 2
"""Purposes of random streams beside the clients' own."""

_AT_A_TIME = 128

Evaluate = Literal["rounds", "epochs", "end"]


@final
@dataclass(frozen=True)
class Training:
    """How to train: the server's public choices.

    ``batch`` clients report in a round (the last round of an epoch may have fewer); ``dropout`` is
    the chance that a client does not answer. Results depend on ``seed`` alone.
    """

    solution: Solution
    model: LinearModel = field(default_factory=LinearModel)
    learning_rate: float = 1.0
    batch: int = 600
    dropout: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_count("batch", self.batch)
        check_count("seed", self.seed, least=0)
        if not 0 <= check_finite("dropout", self.dropout) < 1:
            raise InvalidArgument("dropout", self.dropout, "in [0, 1)")


@dataclass(frozen=True)
class Population:
    """The clients: records X (N, d) as dense float32 or CSR, labels ±1, and who holds which.

    Without ``starts`` each client holds one record; else client i holds the records
    order[starts[i]] … order[starts[i+1]−1]. ``members`` are the clients that take part, by number;
    None is all of them. A subset costs no copy of X.
    """

    X: Any
    y: NDArray[np.int8]
    order: NDArray[np.int64] | None = None
    starts: NDArray[np.int64] | None = None
    members: NDArray[np.int64] | None = None

    @property
    def clients(self) -> int:
        """How many clients there are, members or not."""
        return self.X.shape[0] if self.starts is None else len(self.starts) - 1


def train(
    training: Training,
    population: Population,
    test: Test | None = None,
    *,
    evaluate: Evaluate = "rounds",
    residual_directory: Path | None = None,
    advance: Callable[[int], object] = abs,
) -> History:
    """Run Algorithm 1 and return the history.

    ``test`` judges the model after every round, every epoch or at the end. With E > 1 a solution
    that accumulates keeps a float32 residual for each client, on disk if a directory is given.
    ``advance`` is called after each round.
    """
    run = Run(training, population, residual_directory)
    history = History(weights=run.weights)
    waiting: list[tuple[Round, NDArray[np.float64]]] = []
    solution = training.solution
    cost = solution.privacy.per_report
    for epoch in range(solution.epochs):
        batches = run.batches(epoch)
        for number, clients in enumerate(batches):
            reports = run.round(epoch, clients)
            last = number == len(batches) - 1
            if evaluate == "rounds" or (
                last and (evaluate == "epochs" or epoch == solution.epochs - 1)
            ):
                spent, bits = (epoch + 1) * cost, solution.bits * reports
                made = Round(run.rounds, epoch, math.nan, math.nan, math.nan, spent, bits, reports)
                waiting.append((made, run.weights.copy()))
            advance(1)
    history.weights = run.weights
    history.rounds = _judged(waiting, training.model, test)
    return history


class Run:
    """The state of a run: the weights, and the clients' residuals."""

    def __init__(
        self,
        training: Training,
        population: Population,
        residual_directory: Path | None = None,
    ) -> None:
        from fedsel.engine import kernel, plan

        self.training, self.kernel = training, kernel
        solution = training.solution
        if population.X.shape[1] != solution.dim:
            raise InvalidArgument("solution.dim", solution.dim, f"{population.X.shape[1]}, as X")
        self.records = plan.records_of(
            population.X, population.y, population.order, population.starts
        )
        self.plan = plan.plan_of(solution)
        self.clients = population.clients
        self.members = population.members
        self.weights = np.zeros(solution.dim)
        self.rounds = 0
        self.sent = np.zeros((training.batch, 2 * self.plan.picks), dtype=np.int64)
        needed = solution.accumulates and solution.epochs > 1
        self.residual = _residual(self.clients if needed else 0, solution.dim, residual_directory)
        self.key = key_of(training.seed)

    def batches(self, epoch: int) -> list[NDArray[np.int64]]:
        """The clients of each round of an epoch: shuffled, without those that drop out."""
        training = self.training
        everyone = np.arange(self.clients, dtype=np.int64)
        order = everyone if self.members is None else self.members.copy()
        self.kernel.shuffle(order, key_of(training.seed, SHUFFLE), epoch)
        batches = [order[i : i + training.batch] for i in range(0, len(order), training.batch)]
        if training.dropout == 0:
            return batches
        stays = np.ones(self.clients, dtype=np.bool_)
        self.kernel.drop(stays, training.dropout, key_of(training.seed, DROP), epoch)
        return [b[stays[b]] for b in batches]

    def round(self, epoch: int, clients: NDArray[np.int64]) -> int:
        """Let the clients report, average, and step. Returns how many reports came."""
        training, solution = self.training, self.training.solution
        rate = training.learning_rate if solution.rate_inside else 1.0
        total = np.zeros(solution.q if isinstance(solution, Projected) else solution.dim)
        loss = self.kernel.LOGISTIC if training.model.loss == "logistic" else self.kernel.HINGE
        self.kernel.run_round(
            self.records,
            self.plan,
            loss,
            clients,
            self.weights.astype(np.float32),
            (rate * training.model.reg * self.weights).astype(np.float32),
            rate,
            self.residual,
            self.key,
            epoch,
            self.sent[: len(clients)],
            total,
        )
        if len(clients):
            mean = total / len(clients)
            if isinstance(solution, Projected):
                mean = solution.recover(mean)
            self.weights -= (1.0 if solution.rate_inside else training.learning_rate) * mean
        self.rounds += 1
        return len(clients)


def _residual(clients: int, d: int, directory: Path | None) -> NDArray[np.float32]:
    if clients == 0:
        return np.empty((0, d), dtype=np.float32)
    if directory is None:
        return np.zeros((clients, d), dtype=np.float32)
    # A sparse file of zeros: only the pages that are written take room.
    file = directory / "residual.f32"
    return np.asarray(np.memmap(file, dtype=np.float32, mode="w+", shape=(clients, d)))


def _judged(
    waiting: list[tuple[Round, NDArray[np.float64]]], model: LinearModel, test: Test | None
) -> list[Round]:
    """Fill in accuracy and loss, all rounds in one product."""
    if test is None or not waiting:
        return [made for made, _ in waiting]
    judged = []
    for start in range(0, len(waiting), _AT_A_TIME):
        part = waiting[start : start + _AT_A_TIME]
        hits, losses = test.judge(np.stack([w for _, w in part]), model)
        for (made, _), hit, loss in zip(part, hits, losses, strict=True):
            values = {**vars(made), "accuracy": float(hit), "misclassification": 1 - float(hit)}
            judged.append(Round(**{**values, "loss": float(loss)}))
    return judged
