"""The exact privacy loss of a solution, by enumerating every transcript of its ``encode``.

A mechanism's certificate is a formula over its law. This is the independent proof by exhaustion: it
runs a device's code on every draw that matters, over several epochs, with residual, momentum,
transform and clip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fedsel.auditing._enumeration import exact_law
from fedsel.errors import InvalidArgument, check_count, check_kind
from fedsel.mechanisms import Entropy
from fedsel.mechanisms._certificate import Certificate
from fedsel.mechanisms._drawing import draw_dimension
from fedsel.solutions._solution import Solution

Vector = tuple[float, ...]
Pairs = tuple[tuple[int, int], ...]
_MOST_SYMBOLS = 1 << 16
_MOST_BASES = 1 << 10


def report_law(
    solution: Solution,
    update: Sequence[float],
    residual: Sequence[float] | None = None,
    *,
    advance: Callable[[int], object] = abs,
) -> dict[Pairs, tuple[Fraction, Vector]]:
    """The exact probability of each report of `Solution.encode`, and the residual left by it.

    A report is its (slot, symbol) pairs, none for ⊥. Vectors are float32, as on a device.
    ``advance`` is that of `exact_law`.

    >>> from fedsel import solution
    >>> law = report_law(solution("PS-Duchi", epsilon=1.0, dim=2, k=1), [1.0, -3.0])
    >>> sum(p for p, _ in law.values())
    Fraction(1, 1)
    """
    solution = _within_a_basis(solution)
    nothing = (0.0,) * solution.dim
    vector = np.array(update, dtype=np.float32)
    before = np.array(nothing if residual is None else residual, dtype=np.float32)

    def program(entropy: Entropy) -> tuple[tuple[int, ...], tuple[int, ...], Vector]:
        report, kept = solution.encode(vector, before, entropy)
        return tuple(report.slot.tolist()), tuple(report.symbol.tolist()), tuple(kept.tolist())

    by_report: dict[Pairs, tuple[Fraction, Vector]] = {}
    law = exact_law(program, loops=[draw_dimension], advance=advance)
    for (slots, symbols, kept), p in law.items():
        pairs = tuple(pair for pair in zip(slots, symbols, strict=True) if pair[0] >= 0)
        by_report[pairs] = (p, kept)
    return by_report


def certify_by_enumeration(
    solution: Solution,
    gradients: Sequence[Sequence[float]],
    epochs: int | None = None,
    *,
    advance: Callable[[int], object] = abs,
) -> Certificate:
    """Loss of a client's whole transcript, by enumerating inputs and outputs of every epoch.

    An input is a sequence of ``gradients``, one for each epoch; the residual starts at zero and is
    carried on. ``epochs`` defaults to the solution's; the claim is ε′ for each. ``advance`` is that
    of `exact_law`.

    >>> from fedsel import solution
    >>> ps_duchi = solution("PS-Duchi", epsilon=3.0, dim=2, k=1, epochs=2, momentum=0.5)
    >>> grid = [(a, b) for a in (-2, 1) for b in (-1, 2)]
    >>> certify_by_enumeration(ps_duchi, grid).holds
    True
    """
    check_kind("solution", solution, Solution)
    inputs = [tuple(float(x) for x in gradient) for gradient in gradients]
    if not inputs or {len(g) for g in inputs} != {solution.dim}:
        raise InvalidArgument("gradients", gradients, f"vectors of {solution.dim} entries")
    count = check_count("epochs", solution.epochs if epochs is None else epochs)
    claimed = solution.claimed
    total = Fraction(claimed) * count if claimed != math.inf else math.inf
    if solution.alphabet.plain:
        return Certificate(solution, solution.dim, total, None)
    if solution.alphabet.symbols > _MOST_SYMBOLS:
        raise InvalidArgument("solution", solution.name, f"one of at most {_MOST_SYMBOLS} symbols")
    ratio = _Transcripts(solution, inputs, advance).worst(count)
    return Certificate(solution, solution.dim, total, ratio)


def _within_a_basis(solution: Solution) -> Solution:
    """Reduce a solution with many bases to one basis.

    A basis is drawn independently of the data and named by the report, so the law within one basis
    has the same loss.
    """
    if solution.transform.bases <= _MOST_BASES:
        return solution
    return replace(solution, transform=solution.transform.with_fewer_bases(1))


class _Transcripts:
    """The largest ratio over all transcripts, epoch by epoch over pairs of residuals.

    A report affects later ones through the residual only. So for two clients with residuals r and
    s the worst remaining ratio is the maximum over reports o and inputs a, b of
    P[o | a, r]/P[o | b, s] times the worst ratio from the residuals that o leaves. For the last
    report a and b are chosen separately for each o: the largest P[o | a, r] over the smallest
    P[o | b, s].
    """

    def __init__(
        self, solution: Solution, inputs: Sequence[Vector], advance: Callable[[int], object]
    ) -> None:
        self._solution, self._inputs, self._advance = solution, inputs, advance
        self._laws: dict[tuple[Vector, Vector], dict[Pairs, tuple[Fraction, Vector]]] = {}
        self._bounds: dict[Vector, tuple[dict[Pairs, Fraction], dict[Pairs, Fraction]]] = {}
        self._ratios: dict[tuple[Vector, Vector, int], Fraction | None] = {}

    def worst(self, epochs: int) -> Fraction | None:
        """The worst ratio over ``epochs``; None if a report is impossible for some input."""
        nothing = (0.0,) * self._solution.dim
        return self._from(nothing, nothing, epochs)

    def _law(self, update: Vector, residual: Vector) -> dict[Pairs, tuple[Fraction, Vector]]:
        key = (update, residual)
        if key not in self._laws:
            self._laws[key] = report_law(self._solution, update, residual, advance=self._advance)
        return self._laws[key]

    def _bounds_of(self, residual: Vector) -> tuple[dict[Pairs, Fraction], dict[Pairs, Fraction]]:
        """The largest and the smallest probability of each report, over all inputs."""
        if residual not in self._bounds:
            laws = [self._law(update, residual) for update in self._inputs]
            most: dict[Pairs, Fraction] = {}
            least: dict[Pairs, Fraction] = {}
            for pairs in dict.fromkeys(pairs for law in laws for pairs in law):
                probabilities = [law[pairs][0] if pairs in law else Fraction(0) for law in laws]
                most[pairs], least[pairs] = max(probabilities), min(probabilities)
            self._bounds[residual] = most, least
        return self._bounds[residual]

    def _from(self, first: Vector, second: Vector, left: int) -> Fraction | None:
        if left == 0:
            return Fraction(1)
        key = (first, second, left)
        if key not in self._ratios:
            if left == 1:
                most, least = self._bounds_of(first)[0], self._bounds_of(second)[1]
                self._ratios[key] = _largest_ratio(most, least)
            else:
                self._ratios[key] = self._step(first, second, left)
        return self._ratios[key]

    def _step(self, first: Vector, second: Vector, left: int) -> Fraction | None:
        best = Fraction(0)
        for a in self._inputs:
            for b in self._inputs:
                one, other = self._law(a, first), self._law(b, second)
                ratios: dict[tuple[Vector, Vector], Fraction] = {}
                for pairs, (p, after) in one.items():
                    if pairs not in other:
                        return None
                    q, beside = other[pairs]
                    ratio = p / q
                    if ratio > ratios.get((after, beside), 0):
                        ratios[after, beside] = ratio
                for (after, beside), ratio in ratios.items():
                    rest = self._from(after, beside, left - 1)
                    if rest is None:
                        return None
                    best = max(best, ratio * rest)
        return best


def _largest_ratio(
    most: Mapping[Pairs, Fraction], least: Mapping[Pairs, Fraction]
) -> Fraction | None:
    """The largest ratio of two probabilities of one report; None if the second is zero."""
    best, over = 0, 1
    for pairs, p in most.items():
        q = least.get(pairs)
        if not q:
            return None
        # Cross multiplication is ten times as fast as reducing every fraction.
        high, low = p.numerator * q.denominator, p.denominator * q.numerator
        if high * over > best * low:
            best, over = high, low
    return Fraction(best, over)
