"""Drawing by rank with numba: count, accept by weight, no sort and no allocation.

Drawing a dimension first needs at most e^ε attempts, whatever the law: an ε-private law is nearly
uniform, so the privacy bound itself bounds the sampler. Each pass over a vector is branch-free.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from fedsel.mechanisms.laws import RankLaw
from fedsel.reports import BOTTOM
from fedsel.sampling.kernels.streams import below, divide, inverse, next_word

_SAMPLES = 16
_PATIENCE = 8
_BLOCK = 64


class RankTable(NamedTuple):
    """A `RankLaw` as the kernel reads it; a ``threshold`` law raises its first ranks, alike."""

    weights: NDArray[np.int64]
    edges: NDArray[np.int64]
    cumulative: NDArray[np.int64]
    total: int
    bottom: int
    maximum: int
    minimum: int
    uniform: bool
    inverse: np.uint64
    by_rejection: bool
    dense: bool
    threshold: bool


def rank_table(law: RankLaw) -> RankTable:
    """A `RankLaw` as the kernel reads it; what it will not read stays empty."""
    unused = np.empty(0, dtype=np.int64)
    # As the law's own arrays are: kernels are compiled for each kind of array that they meet.
    unused.flags.writeable = False
    return RankTable(
        law.weights,
        unused if law.dense and law.by_rejection else law.edges,
        unused if law.by_rejection else law.cumulative,
        law.total,
        law.bottom,
        law.maximum,
        law.minimum,
        law.uniform,
        np.uint64(inverse(law.maximum)),
        law.by_rejection,
        law.dense,
        not law.dense and len(law.weights) == 2 and law.weights[0] > law.weights[1],
    )


@numba.njit
def count_above(vector: Any, pivot: Any) -> Any:
    """How many magnitudes are larger than the pivot."""
    larger = 0
    for i in range(vector.shape[0]):
        larger += abs(vector[i]) > pivot
    return larger


@numba.njit
def count_equal(vector: Any, pivot: Any) -> Any:
    """How many magnitudes equal the pivot."""
    equal = 0
    for i in range(vector.shape[0]):
        equal += abs(vector[i]) == pivot
    return equal


@numba.njit
def largest_up_to(vector: Any, bound: Any) -> Any:
    """The largest magnitude that is not above the bound; 0 if there is none."""
    zero = vector.dtype.type(0)
    found = zero
    for i in range(vector.shape[0]):
        m = abs(vector[i])
        found = max(found, m if m <= bound else zero)
    return found


@numba.njit(error_model="numpy")
def magnitude_at(rank: Any, vector: Any) -> Any:
    """The magnitude of a rank (0 is the largest), by closing in on it: low < it ≤ high.

    Counting passes run at the speed of the processor's vectors, and a few suffice; a sort or a
    partition takes as long as dozens of them.
    """
    kind = vector.dtype.type
    low, above_low = kind(0), count_above(vector, kind(0))
    if rank >= above_low:
        return low
    high = kind(0)
    for i in range(0, vector.shape[0], max(1, vector.shape[0] // _SAMPLES)):
        high = max(high, abs(vector[i]))
    if high == 0:
        high = largest_up_to(vector, kind(np.inf))
    above_high = count_above(vector, high)
    while above_high > rank:
        low, above_low = high, above_high
        high *= kind(2)
        above_high = count_above(vector, high)
    turn = 0
    while above_low - above_high > 1:
        turn += 1
        share = 0.5
        if turn % 2:  # as if the counts fell exponentially
            share = np.log(above_low / (rank + 0.5)) / np.log(above_low / (above_high + 0.5))
        pivot = low + (high - low) * kind(share)
        if turn % _PATIENCE and low < pivot < high:
            above = count_above(vector, pivot)
            if above > rank:
                low, above_low = pivot, above
            else:
                high, above_high = pivot, above
        else:  # many equal ones: step from one magnitude to the next smaller
            high = largest_up_to(vector, high)
            passed = above_high + count_equal(vector, high)
            if passed > rank:
                return high
            high, above_high = kind(np.nextafter(high, low)), passed
    return largest_up_to(vector, high)


@numba.njit(inline="always")
def magnitude_of(vector: Any, j: Any, sign: Any) -> Any:
    """The magnitude by which j is ranked: |v_j|, or with a sign ±1 of the signed atom j < 2d.

    The atoms of dimension j are max(sign·v_j, 0) and, d places later, max(−sign·v_j, 0).
    """
    d = vector.shape[0]
    if sign == 0:
        return abs(vector[j])
    return max(sign * (vector[j] if j < d else -vector[j - d]), vector.dtype.type(0))


@numba.njit
def find_equal(vector: Any, sign: Any, pivot: Any, pick: Any) -> Any:
    """The place of the pick-th of the d magnitudes that equal the pivot; −1 − how many there are.

    Whole blocks are counted first, branch-free.
    """
    d, left, i = vector.shape[0], pick, 0
    while i + _BLOCK <= d:
        equal = 0
        for j in range(i, i + _BLOCK):
            equal += magnitude_of(vector, j, sign) == pivot
        if left < equal:
            break
        left -= equal
        i += _BLOCK
    while i < d:
        if magnitude_of(vector, i, sign) == pivot:
            if left == 0:
                return i
            left -= 1
        i += 1
    return left - pick - 1


@numba.njit(error_model="numpy", inline="always")
def draw_ranked(table: Any, vector: Any, sign: Any, words: Any, taken: Any) -> Any:
    """A dimension by the law over the ranks of its magnitude (BOTTOM for ⊥), and words taken.

    With a sign of ±1 it is one of the 2d signed atoms of `magnitude_of`.

    A rank among equals takes a word; where it cannot matter that word is passed over (`below` would
    take a second with probability under 2^−30). Nothing is counted for a level below every weight,
    nor in a threshold law for a magnitude up to one that was found outside of the top.
    """
    d, zero = vector.shape[0], vector.dtype.type(0)
    atoms = d if sign == 0 else 2 * d
    j = np.int64(BOTTOM)
    abstains = False
    if table.bottom:
        toss, taken = below(words, taken, table.total + table.bottom)
        abstains = toss >= table.total
    if table.by_rejection:
        searching, outside = not abstains, zero - 1
        while searching:
            x, taken = below(words, taken, atoms * table.maximum)
            j = divide(x, table.maximum, table.inverse)
            level = x - j * table.maximum
            if table.uniform:
                break
            m = magnitude_of(vector, j, sign)
            if level < table.minimum or m <= outside:
                _, taken = next_word(words, taken)
                searching = level >= table.minimum
                continue
            larger = count_above(vector, m)
            if table.threshold and larger >= table.edges[0]:
                _, taken = next_word(words, taken)
                outside = m
                continue
            equal = count_equal(vector, m)
            if sign != 0 and m == 0:
                equal = atoms - larger
            above, taken = below(words, taken, equal)
            rank = larger + above
            run = rank if table.dense else 0
            while not table.dense and rank >= table.edges[run]:
                run += 1
            searching = level >= table.weights[run]
    elif not abstains:
        x, taken = below(words, taken, table.total)
        run = np.searchsorted(table.cumulative, x, side="right")
        # Count back from the end of the run: the positions left, over the weight of each rank.
        rank = table.edges[run] - 1 - (table.cumulative[run] - 1 - x) // table.weights[run]
        pivot = magnitude_at(rank, vector) if rank < d else zero
        equal = count_equal(vector, pivot)
        if sign != 0 and pivot == 0:
            equal = atoms - count_above(vector, pivot)
        pick, taken = below(words, taken, equal)
        j = np.int64(find_equal(vector, sign, pivot, pick))
        if j < 0:
            j = np.int64(d + find_equal(vector, -sign, pivot, pick + j + 1))
    return j, taken
