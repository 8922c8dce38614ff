"""Reports of many simulated clients on vectors that are computed elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, InvalidData
from fedsel.random import key_of, own_bits
from fedsel.reports import Reports
from fedsel.sampling.kernels import native
from fedsel.sampling.kernels.tables import signs_of, tables_of
from fedsel.sampling.parts import Outer, Part
from fedsel.solutions import Solution


class ReportKernel:
    """The reports of one solution, compiled; ``totals`` are those since they were cleared.

    Vectors are multiplied by ``factors`` (d,) before they are reported. Without a ``seed`` every
    report is drawn from bits of its own (`fedsel.random.own_bits`).
    """

    def __init__(
        self, solution: Solution, seed: int | None, factors: NDArray[np.float32] | None = None
    ) -> None:
        self.solution, self._factors = solution, factors
        self._key = None if seed is None else key_of(seed)
        tables = tables_of(solution)
        self._plan = native.plan(tables)
        self._sent = np.zeros((1, 2 * tables.picks), dtype=np.int64)
        self.in_round(getattr(solution.transform, "round", 0))
        self.totals = solution.totals()
        # One array, seen by both: the kernel adds to the sums that the server decodes.
        places = solution.transform.places
        self._total = np.zeros(places)
        self._sums = np.zeros((len(tables.units), places), dtype=np.int64)
        self.totals.sums = self._total[None] if tables.plain else self._sums

    def in_round(self, number: int) -> None:
        """Use the transform of this round from now on."""
        self._signs = signs_of(self.solution, number, 1)

    def send(
        self,
        epoch: int,
        clients: NDArray[np.int64],
        parts: Sequence[Part],
        residual: NDArray[np.float32] | None = None,
        sent: NDArray[np.int64] | None = None,
    ) -> None:
        """Let clients (n,) report on vectors (n, d) in parts side by side, or all on the only row.

        ``residual`` (N, d) is read and written; ``sent`` (n, 2·picks) receives the reports.
        """
        held = [
            (_held(p.left), _held(p.right)) if isinstance(p, Outer) else _held(p) for p in parts
        ]
        entries = sum(
            p[0].shape[1] * p[1].shape[1] if isinstance(p, tuple) else p.shape[1] for p in held
        )
        if entries != self.solution.dim:
            raise InvalidArgument("parts", f"{entries} entries", f"{self.solution.dim} in all")
        done = native.send_vectors(
            self._plan,
            held,
            self._factors,
            np.ascontiguousarray(clients, dtype=np.int64),
            residual,
            own_bits(len(clients)) if self._key is None else self._key,
            epoch,
            self._signs,
            self._sums,
            self._total,
            self._sent if sent is None else sent,
        )
        if done < len(clients):
            raise InvalidData("update: every entry must be finite")
        self.totals.count += len(clients)

    def reports(self, epoch: int, clients: NDArray[np.int64], rows: NDArray[np.float32]) -> Reports:
        """The reports (n, picks) themselves."""
        sent = np.zeros((max(2, len(clients)), self._sent.shape[1]), dtype=np.int64)
        self.send(epoch, clients, [rows], sent=sent)
        return Reports(sent[: len(clients), ::2], sent[: len(clients), 1::2])


def _held(part: NDArray[np.float32]) -> NDArray[np.float32]:
    """A part (n, size) as the kernels read it; a view if it is so already."""
    return np.ascontiguousarray(part, np.float32).reshape(len(part), -1)
