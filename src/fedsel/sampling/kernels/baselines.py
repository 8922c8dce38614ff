"""The reports of baselines with numba: in floats, from the same streams."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.mechanisms import ReportMechanism
from fedsel.sampling.kernels.arithmetic import dot
from fedsel.sampling.kernels.ranks import count_above, count_equal, magnitude_at
from fedsel.sampling.kernels.streams import below, next_word
from fedsel.solutions.baselines import PrivUnit, SignDS


class BaselineTable(NamedTuple):
    """A baseline as the kernel reads it; ``radius`` is 0 where none is turned round.

    ``quantiles`` (2, knots) of PrivUnit; ``shares`` (h + 1,), cumulated, and ``top`` of sets.
    """

    inside: float
    radius: float
    quantiles: NDArray[np.float64]
    shares: NDArray[np.float64]
    top: int


NO_BASELINE = BaselineTable(0.0, 0.0, np.empty((0, 0)), np.empty(0), 0)


def baseline_table(mechanism: ReportMechanism) -> BaselineTable:
    """A baseline as the kernel reads it."""
    if isinstance(mechanism, PrivUnit):
        quantiles = np.array(mechanism.quantiles)
        radius = float(mechanism.radius or 0.0)
        return NO_BASELINE._replace(inside=mechanism.inside, radius=radius, quantiles=quantiles)
    if not isinstance(mechanism, SignDS):
        raise InvalidArgument("mechanism", mechanism, "a baseline of fedsel.solutions.baselines")
    shares = np.cumsum(mechanism.shares(mechanism.size, mechanism.threshold))
    return NO_BASELINE._replace(shares=shares, top=mechanism.top)


@numba.njit(inline="always")
def uniform(words: Any, taken: Any) -> Any:
    """A float in [0, 1), and words taken."""
    word, taken = next_word(words, taken)
    return np.float64(word >> np.uint64(11)) * 2.0**-53, taken


@numba.njit(inline="always")
def log(x: Any) -> Any:
    """ln x for x > 0 within 1e-14, the same bits on every machine."""
    m, e = math.frexp(x)
    if m < 0.7071067811865476:
        m, e = 2.0 * m, e - 1
    s = (m - 1.0) / (m + 1.0)
    z, p = s * s, 0.0
    for n in range(21, 0, -2):
        p = p * z + 1.0 / n
    return 2.0 * s * p + e * 0.6931471805599453


@numba.njit
def fill_normal(out: Any, words: Any, taken: Any) -> Any:
    """Independent standard normal entries, two at a time (Marsaglia's polar method)."""
    i, n = 0, out.shape[0]
    while i < n:
        u, taken = uniform(words, taken)
        v, taken = uniform(words, taken)
        u, v = 2.0 * u - 1.0, 2.0 * v - 1.0
        s = u * u + v * v
        if 0.0 < s < 1.0:
            f = math.sqrt(-2.0 * log(s) / s)
            out[i] = u * f
            if i + 1 < n:
                out[i + 1] = v * f
            i += 2
    return taken


@numba.njit(inline="always")
def send_direction(table: Any, scale: Any, g: Any, noise: Any, words: Any, total: Any) -> None:
    """Report a vector on the sphere: near the direction of g, the rest of it at random."""
    d, knots = g.shape[0], table.quantiles.shape[1] - 1
    length = math.sqrt(np.float64(dot(g, g)))
    sign, taken = 1.0, 0
    if table.radius > 0:
        u, taken = uniform(words, taken)
        if u >= 0.5 + min(1.0, length / table.radius) / 2:
            sign = -1.0
    u, taken = uniform(words, taken)
    row = 1 if u < table.inside else 0
    u, taken = uniform(words, taken)
    place = u * knots
    knot = np.int64(place)
    left, right = table.quantiles[row, knot], table.quantiles[row, knot + 1]
    along = left + (right - left) * (place - knot)
    taken = fill_normal(noise, words, taken)
    if length == 0:  # any direction: the noise is one
        share, along = scale / math.sqrt(np.float64(dot(noise, noise))), 0.0
    else:
        shared = np.float64(dot(noise, g)) / (length * length)
        for i in range(d):
            noise[i] -= np.float32(shared * g[i])
        across = math.sqrt(max(0.0, 1.0 - along * along))
        share = scale * across / math.sqrt(np.float64(dot(noise, noise)))
        along *= scale * sign / length
    for i in range(d):
        total[i] += along * g[i] + share * noise[i]


@numba.njit(inline="always")
def send_set(table: Any, scale: Any, g: Any, shifted: Any, words: Any, total: Any) -> None:
    """Report a sign and h dimensions, some of them of the signed top k."""
    d, sizes = g.shape[0], table.shares.shape[0]
    toss, taken = below(words, 0, 2)
    sign = g.dtype.type(1 - 2 * toss)
    lowest = sign * g[0]
    for i in range(d):
        lowest = min(lowest, sign * g[i])
    for i in range(d):  # not negative, and in the same order
        shifted[i] = sign * g[i] - lowest
    pivot = magnitude_at(table.top - 1, shifted)
    u, taken = uniform(words, taken)
    hits = 0
    while hits < sizes - 2 and u >= table.shares[hits]:
        hits += 1
    if u >= table.shares[hits]:
        hits += 1
    ties = count_equal(shifted, pivot)
    tied = table.top - count_above(shifted, pivot)
    wanted, left = hits, table.top
    others, rest = sizes - 1 - hits, d - table.top
    for i in range(d):
        above = shifted[i] > pivot
        if shifted[i] == pivot:
            place, taken = below(words, taken, ties)
            above = place < tied
            ties -= 1
            tied -= above
        if above:
            place, taken = below(words, taken, left)
            chosen = place < wanted
            left -= 1
            wanted -= chosen
        else:
            place, taken = below(words, taken, rest)
            chosen = place < others
            rest -= 1
            others -= chosen
        if chosen:
            total[i] += sign * scale


@numba.njit(inline="always")
def send_baseline(table: Any, scale: Any, g: Any, room: Any, words: Any, total: Any) -> None:
    """The report of a baseline on g, added to the total."""
    if table.shares.shape[0]:
        send_set(table, scale, g, room, words, total)
    else:
        send_direction(table, scale, g, room, words, total)
