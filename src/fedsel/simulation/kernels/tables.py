"""Solutions and records in the form that the training kernel reads."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.mechanisms import Identity, SignedSampling, Value
from fedsel.sampling.compiled import joint_table, symbol_table
from fedsel.sampling.compiled_ranks import rank_table
from fedsel.simulation.kernels import report as sending
from fedsel.simulation.kernels import training as kernel
from fedsel.simulation.kernels.baselines import NO_RIVAL, rival_table
from fedsel.solutions import Coded, Full, Picks, Projected, Reference, Solution
from fedsel.solutions.transforms import RandomDirections, Rotated

_NO_INTEGERS = np.empty(0, dtype=np.int64)
_NO_PROJECTION = np.empty((0, 0), dtype=np.float32)
# As a solution's own matrix is: the kernel is compiled for each kind of array that it meets.
_NO_PROJECTION.flags.writeable = False


def has_plan(solution: Solution) -> bool:
    """Whether the kernel can run this solution."""
    return isinstance(solution, Full | Picks | Projected | Coded | Reference)


def plan_of(solution: Solution) -> sending.Plan:
    """A solution as the kernel reads it."""
    if isinstance(solution, Full):
        return _plan(sending.FULL, Picks(solution.name, solution.dim, solution.epochs))
    if isinstance(solution, Picks):
        return _plan(sending.PICKS, solution)
    if isinstance(solution, Projected):
        stand_in = Picks(solution.name, solution.q, solution.epochs, clip=solution.clip)
        plan = _plan(sending.PROJECTED, stand_in, solution.value)
        return plan._replace(projection=solution.matrix, recovery=solution.recovery)
    if isinstance(solution, Coded):
        return _coded(solution)
    if isinstance(solution, Reference):
        return _rival(solution)
    raise InvalidArgument("solution", solution, "a solution of fedsel.solutions")


def _coded(solution: Coded) -> sending.Plan:
    book = solution.book
    plan = _plan(sending.CODED, Picks(solution.name, solution.dim, solution.epochs))
    plan = plan._replace(
        joint=joint_table(solution.mechanism, book.size),
        scale=solution.scale,
        decays_at_server=True,
    )
    if isinstance(book, Rotated):
        return plan._replace(signs=np.array(book.signs)[None])
    if isinstance(book, RandomDirections):
        matrix = np.array(book.matrix)
        return plan._replace(projection=matrix, recovery=matrix.T.astype(np.float64))
    return plan


def in_rounds(plan: sending.Plan, solution: Solution, first: int, count: int) -> sending.Plan:
    """The plan for ``count`` rounds from ``first`` on, counted through all epochs."""
    if not len(plan.signs):
        return plan
    assert isinstance(solution, Coded)  # noqa: S101
    books = [solution.in_round(first + t).book for t in range(count)]
    return plan._replace(signs=np.array([b.signs for b in books if isinstance(b, Rotated)]))


def _rival(solution: Reference) -> sending.Plan:
    plan = _plan(sending.RIVAL, Picks(solution.name, solution.dim, solution.epochs))
    scale = float(solution.scale)
    return plan._replace(rival=rival_table(solution), scale=scale, decays_at_server=True)


def _plan(kind: int, solution: Picks, value: Value | None = None) -> sending.Plan:
    told = value or solution.value
    windows = (told or Identity()).law
    return sending.Plan(
        kind=kind,
        ranks=rank_table(solution.selection.law(solution.dim)),
        symbols=symbol_table(windows),
        centres=np.array([w.symbols - 1.0 for w in windows.windows]),
        kappas=np.array([float(w.kappa) for w in windows.windows]),
        picks=solution.picks,
        scale=float(solution.scale),
        clip=float(solution.clip),
        momentum=float(solution.momentum),
        plain=told is None,
        projection=_NO_PROJECTION,
        recovery=np.empty((0, 0)),
        joint=joint_table(SignedSampling(1), 1),
        signs=np.empty((0, 0), dtype=np.float32),
        rival=NO_RIVAL,
        decays_at_server=False,
    )


def records_of(
    X: Any,
    y: NDArray[np.int8],
    order: NDArray[np.int64] | None = None,
    starts: NDArray[np.int64] | None = None,
) -> kernel.Records:
    """Records X (N, d), dense float32 or CSR, as the kernel reads them."""
    sparse = hasattr(X, "indptr")
    return kernel.Records(
        dense=np.empty((0, X.shape[1]), dtype=np.float32) if sparse else np.asarray(X),
        indptr=X.indptr.astype(np.int64) if sparse else _NO_INTEGERS,
        indices=X.indices.astype(np.int32) if sparse else np.empty(0, dtype=np.int32),
        data=X.data.astype(np.float32) if sparse else np.empty(0, dtype=np.float32),
        labels=np.asarray(y, dtype=np.int8),
        order=_NO_INTEGERS if order is None else np.asarray(order, dtype=np.int64),
        starts=_NO_INTEGERS if starts is None else np.asarray(starts, dtype=np.int64),
    )
