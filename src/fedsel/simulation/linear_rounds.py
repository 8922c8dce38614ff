"""Algorithm 1 on linear models: federated SGD over simulated clients, at memory speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import key_of, own_bits
from fedsel.errors import InvalidArgument, check_vectors
from fedsel.history import History
from fedsel.preparation import Preparation
from fedsel.server.step import ServerState, averaged
from fedsel.simulation.evaluation import EvaluationSet
from fedsel.simulation.linear_clients import LinearClients
from fedsel.simulation.population import Population
from fedsel.simulation.preparing import train_prepared
from fedsel.simulation.records import LOSSES, records_of
from fedsel.simulation.rounds import (
    Evaluate,
    Judge,
    Training,
    residual_for,
)
from fedsel.simulation.schedule import schedule
from fedsel.simulation.vector_rounds import VectorRunner

_CLIENTS_AT_A_TIME = 500_000
_ENTRIES_AT_A_TIME = 1 << 23


def train(
    training: Training,
    population: Population,
    test: EvaluationSet | None = None,
    *,
    evaluate: Evaluate = "rounds",
    start: NDArray[np.float64] | None = None,
    residual_directory: Path | None = None,
    advance: Callable[[int], object] | None = None,
) -> History:
    """Run Algorithm 1 and return the history.

    ``test`` judges the model after every round, every epoch or at the end. ``start`` are the
    weights (d,) to begin with, zeros unless given. With E > 1 a solution that accumulates keeps a
    float32 residual for each client, on disk if a directory is given.
    ``advance`` is called after each round.
    """
    solution, plan = training.solution, training.plan
    entries = population.X.shape[1] if plan is None else plan.features + 1
    if entries != solution.dim:
        raise InvalidArgument("solution.dim", solution.dim, f"{entries}, as X")
    if plan is not None and population.X.shape[1] != plan.features:
        raise InvalidArgument("plan.features", plan.features, f"{population.X.shape[1]}, as X")
    weights = np.zeros(solution.dim) if start is None else _started(start, solution.dim)

    def judge_of(learnt: Preparation | None) -> Judge:
        shown = cast(EvaluationSet, test)
        shown = shown if learnt is None else shown.prepared(learnt)
        return partial(shown.judge, model=training.model)

    return train_prepared(
        training,
        population,
        weights,
        lambda shown, begun: runner_for(training, shown, begun, residual_directory),
        None if test is None else judge_of,
        evaluate=evaluate,
        advance=advance,
    )


def runner_for(
    training: Training,
    population: Population,
    weights: NDArray[np.float64],
    residual_directory: Path | None = None,
) -> LinearRunner | VectorRunner:
    """Compiled rounds where the kernels know the solution, else one client after another."""
    from fedsel.sampling._kernels import known

    if known(training.solution) and training.model.loss in LOSSES:
        return LinearRunner(training, population, weights, residual_directory)
    source = LinearClients(population, training.model, training.reg_of_clients)
    return VectorRunner(training, source, weights, residual_directory)


class LinearRunner:
    """Rounds in one compiled call: gradient, report, sums and step."""

    preparation: Preparation | None = None

    def __init__(
        self,
        training: Training,
        population: Population,
        weights: NDArray[np.float64],
        residual_directory: Path | None = None,
    ) -> None:
        from fedsel.sampling._kernels import native, signs_of, tables_of

        self.training, self._native, self._signs_of = training, native, signs_of
        solution, tables = training.solution, tables_of(training.solution)
        self._records = records_of(population.X, population.y, population.order, population.starts)
        self._plan = native.plan(tables)
        places = solution.transform.places
        self._sums = np.zeros((len(tables.units), places), dtype=np.int64)
        self._total = np.zeros(places)
        self.sent = np.zeros((1, 2 * tables.picks), dtype=np.int64)
        self._residual = residual_for(solution, population.clients, residual_directory)
        self._key = None if training.seed is None else key_of(training.seed)
        self.state = ServerState.begin(weights)

    @property
    def rounds_at_a_time(self) -> int:
        """Rounds of one kernel call: long enough to be fast, short enough to show progress."""
        # Weights of each round are kept, and the signs of its bases.
        solution = self.training.solution
        held = _ENTRIES_AT_A_TIME // max(solution.dim, solution.transform.places)
        return max(1, min(held, _CLIENTS_AT_A_TIME // self.training.batch))

    def run(
        self, epoch: int, clients: NDArray[np.int64], ends: NDArray[np.int64], keep: bool
    ) -> Iterator[ServerState]:
        training, rule = self.training, self.training.rule
        solution, count = training.solution, len(ends)
        weights = self.state.weights.copy()
        trace = np.empty((count if keep else 0, solution.dim))
        self._native.run_rounds(
            self._plan,
            self._records,
            LOSSES[training.model.loss],
            training.model.reg,
            training.factor,
            rule.rate,
            rule.decay,
            clients,
            ends,
            weights,
            self._residual if len(self._residual) else None,
            own_bits(len(clients)) if self._key is None else self._key,
            epoch,
            self._signs_of(solution, self.state.rounds, count),
            self._sums,
            self._total,
            self.sent,
            trace if keep else None,
        )
        if not keep:
            self.state = ServerState(weights, weights, self.state.rounds + count)
            yield self.state
        for after in trace:
            self.state = averaged(self.state, rule, after)
            yield self.state


def schedule_of(
    training: Training, population: Population, epoch: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The clients of an epoch in their order, and where each round ends."""
    return schedule(
        population.taking_part,
        clients=population.clients,
        batch=training.batch,
        seed=training.seed,
        epoch=epoch,
        dropout=training.dropout,
    )


def _started(weights: NDArray[np.float64], d: int) -> NDArray[np.float64]:
    copied: NDArray[np.float64] = check_vectors("start", weights, ndim=1).astype(np.float64)
    if len(copied) != d:
        raise InvalidArgument("start", f"{len(copied)} weights", f"{d} weights, as X")
    return copied
