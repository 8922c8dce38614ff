"""The draws of `fedsel.mechanisms.drawing` with numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.mechanisms.laws import INPUT_STEPS, RankLaw, SymbolLaw
from fedsel.mechanisms.one_symbol import UNIT, OneSymbol, SignedSampling, UnbiasedJoint
from fedsel.reports import BOTTOM
from fedsel.sampling.kernels.compiler import kernel
from fedsel.sampling.kernels.ranks import RankTable, draw_ranked, rank_table
from fedsel.sampling.kernels.streams import STATE, below, divide, inverse, new_stream

_HALF_STEPS = INPUT_STEPS // 2
_STEP_BITS = INPUT_STEPS.bit_length() - 1


class SymbolTable(NamedTuple):
    """A `SymbolLaw` as the kernel reads it, a row for each window.

    windows: (coin end, G, L, H − L, N·L, total, offset); inverses: of L and of H − L.
    """

    windows: NDArray[np.int64]
    inverses: NDArray[np.uint64]


def symbol_table(law: SymbolLaw) -> SymbolTable:
    """A `SymbolLaw` as the kernel reads it."""
    ends = np.cumsum(law.coins)
    rows = [
        (end, w.G, w.L, w.H - w.L, w.symbols * w.L, w.total, offset)
        for end, w, offset in zip(ends, law.windows, law.offsets, strict=True)
    ]
    inverses = [(inverse(w.L), inverse(w.H - w.L)) for w in law.windows]
    return SymbolTable(np.array(rows, dtype=np.int64), np.array(inverses, dtype=np.uint64))


class SignTable(NamedTuple):
    """A `OneSymbol` mechanism as the kernel reads it; ``ranks`` is that of J, the rest that of UJ.

    ``radius`` is 0 where nothing is negated.
    """

    unbiased: bool
    ranks: RankTable
    radius: float
    low: int
    high: int
    top: int
    clip: float


def sign_table(mechanism: OneSymbol, d: int) -> SignTable:
    """A `OneSymbol` mechanism on d slots as the kernel reads it."""
    if isinstance(mechanism, SignedSampling):
        table = rank_table(mechanism.law(d))
        return SignTable(False, table, float(mechanism.radius or 0.0), 0, 0, 0, 1.0)
    if not isinstance(mechanism, UnbiasedJoint):
        raise InvalidArgument("mechanism", mechanism, "a SignedSampling or an UnbiasedJoint")
    table = rank_table(RankLaw([1], [2 * d]))
    low, high = mechanism.weights(d)
    return SignTable(True, table, 0.0, low, high, mechanism.top(d), mechanism.clip)


@numba.njit(error_model="numpy", inline="always")
def draw_unbiased(table: Any, vector: Any, words: Any, taken: Any) -> Any:
    """An atom 0 … 2d−1 of UJ, or BOTTOM."""
    d = vector.shape[0]
    plain = 2 * d * table.low * UNIT
    x, taken = below(words, taken, plain + table.top * table.high * UNIT)
    atom = np.int64(BOTTOM)
    if x < plain:
        atom = x // (table.low * UNIT)
    elif table.high > table.low:
        place = (x - plain) // (table.high - table.low)
        found = np.int64(0)
        for i in range(d):
            found += units_of(table, vector[i])
        most = table.top * UNIT
        j = np.int64(0)
        passed = np.int64(0)
        while j < d:
            units = units_of(table, vector[j])
            passed += units * most // found if found > most else units
            if passed > place:
                break
            j += 1
        if j < d:
            atom = j if vector[j] > 0 else d + j
    return atom, taken


@numba.njit(inline="always")
def units_of(table: Any, value: Any) -> Any:
    """An entry of UJ as an integer in 0 … UNIT."""
    return np.int64(min(np.floor(np.abs(np.float64(value)) / table.clip * UNIT), np.float64(UNIT)))


@numba.njit(error_model="numpy", inline="always")
def draw_signed(table: Any, vector: Any, squared: Any, words: Any, taken: Any) -> Any:
    """An atom 0 … 2d−1 (BOTTOM for ⊥) by J or UJ; ``squared`` is ‖vector‖², read by J alone."""
    if table.unbiased:
        return draw_unbiased(table, vector, words, taken)
    sign = vector.dtype.type(1)
    if table.radius > 0:
        share = min(1.0, np.sqrt(squared) / table.radius)
        steps = np.int64(np.floor((1.0 + share) * _HALF_STEPS + 0.5))
        toss, taken = below(words, taken, INPUT_STEPS)
        if toss >= steps:
            sign = vector.dtype.type(-1)
    return draw_ranked(table.ranks, vector, sign, words, taken)


@numba.njit(error_model="numpy", inline="always")
def draw_symbol(table: Any, t: Any, words: Any, taken: Any) -> Any:
    """A symbol by the law at t in [−1, 1], and how many words were taken."""
    windows, inverses = table.windows, table.inverses
    which = 0
    if windows.shape[0] > 1:
        toss, taken = below(words, taken, windows[-1, 0])
        while toss >= windows[which, 0]:
            which += 1
    G, L, extra = windows[which, 1], windows[which, 2], windows[which, 3]
    base, total, offset = windows[which, 4], windows[which, 5], windows[which, 6]
    steps = np.int64(np.floor((np.float64(t) + 1.0) * _HALF_STEPS + 0.5))
    scaled = steps * G
    up, taken = below(words, taken, INPUT_STEPS)
    cell = (scaled >> _STEP_BITS) + (up < scaled & (INPUT_STEPS - 1))
    x, taken = below(words, taken, total)
    symbol = offset
    if x < base:
        symbol += divide(x, L, inverses[which, 0])
    else:
        symbol += cell + divide(x - base, extra, inverses[which, 1])
    return symbol, taken


@kernel
def draw_dimensions(table: Any, vectors: Any, key: Any, epoch: Any, clients: Any) -> Any:
    """A dimension for each client, from its row of vectors (n, d), or all from the only row."""
    chosen = np.empty(clients.shape[0], dtype=np.int64)
    words = np.empty(STATE, dtype=np.uint64)
    for i in range(clients.shape[0]):
        taken = new_stream(words, key, epoch, clients[i])
        vector = vectors[i if vectors.shape[0] > 1 else 0]
        chosen[i], taken = draw_ranked(table, vector, 0, words, taken)
    return chosen


@kernel
def draw_symbols(table: Any, t: Any, key: Any, epoch: Any, clients: Any) -> Any:
    """A symbol for each client, from its t (n,), or all from the only one."""
    symbols = np.empty(clients.shape[0], dtype=np.int64)
    words = np.empty(STATE, dtype=np.uint64)
    for i in range(clients.shape[0]):
        taken = new_stream(words, key, epoch, clients[i])
        symbols[i], taken = draw_symbol(table, t[i if t.shape[0] > 1 else 0], words, taken)
    return symbols
