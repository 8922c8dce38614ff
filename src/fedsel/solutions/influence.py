"""What one report can do to the mean, whatever its client sends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

_COLUMNS = 1 << 20
"""Entries of a matrix that are copied at a time."""


@final
@dataclass(frozen=True)
class Influence:
    """How far one report moves the sum of all decoded reports: in one entry, and as a vector.

    With n reports it moves their decoded mean by at most ``largest``/n in each entry and by at most
    ``norm``/n in length, against a ⊥ in its place; against an honest report, by at most twice that.

    Proof: docs/proofs/transforms.md, T8.
    """

    largest: float
    norm: float

    def times(self, factor: float) -> Influence:
        """That of a report whose pairs are worth ``factor`` times as much."""
        return Influence(factor * self.largest, factor * self.norm)


def influence_of(rows: NDArray[np.float64], picks: int) -> Influence:
    """That of ``picks`` pairs ±1 in distinct slots, where slot j adds rows[j] of (M, d).

    The largest entry is exact: in each column the entries of greatest magnitude add up, their signs
    chosen alike. The norm is exact for one pick and for orthogonal rows of one length. For several
    picks of other rows it is an upper bound, the smaller one of two: the longest rows in one line,
    and √picks times the largest singular value. The exact one would be a search over all sets.

    >>> influence_of(np.array([[3.0, 4.0], [1.0, 0.0]]), picks=1)
    Influence(largest=4.0, norm=5.0)
    >>> influence_of(np.eye(3), picks=2) == Influence(1.0, math.sqrt(2))
    True
    """
    step = max(1, _COLUMNS // len(rows))
    blocks = (np.abs(rows[:, at : at + step]) for at in range(0, rows.shape[1], step))
    largest = max(float(_top(block, picks).sum(axis=0).max()) for block in blocks)
    lengths = np.sqrt(np.einsum("ji,ji->j", rows, rows))
    norm = float(_top(lengths, picks).sum())
    if picks > 1:
        norm = min(norm, math.sqrt(picks) * float(np.linalg.norm(rows, 2)))
    return Influence(largest, norm)


def _top(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """The largest of each column."""
    return np.partition(values, -count, axis=0)[-count:]
