"""Rounds of reports on vectors that are computed elsewhere: softmax regression, torch.

The vectors of a round come in chunks of (n, d) float32, and a chunk is forgotten when it is
reported: memory is bounded by the chunk. Draws, and the order in which reports are added up, are
those of `fedsel.simulation.linear_rounds`: the mean does not depend on how the clients are cut into chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import (
    InvalidArgument,
    InvalidData,
    check_count,
    check_finite,
    check_positive,
)
from fedsel.random import key_of, stream
from fedsel.simulation.averaging import Average, check_averaging
from fedsel.simulation.history import History, Round
from fedsel.simulation.schedule import schedule
from fedsel.solutions import Solution

RESIDUAL_LIMIT = 2**30
"""Bytes of residuals that are kept in memory without a directory."""


class VectorRounds:
    """The reports of ``clients`` clients by one solution, and the server's mean of each round.

    With E > 1 a solution that accumulates keeps a float32 residual (clients, d), on disk if a
    directory is given; without one, more than 1 GiB is refused. Vectors are multiplied by
    ``factors`` (d,) before they are reported.

    >>> from fedsel.solutions import solution
    >>> rounds = VectorRounds(solution("NP", dim=2), clients=3, seed=0)
    >>> rounds.report(0, np.array([2, 0]), [np.array([[1, 2], [3, 4]], dtype=np.float32)])
    >>> rounds.mean()
    array([2., 3.])
    """

    def __init__(
        self,
        solution: Solution,
        clients: int,
        *,
        seed: int,
        residual_directory: Path | None = None,
        factors: NDArray[np.float32] | None = None,
    ) -> None:
        from fedsel.simulation.kernels import tables as plan
        from fedsel.simulation.kernels import training as kernel
        from fedsel.simulation.kernels.report import scratch_for

        self.solution, self.seed = solution, seed
        self._kernel, self._key = kernel, key_of(seed)
        needed = clients if solution.accumulates and solution.epochs > 1 else 0
        if residual_directory is None and 4 * needed * solution.dim > RESIDUAL_LIMIT:
            size = 4 * needed * solution.dim / 2**30
            raise InvalidArgument(
                "residual_directory",
                None,
                f"a folder with room for {size:.1f} GiB, the residuals of {clients} clients that"
                " accumulate over several epochs",
            )
        self.residual = residual_of(needed, solution.dim, residual_directory)
        self._plan = plan.plan_of(solution) if plan.has_plan(solution) else None
        self._factors = np.empty(0, np.float32) if factors is None else factors
        self._messages: list[object] = []
        self._count = self._round = 0
        self._in_rounds = plan.in_rounds
        if self._plan is not None:
            self._scratch = scratch_for(self._plan, solution.dim)
            self._scratch.total[:] = 0
            self._sent = np.zeros((1, 2 * self._plan.picks), dtype=np.int64)

    def report(
        self, epoch: int, clients: NDArray[np.int64], parts: Sequence[NDArray[np.float32]]
    ) -> None:
        """Let clients (n,) report on their vectors (n, d), given in parts (n, …) side by side."""
        held = [np.ascontiguousarray(part, np.float32).reshape(len(clients), -1) for part in parts]
        sizes = np.array([part.shape[1] for part in held], dtype=np.int64)
        if sizes.sum() != self.solution.dim:
            raise InvalidArgument("parts", f"{sizes.sum()} entries", f"{self.solution.dim} in all")
        if self._plan is None:
            self._one_by_one(epoch, clients, held)
            return
        if self._count == 0:
            self._plan = self._in_rounds(self._plan, self.solution, self._round, 1)
        done = self._kernel.send_vectors(
            np.array([part.ctypes.data for part in held], dtype=np.uint64),
            sizes,
            self._factors,
            self._plan,
            np.ascontiguousarray(clients, dtype=np.int64),
            self.residual,
            self._key,
            epoch,
            self._scratch,
            self._sent,
        )
        if done < len(clients):
            raise InvalidData("update: every entry must be finite")
        self._count += len(clients)

    def _one_by_one(
        self, epoch: int, clients: NDArray[np.int64], parts: Sequence[NDArray[np.float32]]
    ) -> None:
        """Where the kernel does not know the solution: the device's code, from the same streams."""
        solution = self.solution.in_round(self._round)
        nothing = np.zeros(solution.dim, dtype=np.float32)
        for n, client in enumerate(clients.tolist()):
            vector = np.concatenate([part[n] for part in parts])
            if len(self._factors):
                vector *= self._factors
            before = self.residual[client] if len(self.residual) else nothing
            message, kept = solution.encode(vector, before, stream(self.seed, epoch, client))
            if len(self.residual):
                self.residual[client] = kept
            self._messages.append(message)
            self._count += 1

    def mean(self) -> NDArray[np.float64]:
        """The server's estimate (d,) from the reports since the last call; zeros if none came."""
        count, self._count = self._count, 0
        solution = self.solution.in_round(self._round)
        self._round += 1
        if count == 0:
            return np.zeros(self.solution.dim)
        if self._plan is None:
            messages, self._messages = self._messages, []
            return solution.decode(messages)
        mean = self._scratch.total / count
        self._scratch.total[:] = 0
        says = solution.alphabet
        return solution.expand(mean[: solution.dim if says is None else says.slots])


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

    def vectors(self, clients: NDArray[np.int64], /) -> Sequence[NDArray[np.float32]]:
        """The updates of these clients at the weights received, in parts (n, …) of d entries."""
        ...

    @property
    def scales(self) -> NDArray[np.float32] | None:
        """The factor of the clip for each entry (d,), if clients are to divide by one."""
        ...


@final
@dataclass(frozen=True)
class VectorTraining:
    """How to train on a `Source`: the server's public choices, as in `Training`.

    ``decay`` is the λ of λw that the server adds by itself, where ``solution.decays_at_server``;
    ``averaging`` as in `Training`.
    """

    solution: Solution
    learning_rate: float = 1.0
    batch: int = 100
    seed: int = 0
    decay: float = 0.0
    averaging: float = 0.0

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        check_count("batch", self.batch)
        check_count("seed", self.seed, least=0)
        check_averaging(self.averaging)
        if check_finite("decay", self.decay) < 0:
            raise InvalidArgument("decay", self.decay, "a finite number ≥ 0")


Judge = Callable[[NDArray[np.float64]], tuple[float, float]]


def train_vectors(
    training: VectorTraining,
    source: Source,
    start: NDArray[np.float64],
    judge: Judge | None = None,
    *,
    evaluate: Literal["rounds", "epochs", "end"] = "rounds",
    residual_directory: Path | None = None,
    advance: Callable[[int], object] = abs,
) -> History:
    """Algorithm 1 on any source of vectors, from the weights ``start`` (d,).

    ``judge`` tells accuracy and loss of weights. The order of clients and all draws are those of
    `fedsel.simulation.linear_rounds` with the same seed.
    """
    solution, rate = training.solution, training.learning_rate
    scales = source.scales
    factors = None
    if scales is not None or solution.rate_inside:
        divisors = np.ones(solution.dim) if scales is None else scales.astype(np.float64)
        factors = ((rate if solution.rate_inside else 1.0) / divisors).astype(np.float32)
    rounds = VectorRounds(
        solution,
        source.clients,
        seed=training.seed,
        residual_directory=residual_directory,
        factors=factors,
    )
    weights, average = np.array(start, dtype=np.float64), Average(training.averaging)
    everyone = np.arange(source.clients, dtype=np.int64)
    seen: list[Round] = []
    number, cost = 0, solution.privacy.per_report
    for epoch in range(solution.epochs):
        order, ends = schedule(
            everyone,
            clients=source.clients,
            batch=training.batch,
            seed=training.seed,
            epoch=epoch,
        )
        for first, end in pairwise([0, *ends.tolist()]):
            source.receive(weights)
            for at in range(first, end, source.chunk):
                clients = order[at : min(at + source.chunk, end)]
                rounds.report(epoch, clients, source.vectors(clients))
            mean = rounds.mean() if scales is None else rounds.mean() * scales
            weights -= rate * training.decay * weights
            weights -= mean if solution.rate_inside else rate * mean
            model = average.add(weights)
            number += 1
            closes = end == len(order)
            final = closes and epoch == solution.epochs - 1
            if final or evaluate == "rounds" or (evaluate == "epochs" and closes):
                bits, told = solution.bits * (end - first), (math.nan, math.nan)
                if judge is not None:
                    told = judge(model)
                seen.append(Round(number, epoch, (epoch + 1) * cost, bits, end - first, *told))
            advance(1)
    return History(seen, average.weights)


def residual_of(clients: int, d: int, directory: Path | None) -> NDArray[np.float32]:
    """Residuals of zeros (clients, d): in memory, or in a file of the directory."""
    if clients == 0:
        return np.empty((0, d), dtype=np.float32)
    if directory is None:
        return np.zeros((clients, d), dtype=np.float32)
    # A sparse file of zeros: only the pages that are written take room.
    file = directory / "residual.f32"
    return np.asarray(np.memmap(file, dtype=np.float32, mode="w+", shape=(clients, d)))
