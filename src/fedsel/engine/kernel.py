"""One epoch of Algorithm 1 in one call: gradient, accumulation, selection, perturbation, step.

The client's side ends with its report, an integer dimension and symbol; what follows decodes. Both
sides stand in one loop only so that a simulation runs at memory speed: draws are those of
`fedsel.executors`, in the same order and from the same streams.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fedsel.compiled import kernel
from fedsel.engine.arithmetic import dot, prefetch, sigmoid
from fedsel.executors.kernel import RankTable, SymbolTable, draw_dimension, draw_symbol
from fedsel.executors.words import STATE, below, new_stream
from fedsel.mechanisms.laws import BOTTOM

FULL, PICKS, PROJECTED = 0, 1, 2
LOGISTIC, HINGE = 0, 1
_AHEAD = 8


class Records(NamedTuple):
    """Records as the kernel reads them: dense rows, or the three arrays of CSR.

    Client i holds the records order[starts[i]] … order[starts[i+1]−1]; with no ``starts`` each
    client holds the record of its own number.
    """

    dense: NDArray[np.float32]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float32]
    labels: NDArray[np.int8]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]


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


@numba.njit(inline="always")
def slope(loss: Any, margin: Any, label: Any) -> Any:
    """Derivative of the loss by the margin x·w."""
    y = np.float64(label)
    if loss == LOGISTIC:
        return -y * sigmoid(-y * np.float64(margin))
    return -y if y * np.float64(margin) < 1.0 else 0.0


@numba.njit(inline="always")
def add_gradient(
    records: Any, row: Any, loss: Any, weights: Any, share: Any, gradient: Any
) -> None:
    """Add share · (gradient of one record's loss), without the regulariser."""
    if records.indptr.shape[0] == 0:
        x = records.dense[row]
        c = np.float32(slope(loss, dot(x, weights), records.labels[row]) * share)
        for i in range(x.shape[0]):
            gradient[i] += c * x[i]
        return
    start, end = records.indptr[row], records.indptr[row + 1]
    margin = 0.0
    for p in range(start, end):
        margin += np.float64(records.data[p]) * np.float64(weights[records.indices[p]])
    c = np.float32(slope(loss, np.float32(margin), records.labels[row]) * share)
    for p in range(start, end):
        gradient[records.indices[p]] += c * records.data[p]


@numba.njit(inline="always")
def client_gradient(
    records: Any, client: Any, loss: Any, weights: Any, decay: Any, rate: Any, gradient: Any
) -> None:
    """gradient ← rate · (mean gradient of the client's records + λw); decay is rate · λw."""
    d = weights.shape[0]
    if records.starts.shape[0] == 0:
        if records.indptr.shape[0] == 0:  # one dense record: one pass less
            x = records.dense[client]
            c = np.float32(slope(loss, dot(x, weights), records.labels[client]) * rate)
            for i in range(d):
                gradient[i] = c * x[i] + decay[i]
            return
        gradient[:] = decay
        add_gradient(records, client, loss, weights, rate, gradient)
        return
    gradient[:] = decay
    start, end = records.starts[client], records.starts[client + 1]
    for p in range(start, end):
        add_gradient(records, records.order[p], loss, weights, rate / (end - start), gradient)


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
def next_distinct(drawn: Any, count: Any, d: Any, words: Any) -> Any:
    """A dimension not drawn before; ``drawn`` stays in ascending order."""
    j = below(words, d - count)
    place = count
    for i in range(count):
        if j >= drawn[i]:
            j += 1
        else:
            place = i
            break
    for i in range(count, place, -1):
        drawn[i] = drawn[i - 1]
    drawn[place] = j
    return j


@numba.njit(inline="always")
def send_picks(
    plan: Any, r: Any, before: Any, words: Any, drawn: Any, sent: Any, total: Any
) -> None:
    """Report (dimension, symbol) pairs of r, and add what the server decodes of them."""
    for p in range(plan.picks):
        if plan.picks == 1:
            j = draw_dimension(plan.ranks, r, words)
        else:
            j = next_distinct(drawn, p, r.shape[0], words)
        sent[2 * p] = j
        if j == BOTTOM:
            return
        s = np.float64(r[j])
        if before.shape[0]:
            s += plan.momentum * np.float64(before[j])
        if plan.plain:
            total[j] += plan.scale * s
            continue
        t = max(-plan.clip, min(plan.clip, s)) / plan.clip
        symbol = draw_symbol(plan.symbols, t, words)
        sent[2 * p + 1] = symbol
        total[j] += plan.scale * plan.clip * decode_symbol(plan, symbol)


@numba.njit(inline="always")
def send_projected(plan: Any, g: Any, words: Any, sent: Any, total: Any) -> None:
    """Report one coordinate of the projection of g."""
    q = plan.projection.shape[0]
    j = below(words, q)
    z = 0.0
    for i in range(g.shape[0]):
        z += np.float64(plan.projection[j, i]) * np.float64(g[i])
    t = max(-plan.clip, min(plan.clip, z)) / plan.clip
    symbol = draw_symbol(plan.symbols, t, words)
    sent[0], sent[1] = j, symbol
    total[j] += q * plan.clip * decode_symbol(plan, symbol)


@kernel
def run_round(
    records: Any,
    plan: Any,
    loss: Any,
    clients: Any,
    weights: Any,
    decay: Any,
    rate: Any,
    residual: Any,
    key: Any,
    epoch: Any,
    sent: Any,
    total: Any,
) -> None:
    """All clients of a round: total ← the sum of what the server decodes.

    residual (N, d) is read and written for each client; empty, there is none. sent (n, 2·picks)
    receives the reports, as (dimension, symbol) pairs.
    """
    d = weights.shape[0]
    gradient = np.empty(d, dtype=np.float32)
    drawn = np.empty(plan.picks, dtype=np.int64)
    words = np.empty(STATE, dtype=np.uint64)
    nothing = np.empty(0, dtype=np.float32)
    total[:] = 0.0
    last = clients.shape[0] - 1
    for n in range(last + 1):
        client = clients[n]
        if records.starts.shape[0] == 0 and records.indptr.shape[0] == 0:
            prefetch(records.dense[clients[min(n + _AHEAD, last)]])
        client_gradient(records, client, loss, weights, decay, rate, gradient)
        if plan.kind == FULL:
            for i in range(d):
                total[i] += gradient[i]
            continue
        new_stream(words, key, epoch, client)
        if plan.kind == PROJECTED:
            send_projected(plan, gradient, words, sent[n], total)
            continue
        if residual.shape[0] == 0:
            send_picks(plan, gradient, nothing, words, drawn, sent[n], total)
            continue
        before = residual[client]
        for i in range(d):
            gradient[i] += before[i]
        send_picks(plan, gradient, before, words, drawn, sent[n], total)
        before[:] = gradient
        if sent[n, 0] != BOTTOM:
            before[sent[n, 0]] = 0


@kernel
def shuffle(order: Any, key: Any, epoch: Any) -> None:
    """A uniformly random order of the clients, the same on every machine (Fisher and Yates)."""
    words = np.empty(STATE, dtype=np.uint64)
    new_stream(words, key, epoch, 0)
    for i in range(order.shape[0] - 1, 0, -1):
        j = below(words, i + 1)
        order[i], order[j] = order[j], order[i]


@kernel
def drop(stays: Any, rate: Any, key: Any, epoch: Any) -> None:
    """Mark the clients that do not answer in an epoch, each by a stream of its own."""
    words = np.empty(STATE, dtype=np.uint64)
    limit = np.int64(rate * 2.0**32)
    for client in range(stays.shape[0]):
        new_stream(words, key, epoch, client)
        stays[client] = below(words, 1 << 32) >= limit
