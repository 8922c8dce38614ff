"""The reports of many simulated clients on vectors that are computed elsewhere.

The vectors of a round come in chunks of (n, d) float32, and a chunk is dropped once it is reported:
memory is bounded by the chunk. Sums are integers, so the mean does not depend on the chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import SYSTEM, stream
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.sampling._batch import Part, rows_of
from fedsel.solutions import Solution

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
                f"a folder with room for {4 * clients * d / 2**30:.1f} GiB, the residuals of"
                f" {clients} clients that accumulate over several epochs",
            )
        return np.zeros((clients, d), dtype=np.float32)
    # A sparse file of zeros: only the pages that are written take room.
    file = directory / "residual.f32"
    return np.asarray(np.memmap(file, dtype=np.float32, mode="w+", shape=(clients, d)))
