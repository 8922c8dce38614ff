"""One epoch of Algorithm 1 in one call: gradient, accumulation, selection, perturbation, step.

The client's side ends with its report, an integer dimension and symbol; what follows decodes. Both
sides stand in one loop only so that a simulation runs at memory speed: draws are those of
`fedsel.sampling`, in the same order and from the same streams.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fedsel.sampling.compiled_streams import STATE, below, new_stream
from fedsel.sampling.compiler import kernel, lean_kernel
from fedsel.simulation.kernels.arithmetic import copy_from, dot, exp, prefetch, sigmoid
from fedsel.simulation.kernels.report import send_report, take_step

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
    plan: Any,
    loss: Any,
    reg: Any,
    rate: Any,
    step: Any,
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
    """Several rounds: in round t the clients up to ends[t] report, and w ← w − step · mean.

    residual (N, d) is read and written for each client; empty, there is none. sent (n, 2·picks)
    receives the reports as (dimension, symbol) pairs; with one row, only the last is kept. trace
    (rounds, d) receives the weights after each round, unless it is empty.
    """
    d = weights.shape[0]
    w, decay, gradient, total = scratch.weights, scratch.decay, scratch.gradient, scratch.total
    dense = records.starts.shape[0] == 0 and records.indptr.shape[0] == 0
    n, last = 0, clients.shape[0] - 1
    for t in range(ends.shape[0]):
        start = n
        for i in range(total.shape[0]):
            total[i] = 0.0
        for i in range(d):
            w[i] = weights[i]
            decay[i] = 0.0 if plan.decays_at_server else rate * reg * weights[i]
        while n < ends[t]:
            client = clients[n]
            if dense:
                prefetch(records.dense[clients[min(n + _AHEAD, last)]])
            client_gradient(records, client, loss, w, decay, rate, gradient)
            row = n if sent.shape[0] > 1 else 0
            send_report(plan, t, gradient, residual, client, key, epoch, scratch, sent, row)
            n += 1
        if n > start and plan.decays_at_server:
            for i in range(d):
                weights[i] -= step * reg * weights[i]
        if n > start:
            take_step(plan, t, total, step / (n - start), weights, scratch.turned)
        if trace.shape[0]:
            for i in range(d):
                trace[t, i] = weights[i]


@lean_kernel
def send_vectors(
    addresses: Any,
    sizes: Any,
    factors: Any,
    plan: Any,
    clients: Any,
    residual: Any,
    key: Any,
    epoch: Any,
    scratch: Any,
    sent: Any,
) -> Any:
    """The reports of clients on vectors computed elsewhere, added to the total.

    A vector lies in parts, as a model's parameters do: part p of client n begins at addresses[p] +
    4·n·sizes[p]. Each is put together, times factors (d,) unless they are empty, in room that
    stays in the processor's cache. Returns how many clients reported: it stops at one whose vector
    is not finite.
    """
    vector = scratch.gradient
    for n in range(clients.shape[0]):
        start, wrong = 0, 0
        for p in range(sizes.shape[0]):
            copy_from(addresses[p] + np.uint64(4 * n * sizes[p]), vector, start, sizes[p])
            start += sizes[p]
        for i in range(factors.shape[0]):
            vector[i] *= factors[i]
        if not dot(vector, vector) < np.inf:  # the square of a finite entry may overflow, too
            for i in range(vector.shape[0]):
                wrong += not abs(vector[i]) < np.inf
            if wrong:
                return n
        row = n if sent.shape[0] > 1 else 0
        send_report(plan, 0, vector, residual, clients[n], key, epoch, scratch, sent, row)
    return clients.shape[0]


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
