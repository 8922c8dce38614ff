"""Draw from a law on a device: one vector, integers only, any source of uniform integers.

Every executor draws the same integers in the same order, so the same random words give the same
reports:

1. ⊥: if the law has one, below(total + bottom) ≥ total abstains.
2. By rejection, where few attempts are expected: x = below(d · maximum) is dimension
   j = x // maximum, the answer if all weights are equal. Else, with g larger and t equal
   magnitudes, its rank is g + below(t); accepted if x mod maximum < weight(rank), else again.
   Otherwise by rank: the rank at below(total), and below(t) picks one of those that share its
   magnitude.
3. The window, if there are several: below(sum of coins). The cell: t is an integer in
   0 … INPUT_STEPS; times G, the remainder r rounds up if below(INPUT_STEPS) < r. The symbol:
   x = below(window total) is symbol x // L if x < N·L, else cell + (x − N·L) // (H − L).
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsel.mechanisms._laws import INPUT_STEPS, RankLaw, SymbolLaw
from fedsel.mechanisms._reports import BOTTOM


class Entropy(Protocol):
    """A source of exactly uniform integers."""

    def below(self, n: int, /) -> int:
        """A uniform integer in 0 … n−1."""
        ...


def draw_dimension(law: RankLaw, magnitudes: NDArray[np.floating], entropy: Entropy) -> int:
    """Draw a dimension by the law over the ranks of the magnitudes; BOTTOM for ⊥.

    A uniform law ignores the magnitudes.

    Proof: docs/proofs/sampling.md, D2–D4.
    """
    below, d = entropy.below, law.d
    if law.bottom and below(law.total + law.bottom) >= law.total:
        return BOTTOM
    count = np.count_nonzero
    if law.by_rejection:
        while True:
            j, level = divmod(below(d * law.maximum), law.maximum)
            if law.uniform:
                return j
            larger = int(count(magnitudes > magnitudes[j]))
            equal = int(count(magnitudes == magnitudes[j]))
            if level < law.weight(larger + below(equal)):
                return j
    sharing = np.cumsum(sharing_rank(law.rank_at(below(law.total)), magnitudes))
    return int(np.searchsorted(sharing, below(int(sharing[-1])), side="right"))


def draw_distinct(d: int, picks: int, entropy: Entropy) -> Iterator[int]:
    """Draw ``picks`` of d dimensions uniformly, without replacement.

    Proof: docs/proofs/sampling.md, D6.

    >>> from fedsel._internal.random import stream
    >>> sorted(draw_distinct(3, 3, stream(0, 0, 0)))
    [0, 1, 2]
    """
    drawn: list[int] = []
    for p in range(picks):
        j = int(entropy.below(d - p))
        for earlier in drawn:  # ascending
            j += j >= earlier
        insort(drawn, j)
        yield j


def draw_symbol(law: SymbolLaw, t: float, entropy: Entropy) -> int:
    """Draw a symbol by the law at t in [−1, 1].

    Proof: docs/proofs/sampling.md, D5.
    """
    below = entropy.below
    which = 0
    if len(law.windows) > 1:
        toss = below(sum(law.coins))
        while toss >= law.coins[which]:
            toss -= law.coins[which]
            which += 1
    window = law.windows[which]
    # Python, numpy and C agree on floor(x + 1/2), and on no other rounding.
    steps = math.floor((t + 1.0) * (INPUT_STEPS // 2) + 0.5)
    cell, remainder = divmod(steps * window.G, INPUT_STEPS)
    if below(INPUT_STEPS) < remainder:
        cell += 1
    x = below(window.total)
    base = window.symbols * window.L
    symbol = x // window.L if x < base else cell + (x - base) // (window.H - window.L)
    return law.offsets[which] + symbol


def sharing_rank(rank: int, magnitudes: NDArray[np.floating]) -> NDArray[np.float64]:
    """Mark with 1 the entries that share the magnitude of a rank (0 is the largest).

    Floats ≥ 0 are ordered like their bit patterns, so they are compared byte by byte, most
    significant first, by histograms over all entries. Unlike a sort or a partition this takes the
    same passes for all data.

    >>> sharing_rank(1, np.array([3.0, 0.0, 5.0, 3.0]))
    array([1., 0., 0., 1.])
    """
    # Adding 0.0 turns −0.0, whose bits would rank largest, into 0.0.
    unsigned = magnitudes + magnitudes.dtype.type(0)
    little_endian = np.ascontiguousarray(unsigned, dtype=magnitudes.dtype.newbyteorder("<"))
    digits = little_endian.view(np.uint8).reshape(len(magnitudes), -1)
    sharing = np.ones(len(magnitudes))
    for place in reversed(range(digits.shape[1])):
        digit = digits[:, place]
        larger = np.bincount(digit, sharing, 256)[::-1].cumsum()
        step = int(larger.searchsorted(rank, side="right"))
        rank -= int(larger[step - 1]) if step else 0
        sharing = sharing * (digit == 255 - step)
    return sharing
