"""Rounds of reports on vectors that are computed elsewhere: softmax regression, torch.

The vectors of a round come in chunks of (n, d) float32, and a chunk is forgotten when it is
reported: memory is bounded by the chunk. Reports are those of `fedsel.simulation.linear_rounds`,
and sums are integers: the mean does not depend on how the clients are cut into chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import SYSTEM, stream
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.history import History
from fedsel.preparation import Preparation
from fedsel.sampling._parts import Part, rows_of
from fedsel.server.step import ServerState, step
from fedsel.simulation.rounds import Evaluate, Judge, Training, residual_for, run_rounds
from fedsel.solutions import Solution


class VectorReports:
    """The reports of many clients by one solution, and their totals in each round.

    With E > 1 a solution that accumulates keeps a float32 residual (clients, d), on disk if a
    directory is given; without one, more than 1 GiB is refused. Vectors are multiplied by
    ``factors`` (d,) before they are reported. Without a seed the operating system decides.

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
                raise InvalidArgument("parts", f"{len(part)} rows", f"one a client: {len(clients)}")
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


class Source(Protocol):
    """Where vectors come from: the clients' side of a round."""

    @property
    def clients(self) -> int:
        """How many clients there are."""
        ...

    @property
    def chunk(self) -> int:
        """How many clients' vectors may be held at a time."""
        ...

    def receive(self, weights: NDArray[np.float64], /) -> None:
        """Take the weights (d,) of a new round."""
        ...

    def vectors(self, clients: NDArray[np.int64], /) -> Sequence[Part]:
        """The updates of these clients at the weights received, in parts (n, …) of d entries."""
        ...

    @property
    def scales(self) -> NDArray[np.float32] | None:
        """The factor of the clip for each entry (d,), if clients are to divide by one."""
        ...


def chunks(clients: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """Clients (n,) in as few chunks of at most so many as can be, all of one size or one less.

    A small last chunk would cost nearly as much time as a full one.

    >>> [len(some) for some in chunks(np.arange(500), 444)]
    [250, 250]
    """
    count = -(-len(clients) // most)
    return np.array_split(clients, count) if count else []


class VectorRunner:
    """Rounds on a `Source`, one after another; what clients divide by, the server multiplies."""

    rounds_at_a_time: int = 1
    preparation: Preparation | None = None

    def __init__(
        self,
        training: Training,
        source: Source,
        weights: NDArray[np.float64],
        residual_directory: Path | None = None,
    ) -> None:
        self.training, self._source = training, source
        solution, scales = training.solution, source.scales
        factors = None
        if scales is not None or solution.rate_inside:
            divisors = np.ones(solution.dim) if scales is None else scales.astype(np.float64)
            factors = (training.factor / divisors).astype(np.float32)
        self._scales = None if scales is None else scales.astype(np.float64)
        self._reports = VectorReports(
            solution,
            source.clients,
            seed=training.seed,
            residual_directory=residual_directory,
            factors=factors,
        )
        self.state = ServerState.begin(weights)

    def run(
        self,
        epoch: int,
        clients: NDArray[np.int64],
        ends: NDArray[np.int64],
        keep: bool,  # noqa: ARG002
    ) -> Iterator[ServerState]:
        solution, source, rule = self.training.solution, self._source, self.training.rule
        for first, end in pairwise([0, *ends.tolist()]):
            number = self.state.rounds
            self._reports.begin(number)
            source.receive(self.state.weights)
            for some in chunks(clients[first:end], source.chunk):
                self._reports.report(epoch, some, source.vectors(some))
            self.state = step(
                self.state, rule, solution.in_round(number), self._reports.totals, self._scales
            )
            yield self.state


def train_vectors(
    training: Training,
    source: Source,
    start: NDArray[np.float64],
    judge: Judge | None = None,
    *,
    evaluate: Evaluate = "rounds",
    residual_directory: Path | None = None,
    advance: Callable[[int], object] | None = None,
) -> History:
    """Algorithm 1 on any source of vectors, from the weights ``start`` (d,).

    ``judge`` tells accuracy and loss of weights. The order of clients and all draws are those of
    `fedsel.simulation.train` with the same seed.
    """
    everyone = np.arange(source.clients, dtype=np.int64)
    return run_rounds(
        training,
        VectorRunner(training, source, start, residual_directory),
        everyone,
        source.clients,
        judge,
        evaluate=evaluate,
        advance=advance,
    )
