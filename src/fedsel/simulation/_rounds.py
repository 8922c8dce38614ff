"""A simulated run: the rounds of all epochs, over whatever stage plays them, and their history."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, Loss
from fedsel._internal.progress import note
from fedsel._internal.random import philox_key
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive, check_vectors
from fedsel.preparation import Plan, Preparation
from fedsel.recipe import Recipe, check_at_least_zero, check_averaging
from fedsel.server._step import History, Round, ServerState, StepRule
from fedsel.simulation._clients import LinearClients, Population, RecordSource, Source
from fedsel.simulation._judges import EvaluationSet, Judge, LinearJudge, RecordJudge
from fedsel.simulation._stages import RecordStage, Stage, training_stage
from fedsel.solutions import Solution
from fedsel.tracking import Callbacks, Run, Tracking

SHUFFLE, DROP = 1, 2
"""Purposes of random streams beside the clients' own."""
_JUDGED_AT_A_TIME = 128

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Evaluate = Literal["rounds", "epochs", "end"]
Advance = Callable[[int], object]


@final
@dataclass(frozen=True)
class Training:
    """How to train: the server's public choices.

    At most ``batch`` clients report in a round, about equally many in each; ``dropout`` is the
    chance that a client does not answer; ``rounds`` limits the rounds of all epochs together. With
    ``averaging`` p > 0 the model is the average of the weights over the rounds, weighted by t^p in
    round t. ``reg`` is λ, which the server or the clients apply, as the solution asks. With a
    ``plan`` the first rounds prepare; records are then on their public scale, without an intercept,
    and each client prepares its own.

    Without a ``seed`` every report is drawn from the operating system, and nobody can repeat the
    run. With one, results depend on it alone, and whoever knows or guesses it can undo the noise:
    such weights are for research, not for release (`History.seeded`).
    """

    solution: Solution
    learning_rate: float = 1.0
    batch: int = 600
    reg: float = 1e-4
    averaging: float = 0.0
    dropout: float = 0.0
    seed: int | None = None
    rounds: int | None = None
    plan: Plan | None = None

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_at_least_zero("reg", self.reg)
        check_averaging(self.averaging)
        if self.rounds is not None:
            check_count("rounds", self.rounds)
        check_count("batch", self.batch)
        if self.seed is not None:
            check_count("seed", self.seed, least=0)
        if not 0 <= check_finite("dropout", self.dropout) < 1:
            raise InvalidArgument("dropout", self.dropout, "in [0, 1)")
        if self.plan is not None and self.plan.dim != self.solution.dim:
            raise InvalidArgument("plan.dim", self.plan.dim, f"{self.solution.dim}, as solution")

    @property
    def rule(self) -> StepRule:
        """How the server steps, and what clients multiply and add."""
        return StepRule.for_solution(self.solution, self.learning_rate, self.reg, self.averaging)

    def planned_rounds(self, clients: int) -> int:
        """The rounds of all epochs, if each of so many clients reports once an epoch."""
        return self.rounds or self.solution.epochs * -(-clients // self.batch)

    def run_of(self, name: str, clients: int, recipe: Recipe | None = None) -> Run:
        """What callbacks learn about the run before it begins; the seed is not part of it."""
        public = ("learning_rate", "batch", "reg", "averaging", "dropout")
        own = {"solution": self.solution.name, **{key: getattr(self, key) for key in public}}
        rounds, seeded = self.planned_rounds(clients), self.seed is not None
        return Run.of(name, recipe, self.solution.privacy, rounds=rounds, seeded=seeded, **own)

    def schedule(self, members: Numbers, clients: int, epoch: int) -> tuple[Numbers, Numbers]:
        """The members in the order of an epoch, and where each round of at most ``batch`` ends.

        The order is shuffled anew in each epoch; clients that drop out are missing from their
        round. ``clients`` is the number of all, members or not. Without a seed both are drawn anew
        in every call, from bits that no report is drawn from.

        >>> from fedsel import solution
        >>> training = Training(solution("NP", dim=2), batch=2, seed=0)
        >>> order, ends = training.schedule(np.arange(5), clients=5, epoch=0)
        >>> sorted(order.tolist()), ends.tolist()
        ([0, 1, 2, 3, 4], [1, 3, 5])
        """
        from fedsel.sampling._kernels import native

        seed = secrets.randbits(256) if self.seed is None else self.seed
        order = members.copy()
        native.shuffle(order, philox_key(seed, SHUFFLE), epoch)
        # Even rounds of at most ``batch``: the mean of a few left over would be mostly noise.
        count = -(-len(order) // self.batch)
        ends: Numbers = np.arange(1, count + 1, dtype=np.int64) * len(order) // count
        if self.dropout == 0:
            return order, ends
        stays = np.ones(clients, dtype=np.bool_)
        native.drop(stays, self.dropout, philox_key(seed, DROP), epoch)
        answers = stays[order]
        return order[answers], np.cumsum(answers, dtype=np.int64)[ends - 1]


class Simulation:
    """A run in progress: its server's state, and the stage that plays the next rounds.

    ``start`` are the weights (d,) to begin with, or the state that an earlier run reached. With a
    plan the clients must be a `RecordSource`: they prepare their records once all is learnt.
    """

    def __init__(
        self,
        training: Training,
        source: Source,
        start: Doubles | ServerState,
        residual_directory: Path | None = None,
    ) -> None:
        self.training, self._source, self._directory = training, source, residual_directory
        self.state = start if isinstance(start, ServerState) else ServerState.begin(start)
        if training.plan is not None:
            self.state = replace(self.state, learnt=training.plan.begin)
        self.stage = self._stage()

    def _stage(self) -> Stage:
        """The stage of the next round."""
        training, source, plan = self.training, self._source, self.training.plan
        if plan is None or self.state.preparation is None:
            return training_stage(training, source, self._directory)
        own = cast(RecordSource, source)
        if self.state.rounds < plan.rounds:
            return RecordStage(training, plan, own.population)
        ready = own.with_records(self.state.preparation.records(own.population.X))
        return training_stage(training, ready, self._directory)

    def run(self, epoch: int, clients: Numbers, ends: Numbers, keep: bool) -> list[ServerState]:
        """The states after some rounds of an epoch, or after the last one unless all are kept."""
        states = list(self.stage.run(self.state, epoch, clients, ends, keep))
        plan, before = self.training.plan, self.state.rounds
        self.state = states[-1]
        if plan is not None and before < plan.rounds <= self.state.rounds:
            self.stage = self._stage()
        return states

    def history(
        self,
        members: Numbers | None = None,
        judge: Judge | None = None,
        *,
        evaluate: Evaluate = "rounds",
        advance: Advance | None = None,
        tracking: Tracking | None = None,
    ) -> History:
        """Play all rounds of all epochs; each of the ``members`` reports once an epoch.

        ``judge`` scores the model after every round, every epoch or at the end. ``advance`` is
        called with the number of rounds that are done; without it a progress bar appears.
        ``tracking`` gets a record of every round, judged or not.
        """
        everyone = np.arange(self._source.clients, dtype=np.int64)
        members = everyone if members is None else members
        if advance is not None:
            return self._play(members, judge, evaluate, advance, tracking)
        with note("training", self.training.planned_rounds(len(members))) as shown:
            return self._play(members, judge, evaluate, shown, tracking)

    def _play(
        self,
        members: Numbers,
        judge: Judge | None,
        evaluate: Evaluate,
        advance: Advance,
        tracking: Tracking | None,
    ) -> History:
        training, solution = self.training, self.training.solution
        keep, cost = evaluate == "rounds" or training.averaging > 0, solution.privacy.per_report
        judging = _Judging(self, judge, tracking)
        done, fewest, heard = 0, 0, 0
        for epoch in range(solution.epochs):
            order, ends = training.schedule(members, self._source.clients, epoch)
            if training.rounds is not None:
                ends = ends[: training.rounds - done]
            reports = np.diff(ends, prepend=0)
            fewest = min([int(n) for n in (fewest, *reports) if n], default=0)
            heard += bool(reports.any())
            is_final = epoch == solution.epochs - 1 or done + len(ends) == training.rounds
            stop = 0
            while stop < len(ends):
                first, stop = stop, min(stop + self.stage.rounds_at_a_time, len(ends))
                begun = int(ends[first - 1]) if first else 0
                part = order[begun : ends[stop - 1]]
                states = self.run(epoch, part, ends[first:stop] - begun, keep or bool(tracking))
                for state, t in zip(states, range(stop - len(states), stop), strict=True):
                    closes = t == len(ends) - 1 and (evaluate == "epochs" or is_final)
                    number, bits = done + t + 1, solution.bits * int(reports[t])
                    row = Round(number, epoch, (epoch + 1) * cost, bits, int(reports[t]))
                    judging.add(row, state, listed=evaluate == "rounds" or closes)
                judging.report()
                advance(stop - first)
            done += len(ends)
            if done == training.rounds:
                break
        return History(
            judging.finished(),
            self.state.model,
            training.seed is not None,
            self.state.preparation,
            fewest,
            heard,
            solution.privacy,
        )


class _Judging:
    """The rounds so far; models wait until enough of them can be judged together."""

    def __init__(
        self, simulation: Simulation, judge: Judge | None, tracking: Tracking | None
    ) -> None:
        self._simulation, self._judge = simulation, judge
        self._tracking = tracking or None
        self._unreported: list[tuple[Round | int, float]] = []  # a listed one by its place
        self._rounds: list[Round] = []
        self._waiting: list[Doubles] = []
        self._prepared: tuple[Preparation | None, Judge | None] = None, judge

    def add(self, row: Round, state: ServerState, *, listed: bool) -> None:
        wanted = self._tracking is not None or (listed and self._judge is not None)
        model = state.model if wanted else state.weights  # a model may take time to compute
        if self._tracking is not None:
            norm = float(np.linalg.norm(model))
            self._unreported.append((len(self._rounds) if listed else row, norm))
        if not listed:
            return
        self._rounds.append(row)
        if self._judge is not None:
            self._waiting.append(model)
        if len(self._waiting) >= _JUDGED_AT_A_TIME:
            self._score()

    def report(self) -> None:
        """Pass the rounds since the last call on to the callbacks, if there are any."""
        if self._tracking is None:
            return
        if self._waiting:
            self._score()
        for row, norm in self._unreported:
            self._tracking.round(self._rounds[row] if isinstance(row, int) else row, norm)
        self._unreported = []

    def finished(self) -> list[Round]:
        """All rounds, judged."""
        if self._waiting:
            self._score()
        return self._rounds

    def _score(self) -> None:
        """Judge the waiting models, on records prepared as far as has been learnt."""
        learnt = self._simulation.state.preparation
        if self._prepared[0] is not learnt and learnt is not None:
            self._prepared = learnt, cast(RecordJudge, self._judge).prepared(learnt)
        judge = cast(Judge, self._prepared[1])
        first = len(self._rounds) - len(self._waiting)
        scores = zip(self._rounds[first:], *judge(np.stack(self._waiting)), strict=True)
        judged = [replace(r, accuracy=float(hit), loss=float(loss)) for r, hit, loss in scores]
        self._rounds[first:] = judged
        self._waiting = []


def train(
    training: Training,
    population: Population,
    test: EvaluationSet | None = None,
    *,
    loss: Loss = "logistic",
    evaluate: Evaluate = "rounds",
    start: Doubles | None = None,
    residual_directory: Path | None = None,
    advance: Advance | None = None,
    callbacks: Callbacks | None = None,
) -> History:
    """Run Algorithm 1 on a linear model and return the history.

    ``test`` judges the model after every round, every epoch or at the end. ``start`` are the
    weights (d,) to begin with, zeros unless given. With E > 1 a solution that accumulates keeps a
    float32 residual for each client, on disk if a directory is given.
    ``advance`` is called after each round, and so are ``callbacks`` (`fedsel.tracking`).
    """
    solution, plan = training.solution, training.plan
    entries = population.X.shape[1] if plan is None else plan.features + 1
    if entries != solution.dim:
        raise InvalidArgument("solution.dim", solution.dim, f"{entries}, as X")
    if plan is not None and population.X.shape[1] != plan.features:
        raise InvalidArgument("plan.features", plan.features, f"{population.X.shape[1]}, as X")
    weights = np.zeros(solution.dim) if start is None else _checked_start(start, solution.dim)
    clients = LinearClients(population, LinearModel(loss, training.rule.client_reg))
    judge = None if test is None else LinearJudge(test, LinearModel(loss, training.reg))
    run = Simulation(training, clients, weights, residual_directory)
    members = population.taking_part
    tracking = Tracking(callbacks)
    tracking.start(training.run_of("fedsel.simulation.train", len(members)))
    history = run.history(members, judge, evaluate=evaluate, advance=advance, tracking=tracking)
    tracking.end(history)
    return history


def train_vectors(
    training: Training,
    source: Source,
    start: Doubles,
    judge: Judge | None = None,
    *,
    evaluate: Evaluate = "rounds",
    residual_directory: Path | None = None,
    advance: Advance | None = None,
) -> History:
    """Run Algorithm 1 on any source of vectors, from the weights ``start`` (d,).

    ``judge`` scores weights. The order of clients and all draws are those of `train` with the same
    seed.
    """
    run = Simulation(training, source, start, residual_directory)
    return run.history(None, judge, evaluate=evaluate, advance=advance)


def _checked_start(weights: Doubles, d: int) -> Doubles:
    copied: Doubles = check_vectors("start", weights, ndim=1).astype(np.float64)
    if len(copied) != d:
        raise InvalidArgument("start", f"{len(copied)} weights", f"{d} weights, as X")
    return copied
