"""What the reports of BR say together: shares that fit together, and how exact they are.

Rules:

- The raw shares are exactly unbiased and sum to one over the v answers of the design.
- `Tally.shares` are those nearest to them that are none below zero and sum to one over the M
  answers (the projection onto the simplex; Wang et al. 2020 call it Norm-Sub).
- The interval of a share holds every value that a score test does not reject: the count of blocks
  that hold the answer is a sum of coins whose probabilities are known, and so is its variance. The
  test is corrected by half a count, so small counts are covered, too: intervals of 95 % hold the
  truth with 93.9 % at least, by enumeration (tests/measuring/test_tally.py).
- What follows from several shares (an accuracy, a quantile) is linear in them or nearly so: its
  variance is that of the linear estimate, from the law of a report.

By default an interval is about the clients who answered. With ``population`` it is about the people
whose random sample they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import cast, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_float
from fedsel.mechanisms import Choice
from fedsel.mechanisms._reports import Totals, slot_means
from fedsel.solutions import Blocks, Solution

Shares = NDArray[np.float64]

LEVEL = 0.95
"""The share of intervals that hold the truth."""
_STEP = 1e-6


@final
@dataclass(frozen=True)
class Estimate:
    """A number with its interval and its standard error.

    >>> print(Estimate(0.8123, 0.78, 0.85, 0.018))
    0.812 (0.780 to 0.850)
    """

    value: float
    low: float
    high: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def as_dict(self) -> dict[str, float]:
        """The estimate for JSON."""
        return dict(vars(self))

    @classmethod
    def around(
        cls,
        value: float,
        error: float,
        level: float,
        bounds: tuple[float, float] = (-math.inf, math.inf),
        half: float = 0.0,
    ) -> Estimate:
        """The estimate of a normal error, its interval within bounds, and ``half`` a step wider."""
        (low, high), reach = bounds, deviations(level) * error + half
        ends = (min(high, max(low, value - reach)), min(high, max(low, value + reach)))
        return cls(min(high, max(low, value)), *ends, error)


def deviations(level: float) -> float:
    """How many standard deviations an interval of this level reaches to either side.

    >>> round(deviations(0.95), 2)
    1.96
    """
    if not 0 < check_float("level", level) < 1:
        raise InvalidArgument("level", level, "in (0, 1), such as 0.95")
    return NormalDist().inv_cdf((1 + level) / 2)


@final
@dataclass(frozen=True, eq=False)
class Tally:
    """The reported blocks that hold each of the v answers, among ``count`` reports of BR.

    >>> from fedsel import solution
    >>> made = solution("BR", epsilon=8.0, dim=3)
    >>> tally = Tally(made, np.array([60, 40, 0]), 100)
    >>> tally.shares.round(2).tolist(), tally.intervals()[2].round(2).tolist()
    ([0.6, 0.4, 0.0], [0.0, 0.01])
    """

    solution: Solution
    held: NDArray[np.int64]
    count: int

    @classmethod
    def of(cls, solution: Solution, totals: Totals) -> Tally:
        """The tally of a round's totals."""
        return cls(solution, totals.sums[0].copy(), totals.count)

    @property
    def blocks(self) -> Blocks:
        """The design that the reports are of."""
        return cast(Blocks, self.solution.transform.blocks)

    @property
    def unit(self) -> float:
        """What a reported block adds to the share of an answer that it holds."""
        return float(self.solution.alphabet.units[0])

    @cached_property
    def raw(self) -> Shares:
        """The unbiased share of each of the M answers; they may be below zero."""
        units = self.solution.alphabet.units
        return self.solution.expand(slot_means(self.held[None], units, self.count))

    @cached_property
    def shares(self) -> Shares:
        """The shares nearest to the unbiased ones that are none below zero and sum to one."""
        return consistent(self.raw)

    @property
    def coins(self) -> tuple[float, float]:
        """P[the block holds x] for a client whose answer is x, and for one whose answer is not."""
        law = cast(Choice, self.solution.mechanism).selection.law(self.blocks.size)
        own = self.blocks.holding * law.maximum / law.total
        shared = float(self.blocks.sharing)
        other = shared * law.maximum + (self.blocks.holding - shared) * law.minimum
        return own, other / law.total

    def intervals(self, level: float = LEVEL, *, population: bool = False) -> Shares:
        """The interval (M, 2) of each share; it holds the consistent one, too."""
        counts = self.held[: self.blocks.dim].astype(np.float64)
        found = score_intervals(counts, self.count, self.coins, level, population=population)
        low, high = np.minimum(found[:, 0], self.shares), np.maximum(found[:, 1], self.shares)
        return np.stack([low, high], axis=1)

    def estimates(self, level: float = LEVEL, *, population: bool = False) -> list[Estimate]:
        """The consistent share of each answer with its interval; the error is that of the raw."""
        (own, other), shares = self.coins, self.shares
        theta = other + shares * (own - other)
        variance = theta * (1 - theta)
        if not population:
            variance = shares * own * (1 - own) + (1 - shares) * other * (1 - other)
        errors = np.sqrt(variance / max(1, self.count)) / (own - other)
        rows = zip(shares, *self.intervals(level, population=population).T, errors, strict=True)
        return [Estimate(*map(float, row)) for row in rows]

    def linear(
        self,
        weights: Shares,
        level: float = LEVEL,
        *,
        population: bool = False,
        bounds: tuple[float, float] = (-math.inf, math.inf),
    ) -> Estimate:
        """Σ weights·shares, unbiased, with its interval."""
        error = self.error_of(weights, population=population)
        middle = weights.mean()
        value = float(middle + (weights - middle) @ self.raw)
        return Estimate.around(value, error, level, bounds, self._half_a_report(weights))

    def together(
        self, weights: Shares, level: float = LEVEL, *, population: bool = False
    ) -> Estimate:
        """The consistent share of all answers of weight 1, the others having weight 0."""
        found = self.linear(weights, level, population=population, bounds=(0.0, 1.0))
        value = min(1.0, float(weights @ self.shares))
        return Estimate(value, min(found.low, value), max(found.high, value), found.error)

    def derived(
        self,
        function: Callable[[Shares], float],
        level: float = LEVEL,
        *,
        population: bool = False,
        bounds: tuple[float, float] = (-math.inf, math.inf),
    ) -> Estimate:
        """What a smooth function says of the consistent shares; its error by the delta method."""
        value = function(self.shares)
        steps = _STEP * np.eye(len(self.shares))
        near = ((function(self.shares + s), function(self.shares - s)) for s in steps)
        gradient = np.array([(above - below) / (2 * _STEP) for above, below in near])
        error = self.error_of(gradient, population=population)
        return Estimate.around(value, error, level, bounds, self._half_a_report(gradient))

    def _half_a_report(self, weights: Shares) -> float:
        """Half of what one client more or less changes: sums of counts have steps."""
        return float(np.ptp(weights)) / (2 * max(1, self.count))

    def error_of(self, weights: Shares, *, population: bool = False) -> float:
        """The standard error of Σ weights·raw shares, given the consistent ones.

        A report adds its unit times the weights in its block to n times the estimate, on average
        the weight of the client's answer. The variance is Σ f·E[Y² | x] less the squares of the
        means, each or together. Only differences of weights matter, as all shares sum to one.
        """
        blocks = self.blocks
        law = cast(Choice, self.solution.mechanism).selection.law(blocks.size)
        centred = np.zeros(blocks.answers)
        centred[: blocks.dim] = weights - weights.mean()
        squares, within = _squared_sums(blocks, centred)
        expected = law.minimum * squares + (law.maximum - law.minimum) * within[: blocks.dim]
        power = self.unit**2 * float(self.shares @ expected) / (law.total * blocks.bases)
        mean = centred[: blocks.dim]
        power -= float(self.shares @ mean) ** 2 if population else float(self.shares @ mean**2)
        return math.sqrt(max(0.0, power) / max(1, self.count))


def _squared_sums(blocks: Blocks, weights: Shares) -> tuple[float, Shares]:
    """The squares of the weights (v,) that each block holds, added up: all, and by answer (v,)."""
    if blocks.points is None:
        members = blocks.members(np.arange(blocks.size))
        squares = weights[members].sum(axis=1) ** 2
        repeated = np.repeat(squares, blocks.block_size)
        within = np.bincount(members.ravel(), repeated, blocks.answers).astype(np.float64)
        return float(squares.sum()), within
    # The blocks of a basis are the shifts of one: their sums are a circular convolution.
    total, within, held = 0.0, np.zeros(blocks.answers), np.empty(blocks.answers)
    transformed = np.fft.rfft(weights)
    for basis in range(blocks.bases):
        held[:] = 0
        held[blocks.members(np.array([basis * blocks.size]))] = 1
        shifted = np.fft.rfft(held)
        squares = np.fft.irfft(transformed * shifted.conj(), blocks.answers) ** 2
        total += float(squares.sum())
        within += np.fft.irfft(np.fft.rfft(squares) * shifted, blocks.answers)
    return total, within


def consistent(raw: Shares) -> Shares:
    """The nearest shares that are none below zero and sum to one.

    >>> consistent(np.array([0.7, 0.5, -0.1])).round(2).tolist()
    [0.6, 0.4, 0.0]
    """
    ordered = np.sort(raw)[::-1]
    surplus = (np.cumsum(ordered) - 1) / np.arange(1, len(raw) + 1)
    kept = np.flatnonzero(ordered > surplus)[-1]
    shares: Shares = np.maximum(raw - surplus[kept], 0.0)
    return shares


def score_intervals(
    counts: Shares, n: int, coins: tuple[float, float], level: float, *, population: bool = False
) -> Shares:
    """The interval (k, 2) of a share for each of k counts of blocks among n reports.

    ``coins`` are those of `Tally.coins`.

    >>> score_intervals(np.array([0.0, 100.0]), 100, (0.75, 0.25), 0.95).round(2).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    z = deviations(level)
    if not n:
        return np.tile([0.0, 1.0], (len(counts), 1))
    ends = [_limit(counts + s / 2, n, coins, z, s, population=population) for s in (-1, 1)]
    return np.stack(ends, axis=1)


def _limit(
    counts: Shares, n: int, coins: tuple[float, float], z: float, side: int, *, population: bool
) -> Shares:
    """The lowest (side −1) or highest share that a score test does not reject.

    It solves (count − n·θ)² = z²·variance, where θ = other + f·(own − other). The variance is
    n·θ(1 − θ) for a sample of people, and that of the coins for given clients.
    """
    own, other = coins
    gain, excess = own - other, counts - n * other
    if population:  # in f: variance n·(b + s·f − gain²·f²)
        b, s, t = other * (1 - other), gain * (1 - 2 * other), gain**2
    else:
        b, s, t = other * (1 - other), own * (1 - own) - other * (1 - other), 0.0
    first = n * n * gain**2 + z * z * n * t
    second = -2 * n * gain * excess - z * z * n * s
    third = excess**2 - z * z * n * b
    root = np.sqrt(np.maximum(second**2 - 4 * first * third, 0.0))
    limit = np.clip((-second + side * root) / (2 * first), 0.0, 1.0)
    # A count beyond what it is without any such client, or with such clients alone, rejects none
    # of the shares on that side: there the square has a root that is none of the test.
    if side < 0:
        return np.where(excess <= 0, 0.0, limit)
    return np.where(excess >= n * gain, 1.0, limit)
