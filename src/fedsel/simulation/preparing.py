"""Rounds in which simulated clients report on their records, and those that train afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.history import History
from fedsel.preparation import Plan, Preparation
from fedsel.server.step import ServerState, prepare
from fedsel.simulation.population import Population
from fedsel.simulation.rounds import Doubles, Evaluate, Judge, RoundRunner, Training, run_rounds
from fedsel.simulation.vector_rounds import VectorReports

_ENTRIES_AT_A_TIME = 1 << 21


class PreparingRunner:
    """The rounds of a plan, then those of the runner that ``runner_of`` returns.

    It is called once the preparation is learnt. A client that holds several records reports on the
    mean of what it would report for each.
    """

    def __init__(
        self,
        training: Training,
        people: Population,
        weights: NDArray[np.float64],
        runner_of: Callable[[Population, NDArray[np.float64]], RoundRunner],
    ) -> None:
        if training.plan is None:
            raise InvalidArgument("training.plan", None, "a plan")
        self.training, self.plan = training, training.plan
        self._people, self._runner_of = people, runner_of
        self._learnt = training.plan.begin
        self.state = ServerState.begin(weights)
        self._inner: RoundRunner | None = None
        if not self.plan.rounds:
            self._train()

    @cached_property
    def _reports(self) -> VectorReports:
        return VectorReports(self.training.solution, self._people.clients, seed=self.training.seed)

    @property
    def preparation(self) -> Preparation:
        """What is learnt so far."""
        return self._learnt.preparation

    @property
    def rounds_at_a_time(self) -> int:
        if self._inner is None:
            return self.plan.rounds - self.state.rounds
        return self._inner.rounds_at_a_time

    def run(
        self, epoch: int, clients: NDArray[np.int64], ends: NDArray[np.int64], keep: bool
    ) -> Iterator[ServerState]:
        if self._inner is not None:
            for state in self._inner.run(epoch, clients, ends, keep):
                self.state = state
                yield state
            return
        for first, end in pairwise([0, *ends.tolist()]):
            self._prepare(epoch, clients[first:end])
            yield self.state

    def _prepare(self, epoch: int, clients: NDArray[np.int64]) -> None:
        number, reports = self.state.rounds, self._reports
        reports.begin(number)
        step = max(1, _ENTRIES_AT_A_TIME // self.plan.dim)
        for at in range(0, len(clients), step):
            some = clients[at : at + step]
            reports.report(epoch, some, [self._vectors(number, some)])
        solution, rule = self.training.solution.in_round(number), self.training.rule
        self.state, self._learnt = prepare(
            self.state, self._learnt, self.plan, rule, solution, reports.totals
        )
        if self.state.rounds == self.plan.rounds:
            self._train()

    def _train(self) -> None:
        """All is learnt: the rounds from here on are those of the inner runner."""
        ready = self._people.prepared(self.preparation)
        self._inner = self._runner_of(ready, self.state.weights)
        self._inner.state = replace(self._inner.state, rounds=self.state.rounds)

    def _vectors(self, number: int, clients: NDArray[np.int64]) -> NDArray[np.float32]:
        return client_vectors(self.plan, number, self._people, clients, self.preparation)


class PreparedJudge:
    """Judges models on records that are prepared as far as has been learnt.

    ``judge_of`` is called with each preparation, once.
    """

    def __init__(self, runner: PreparingRunner, judge_of: Callable[[Preparation], Judge]) -> None:
        self._runner, self._judge_of = runner, judge_of
        self._latest: tuple[Preparation, Judge] | None = None

    def __call__(self, models: Doubles, /) -> tuple[Iterable[float], Iterable[float]]:
        learnt = self._runner.preparation
        if self._latest is None or self._latest[0] is not learnt:
            self._latest = learnt, self._judge_of(learnt)
        return self._latest[1](models)


def train_prepared(
    training: Training,
    people: Population,
    start: Doubles,
    runner_of: Callable[[Population, Doubles], RoundRunner],
    judge_of: Callable[[Preparation | None], Judge] | None = None,
    *,
    evaluate: Evaluate = "rounds",
    advance: Callable[[int], object] | None = None,
) -> History:
    """Algorithm 1 on records that are prepared as the first rounds learn, if there is a plan.

    ``runner_of`` is called with the clients, their records prepared, and the weights to begin with;
    ``judge_of`` with what was learnt, None without a plan.
    """
    runner: RoundRunner
    judge: Judge | None = None
    if training.plan is None:
        runner = runner_of(people, start)
        judge = None if judge_of is None else judge_of(None)
    else:
        runner = preparing = PreparingRunner(training, people, start, runner_of)
        judge = None if judge_of is None else PreparedJudge(preparing, judge_of)
    everyone = people.taking_part
    return run_rounds(
        training, runner, everyone, people.clients, judge, evaluate=evaluate, advance=advance
    )


def client_vectors(
    plan: Plan, number: int, people: Population, clients: NDArray[np.int64], learnt: Preparation
) -> NDArray[np.float32]:
    """What these clients report on in a round that prepares: (n, dim)."""
    if people.starts is None or people.order is None:
        return plan.vectors(number, people.X[clients], learnt)
    rows = np.empty((len(clients), plan.dim), dtype=np.float32)
    for row, client in enumerate(clients.tolist()):
        mine = people.order[people.starts[client] : people.starts[client + 1]]
        rows[row] = plan.vector(number, people.X[mine], learnt)
    return rows
