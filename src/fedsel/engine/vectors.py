"""Rounds of reports on vectors that are computed elsewhere: softmax regression, torch.

The vectors of a round come in chunks of (n, d) float32 and are forgotten when they are reported:
memory is bounded by the chunk. Draws, and the order in which reports are added up, are those of
`fedsel.engine.train`: the mean does not depend on how the clients are cut into chunks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, InvalidData
from fedsel.random import key_of, stream
from fedsel.solutions import Solution

RESIDUAL_LIMIT = 2**30
"""Bytes of residuals that are kept in memory without a directory."""


class VectorRounds:
    """The reports of ``clients`` clients by one solution, and the server's mean of each round.

    With E > 1 a solution that accumulates keeps a float32 residual (clients, d), on disk if a
    directory is given; without one, more than 1 GiB is refused.

    >>> from fedsel.solutions import solution
    >>> rounds = VectorRounds(solution("NP", dim=2), clients=3, seed=0)
    >>> rounds.report(0, np.array([2, 0]), np.array([[1, 2], [3, 4]], dtype=np.float32))
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
    ) -> None:
        from fedsel.engine import kernel, plan

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
        self._messages: list[object] = []
        self._count = 0
        if self._plan is not None:
            self._scratch = kernel.scratch_for(self._plan, solution.dim)
            self._scratch.total[:] = 0
            self._sent = np.zeros((1, 2 * self._plan.picks), dtype=np.int64)

    def report(self, epoch: int, clients: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Let clients (n,) report on their vectors (n, d), which are overwritten."""
        if not self._kernel.all_finite(vectors):
            raise InvalidData("update: every entry must be finite")
        self._count += len(clients)
        if self._plan is None:
            self._one_by_one(epoch, clients, vectors)
            return
        self._kernel.send_rows(
            vectors,
            self._plan,
            clients,
            self.residual,
            self._key,
            epoch,
            self._scratch,
            self._sent,
        )

    def _one_by_one(
        self, epoch: int, clients: NDArray[np.int64], vectors: NDArray[np.float32]
    ) -> None:
        """For a solution that the kernel does not know: the device's code, from the same streams."""
        nothing = np.zeros(self.solution.dim, dtype=np.float32)
        for client, vector in zip(clients.tolist(), vectors, strict=True):
            before = self.residual[client] if len(self.residual) else nothing
            message, kept = self.solution.encode(vector, before, stream(self.seed, epoch, client))
            if len(self.residual):
                self.residual[client] = kept
            self._messages.append(message)

    def mean(self) -> NDArray[np.float64]:
        """The server's estimate (d,) from the reports since the last call; zeros if none came."""
        count, self._count = self._count, 0
        if count == 0:
            return np.zeros(self.solution.dim)
        if self._plan is None:
            messages, self._messages = self._messages, []
            return self.solution.decode(messages)
        mean = self._scratch.total / count
        self._scratch.total[:] = 0
        if self._plan.kind == self._kernel.PROJECTED:
            recovered: NDArray[np.float64] = (
                self._plan.recovery @ mean[: len(self._plan.projection)]
            )
            return recovered
        return mean


def residual_of(clients: int, d: int, directory: Path | None) -> NDArray[np.float32]:
    """Residuals of zeros (clients, d): in memory, or in a file of the directory."""
    if clients == 0:
        return np.empty((0, d), dtype=np.float32)
    if directory is None:
        return np.zeros((clients, d), dtype=np.float32)
    # A sparse file of zeros: only the pages that are written take room.
    file = directory / "residual.f32"
    return np.asarray(np.memmap(file, dtype=np.float32, mode="w+", shape=(clients, d)))
