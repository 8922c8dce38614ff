"""Simulate many clients: selections, values and reports, by compiled kernel or by numpy batch.

Results depend on (seed, epoch, client) only, not on the executor, the batch or the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.random import Streams, philox_key, stream
from fedsel.errors import InvalidArgument, InvalidData, check_count, check_kind, check_vectors
from fedsel.mechanisms import ReportMechanism, Selection, Value
from fedsel.mechanisms._reports import Reports
from fedsel.sampling import _batch as batch
from fedsel.sampling.answers import NO_ANSWER, report_answers
from fedsel.solutions import Solution
from fedsel.solutions._solution import norm

Executor = Literal["kernel", "batch"]
Integers = NDArray[np.int64]
VALUES_ALONE = 3
"""The purpose of the streams of `perturb`. They are independent of the streams of `select`, so the
two may be combined by hand."""
Rows = TypeVar("Rows", NDArray[np.floating], NDArray[np.float64])


@dataclass(frozen=True, eq=False)
class Cohort:
    """The clients that draw, with their epoch and seed."""

    seed: int
    clients: Integers
    epoch: int = 0

    def __post_init__(self) -> None:
        check_count("seed", self.seed, least=0)
        check_count("epoch", self.epoch, least=0, most=(1 << 32) - 1)
        clients = np.asarray(self.clients)
        if clients.ndim != 1 or clients.size == 0 or clients.dtype.kind not in "iu":
            raise InvalidArgument("clients", clients.tolist(), "integers, at least one")
        if clients.min() < 0:
            raise InvalidArgument("clients", int(clients.min()), "numbers ≥ 0")
        object.__setattr__(self, "clients", clients.astype(np.int64))

    def streams(self, *purpose: int) -> Streams:
        """The streams of these clients."""
        return Streams(self.seed, self.epoch, self.clients, *purpose)


def cohort(n: int, *, seed: int, epoch: int = 0, first: int = 0) -> Cohort:
    """The cohort of the clients first … first + n − 1.

    >>> cohort(3, seed=1).clients
    array([0, 1, 2])
    """
    start = check_count("first", first, least=0, most=1 << 62)
    return Cohort(seed, np.arange(start, start + check_count("n", n)), epoch)


def select(
    selection: Selection, vectors: ArrayLike, who: Cohort, executor: Executor = "kernel"
) -> Integers:
    """Select a dimension (−1 for ⊥) for each client from its row of vectors (n, d), or one row.

    >>> from fedsel.mechanisms import TopK
    >>> select(TopK(k=1), [[1.0, -2.0], [3.0, 0.5]], cohort(2, seed=0), "batch")
    array([1, 0])
    """
    check_kind("selection", selection, Selection)
    check_kind("who", who, Cohort)
    rows = _rows("vectors", check_vectors("vectors", vectors, ndim=2), who)
    law = selection.law(rows.shape[1])
    if _fast(executor):
        from fedsel.sampling._kernels import native, ranks_of

        chosen = np.empty_like(who.clients)
        held = np.ascontiguousarray(rows)
        native.draw_dimensions(
            ranks_of(law), held, philox_key(who.seed), who.epoch, who.clients, chosen
        )
        return chosen
    return batch.draw_dimensions(law, _for_all(np.abs(rows), who), who.streams())


def perturb(value: Value, t: ArrayLike, who: Cohort, executor: Executor = "kernel") -> Integers:
    """Report a symbol for each client from its t (n,) in [−1, 1], or from one t for all.

    >>> from fedsel.mechanisms import Identity
    >>> Identity().decode(perturb(Identity(), [0.5, -1.0], cohort(2, seed=0), "batch"))
    array([ 0.5, -1. ])
    """
    check_kind("value", value, Value)
    check_kind("who", who, Cohort)
    values = _rows("t", check_vectors("t", t, ndim=1).astype(np.float64), who)
    if np.abs(values).max() > 1:
        raise InvalidData("t: every entry must lie in [−1, 1]")
    if _fast(executor):
        from fedsel.sampling._kernels import native, symbols_of

        symbols, key = np.empty_like(who.clients), philox_key(who.seed, VALUES_ALONE)
        held = np.ascontiguousarray(values)
        native.draw_symbols(symbols_of(value.law), held, key, who.epoch, who.clients, symbols)
        return symbols
    everyone = np.arange(len(who.clients))
    streams = who.streams(VALUES_ALONE)
    return batch.draw_symbols(value.law, _for_all(values, who), streams, everyone)


def report(
    target: Solution | ReportMechanism,
    vectors: ArrayLike,
    who: Cohort,
    executor: Executor = "kernel",
) -> Reports:
    """Report for each client on its row of vectors (n, d), or on one row for all.

    ``target`` is a solution, without residuals, or a mechanism. Vectors are converted to float32,
    as on devices.

    >>> from fedsel.mechanisms import Identity, TopK, TwoStage
    >>> report(TwoStage(TopK(), Identity()), [[0.0, -2.0]], cohort(1, seed=0), "batch").slot
    array([[1]])
    """
    check_kind("target", target, Solution, ReportMechanism)
    check_kind("who", who, Cohort)
    rows = check_vectors("vectors", vectors, ndim=2).astype(np.float32)
    rows = _rows("vectors", rows, who)
    solution = target if isinstance(target, Solution) else as_solution(target, rows.shape[1])
    if rows.shape[1] != solution.dim:
        raise InvalidData(f"vectors: must have {solution.dim} columns")
    if solution.alphabet.plain:
        raise InvalidArgument("target", target, "private: plain numbers are no symbols")
    everyone = _for_all(rows, who)
    if _fast(executor):
        from fedsel.sampling._kernels import ReportKernel, known

        if solution.transform.blocks is not None:
            answers = np.where(everyone.max(axis=1) > 0, everyone.argmax(axis=1), NO_ANSWER)
            return report_answers(solution, answers, who.streams(), missing=True)
        if known(solution):
            return ReportKernel(solution, who.seed).reports(who.epoch, who.clients, rows)
        return _one_by_one(solution, everyone, who)
    if solution.transform.bases > 1 or solution.transform.blocks is not None:
        return _one_by_one(solution, everyone, who)
    scores = np.nan_to_num(solution.transform.scores(everyone))
    values = np.stack([solution.transform.values(row) for row in everyone])
    rows_of_all = batch.Rows(scores, values, [norm(row) for row in everyone])
    return batch.draw_reports(solution.mechanism, rows_of_all, who.streams())


def _one_by_one(solution: Solution, everyone: NDArray[np.float32], who: Cohort) -> Reports:
    """Report as devices do, for solutions that no other executor supports."""
    nothing = np.zeros(solution.dim, dtype=np.float32)
    return Reports.of(
        [
            solution.encode(row, nothing, stream(who.seed, who.epoch, client))[0]
            for row, client in zip(everyone, who.clients.tolist(), strict=True)
        ]
    )


def as_solution(mechanism: ReportMechanism, d: int) -> Solution:
    """Wrap a mechanism as a solution on coordinates, without feedback."""
    return Solution(mechanism.name, d, mechanism)


def _fast(executor: str) -> bool:
    if executor not in ("kernel", "batch"):
        raise InvalidArgument("executor", executor, '"kernel" or "batch"')
    return executor == "kernel"


def _rows(name: str, rows: Rows, who: Cohort) -> Rows:
    if len(rows) not in (1, len(who.clients)):
        raise InvalidData(
            f"{name}: must have {len(who.clients)} rows, one for each client, or one row for all"
        )
    return rows


def _for_all(rows: Rows, who: Cohort) -> Rows:
    return np.broadcast_to(rows, (len(who.clients), *rows.shape[1:]))
