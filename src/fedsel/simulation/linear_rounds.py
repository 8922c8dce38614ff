"""Algorithm 1: federated SGD over simulated clients, each of whom reports once an epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import (
    InvalidArgument,
    check_count,
    check_finite,
    check_positive,
    check_vectors,
)
from fedsel.models.linear import LinearModel
from fedsel.random import key_of
from fedsel.simulation.averaging import Average, check_averaging
from fedsel.simulation.history import History, Round, Test
from fedsel.simulation.rounds import residual_of
from fedsel.simulation.schedule import schedule
from fedsel.solutions import Solution

_CLIENTS_AT_A_TIME = 500_000
_ENTRIES_AT_A_TIME = 1 << 23
_JUDGED_AT_A_TIME = 128

Evaluate = Literal["rounds", "epochs", "end"]


@final
@dataclass(frozen=True)
class Training:
    """How to train: the server's public choices.

    At most ``batch`` clients report in a round, about equally many in each; ``dropout`` is
    the chance that a client does not answer; ``rounds`` is the most rounds of all epochs together.
    With ``averaging`` p > 0 the model is the average of the weights over the rounds, t^p in round t
    (`Average`). Results depend on ``seed`` alone.
    """

    solution: Solution
    model: LinearModel = field(default_factory=LinearModel)
    learning_rate: float = 1.0
    batch: int = 600
    dropout: float = 0.0
    seed: int = 0
    rounds: int | None = None
    averaging: float = 0.0

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_averaging(self.averaging)
        if self.rounds is not None:
            check_count("rounds", self.rounds)
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
    start: NDArray[np.float64] | None = None,
    residual_directory: Path | None = None,
    advance: Callable[[int], object] = abs,
) -> History:
    """Run Algorithm 1 and return the history.

    ``test`` judges the model after every round, every epoch or at the end. ``start`` are the
    weights (d,) to begin with, zeros unless given. With E > 1 a solution that accumulates keeps a
    float32 residual for each client, on disk if a directory is given.
    ``advance`` is called after each round.
    """
    run = Run(training, population, residual_directory, start)
    solution, cost = training.solution, training.solution.privacy.per_report
    average = Average(training.averaging)
    keep = evaluate == "rounds" or training.averaging > 0
    seen: list[Round] = []
    models: list[NDArray[np.float64]] = []
    done = 0
    for epoch in range(solution.epochs):
        clients, ends = run.schedule(epoch)
        if training.rounds is not None:
            ends = ends[: training.rounds - done]
        reports = np.diff(ends, prepend=0)
        is_final = epoch == solution.epochs - 1 or done + len(ends) == training.rounds
        for first in range(0, len(ends), run.rounds_at_a_time):
            part = slice(first, min(first + run.rounds_at_a_time, len(ends)))
            trace = run.rounds(epoch, clients, ends, part, keep=keep)
            kept = [average.add(weights) for weights in (trace if keep else run.weights[None])]
            last = part.stop == len(ends)
            if evaluate != "rounds":
                kept = kept[-1:] if last and (evaluate == "epochs" or is_final) else []
            for model, t in zip(kept, range(part.stop - len(kept), part.stop), strict=True):
                number, bits = done + t + 1, solution.bits * int(reports[t])
                seen.append(Round(number, epoch, (epoch + 1) * cost, bits, int(reports[t])))
                models.append(model)
            advance(part.stop - part.start)
        done += len(ends)
        if done == training.rounds:
            break
    return History(_judged(seen, models, training.model, test), average.weights)


class Run:
    """The state of a run: the weights, the rounds done, and the clients' residuals."""

    def __init__(
        self,
        training: Training,
        population: Population,
        residual_directory: Path | None = None,
        start: NDArray[np.float64] | None = None,
    ) -> None:
        from fedsel.simulation.kernels import tables as plan
        from fedsel.simulation.kernels import training as kernel
        from fedsel.simulation.kernels.report import scratch_for

        self.training, self.kernel = training, kernel
        solution = training.solution
        if population.X.shape[1] != solution.dim:
            raise InvalidArgument("solution.dim", solution.dim, f"{population.X.shape[1]}, as X")
        self.records = plan.records_of(
            population.X, population.y, population.order, population.starts
        )
        self.plan, self._in_rounds = plan.plan_of(solution), plan.in_rounds
        self.done = 0
        self.clients = population.clients
        self.members = population.members
        self.weights = np.zeros(solution.dim) if start is None else _started(start, solution.dim)
        self.scratch = scratch_for(self.plan, solution.dim)
        self.sent = np.zeros((1, 2 * self.plan.picks), dtype=np.int64)
        needed = solution.accumulates and solution.epochs > 1
        self.residual = residual_of(self.clients if needed else 0, solution.dim, residual_directory)
        self.key = key_of(training.seed)

    @property
    def rounds_at_a_time(self) -> int:
        """Rounds of one kernel call: long enough to be fast, short enough to show progress."""
        held = _ENTRIES_AT_A_TIME // len(self.weights)  # the weights of each round may be kept
        return max(1, min(held, _CLIENTS_AT_A_TIME // self.training.batch))

    def schedule(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The clients of an epoch in their order, and where each round ends.

        Shuffled anew in each epoch; those that drop out are missing from their round.
        """
        training = self.training
        everyone = np.arange(self.clients, dtype=np.int64)
        return schedule(
            everyone if self.members is None else self.members,
            clients=self.clients,
            batch=training.batch,
            seed=training.seed,
            epoch=epoch,
            dropout=training.dropout,
        )

    def rounds(
        self,
        epoch: int,
        clients: NDArray[np.int64],
        ends: NDArray[np.int64],
        part: slice,
        *,
        keep: bool = False,
    ) -> NDArray[np.float64]:
        """Let the clients of some rounds report, average, and step.

        Returns the weights after each round if they are to be kept.
        """
        training, solution = self.training, self.training.solution
        inside = solution.rate_inside
        start = int(ends[part.start - 1]) if part.start else 0
        count = part.stop - part.start
        plan = self._in_rounds(self.plan, solution, self.done, count)
        self.done += count
        trace = np.empty((count if keep else 0, solution.dim))
        self.kernel.run_rounds(
            self.records,
            plan,
            self.kernel.LOGISTIC if training.model.loss == "logistic" else self.kernel.HINGE,
            training.model.reg,
            training.learning_rate if inside else 1.0,
            1.0 if inside else training.learning_rate,
            clients[start : ends[part.stop - 1]],
            ends[part] - start,
            self.weights,
            self.residual,
            self.key,
            epoch,
            self.scratch,
            self.sent,
            trace,
        )
        return trace


def _started(weights: NDArray[np.float64], d: int) -> NDArray[np.float64]:
    copied: NDArray[np.float64] = check_vectors("start", weights, ndim=1).astype(np.float64)
    if len(copied) != d:
        raise InvalidArgument("start", f"{len(copied)} weights", f"{d} weights, as X")
    return copied


def _judged(
    seen: list[Round],
    models: list[NDArray[np.float64]],
    model: LinearModel,
    test: Test | None,
) -> list[Round]:
    """Fill in accuracy and loss, many rounds in one product."""
    if test is None:
        return seen
    judged = []
    for start in range(0, len(seen), _JUDGED_AT_A_TIME):
        part = slice(start, start + _JUDGED_AT_A_TIME)
        hits, losses = test.judge(np.stack(models[part]), model)
        for made, hit, loss in zip(seen[part], hits, losses, strict=True):
            judged.append(replace(made, accuracy=float(hit), loss=float(loss)))
    return judged
