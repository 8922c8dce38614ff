"""One epoch of Algorithm 1 in one call: gradient, accumulation, selection, perturbation, step.

The client's side ends with its report, integers; what follows adds up and decodes. Both sides
stand in one loop only so that a simulation runs at memory speed: reports are those of
`Solution.encode` on the same words, the step is that of `fedsel.server.step`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fedsel.sampling.kernels.arithmetic import dot, exp, prefetch, sigmoid
from fedsel.sampling.kernels.compiler import kernel, lean_kernel
from fedsel.sampling.kernels.report import clear, fill_mean, send_report
from fedsel.sampling.kernels.streams import STATE, below, new_stream

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


_NO_INTEGERS = np.empty(0, dtype=np.int64)


def records_of(
    X: Any,
    y: NDArray[np.int8],
    order: NDArray[np.int64] | None = None,
    starts: NDArray[np.int64] | None = None,
) -> Records:
    """Records X (N, d), dense float32 or CSR, as the kernel reads them."""
    sparse = hasattr(X, "indptr")
    return Records(
        dense=np.empty((0, X.shape[1]), dtype=np.float32) if sparse else np.asarray(X),
        indptr=X.indptr.astype(np.int64) if sparse else _NO_INTEGERS,
        indices=X.indices.astype(np.int32) if sparse else np.empty(0, dtype=np.int32),
        data=X.data.astype(np.float32) if sparse else np.empty(0, dtype=np.float32),
        labels=np.asarray(y, dtype=np.int8),
        order=_NO_INTEGERS if order is None else np.asarray(order, dtype=np.int64),
        starts=_NO_INTEGERS if starts is None else np.asarray(starts, dtype=np.int64),
    )


@numba.njit(inline="always")
def slope(loss: Any, margin: Any, label: Any) -> Any:
    """Derivative of the loss by the margin x·w."""
    y = np.float64(label)
    if loss == LOGISTIC:
        return -y * sigmoid(-y * margin)
    return -y if y * margin < 1.0 else 0.0


@numba.njit(inline="always")
def margin_of(records: Any, row: Any, weights: Any) -> Any:
    """x · w of one record."""
    if records.indptr.shape[0] == 0:
        return np.float64(dot(records.dense[row], weights))
    margin = 0.0
    for p in range(records.indptr[row], records.indptr[row + 1]):
        margin += np.float64(records.data[p]) * np.float64(weights[records.indices[p]])
    return margin


@numba.njit(inline="always")
def add_gradient(
    records: Any, row: Any, loss: Any, weights: Any, share: Any, gradient: Any
) -> None:
    """Add share · (gradient of one record's loss), without the regulariser."""
    c = np.float32(slope(loss, margin_of(records, row, weights), records.labels[row]) * share)
    if records.indptr.shape[0] == 0:
        for i in range(gradient.shape[0]):
            gradient[i] += c * records.dense[row, i]
    else:
        for p in range(records.indptr[row], records.indptr[row + 1]):
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
            margin = np.float64(dot(x, weights))
            c = np.float32(slope(loss, margin, records.labels[client]) * rate)
            for i in range(d):
                gradient[i] = c * x[i] + decay[i]
            return
        for i in range(d):
            gradient[i] = decay[i]
        add_gradient(records, client, loss, weights, rate, gradient)
        return
    for i in range(d):
        gradient[i] = decay[i]
    start, end = records.starts[client], records.starts[client + 1]
    for p in range(start, end):
        add_gradient(records, records.order[p], loss, weights, rate / (end - start), gradient)


@lean_kernel
def run_rounds(
    records: Any,
    tables: Any,
    loss: Any,
    reg: Any,
    factor: Any,
    rate: Any,
    decay_of_server: Any,
    clients: Any,
    ends: Any,
    weights: Any,
    residual: Any,
    key: Any,
    epoch: Any,
    scratch: Any,
    sent: Any,
    trace: Any,
) -> None:
    """Several rounds: in round t the clients up to ends[t] report, and the server steps.

    Clients report on ``factor`` times their gradient; ``rate`` and ``decay_of_server`` are those of
    `StepRule`. residual (N, d) is read and written for each client; empty, there is none. sent (n,
    2·picks) receives the reports as (slot, symbol) pairs; with one row, only the last is kept.
    trace (rounds, d) receives the weights after each round, unless it is empty.
    """
    d = weights.shape[0]
    w, decay, gradient, mean = scratch.weights, scratch.decay, scratch.gradient, scratch.mean
    dense = records.starts.shape[0] == 0 and records.indptr.shape[0] == 0
    n, last = 0, clients.shape[0] - 1
    for t in range(ends.shape[0]):
        start = n
        clear(scratch)
        for i in range(d):
            w[i] = weights[i]
            decay[i] = 0.0 if tables.decays_at_server else factor * reg * weights[i]
        while n < ends[t]:
            client = clients[n]
            if dense:
                prefetch(records.dense[clients[min(n + _AHEAD, last)]])
            client_gradient(records, client, loss, w, decay, factor, gradient)
            row = n if sent.shape[0] > 1 else 0
            send_report(tables, t, gradient, residual, client, key, epoch, scratch, sent, row)
            n += 1
        if n > start:
            fill_mean(tables, t, n - start, scratch)
            if decay_of_server:
                for i in range(d):
                    weights[i] -= decay_of_server * weights[i]
            for i in range(d):
                weights[i] -= rate * mean[i]
        if trace.shape[0]:
            for i in range(d):
                trace[t, i] = weights[i]


@kernel
def shuffle(order: Any, key: Any, epoch: Any) -> None:
    """A uniformly random order of the clients, the same on every machine (Fisher and Yates)."""
    words = np.empty(STATE, dtype=np.uint64)
    taken = new_stream(words, key, epoch, 0)
    for i in range(order.shape[0] - 1, 0, -1):
        j, taken = below(words, taken, i + 1)
        order[i], order[j] = order[j], order[i]


@kernel
def drop(stays: Any, rate: Any, key: Any, epoch: Any) -> None:
    """Mark the clients that do not answer in an epoch, each by a stream of its own."""
    words = np.empty(STATE, dtype=np.uint64)
    limit = np.int64(rate * 2.0**32)
    for client in range(stays.shape[0]):
        taken = new_stream(words, key, epoch, client)
        draw, taken = below(words, taken, 1 << 32)
        stays[client] = draw >= limit


@lean_kernel
def judge(records: Any, rows: Any, loss: Any, weights: Any, hits: Any, losses: Any) -> None:
    """Add up right answers and losses of these rows, for each model of weights (models, d)."""
    last = rows.shape[0] - 1
    for n in range(last + 1):
        row = rows[n]
        if records.indptr.shape[0] == 0:
            prefetch(records.dense[rows[min(n + _AHEAD, last)]])
        for m in range(weights.shape[0]):
            margin = margin_of(records, row, weights[m])
            agreement = margin * records.labels[row]
            hits[m] += (margin >= 0) == (records.labels[row] > 0)
            if loss == HINGE:
                losses[m] += max(0.0, 1.0 - agreement)
            else:
                losses[m] += max(-agreement, 0.0) + np.log1p(exp(-min(abs(agreement), 700.0)))
