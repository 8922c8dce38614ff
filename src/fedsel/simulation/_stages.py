"""Stages of a run: who reports on what in a round, and what the server learns from it.

`UpdateStage.play` is a whole round of Algorithm 1. `RecordStage` plays the rounds before training
in which clients report on their records. `CompiledStage` plays many rounds of linear models in one
call, and equals `UpdateStage` report by report.

The vectors of a round come in chunks of (n, d) float32 (`VectorReports`), and a chunk is dropped
once it is reported. Sums are integers, so the mean does not depend on the chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import SYSTEM, fresh_seeds, philox_key, stream
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.preparation import Plan
from fedsel.sampling._batch import Part, rows_of
from fedsel.server._step import ServerState, averaged, step
from fedsel.simulation._clients import (
    LOSSES,
    LinearClients,
    Population,
    Source,
    kernel_records,
    record_vectors,
)
from fedsel.solutions import Solution

if TYPE_CHECKING:
    from fedsel.simulation._rounds import Training

RESIDUAL_LIMIT = 2**30
"""Bytes of residuals that are kept in memory without a directory."""


class VectorReports:
    """The reports of many clients by one solution, and their totals in each round.

    With E > 1 a solution that accumulates keeps a float32 residual (clients, d), on disk if a
    directory is given; without one, more than 1 GiB is refused. Vectors are multiplied by
    ``factors`` (d,) before they are reported. Without a seed the operating system draws.

    >>> from fedsel import solution
    >>> rounds = VectorReports(solution("NP", dim=2), clients=3, seed=0)
    >>> rounds.report(0, np.array([2, 0]), [np.array([[1, 2], [3, 4]], dtype=np.float32)])
    >>> rounds.totals.mean()
    array([2., 3.])
    """

    def __init__(
        self,
        solution: Solution,
        clients: int,
        *,
        seed: int | None,
        residual_directory: Path | None = None,
        factors: NDArray[np.float32] | None = None,
    ) -> None:
        from fedsel.sampling._kernels import ReportKernel, known

        self.solution, self._seed, self._factors = solution, seed, factors
        self.residual = residual_for(solution, clients, residual_directory)
        self._kernel = ReportKernel(solution, seed, factors) if known(solution) else None
        self.totals = solution.totals() if self._kernel is None else self._kernel.totals
        self._round = 0

    def report(self, epoch: int, clients: NDArray[np.int64], parts: Sequence[Part]) -> None:
        """Let clients (n,) report on their vectors (n, d), given in parts (n, …) side by side."""
        for part in parts:
            if len(part) != len(clients):
                raise InvalidArgument("parts", f"{len(part)} rows", f"{len(clients)} (clients)")
        if self._kernel is not None:
            self._kernel.send(epoch, clients, parts, self.residual if len(self.residual) else None)
            return
        solution = self.solution.in_round(self._round)
        nothing = np.zeros(solution.dim, dtype=np.float32)
        rows = np.concatenate([rows_of(part) for part in parts], axis=1)
        if self._factors is not None:
            rows *= self._factors
        if not np.isfinite(rows).all():
            raise InvalidData("update: every entry must be finite")
        for vector, client in zip(rows, clients.tolist(), strict=True):
            before = self.residual[client] if len(self.residual) else nothing
            entropy = SYSTEM if self._seed is None else stream(self._seed, epoch, client)
            report, kept = solution.encode(vector, before, entropy)
            if len(self.residual):
                self.residual[client] = kept
            self.totals.add(report)

    def begin(self, number: int) -> None:
        """Begin a round; rounds count through all epochs."""
        self._round = number
        if self._kernel is None:
            self.totals = self.solution.in_round(number).totals()
        else:
            self.totals.clear()
            self._kernel.in_round(number)


def chunks(clients: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """Clients (n,) in as few chunks of at most so many as can be, all of one size or one less.

    A small last chunk would cost nearly as much time as a full one.

    >>> [len(some) for some in chunks(np.arange(500), 444)]
    [250, 250]
    """
    count = -(-len(clients) // most)
    return np.array_split(clients, count) if count else []


def residual_for(solution: Solution, clients: int, directory: Path | None) -> NDArray[np.float32]:
    """Residuals of zeros (clients, d), in memory or in a file of the directory; (0, d) if none.

    A client that reports once keeps nothing.
    """
    d = solution.dim
    if not solution.accumulates or solution.epochs == 1:
        return np.empty((0, d), dtype=np.float32)
    if directory is None:
        if 4 * clients * d > RESIDUAL_LIMIT:
            raise InvalidArgument(
                "residual_directory",
                None,
                f"a folder with {4 * clients * d / 2**30:.1f} GiB of free space, for what {clients}"
                " clients keep from one epoch to the next",
            )
        return np.zeros((clients, d), dtype=np.float32)
    # A sparse file of zeros: only the pages that are written take room.
    file = directory / "residual.f32"
    return np.asarray(np.memmap(file, dtype=np.float32, mode="w+", shape=(clients, d)))


_CLIENTS_AT_A_TIME = 500_000
_ENTRIES_OF_ROUNDS = 1 << 23
_ENTRIES_OF_RECORDS = 1 << 21

Numbers = NDArray[np.int64]


class Stage(Protocol):
    """A stretch of rounds of one kind."""

    residual: NDArray[np.float32]
    """What each client keeps for its next report (clients, d); (0, d) if nothing."""

    @property
    def rounds_at_a_time(self) -> int:
        """How many rounds to ask for in one call."""

    def run(
        self, state: ServerState, epoch: int, clients: Numbers, ends: Numbers, keep: bool
    ) -> Iterator[ServerState]:
        """Several rounds: in round t the clients up to ends[t] report.

        The state after each round, or after the last alone unless all are to be kept.
        """


class UpdateStage:
    """Rounds of training, one after another, on any source of updates."""

    rounds_at_a_time = 1

    def __init__(
        self, training: Training, source: Source, residual_directory: Path | None = None
    ) -> None:
        self._training, self._source = training, source
        solution, scales, factors = training.solution, source.scales, None
        if scales is not None or solution.rate_inside:
            divisors = np.ones(solution.dim) if scales is None else scales.astype(np.float64)
            factors = (training.rule.factor / divisors).astype(np.float32)
        self._scales = None if scales is None else scales.astype(np.float64)
        self._reports = VectorReports(
            solution,
            source.clients,
            seed=training.seed,
            residual_directory=residual_directory,
            factors=factors,
        )
        self.residual = self._reports.residual

    def run(
        self, state: ServerState, epoch: int, clients: Numbers, ends: Numbers, keep: bool
    ) -> Iterator[ServerState]:
        del keep
        for first, end in pairwise([0, *ends.tolist()]):
            state = self.play(state, epoch, clients[first:end])
            yield state

    def play(self, state: ServerState, epoch: int, cohort: Numbers) -> ServerState:
        """One round: send the weights, let the cohort report, add up the reports, step."""
        source, reports, rule = self._source, self._reports, self._training.rule
        source.receive(state.weights)
        reports.begin(state.rounds)
        for some in chunks(cohort, source.chunk):
            reports.report(epoch, some, source.vectors(some))
        solution = self._training.solution.in_round(state.rounds)
        return step(state, rule, solution, reports.totals, scales=self._scales)


class RecordStage:
    """Rounds that prepare: clients report on their records, and the server learns about them.

    A client that holds several records reports on the mean of what it would report for each.
    """

    rounds_at_a_time = 1

    def __init__(self, training: Training, plan: Plan, people: Population) -> None:
        self._training, self._plan, self._people = training, plan, people
        self._reports = VectorReports(training.solution, people.clients, seed=training.seed)
        self.residual = self._reports.residual

    def run(
        self, state: ServerState, epoch: int, clients: Numbers, ends: Numbers, keep: bool
    ) -> Iterator[ServerState]:
        del keep
        for first, end in pairwise([0, *ends.tolist()]):
            state = self.play(state, epoch, clients[first:end])
            yield state

    def play(self, state: ServerState, epoch: int, cohort: Numbers) -> ServerState:
        """One round, as `UpdateStage.play`, on records in place of updates."""
        plan, reports, rule, number = self._plan, self._reports, self._training.rule, state.rounds
        learnt = (state.learnt or plan.begin).preparation
        reports.begin(number)
        for some in chunks(cohort, max(1, _ENTRIES_OF_RECORDS // plan.dim)):
            vectors = record_vectors(plan, number, self._people, some, learnt)
            reports.report(epoch, some, [vectors])
        solution = self._training.solution.in_round(number)
        return step(state, rule, solution, reports.totals, plan=plan)


class CompiledStage:
    """Rounds of linear models in one compiled call: gradient, report, sums and step."""

    def __init__(
        self, training: Training, source: LinearClients, residual_directory: Path | None = None
    ) -> None:
        from fedsel.sampling._kernels import native, signs_of, tables_of

        self._training, self._source = training, source
        self._native, self._signs_of = native, signs_of
        solution, tables = training.solution, tables_of(training.solution)
        self._records = kernel_records(source.population)
        self._plan = native.plan(tables)
        places = solution.transform.places
        self._sums = np.zeros((len(tables.units), places), dtype=np.int64)
        self._total = np.zeros(places)
        self.sent = np.zeros((1, 2 * tables.picks), dtype=np.int64)
        self.residual = residual_for(solution, source.clients, residual_directory)
        self._key = None if training.seed is None else philox_key(training.seed)

    @property
    def rounds_at_a_time(self) -> int:
        """Rounds of one kernel call: long enough to be fast, short enough to show progress."""
        # The call keeps the weights of each round, and the signs of its bases.
        solution = self._training.solution
        held = _ENTRIES_OF_ROUNDS // max(solution.dim, solution.transform.places)
        return max(1, min(held, _CLIENTS_AT_A_TIME // self._training.batch))

    def run(
        self, state: ServerState, epoch: int, clients: Numbers, ends: Numbers, keep: bool
    ) -> Iterator[ServerState]:
        solution, rule, count = self._training.solution, self._training.rule, len(ends)
        weights = state.weights.copy()
        trace = np.empty((count if keep else 0, solution.dim))
        self._native.run_rounds(
            self._plan,
            self._records,
            LOSSES[self._source.model.loss],
            self._source.model.reg,
            rule.factor,
            rule.rate,
            rule.decay,
            clients,
            ends,
            weights,
            self.residual if len(self.residual) else None,
            fresh_seeds(len(clients)) if self._key is None else self._key,
            epoch,
            self._signs_of(solution, state.rounds, count),
            self._sums,
            self._total,
            self.sent,
            trace if keep else None,
        )
        if not keep:
            yield replace(state, weights=weights, average=weights, rounds=state.rounds + count)
        for after in trace:
            state = averaged(state, rule, after)
            yield state


def training_stage(
    training: Training, source: Source, residual_directory: Path | None = None
) -> Stage:
    """Compiled rounds where the kernels know solution and clients, else one round after another."""
    from fedsel.sampling._kernels import known

    if isinstance(source, LinearClients) and source.compiled and known(training.solution):
        return CompiledStage(training, source, residual_directory)
    return UpdateStage(training, source, residual_directory)
