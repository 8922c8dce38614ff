"""A client's report with numba, and what the server makes of a round's: for every solution.

Feedback, transform and mechanism follow each other as in `Solution.encode`; the draws are those of
`fedsel.mechanisms.drawing`, in the same order and from the same streams. Sums are integers, and
the mean is rounded as `Totals.mean` and `Transform.combine` round it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fedsel.reports import BOTTOM
from fedsel.sampling.kernels.arithmetic import dot
from fedsel.sampling.kernels.baselines import send_baseline
from fedsel.sampling.kernels.draws import draw_signed, draw_symbol, draw_unbiased
from fedsel.sampling.kernels.ranks import draw_ranked
from fedsel.sampling.kernels.streams import STATE, below, new_stream
from fedsel.sampling.kernels.tables import BASELINE, COORDINATES, ROTATED, SIGNS, WHOLE, Tables


class Scratch(NamedTuple):
    """Room that the kernels work in. They allocate nothing, and so count no references."""

    weights: NDArray[np.float32]
    decay: NDArray[np.float32]
    gradient: NDArray[np.float32]
    sums: NDArray[np.int64]
    total: NDArray[np.float64]
    mean: NDArray[np.float64]
    drawn: NDArray[np.int64]
    words: NDArray[np.uint64]
    scores: NDArray[np.float32]
    room: NDArray[np.float32]
    turned: NDArray[np.float64]


def scratch_for(tables: Tables, d: int) -> Scratch:
    """Room for a solution on d dimensions."""
    size = tables.slots
    return Scratch(
        weights=np.empty(d, dtype=np.float32),
        decay=np.empty(d, dtype=np.float32),
        gradient=np.empty(d, dtype=np.float32),
        sums=np.zeros((len(tables.units), 0 if tables.plain else size), dtype=np.int64),
        total=np.zeros(size),
        mean=np.zeros(d),
        drawn=np.empty(tables.picks, dtype=np.int64),
        words=np.empty(STATE, dtype=np.uint64),
        scores=np.empty(size, dtype=np.float32),
        room=np.empty(size, dtype=np.float32),
        turned=np.empty(size),
    )


@numba.njit(inline="always")
def hadamard(x: Any, room: Any) -> None:
    """The Walsh–Hadamard transform of x in place, the sums in the order of `transforms.hadamard`.

    Every step takes neighbours to two halves, so that each is one run of the processor's vectors.
    """
    n = x.shape[0]
    half = n // 2
    step = 1
    while step < n:
        for i in range(half):
            a, b = x[2 * i], x[2 * i + 1]
            room[i] = a + b
            room[half + i] = a - b
        for i in range(n):
            x[i] = room[i]
        step *= 2


@numba.njit(inline="always")
def fill_scores(tables: Any, row: Any, vector: Any, scratch: Any) -> None:
    """The scores of all codewords, where slots are not coordinates."""
    d, scores = vector.shape[0], scratch.scores
    if tables.basis == ROTATED:
        for i in range(d):
            scores[i] = vector[i] * tables.signs[row, i]
        for i in range(d, scores.shape[0]):
            scores[i] = 0
        hadamard(scores, scratch.room)
    else:
        for j in range(scores.shape[0]):
            scores[j] = dot(tables.matrix[j], vector)


@numba.njit(inline="always")
def entry_of(tables: Any, row: Any, slot: Any, i: Any) -> Any:
    """Entry i of a codeword, in double precision."""
    if tables.basis == ROTATED:
        shared = slot & i
        for shift in (32, 16, 8, 4, 2, 1):
            shared ^= shared >> shift
        sign = 1.0 - 2.0 * (shared & 1)
        return sign * np.float64(tables.signs[row, i]) / tables.root
    return np.float64(tables.matrix[slot, i])


@numba.njit(inline="always")
def value_at(tables: Any, row: Any, vector: Any, residual: Any, client: Any, slot: Any) -> Any:
    """What is told at a slot: the codeword with r + momentum · residual, before it is clipped."""
    s = np.float64(0.0)
    if tables.basis == COORDINATES:
        s = np.float64(vector[slot])
        if residual.shape[0]:
            s += tables.momentum * np.float64(residual[client, slot])
        return s
    for i in range(vector.shape[0]):
        x = np.float64(vector[i])
        if residual.shape[0]:
            x += tables.momentum * np.float64(residual[client, i])
        s += entry_of(tables, row, slot, i) * x
    return s


@numba.njit(inline="always")
def next_distinct(drawn: Any, count: Any, d: Any, words: Any, taken: Any) -> Any:
    """A slot not drawn before, and words taken; ``drawn`` stays in ascending order."""
    j, taken = below(words, taken, d - count)
    place = 0
    while place < count and j >= drawn[place]:
        j += 1
        place += 1
    for i in range(count, place, -1):
        drawn[i] = drawn[i - 1]
    drawn[place] = j
    return j, taken


@numba.njit(inline="always")
def send_values(
    tables: Any,
    row: Any,
    vector: Any,
    ranked: Any,
    residual: Any,
    client: Any,
    scratch: Any,
    sent: Any,
    n: Any,
) -> None:
    """Report (slot, symbol) pairs, and add them up."""
    taken, words = 0, scratch.words
    for p in range(tables.picks):
        if tables.flat:
            j, taken = next_distinct(scratch.drawn, p, tables.slots, words, taken)
        else:
            j, taken = draw_ranked(tables.ranks, ranked, 0, words, taken)
        sent[n, 2 * p], sent[n, 2 * p + 1] = j, 0
        if j != BOTTOM:
            s = value_at(tables, row, vector, residual, client, j)
            if tables.plain:
                scratch.total[j] += s
            else:
                t = max(-tables.clip, min(tables.clip, s)) / tables.clip
                symbol, taken = draw_symbol(tables.symbols, t, words, taken)
                sent[n, 2 * p + 1] = symbol
                which = tables.symbols.windows.shape[0] - 1
                while symbol < tables.symbols.windows[which, 6]:
                    which -= 1
                place = symbol - tables.symbols.windows[which, 6]
                scratch.sums[which, j] += 2 * place - tables.centres[which]


@numba.njit(inline="always")
def fill_values(
    tables: Any, row: Any, vector: Any, residual: Any, client: Any, scratch: Any
) -> None:
    """What is told at every slot, in double precision: into ``scratch.turned``."""
    d, told = vector.shape[0], scratch.turned
    if tables.basis == ROTATED:
        for i in range(d):
            x = np.float64(vector[i])
            if residual.shape[0]:
                x += tables.momentum * np.float64(residual[client, i])
            told[i] = x * np.float64(tables.signs[row, i])
        for i in range(d, told.shape[0]):
            told[i] = 0.0
        hadamard(told, scratch.total)  # free until the mean is taken
        for j in range(told.shape[0]):
            told[j] /= tables.root
    else:
        for j in range(told.shape[0]):
            told[j] = value_at(tables, row, vector, residual, client, j)


@numba.njit(inline="always")
def send_sign(
    tables: Any,
    row: Any,
    vector: Any,
    ranked: Any,
    residual: Any,
    client: Any,
    scratch: Any,
    sent: Any,
    n: Any,
) -> None:
    """Report one signed slot, and add it up."""
    M = tables.slots
    if tables.signed.unbiased and (tables.basis != COORDINATES or residual.shape[0]):
        fill_values(tables, row, vector, residual, client, scratch)
        atom, _ = draw_unbiased(tables.signed, scratch.turned, scratch.words, 0)
    else:
        squared = 0.0
        if tables.signed.radius > 0:
            squared = np.float64(dot(vector, vector))
        atom, _ = draw_signed(tables.signed, ranked, squared, scratch.words, 0)
    sent[n, 0], sent[n, 1] = atom, 0
    if atom >= M:
        sent[n, 0], sent[n, 1] = atom - M, 1
        scratch.sums[0, atom - M] -= 1
    elif atom != BOTTOM:
        scratch.sums[0, atom] += 1


@numba.njit(inline="always")
def keep_rest(
    tables: Any, row: Any, vector: Any, residual: Any, client: Any, sent: Any, n: Any
) -> None:
    """The residual: what was accumulated, less what was sent."""
    d = vector.shape[0]
    for i in range(d):
        residual[client, i] = vector[i]
    for p in range(tables.picks):
        slot = sent[n, 2 * p]
        if slot != BOTTOM:
            if tables.basis == COORDINATES:
                residual[client, slot] = 0
            else:
                along, squared = 0.0, 0.0
                for i in range(d):
                    entry = entry_of(tables, row, slot, i)
                    along += entry * np.float64(residual[client, i])
                    squared += entry * entry
                for i in range(d):
                    part = along / squared * entry_of(tables, row, slot, i)
                    residual[client, i] = np.float64(residual[client, i]) - part


@numba.njit(inline="always")
def send_report(
    tables: Any,
    row: Any,
    vector: Any,
    residual: Any,
    client: Any,
    key: Any,
    epoch: Any,
    scratch: Any,
    sent: Any,
    n: Any,
) -> None:
    """A client's report on its vector, added to the round's sums; the residual is updated.

    ``row`` is that of the round's signs. ``vector`` becomes the accumulated one where there is a
    residual.
    """
    d = vector.shape[0]
    if tables.kind == WHOLE:
        for i in range(d):
            scratch.total[i] += vector[i]
    else:
        new_stream(scratch.words, key, epoch, client)
        if residual.shape[0]:
            for i in range(d):
                vector[i] += residual[client, i]
        if tables.kind == BASELINE:
            send_baseline(
                tables.baseline, tables.scale, vector, scratch.room, scratch.words, scratch.total
            )
        else:
            ranked = vector
            if tables.ranked and tables.basis != COORDINATES:
                fill_scores(tables, row, vector, scratch)
                ranked = scratch.scores
            if tables.kind == SIGNS:
                send_sign(tables, row, vector, ranked, residual, client, scratch, sent, n)
            else:
                send_values(tables, row, vector, ranked, residual, client, scratch, sent, n)
            if residual.shape[0]:
                keep_rest(tables, row, vector, residual, client, sent, n)


@numba.njit(inline="always")
def clear(scratch: Any) -> None:
    """Begin a round."""
    for j in range(scratch.total.shape[0]):
        scratch.total[j] = 0.0
    for w in range(scratch.sums.shape[0]):
        for j in range(scratch.sums.shape[1]):
            scratch.sums[w, j] = 0


@numba.njit(inline="always")
def fill_mean(tables: Any, row: Any, count: Any, scratch: Any) -> None:  # noqa: PLR0912
    """The mean update of a round of ``count`` reports."""
    total, mean, M, d = scratch.total, scratch.mean, tables.slots, scratch.mean.shape[0]
    for j in range(M):
        if not tables.plain:
            total[j] = tables.units[0] * np.float64(scratch.sums[0, j])
            for w in range(1, tables.units.shape[0]):
                total[j] += tables.units[w] * np.float64(scratch.sums[w, j])
        else:
            total[j] *= tables.units[0]
        total[j] /= count
    if tables.basis == ROTATED:
        hadamard(total, scratch.turned)
        for i in range(d):
            mean[i] = total[i] * np.float64(tables.signs[row, i]) / tables.root
    elif tables.basis == COORDINATES:
        for i in range(d):
            mean[i] = total[i]
    else:
        for i in range(d):
            mean[i] = 0.0
        for j in range(M):
            if total[j] != 0:
                for i in range(d):
                    mean[i] += total[j] * tables.recovery[j, i]
