"""The two kinds of law of which fedsel's mechanisms consist, as integer weights.

A selection is a `RankLaw`, a value perturbation a `SymbolLaw`. The weights *are* the mechanism:
samplers draw from these integers, and certificates and variances are computed from them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.exact import WEIGHT_BUDGET
from fedsel.errors import InvalidArgument

INPUT_STEPS = 1 << 31
"""A value t in [−1, 1] enters a mechanism as the integer nearest to (t + 1)/2 · INPUT_STEPS."""

REJECTION_LIMIT = 16
"""Samplers use rejection if it takes at most this many attempts on average."""


class RankLaw:
    """The probability of reporting the dimension of rank 0 … d−1 (0 = largest), or ⊥.

    Equal weights are stored as runs: ``weights[i]`` holds for ``counts[i]`` consecutive ranks (one
    by default), so a threshold law over ten million dimensions takes two runs.

    Proof: docs/proofs/selection.md, R1, R2.

    >>> law = RankLaw(weights=[3, 1], counts=[1, 3])
    >>> law.d, law.total, law.weight(0), law.weight(3)
    (4, 6, 3, 1)
    >>> [str(p) for p in law.over([0.0, -2.0, 1.0, 1.0])]
    ['1/6', '1/2', '1/6', '1/6']
    """

    def __init__(
        self,
        weights: Sequence[int] | NDArray[np.int64],
        counts: Sequence[int] | None = None,
        bottom: int = 0,
    ) -> None:
        self.weights = _sealed(_integers("weights", weights))
        self.counts = _sealed(
            np.broadcast_to(np.int64(1), len(self.weights))
            if counts is None
            else _integers("counts", counts)
        )
        self.bottom = int(bottom)
        if len(self.counts) != len(self.weights):
            raise ValueError("a rank law needs as many counts as weights")
        if self.weights.min() < 0 or self.counts.min() < 1 or self.bottom < 0:
            raise ValueError("a rank law needs weights ≥ 0, counts ≥ 1 and bottom ≥ 0")
        self.d = int(self.counts.sum())
        self.dense = len(self.weights) == self.d
        # Estimated in floats first: an integer sum could silently wrap around.
        rough = float(self.weights.astype(float) @ self.counts)
        self.total = int(self.weights @ self.counts) if rough < 2.0**62 else 1 << 62
        if not 0 < self.total <= WEIGHT_BUDGET or self.bottom > WEIGHT_BUDGET:
            raise ValueError("the weights of a rank law must sum to 1 … 2^59")
        self.maximum, self.minimum = int(self.weights.max()), int(self.weights.min())
        self.uniform = self.maximum == self.minimum
        self.by_rejection = self.d * self.maximum <= REJECTION_LIMIT * self.total
        """Whether samplers draw a dimension first, else a rank. The choice is public."""
        self._complete = True

    def __setattr__(self, name: str, value: object) -> None:
        # Laws are cached and shared, so changing one would invalidate its certificate.
        if getattr(self, "_complete", False):
            raise AttributeError(f"a rank law cannot be changed: {name}")
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RankLaw)
            and self.bottom == other.bottom
            and np.array_equal(self.weights, other.weights)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """``edges[i]`` is the number of ranks in the runs 0 … i."""
        return _sealed(np.cumsum(self.counts))

    @cached_property
    def cumulative(self) -> NDArray[np.int64]:
        """``cumulative[i]`` is the total weight of the runs 0 … i."""
        return _sealed(np.cumsum(self.weights * self.counts))

    def weight(self, rank: int) -> int:
        run = rank if self.dense else bisect_right(self.edges, rank)
        return int(self.weights[run])

    def rank_at(self, position: int) -> int:
        """The rank whose interval of cumulative weight contains ``position`` in 0 … total−1."""
        i = int(np.searchsorted(self.cumulative, position, side="right"))
        before = int(self.cumulative[i]) - int(self.weights[i]) * int(self.counts[i])
        start = int(self.edges[i]) - int(self.counts[i])
        return start + (position - before) // int(self.weights[i])

    def probability(self, rank: int) -> Fraction:
        return Fraction(self.weight(rank), self.total + self.bottom)

    @property
    def bottom_probability(self) -> Fraction:
        """P[⊥], which is the same for every input."""
        return Fraction(self.bottom, self.total + self.bottom)

    def over(self, vector: Sequence[float] | Sequence[Fraction]) -> list[Fraction]:
        """Exact probability of each dimension of a vector, by magnitude.

        Equal magnitudes are ordered uniformly at random: with g larger ones and a tie group of t
        (itself included), a dimension gets the mean of the law over the ranks g … g+t−1.
        """
        magnitudes = [abs(Fraction(v)) for v in vector]
        if len(magnitudes) != self.d:
            raise ValueError(f"the law is over {self.d} ranks, the vector has {len(magnitudes)}")
        result = []
        for m in magnitudes:
            larger = sum(other > m for other in magnitudes)
            ties = sum(other == m for other in magnitudes)
            mean = sum((self.probability(larger + i) for i in range(ties)), Fraction(0)) / ties
            result.append(mean)
        return result


def _integers(name: str, values: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    array = np.array(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"the {name} of a rank law must be integers, at least one")
    return array.astype(np.int64)


def _sealed(array: NDArray[np.int64]) -> NDArray[np.int64]:
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Window:
    """Input cells 0 … G, symbols 0 … N−1 with N = G + W; weight H for g ≤ symbol < g + W, else L.

    Every cell has the same total W·H + G·L, so the loss is ln(H/L) at most. With
    η = W(H−L)/(W·H + G·L) and κ = 1/(ηG) the decoded κ(2·symbol − N + 1) is exactly unbiased at
    t_g = −1 + 2g/G; between two cells t is rounded to one of them, unbiased.

    Proof: docs/proofs/values.md, W1–W5.

    >>> w = Window(G=1, W=1, L=1, H=3)                 # randomised response
    >>> w.total, w.decode(1), w.variance(Fraction(0))
    (4, Fraction(2, 1), Fraction(4, 1))
    """

    G: int
    W: int
    L: int
    H: int

    def __post_init__(self) -> None:
        if not (1 <= self.G <= INPUT_STEPS and self.W >= 1 and 0 <= self.L < self.H):
            raise ValueError(f"a window needs 1 ≤ G ≤ 2^31, W ≥ 1 and 0 ≤ L < H, not {self!r}")
        if self.W * self.H + self.G * self.L > WEIGHT_BUDGET:
            raise ValueError(f"the weights of a window must sum to at most 2^59, not {self!r}")

    @cached_property
    def symbols(self) -> int:
        return self.G + self.W

    @cached_property
    def total(self) -> int:
        return self.W * self.H + self.G * self.L

    @property
    def eta(self) -> Fraction:
        return Fraction(self.W * (self.H - self.L), self.total)

    @property
    def kappa(self) -> Fraction:
        return 1 / (self.eta * self.G)

    @property
    def bound(self) -> Fraction:
        """The largest decoded magnitude."""
        return self.kappa * (self.symbols - 1)

    def weights(self, cell: int) -> NDArray[np.int64]:
        """Integer weight of each symbol for an input cell in 0 … G."""
        weights = np.full(self.symbols, self.L, dtype=np.int64)
        weights[cell : cell + self.W] = self.H
        return weights

    def decode(self, symbol: int) -> Fraction:
        return self.kappa * (2 * symbol - self.symbols + 1)

    def locate(self, t: Fraction) -> tuple[int, Fraction]:
        """The cell at or below t and the probability of being rounded up to the next."""
        x = (t + 1) / 2 * self.G
        cell = min(math.floor(x), self.G - 1)
        return cell, x - cell

    def _moment(self) -> tuple[Fraction, Fraction]:
        """(a, b) with E[decoded²] = a·t² + b at the grid points."""
        eta, n = self.eta, self.symbols
        spread = eta * (self.W**2 - 1) + (1 - eta) * (n**2 - 1)
        return 1 / eta, self.kappa**2 * spread / 3

    def second_moment(self, t: Fraction) -> Fraction:
        """E[decoded²] at t: linear between two grid points, because the rounding mixes them."""
        a, b = self._moment()
        cell, up = self.locate(t)
        low, high = Fraction(2 * cell, self.G) - 1, Fraction(2 * cell + 2, self.G) - 1
        return a * ((1 - up) * low**2 + up * high**2) + b

    def variance(self, t: Fraction) -> Fraction:
        return self.second_moment(t) - t**2

    @property
    def worst_input(self) -> Fraction:
        """The t in [0, 1] with the largest variance.

        On a cell with middle c and half-width δ = 1/G the variance is a(2ct − c² + δ²) + b − t²,
        with a = 1/η ≥ 1: its maximum over the cell, at t = ac or at the outer end, grows with |c|.
        So the outermost cell has the worst.
        """
        low = 1 - Fraction(2, self.G)
        return min(max((low + 1) / 2 / self.eta, low), Fraction(1))


@dataclass(frozen=True)
class SymbolLaw:
    """Windows, one of which is chosen by a public coin; symbols are numbered consecutively.

    Duchi, PM, OW and the identity have one window, HM has two. The coin does not depend on the
    data, so it costs no privacy.

    Proof: docs/proofs/values.md, W1.

    >>> law = SymbolLaw((Window(1, 1, 1, 3),))
    >>> law.probabilities(Fraction(1, 2))
    (Fraction(3, 8), Fraction(5, 8))
    """

    windows: tuple[Window, ...]
    coins: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if not self.windows or len(self.coins) != len(self.windows):
            raise ValueError("a symbol law needs as many coins as windows, at least one")
        if min(self.coins) < 1 or sum(self.coins) > WEIGHT_BUDGET:
            raise ValueError("the coins of a symbol law must be ≥ 1 and sum to at most 2^59")

    @property
    def symbols(self) -> int:
        return sum(w.symbols for w in self.windows)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The first symbol of each window."""
        starts = [0]
        for w in self.windows[:-1]:
            starts.append(starts[-1] + w.symbols)
        return tuple(starts)

    @property
    def cells(self) -> int:
        """The number of cells of the common grid: −1 + 2·cell/cells is on every window's grid."""
        return math.lcm(*(w.G for w in self.windows))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(c, sum(self.coins)) for c in self.coins)

    def weights(self, cell: int) -> tuple[int, ...]:
        """Integer weight of each symbol for a cell in 0 … `cells`. Every cell has the same sum."""
        refine = self.cells
        total = math.lcm(*(w.total for w in self.windows))
        result: list[int] = []
        for coin, w in zip(self.coins, self.windows, strict=True):
            step = refine // w.G
            low = min(cell // step, w.G - 1)
            up = cell - low * step
            scale = coin * (total // w.total) * (refine // step)
            for a, b in zip(w.weights(low), w.weights(low + 1), strict=True):
                result.append(scale * ((step - up) * int(a) + up * int(b)))
        return tuple(result)

    def probabilities(self, t: Fraction) -> tuple[Fraction, ...]:
        """Exact probability of each symbol for any t in [−1, 1]."""
        result: list[Fraction] = []
        for share, w in zip(self.shares, self.windows, strict=True):
            cell, up = w.locate(t)
            for a, b in zip(w.weights(cell), w.weights(cell + 1), strict=True):
                result.append(share * ((1 - up) * int(a) + up * int(b)) / w.total)
        return tuple(result)

    def steps(self, symbols: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Window and integer step of each symbol. Its value is the window's κ times the step.

        Sums of steps are exact in any order.
        """
        symbols = np.asarray(symbols)
        known = symbols.dtype.kind in "iu" and (
            symbols.size == 0 or 0 <= symbols.min() <= symbols.max() < self.symbols
        )
        if not known:
            raise InvalidArgument("symbols", symbols, f"integers in 0 … {self.symbols - 1}")
        which = np.searchsorted(self.offsets, symbols, side="right") - 1
        centre = np.array([w.symbols - 1 for w in self.windows])[which]
        return which, 2 * (symbols - np.array(self.offsets)[which]) - centre

    @property
    def kappas(self) -> NDArray[np.float64]:
        """κ of each window."""
        return np.array([float(w.kappa) for w in self.windows])

    def decode(self, symbols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Decode symbols to unbiased values, as the server does."""
        which, steps = self.steps(symbols)
        result: NDArray[np.float64] = self.kappas[which] * steps
        return result

    def decode_exact(self, symbol: int) -> Fraction:
        which = sum(symbol >= start for start in self.offsets) - 1
        return self.windows[which].decode(symbol - self.offsets[which])

    @property
    def bound(self) -> Fraction:
        return max(w.bound for w in self.windows)

    def variance(self, t: Fraction) -> Fraction:
        """Exact variance of the decoded value at t."""
        moments = (s * w.second_moment(t) for s, w in zip(self.shares, self.windows, strict=True))
        return sum(moments, Fraction(0)) - t**2

    @property
    def worst_input(self) -> Fraction:
        """A t in [−1, 1] with the largest variance.

        On a cell of the common grid the variance is linear − t², largest at half the slope or at
        the nearer end.
        """
        if len(self.windows) == 1:
            return self.windows[0].worst_input
        grid = np.linspace(-1.0, 1.0, self.cells + 1)
        moment = np.zeros_like(grid)
        for share, w in zip(self.shares, self.windows, strict=True):
            own = np.linspace(-1.0, 1.0, w.G + 1)
            a, b = w._moment()
            moment += float(share) * np.interp(grid, own, float(a) * own**2 + float(b))
        low, high = grid[:-1], grid[1:]
        slope = np.diff(moment) / np.diff(grid)
        t = np.clip(slope / 2, low, high)
        return Fraction(float(t[np.argmax(moment[:-1] + slope * (t - low) - t**2)]))
