"""What the reports of BR say together: shares that fit together, and how exact they are.

Rules:

- The raw shares are exactly unbiased and sum to one over the v answers of the design.
- `Tally.shares` are those nearest to them that are none below zero and sum to one over the M
  answers (the projection onto the simplex; Wang et al. 2020 call it Norm-Sub).
- The interval of a share holds every value that a score test does not reject: the count of blocks
  that hold the answer is a sum of coins whose probabilities are known, and so is its variance. The
  test is corrected by half a count, so small counts are covered, too.
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
_AT_ONCE = 1 << 20
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
        z, (own, other), n = deviations(level), self.coins, max(1, self.count)
        counts = self.held[: self.blocks.dim].astype(np.float64)
        ends = [
            _limit(counts + side / 2, n, own, other, z, side, population=population)
            for side in (-1, 1)
        ]
        low, high = np.minimum(ends[0], self.shares), np.maximum(ends[1], self.shares)
        return np.stack([low, high], axis=1)

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
        value, half = float(weights @ self.raw), self._half_a_report(weights)
        return Estimate.around(value, error, level, bounds, half)

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

        A report adds Y to n times the estimate, whose mean is the weight of the client's answer.
        The variance is Σ f·E[Y² | x] less the squares of the means, each or together.
        """
        blocks, law = self.blocks, cast(Choice, self.solution.mechanism).selection.law
        ranks = law(blocks.size)
        # Only differences matter, as all shares sum to one: near zero they lose no digits.
        centred = np.zeros(blocks.answers)
        centred[: blocks.dim] = weights - self.shares @ weights
        slots, at_once = blocks.size * blocks.bases, max(1, _AT_ONCE // blocks.block_size)
        constant = centred.sum() * (1 - self.unit * blocks.block_size) / blocks.answers
        squares, within = 0.0, np.zeros(blocks.answers)
        for begin in range(0, slots, at_once):
            members = blocks.members(np.arange(begin, min(slots, begin + at_once)))
            added = (self.unit * centred[members].sum(axis=1) + constant) ** 2
            squares += float(added.sum())
            repeated = np.repeat(added, blocks.block_size)
            within += np.bincount(members.ravel(), repeated, minlength=blocks.answers)
        mean_squares = ranks.minimum * squares + (ranks.maximum - ranks.minimum) * within
        mean_squares /= ranks.total * blocks.bases
        power = float(self.shares @ mean_squares[: blocks.dim])
        if not population:
            power -= float(self.shares @ centred[: blocks.dim] ** 2)
        return math.sqrt(max(0.0, power) / max(1, self.count))


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


def _limit(
    counts: Shares, n: int, own: float, other: float, z: float, side: int, *, population: bool
) -> Shares:
    """The lowest (side −1) or highest share that a score test does not reject.

    It solves (count − n·θ)² = z²·variance, where θ = other + f·(own − other). The variance is
    n·θ(1 − θ) for a sample of people, and that of the coins for given clients.
    """
    gain, excess = own - other, counts - n * other
    if population:  # in f: variance n·(b + s·f − gain²·f²)
        b, s, t = other * (1 - other), gain * (1 - 2 * other), gain**2
    else:
        b, s, t = other * (1 - other), own * (1 - own) - other * (1 - other), 0.0
    first = n * n * gain**2 + z * z * n * t
    second = -2 * n * gain * excess - z * z * n * s
    third = excess**2 - z * z * n * b
    root = second**2 - 4 * first * third
    with np.errstate(invalid="ignore"):
        limit = (-second + side * np.sqrt(root)) / (2 * first)
    limit = np.where(root < 0, float(side > 0), limit)
    return np.clip(limit, 0.0, 1.0)
