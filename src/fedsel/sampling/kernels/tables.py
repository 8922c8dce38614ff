"""A solution in the form that the kernels read: tables of numbers, one type for all solutions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.mechanisms import (
    FlatPicks,
    FullGradient,
    Identity,
    OneSymbol,
    SignedSampling,
    TwoStage,
    UnbiasedJoint,
    Uniform,
    Value,
    ValueReports,
)
from fedsel.sampling.kernels.baselines import NO_BASELINE, BaselineTable, baseline_table
from fedsel.sampling.kernels.draws import SignTable, SymbolTable, sign_table, symbol_table
from fedsel.sampling.kernels.ranks import RankTable, rank_table
from fedsel.solutions import Coordinates, Projection, RandomDirections, Rotated, Solution
from fedsel.solutions.baselines import PrivUnit, SignDS

WHOLE, VALUES, SIGNS, BASELINE = 0, 1, 2, 3
COORDINATES, ROTATED, MATRIX = 0, 1, 2


class Tables(NamedTuple):
    """A solution as the kernels read it; what a solution does not use is empty.

    ``kind`` is that of its mechanism, ``basis`` that of its transform. ``ranked`` says whether all
    scores are needed, ``flat`` whether slots are drawn at random, ``plain`` whether numbers leave
    as they are.
    """

    kind: int
    basis: int
    slots: int
    ranked: bool
    flat: bool
    plain: bool
    picks: int
    clip: float
    momentum: float
    ranks: RankTable
    symbols: SymbolTable
    centres: NDArray[np.int64]
    units: NDArray[np.float64]
    signed: SignTable
    baseline: BaselineTable
    scale: float  # of a baseline's report
    root: float  # √M of a rotated basis
    signs: NDArray[np.float32]  # (rounds, d) of rotated bases
    matrix: NDArray[np.float32]  # (M, d)
    recovery: NDArray[np.float64]  # (M, d)
    decays_at_server: bool


_MECHANISMS = (FullGradient, TwoStage, FlatPicks, SignedSampling, UnbiasedJoint, PrivUnit, SignDS)
_TRANSFORMS = (Coordinates, Rotated, RandomDirections, Projection)


def known(solution: Solution) -> bool:
    """Whether the kernels can run this solution; another is run as a device runs it."""
    mechanism, transform = type(solution.mechanism), type(solution.transform)
    return mechanism in _MECHANISMS and transform in _TRANSFORMS


def tables_of(solution: Solution) -> Tables:
    """A solution as the kernels read it, in the round that it is in."""
    if not known(solution):
        raise InvalidArgument(
            "solution", solution.name, "of fedsel's own mechanisms and transforms"
        )
    made, M = solution.mechanism, solution.transform.size
    value = made.value if isinstance(made, ValueReports) else None
    symbols = (value if isinstance(value, Value) else Identity()).law
    selection = made.selection if isinstance(made, TwoStage) else Uniform()
    kind = WHOLE if made.whole else SIGNS if isinstance(made, OneSymbol) else VALUES
    tables = Tables(
        kind=BASELINE if isinstance(made, PrivUnit | SignDS) else kind,
        basis=COORDINATES,
        slots=M,
        ranked=isinstance(made, TwoStage | SignedSampling),
        flat=isinstance(made, FlatPicks),
        plain=solution.alphabet.plain,
        picks=1 if made.whole else made.picks,
        clip=float(getattr(made, "clip", 1.0)),
        momentum=float(solution.feedback.momentum),
        ranks=rank_table(selection.law(M)),
        symbols=symbol_table(symbols),
        centres=np.array([w.symbols - 1 for w in symbols.windows], dtype=np.int64),
        units=solution.alphabet.units,
        signed=sign_table(made if isinstance(made, OneSymbol) else SignedSampling(1), M),
        baseline=NO_BASELINE,
        scale=1.0,
        root=math.sqrt(M),
        signs=np.empty((0, 0), dtype=np.float32),
        matrix=np.empty((0, 0), dtype=np.float32),
        recovery=np.empty((0, 0)),
        decays_at_server=made.decays_at_server,
    )
    if isinstance(made, PrivUnit | SignDS):
        tables = tables._replace(baseline=baseline_table(made), scale=float(made.scale))
    if isinstance(solution.transform, Rotated):
        return in_rounds(tables._replace(basis=ROTATED), solution, solution.transform.round, 1)
    if isinstance(solution.transform, RandomDirections | Projection):
        # Copies: the kernels are compiled for each kind of array, and sealed ones are another.
        matrix, recovery = (
            np.array(solution.transform.matrix),
            np.array(solution.transform.recovery),
        )
        return tables._replace(basis=MATRIX, matrix=matrix, recovery=recovery)
    return tables


def in_rounds(tables: Tables, solution: Solution, first: int, count: int) -> Tables:
    """The tables for ``count`` rounds from ``first`` on, counted through all epochs."""
    if not isinstance(solution.transform, Rotated):
        return tables
    bases = [solution.transform.in_round(first + t) for t in range(count)]
    return tables._replace(signs=np.array([basis.signs for basis in bases]))
