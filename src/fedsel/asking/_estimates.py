"""What a question asks for, from the totals of its reports: a mean, quantiles, margins."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedsel.measuring import Estimate, Tally
from fedsel.mechanisms._reports import Totals
from fedsel.mechanisms._two_stage import ValueReports
from fedsel.solutions import Solution

Doubles = NDArray[np.float64]


def mean_of(
    solution: Solution, totals: Totals, level: float, *, population: bool = False
) -> Estimate:
    """The mean on [−1, 1] of the numbers reported by OW.

    The interval takes the largest variance that a report can have: nobody knows where the numbers
    lie. About the population it takes the largest for this mean, that of people at both ends. It
    is half a symbol wider, as sums of symbols have steps.
    """
    law = cast(ValueReports, solution.mechanism).value.law
    mean = float(solution.expand(totals.mean())[0])
    largest = float(law.variance(law.worst_input))
    if population:
        ends = 1 + float(
            law.variance(Fraction(1))
        )  # E[report²] there, which no other number exceeds
        largest = max(largest, ends - min(1.0, mean**2))
    error, half = (
        math.sqrt(largest / totals.count),
        float(solution.alphabet.units[0]) / totals.count,
    )
    return Estimate.around(mean, error, level, (-1.0, 1.0), half)


def quantile_of(
    tally: Tally, edges: Doubles, q: float, level: float, *, population: bool = False
) -> Estimate:
    """A quantile of numbers from the shares of their bins; further answers are no numbers.

    Within a bin it is interpolated. The interval reaches from the edge below which, by their own
    intervals, fewer than q lie to the one below which more do: it assumes nothing about a bin, and
    is not finer than bins are. The error is that of the distribution function over the density.
    """
    bins = len(edges) - 1
    shares = tally.shares[:bins]
    known = float(shares.sum())
    if not known:
        middle = float(edges[0] + edges[-1]) / 2
        return Estimate(middle, float(edges[0]), float(edges[-1]), float(edges[-1] - edges[0]) / 2)
    cumulated = np.concatenate([[0.0], np.cumsum(shares) / known])
    cumulated[-1] = 1.0
    at = min(bins, max(1, int(np.searchsorted(cumulated, q))))
    within = (q - cumulated[at - 1]) / (cumulated[at] - cumulated[at - 1])
    value = float(edges[at - 1] + min(1.0, max(0.0, within)) * (edges[at] - edges[at - 1]))

    def below(edge: int) -> Estimate:
        """By how much more than q lies below an edge."""
        weights = np.zeros(len(tally.shares))
        weights[:bins] = -q
        weights[:edge] += 1
        return tally.linear(weights, level, population=population)

    first, last = 0, bins
    # The first edge that might have q below it ends the search: one test, not many, decides.
    while first < bins - 1 and below(first + 1).high < 0:
        first += 1
    while last > 1 and below(last - 1).low > 0:
        last -= 1
    low, high = min(float(edges[first]), value), max(float(edges[last]), value)
    density = float(shares[at - 1] / (edges[at] - edges[at - 1]))
    error = below(min(at, bins - 1)).error / density
    return Estimate(value, low, high, min(error, float(edges[-1] - edges[0])))


def margins_of(
    tally: Tally, sizes: tuple[int, ...], level: float, *, population: bool = False
) -> list[list[Estimate]]:
    """For each column of a cross table the share of each of its answers, whatever the others."""
    answers = np.indices(sizes).reshape(len(sizes), -1)
    return [
        [
            tally.together((own == answer).astype(np.float64), level, population=population)
            for answer in range(size)
        ]
        for own, size in zip(answers, sizes, strict=True)
    ]
