"""A client's report in the training kernel, and the server's step: for each kind of solution.

The client's side ends with integers in ``sent``; what follows decodes. Draws are those of
`fedsel.sampling`, in the same order and from the same streams.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fedsel.mechanisms.laws import BOTTOM
from fedsel.sampling.compiled import JointTable, SymbolTable, draw_joint, draw_symbol
from fedsel.sampling.compiled_ranks import RankTable, draw_ranked
from fedsel.sampling.compiled_streams import STATE, below, new_stream
from fedsel.simulation.kernels.arithmetic import dot
from fedsel.simulation.kernels.baselines import RivalTable, send_rival

FULL, PICKS, PROJECTED, CODED, RIVAL = 0, 1, 2, 3, 4


class Plan(NamedTuple):
    """A solution as the kernel reads it; all solutions share this one type."""

    kind: int
    ranks: RankTable
    symbols: SymbolTable
    centres: NDArray[np.float64]
    kappas: NDArray[np.float64]
    picks: int
    scale: float
    clip: float
    momentum: float
    plain: bool
    projection: NDArray[np.float32]
    recovery: NDArray[np.float64]
    joint: JointTable
    signs: NDArray[np.float32]  # (rounds, d)
    rival: RivalTable
    decays_at_server: bool


@numba.njit(inline="always")
def decode_symbol(plan: Any, symbol: Any) -> Any:
    """The value of a symbol in [−bound, bound]."""
    which = plan.symbols.windows.shape[0] - 1
    while symbol < plan.symbols.windows[which, 6]:
        which -= 1
    return plan.kappas[which] * (
        2.0 * (symbol - plan.symbols.windows[which, 6]) - plan.centres[which]
    )


@numba.njit(inline="always")
def next_distinct(drawn: Any, count: Any, d: Any, words: Any, taken: Any) -> Any:
    """A dimension not drawn before, and words taken; ``drawn`` stays in ascending order."""
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
def send_picks(
    plan: Any, r: Any, residual: Any, client: Any, words: Any, scratch: Any, sent: Any, n: Any
) -> None:
    """Report (dimension, symbol) pairs of r, and add what the server decodes of them."""
    taken, d = 0, r.shape[0]
    for p in range(plan.picks):
        if plan.picks == 1:
            j, taken = draw_ranked(plan.ranks, r, 0, words, taken)
        else:
            j, taken = next_distinct(scratch.drawn, p, d, words, taken)
        sent[n, 2 * p] = j
        if j != BOTTOM:
            s = np.float64(r[j])
            if residual.shape[0]:
                s += plan.momentum * np.float64(residual[client, j])
            if plan.plain:
                scratch.total[j] += plan.scale * s
            else:
                t = max(-plan.clip, min(plan.clip, s)) / plan.clip
                symbol, taken = draw_symbol(plan.symbols, t, words, taken)
                sent[n, 2 * p + 1] = symbol
                scratch.total[j] += plan.scale * plan.clip * decode_symbol(plan, symbol)


@numba.njit(inline="always")
def send_projected(plan: Any, g: Any, words: Any, scratch: Any, sent: Any, n: Any) -> None:
    """Report one coordinate of the projection of g."""
    q = plan.projection.shape[0]
    j, taken = below(words, 0, q)
    z = 0.0
    for i in range(g.shape[0]):
        z += np.float64(plan.projection[j, i]) * np.float64(g[i])
    t = max(-plan.clip, min(plan.clip, z)) / plan.clip
    symbol, taken = draw_symbol(plan.symbols, t, words, taken)
    sent[n, 0], sent[n, 1] = j, symbol
    scratch.total[j] += q * plan.clip * decode_symbol(plan, symbol)


@numba.njit(inline="always")
def hadamard(x: Any, room: Any) -> None:
    """The Walsh–Hadamard transform of x in place, the sums in the order of `codebooks.hadamard`.

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
def send_coded(plan: Any, turn: Any, g: Any, words: Any, scratch: Any, sent: Any, n: Any) -> None:
    """Report one signed codeword for g."""
    d, M = g.shape[0], scratch.scores.shape[0]
    scores = scratch.scores
    squared = 0.0
    if plan.joint.radius > 0:
        squared = np.float64(dot(g, g))
    if plan.signs.shape[0]:
        for i in range(d):
            scores[i] = g[i] * plan.signs[turn, i]
        for i in range(d, M):
            scores[i] = 0
        hadamard(scores, scratch.room)
    elif plan.projection.shape[0]:
        for j in range(M):
            scores[j] = dot(plan.projection[j], g)
    else:
        for i in range(d):
            scores[i] = g[i]
    atom, _ = draw_joint(plan.joint, scores, squared, words, 0)
    sent[n, 0], sent[n, 1] = atom, 0
    if atom >= M:
        sent[n, 0], sent[n, 1] = atom - M, 1
        scratch.total[atom - M] -= plan.scale
    elif atom != BOTTOM:
        scratch.total[atom] += plan.scale


class Scratch(NamedTuple):
    """Room that the kernel works in. It allocates nothing, and so counts no references."""

    weights: NDArray[np.float32]
    decay: NDArray[np.float32]
    gradient: NDArray[np.float32]
    total: NDArray[np.float64]
    drawn: NDArray[np.int64]
    words: NDArray[np.uint64]
    scores: NDArray[np.float32]
    room: NDArray[np.float32]
    turned: NDArray[np.float64]


def scratch_for(plan: Plan, d: int) -> Scratch:
    """Room for a plan on d dimensions."""
    size = len(plan.projection) or (1 << (d - 1).bit_length() if len(plan.signs) else d)
    return Scratch(
        weights=np.empty(d, dtype=np.float32),
        decay=np.empty(d, dtype=np.float32),
        gradient=np.empty(d, dtype=np.float32),
        total=np.empty(max(d, size)),
        drawn=np.empty(plan.picks, dtype=np.int64),
        words=np.empty(STATE, dtype=np.uint64),
        scores=np.empty(size, dtype=np.float32),
        room=np.empty(size, dtype=np.float32),
        turned=np.empty(size),
    )


@numba.njit(inline="always")
def send_report(
    plan: Any,
    turn: Any,
    vector: Any,
    residual: Any,
    client: Any,
    key: Any,
    epoch: Any,
    scratch: Any,
    sent: Any,
    n: Any,
) -> None:
    """A client's report on its vector, added to the round's total; the residual is updated.

    ``turn`` is the row of the plan's signs. ``vector`` becomes the accumulated one where there is a
    residual.
    """
    d, words = vector.shape[0], scratch.words
    if plan.kind == FULL:
        for i in range(d):
            scratch.total[i] += vector[i]
    else:
        new_stream(words, key, epoch, client)
        if plan.kind == PROJECTED:
            send_projected(plan, vector, words, scratch, sent, n)
        elif plan.kind == CODED:
            send_coded(plan, turn, vector, words, scratch, sent, n)
        elif plan.kind == RIVAL:
            send_rival(plan.rival, plan.scale, vector, scratch.room, words, scratch.total)
        else:
            if residual.shape[0]:
                for i in range(d):
                    vector[i] += residual[client, i]
            send_picks(plan, vector, residual, client, words, scratch, sent, n)
            if residual.shape[0]:
                for i in range(d):
                    residual[client, i] = vector[i]
                if sent[n, 0] != BOTTOM:
                    residual[client, sent[n, 0]] = 0


@numba.njit(inline="always")
def take_step(plan: Any, turn: Any, total: Any, step: Any, weights: Any, room: Any) -> None:
    """w ← w − step · total; a total of coordinates of another basis is turned back first."""
    if plan.signs.shape[0]:
        hadamard(total, room)
        scale = step / np.sqrt(np.float64(total.shape[0]))
        for i in range(weights.shape[0]):
            weights[i] -= scale * plan.signs[turn, i] * total[i]
    elif plan.projection.shape[0]:
        for i in range(weights.shape[0]):
            s = 0.0
            for j in range(plan.projection.shape[0]):
                s += plan.recovery[i, j] * total[j]
            weights[i] -= step * s
    else:
        for i in range(weights.shape[0]):
            weights[i] -= step * total[i]
