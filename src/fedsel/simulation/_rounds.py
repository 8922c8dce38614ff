"""A simulated run: the rounds of all epochs, over whatever stage plays them, and their history."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, final, get_args

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, Loss, MulticlassModel
from fedsel._internal.progress import note
from fedsel._internal.random import philox_key
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive, check_vectors
from fedsel.preparation import Plan, Preparation
from fedsel.recipe import Recipe, check_at_least_zero, check_averaging
from fedsel.server._step import History, Round, ServerState, StepRule
from fedsel.simulation._clients import (
    LinearClients,
    MulticlassClients,
    Population,
    RecordSource,
    Source,
)
from fedsel.simulation._judges import (
    EvaluationSet,
    Judge,
    LinearJudge,
    MulticlassJudge,
    RecordJudge,
)
from fedsel.simulation._stages import RecordStage, Stage, training_stage
from fedsel.solutions import Solution
from fedsel.tracking import Callbacks, Run, Tracking

SHUFFLE, DROP = 1, 2
"""Purposes of random streams beside the clients' own."""

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Evaluate = Literal["rounds", "epochs", "end"]
Advance = Callable[[int], object]


def check_evaluate(evaluate: object) -> None:
    """Refuse another word than those of `Evaluate`."""
    if evaluate not in get_args(Evaluate):
        raise InvalidArgument("evaluate", evaluate, "one of " + ", ".join(get_args(Evaluate)))


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
            raise InvalidArgument("plan.dim", self.plan.dim, f"{self.solution.dim}, as in solution")

    @property
    def rule(self) -> StepRule:
        """How the server steps, and what clients multiply and add."""
        return StepRule.for_solution(self.solution, self.learning_rate, self.reg, self.averaging)

    def planned_rounds(self, clients: int) -> int:
        """The rounds of all epochs, if each of so many clients reports once an epoch."""
        rounds = self.solution.epochs * -(-clients // self.batch)
        return rounds if self.rounds is None else min(rounds, self.rounds)

    def run_of(self, name: str, clients: int, recipe: Recipe | None = None) -> Run:
        """What callbacks learn about the run before it begins; the seed is not part of it."""
        public = ("learning_rate", "batch", "reg", "averaging", "dropout")
        own = {"solution": self.solution.name, **{key: getattr(self, key) for key in public}}
        rounds, seeded = self.planned_rounds(clients), self.seed is not None
        return Run.of(name, recipe, self.solution.privacy, rounds=rounds, seeded=seeded, **own)

    @property
    def fresh_order(self) -> int:
        """What the order of clients follows from: the seed, or bits that no report uses."""
        return secrets.randbits(256) if self.seed is None else self.seed

    def schedule(
        self, members: Numbers, clients: int, epoch: int, seed: int | None = None
    ) -> tuple[Numbers, Numbers]:
        """The members in the order of an epoch, and where each round of at most ``batch`` ends.

        The order is shuffled anew in each epoch; clients that drop out are missing from their
        round. ``clients`` is the number of all, members or not. ``seed`` is the training's unless
        given; without one both are drawn anew in every call, from bits that no report uses.

        >>> from fedsel import solution
        >>> training = Training(solution("NP", dim=2), batch=2, seed=0)
        >>> order, ends = training.schedule(np.arange(5), clients=5, epoch=0)
        >>> sorted(order.tolist()), ends.tolist()
        ([0, 1, 2, 3, 4], [1, 3, 5])
        """
        from fedsel.sampling._kernels import native

        if seed is None:
            seed = self.fresh_order
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

    ``start`` are the weights (d,) to begin with, or a state: a run goes on after the rounds that it
    counts. With a plan the clients must be a `RecordSource`: they prepare their records once all is
    learnt. ``order`` decides in which round each client reports: the seed, or a secret number.
    """

    def __init__(
        self,
        training: Training,
        source: Source,
        start: Doubles | ServerState,
        residual_directory: Path | None = None,
    ) -> None:
        self.training, self._source, self._directory = training, source, residual_directory
        self.order = training.fresh_order
        self.state = start if isinstance(start, ServerState) else ServerState.begin(start)
        if training.plan is not None and self.state.learnt is None:
            self.state = replace(self.state, learnt=training.plan.begin)
        self.past = History(seeded=training.seed is not None, privacy=training.solution.privacy)
        self.stage = self._stage()

    def _stage(self) -> Stage:
        """The stage of the next round."""
        training, source, plan = self.training, self._source, self.training.plan
        if plan is None or self.state.preparation is None:
            return training_stage(training, source, self._directory)
        own = cast(RecordSource, source)
        if self.state.rounds < plan.rounds:
            return RecordStage(training, plan, own.population)
        return training_stage(training, own.prepared(self.state.preparation), self._directory)

    def run(self, epoch: int, clients: Numbers, ends: Numbers, keep: bool) -> list[ServerState]:
        """The states after some rounds of an epoch, or after the last one unless all are kept."""
        states = list(self.stage.run(self.state, epoch, clients, ends, keep))
        plan, before = self.training.plan, self.state.rounds
        self.state = states[-1]
        if plan is not None and before < plan.rounds <= self.state.rounds:
            self.stage = self._stage()
        return states

    def resume(self, order: int, past: History, residual: NDArray[np.float32]) -> None:
        """Go on with a run that another simulation has begun, from the state given at the start."""
        self.order, self.past = order, replace(past, privacy=self.past.privacy)
        self.stage.residual[:] = residual

    @property
    def history(self) -> History:
        """The rounds so far, as far as they were to be evaluated, and the model after them."""
        return replace(
            self.past,
            rounds=list(self.past.rounds),
            weights=self.state.model,
            preparation=self.state.preparation,
        )

    def play(
        self,
        members: Numbers | None = None,
        judge: Judge | None = None,
        *,
        evaluate: Evaluate = "rounds",
        advance: Advance | None = None,
        tracking: Tracking | None = None,
    ) -> History:
        """Play all rounds, as `rounds` does, and return the history.

        ``advance`` is called with the number of rounds that are done; without it a progress bar
        appears.
        """
        count = self._source.clients if members is None else len(members)
        planned = self.training.planned_rounds(count)
        with nullcontext(advance) if advance else note("training", planned) as done:
            for _ in self.rounds(members, judge, evaluate=evaluate, tracking=tracking):
                done(1)
        return self.history

    def rounds(
        self,
        members: Numbers | None = None,
        judge: Judge | None = None,
        *,
        evaluate: Evaluate = "rounds",
        tracking: Tracking | None = None,
    ) -> Iterator[Round]:
        """Play the rounds that are left, one after another; each member reports once an epoch.

        ``judge`` scores the model after every round, every epoch or at the end, and the history
        lists these rounds; ``tracking`` gets a record of all. Compiled rounds are played many at a
        time, before the first of them is returned.
        """
        check_evaluate(evaluate)
        if members is None:
            members = np.arange(self._source.clients, dtype=np.int64)
        training, solution, past = self.training, self.training.solution, self.past
        total, per_epoch = training.planned_rounds(len(members)), -(-len(members) // training.batch)
        keep = evaluate == "rounds" or training.averaging > 0 or bool(tracking)
        cost = solution.privacy.per_report
        learnt: Preparation | None = None
        ready = judge
        while self.state.rounds < total:
            epoch, done = divmod(self.state.rounds, per_epoch)
            order, ends = training.schedule(members, self._source.clients, epoch, self.order)
            ends = ends[: total - epoch * per_epoch]
            reports = np.diff(ends, prepend=0)
            closes = evaluate == "epochs" or epoch * per_epoch + len(ends) == total
            past.epochs_heard += done == 0 and bool(reports.any())
            while done < len(ends):
                first, done = done, min(done + self.stage.rounds_at_a_time, len(ends))
                begun = int(ends[first - 1]) if first else 0
                part = order[begun : ends[done - 1]]
                states = self.run(epoch, part, ends[first:done] - begun, keep)
                counts = reports[first:done].tolist()
                past.fewest_reports = min(filter(None, (past.fewest_reports, *counts)), default=0)
                rows = [
                    Round(number, epoch, (epoch + 1) * cost, solution.bits * n, n)
                    for number, n in enumerate(counts, epoch * per_epoch + first + 1)
                ]
                listed = len(rows) if evaluate == "rounds" else int(closes and done == len(ends))
                now = self.state.preparation
                if judge is not None and now is not None and now is not learnt:
                    learnt, ready = now, cast(RecordJudge, judge).prepared(now)
                if listed:
                    rows[-listed:] = _judged(ready, rows[-listed:], states[-listed:])
                    past.rounds += rows[-listed:]
                if tracking:
                    for row, state in zip(rows, states, strict=True):
                        tracking.round(row, float(np.linalg.norm(state.model)))
                yield from rows


def _judged(judge: Judge | None, rows: list[Round], states: list[ServerState]) -> list[Round]:
    """The rounds with the scores of the models after them."""
    if judge is None:
        return rows
    scores = zip(rows, *judge(np.stack([state.model for state in states])), strict=True)
    return [replace(row, accuracy=float(hit), loss=float(loss)) for row, hit, loss in scores]


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

    Of more than two classes the model has a row of weights (d,) for each, row after row.
    ``test`` judges the model after every round, every epoch or at the end. ``start`` are the
    weights (d,) to begin with, zeros unless given. With E > 1 a solution that accumulates keeps a
    float32 residual for each client, on disk if a directory is given.
    ``advance`` is called after each round, and so are ``callbacks`` (`fedsel.tracking`).
    """
    solution, plan = training.solution, training.plan
    rows = population.rows
    entries = rows * (population.X.shape[1] if plan is None else plan.features + 1)
    if entries != solution.dim:
        raise InvalidArgument("solution.dim", solution.dim, f"{entries}, as in X")
    if plan is not None and population.X.shape[1] != plan.features:
        raise InvalidArgument("plan.features", plan.features, f"{population.X.shape[1]}, as in X")
    weights = np.zeros(solution.dim) if start is None else _checked_start(start, solution.dim)
    client_reg = training.rule.client_reg
    clients: RecordSource
    judge: RecordJudge | None = None
    if rows == 1:
        clients = LinearClients(population, LinearModel(loss, client_reg))
        if test is not None:
            judge = LinearJudge(test, LinearModel(loss, training.reg))
    else:
        clients = MulticlassClients(population, rows, MulticlassModel(loss, client_reg))
        if test is not None:
            model = MulticlassModel(loss, training.reg)
            judge = MulticlassJudge(test.records, test.labels, rows, model)
    run = Simulation(training, clients, weights, residual_directory)
    members = population.taking_part
    tracking = Tracking(callbacks)
    tracking.start(training.run_of("fedsel.simulation.train", len(members)))
    history = run.play(members, judge, evaluate=evaluate, advance=advance, tracking=tracking)
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
    return run.play(None, judge, evaluate=evaluate, advance=advance)


def _checked_start(weights: Doubles, d: int) -> Doubles:
    copied: Doubles = check_vectors("start", weights, ndim=1).astype(np.float64)
    if len(copied) != d:
        raise InvalidArgument("start", f"{len(copied)} weights", f"{d} weights")
    return copied
