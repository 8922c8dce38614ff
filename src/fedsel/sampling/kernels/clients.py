"""Reports of many simulated clients on vectors that are computed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, InvalidData
from fedsel.random import key_of
from fedsel.reports import Reports, Totals
from fedsel.sampling.kernels import tables as tables_module
from fedsel.sampling.kernels.arithmetic import copy_from, dot
from fedsel.sampling.kernels.compiler import lean_kernel
from fedsel.sampling.kernels.report import scratch_for, send_report
from fedsel.solutions import Solution


@lean_kernel
def send_vectors(
    addresses: Any,
    sizes: Any,
    stride: Any,
    factors: Any,
    tables: Any,
    clients: Any,
    residual: Any,
    key: Any,
    epoch: Any,
    scratch: Any,
    sent: Any,
) -> Any:
    """The reports of clients on vectors computed elsewhere, added to the sums.

    A vector lies in parts, as a model's parameters do: part p of client n begins at addresses[p] +
    4·n·stride·sizes[p] (a stride of 0: one vector for all). Each is put together, times factors
    (d,) unless they are empty, in room that stays in the processor's cache. Returns how many
    clients reported: it stops at one whose vector is not finite.
    """
    vector = scratch.gradient
    for n in range(clients.shape[0]):
        start, wrong = 0, 0
        for p in range(sizes.shape[0]):
            copy_from(addresses[p] + np.uint64(4 * n * stride * sizes[p]), vector, start, sizes[p])
            start += sizes[p]
        for i in range(factors.shape[0]):
            vector[i] *= factors[i]
        if not dot(vector, vector) < np.inf:  # the square of a finite entry may overflow, too
            for i in range(vector.shape[0]):
                wrong += not abs(vector[i]) < np.inf
            if wrong:
                return n
        row = n if sent.shape[0] > 1 else 0
        send_report(tables, 0, vector, residual, clients[n], key, epoch, scratch, sent, row)
    return clients.shape[0]


class ReportKernel:
    """The reports of one solution, compiled; ``totals`` are those since they were cleared.

    Vectors are multiplied by ``factors`` (d,) before they are reported.
    """

    def __init__(
        self, solution: Solution, seed: int, factors: NDArray[np.float32] | None = None
    ) -> None:
        self.solution, self._key = solution, key_of(seed)
        self._tables = tables_module.tables_of(solution)
        self._scratch = scratch_for(self._tables, solution.dim)
        self._factors = np.empty(0, np.float32) if factors is None else factors
        self._sent = np.zeros((1, 2 * self._tables.picks), dtype=np.int64)
        self._nothing = np.empty((0, solution.dim), dtype=np.float32)
        self.totals = Totals(solution.alphabet)
        # One array, seen by both: the kernel adds to the sums that the server decodes.
        held = self._scratch.total[None] if self._tables.plain else self._scratch.sums
        self.totals.sums = held

    def in_round(self, number: int) -> None:
        """Use the transform of this round from now on."""
        self._tables = tables_module.in_rounds(self._tables, self.solution, number, 1)

    def send(
        self,
        epoch: int,
        clients: NDArray[np.int64],
        parts: Sequence[NDArray[np.float32]],
        residual: NDArray[np.float32] | None = None,
        sent: NDArray[np.int64] | None = None,
    ) -> None:
        """Let clients (n,) report on vectors (n, d) in parts side by side, or all on the only row.

        ``residual`` (N, d) is read and written; ``sent`` (n, 2·picks) receives the reports.
        """
        held = [np.ascontiguousarray(p, np.float32).reshape(len(p), -1) for p in parts]
        sizes = np.array([part.shape[1] for part in held], dtype=np.int64)
        if sizes.sum() != self.solution.dim:
            raise InvalidArgument("parts", f"{sizes.sum()} entries", f"{self.solution.dim} in all")
        if any(len(part) not in (1, len(clients)) for part in held) or len(set(map(len, held))) > 1:
            raise InvalidArgument(
                "parts", [len(part) for part in held], f"{len(clients)} rows each, or 1 for all"
            )
        done = send_vectors(
            np.array([part.ctypes.data for part in held], dtype=np.uint64),
            sizes,
            int(len(held[0]) == len(clients)),
            self._factors,
            self._tables,
            np.ascontiguousarray(clients, dtype=np.int64),
            self._nothing if residual is None else residual,
            self._key,
            epoch,
            self._scratch,
            self._sent if sent is None else sent,
        )
        if done < len(clients):
            raise InvalidData("update: every entry must be finite")
        self.totals.count += len(clients)

    def reports(self, epoch: int, clients: NDArray[np.int64], rows: NDArray[np.float32]) -> Reports:
        """The reports (n, picks) themselves."""
        sent = np.zeros((max(2, len(clients)), 2 * self._tables.picks), dtype=np.int64)
        self.send(epoch, clients, [rows], sent=sent)
        return Reports(sent[: len(clients), ::2], sent[: len(clients), 1::2])
