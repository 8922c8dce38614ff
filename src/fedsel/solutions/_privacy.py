"""The privacy of a client: what a report costs, how ε is split over epochs and stages, and spent.

A charge is an exact rational (`Privacy.charge`) that the server has a say in. Added up as they
are, charges with ever new denominators would make a sum that grows with every request. So the sum
is rounded up to a fixed grid, the multiples of 1/`GRID`, before a charge is added that it has no
denominator in common with. Write s_n for the sum after the charges c_1, …, c_n:

    s_0 = 0,    s_n = s_{n−1} + c_n            if the denominator of s_{n−1} divides GRID·den(c_n),
                s_n = ⌈s_{n−1}⌉ + c_n          else, with ⌈·⌉ the next multiple of 1/GRID.

1. *The true sum is never more*: c_1 + … + c_n ≤ s_n, by induction, since ⌈s⌉ ≥ s. A device reports
   only while s_n ≤ lifetime, compared exactly; so the reports cost the lifetime at most.
2. *No server makes it long*: in both cases the denominator of s_n divides GRID·den(c_n), because
   that of ⌈s⌉ divides GRID. It has the bits of GRID and of the last charge, 310 at most.
3. *One price is added up exactly*: after c_n the denominator divides GRID·den(c_n), and the next
   report of the same price needs no rounding. So E reports of ε/E on a fresh ledger are exactly ε,
   and the last one is not lost where the lifetime is ε.
4. *Usual prices are added up exactly in any order*: the sum is on the grid as long as all charges
   are. What is rounded, for prices that are not, is less than 1/GRID < 10^−61 at each change of
   the price; a lifetime that such a mixture would meet to the last digit loses its last report.

Proof: docs/proofs/composition.md, C5, C6.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.exact import exceeds_exp, log, log_upper
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_epsilon, check_finite

if TYPE_CHECKING:
    from fedsel.mechanisms.central import CentralGuarantee
    from fedsel.mechanisms.central._guarantee import Shuffled

_COLUMNS = 1 << 20
"""Entries of a matrix copied at a time."""


@dataclass(frozen=True)
class Privacy:
    """The privacy loss of one report, and of all reports of a client.

    ``budget`` is the ε that a report may cost, ``ratio`` the exact largest ratio of probabilities
    of one report (None if infinite), and ``note`` a description. If not ``certified``, the ratio
    holds for real numbers but not for the floats that are drawn. ``source`` is the solution.

    Proof: docs/proofs/composition.md, C3, C4.
    """

    budget: Fraction | None
    ratio: Fraction | None
    epochs: int
    note: str
    certified: bool = True
    source: Shuffled | None = field(default=None, repr=False, compare=False)

    def central(
        self, *, reports: int, delta: float | None = None, epochs: int | None = None
    ) -> CentralGuarantee:
        """The central guarantee if ``reports`` or more reports of a round are shuffled.

        It holds against an observer who sees only the output of an honest shuffler; `per_report`
        and `total` hold against everybody. It covers all epochs unless ``epochs`` is given, and δ
        defaults to 1e-6. Several epochs need dp_accounting.

        >>> from fedsel import solution
        >>> privacy = solution("RJ", epsilon=2.0, dim=8, rho=0.4).privacy
        >>> print(privacy.central(reports=500, delta=1e-5))
        central ε = 0.4... at δ = 1e-05 among 500 shuffled reports of one round, ...
        """
        from fedsel.mechanisms.central import DELTA, compose

        if self.source is None:
            raise InvalidArgument("privacy", self.note, "solution.privacy of a solution")
        return compose(
            self.source,
            reports=reports,
            epochs=self.epochs if epochs is None else epochs,
            delta=DELTA if delta is None else delta,
        )

    @property
    def per_report(self) -> float:
        """Exact ε of one report; infinite if it is not private."""
        if self.ratio is None:
            return math.inf
        loss = log(self.ratio)
        if self.budget is not None and self.within_budget:
            return min(loss, float(self.budget))
        return loss

    @property
    def total(self) -> float:
        """Exact ε of all reports of a client."""
        return self.per_report * self.epochs

    @property
    def within_budget(self) -> bool:
        """Whether a report is proved to cost at most its budget, in rationals."""
        if self.ratio is None or self.budget is None or not self.certified:
            return False
        return not exceeds_exp(self.ratio, self.budget)

    @property
    def charge(self) -> Fraction | None:
        """The charge of one report in a ledger: a rational proved to be at least its exact ε.

        It is the budget if the report nearly uses it up; otherwise it follows the exact loss, below
        or above. None if the report is not private or not certified.
        """
        if self.ratio is None or not self.certified:
            return None
        proved = log_upper(self.ratio)
        if self.budget is not None and self.within_budget:
            return min(proved, self.budget)
        return proved


@final
@dataclass(frozen=True)
class Influence:
    """How far one report can move the sum of decoded reports: in one entry, and in norm.

    With n reports it moves their decoded mean by at most ``largest``/n in each entry and by at most
    ``norm``/n in length, against a ⊥ in its place; against an honest report, by at most twice that.

    Proof: docs/proofs/transforms.md, T8.
    """

    largest: float
    norm: float

    def times(self, factor: float) -> Influence:
        """The influence, multiplied by ``factor``."""
        return Influence(factor * self.largest, factor * self.norm)


def influence_of(rows: NDArray[np.float64], picks: int) -> Influence:
    """The influence of ``picks`` pairs ±1 in distinct slots, where slot j adds rows[j] of (M, d).

    The largest entry is exact: the sum of the greatest magnitudes of a column. The norm is exact
    for one pick and for orthogonal rows of equal length. Otherwise it is the smaller of two upper
    bounds: the longest rows aligned, and √picks times the largest singular value.

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
    """The ``count`` largest entries of each column."""
    return np.partition(values, -count, axis=0)[-count:]


THETA = 0.2
"""The paper's safe upper bound of μ."""


@final
@dataclass(frozen=True)
class Budget:
    """The exact split of ε: ε′ = ε/E per epoch, ε₁ = μ·ε′ for the selection, ε₂ = ε′ − ε₁.

    Proof: docs/proofs/composition.md, C8.

    >>> Budget(epsilon=2.0, epochs=4, mu=0.1).selection
    Fraction(1, 20)
    """

    epsilon: Epsilon
    epochs: int = 1
    mu: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "epochs", check_count("epochs", self.epochs))
        if not 0 <= check_finite("mu", self.mu) < 1:
            raise InvalidArgument("mu", self.mu, "in [0, 1)")

    @property
    def per_epoch(self) -> Fraction:
        """ε′, the budget of one report."""
        return Fraction(self.epsilon) / self.epochs

    @property
    def selection(self) -> Fraction:
        """ε₁."""
        # Uses the decimal that the user wrote: μ = 0.1 of ε′ = 2 is exactly 0.2.
        return Fraction(repr(float(self.mu))) * self.per_epoch

    @property
    def value(self) -> Fraction:
        """ε₂."""
        return self.per_epoch - self.selection


def hyper_parameters_free(d: int, n: int, epsilon: Epsilon, theta: float = THETA) -> float:
    """μ = clip(1 − √(d ln d / n)/ε′, 0, θ) for n clients a round. (FedSel, section 5.3.)

    The value needs ε₂ of at least √(d ln d / n), and the selection gets the rest. If that is zero,
    two stages are no better than a flat report.

    >>> hyper_parameters_free(d=100, n=600, epsilon=2.0)
    0.2
    >>> hyper_parameters_free(d=100, n=600, epsilon=0.5)
    0.0
    """
    check_count("d", d)
    check_count("n", n)
    share = float(check_epsilon("epsilon", epsilon))
    if not 0 <= check_finite("theta", theta) < 1:
        raise InvalidArgument("theta", theta, "in [0, 1)")
    needed = math.sqrt(d * math.log(d) / n)
    return 0.0 if share <= needed else min(1 - needed / share, theta)


GRID = math.lcm(*range(1, 101), 1 << 40, 10**17)
"""The grid has decimals of up to 17 digits, those of few digits also divided by up to 100 epochs,
and the steps of 2^−36 in which `exact.log_upper` proves a charge."""
_WRITTEN = re.compile(r"[0-9]+(/[0-9]+)?")


def rounded_up(amount: Fraction) -> Fraction:
    """Round up to the next multiple of 1/GRID.

    >>> rounded_up(Fraction(1, 30)), 0 < rounded_up(Fraction(1, 101)) - Fraction(1, 101) < 1e-61
    (Fraction(1, 30), True)
    """
    return Fraction(-(-amount.numerator * GRID // amount.denominator), GRID)


def added(spent: Fraction, charge: Fraction, reports: int = 1) -> Fraction:
    """The ε spent after ``reports`` further reports of one price.

    >>> added(Fraction(1, 101), Fraction(1, 101), reports=100)
    Fraction(1, 1)
    >>> added(Fraction(1, 101), Fraction(1, 103)) > Fraction(1, 101) + Fraction(1, 103)
    True
    """
    fits = GRID * charge.denominator % spent.denominator == 0
    return (spent if fits else rounded_up(spent)) + reports * charge


def written(text: str) -> Fraction:
    """Parse a fraction in the form that ledgers write. Exponents could make it endless.

    >>> written("2/15")
    Fraction(2, 15)
    >>> written("1e999999999")
    Traceback (most recent call last):
    ValueError: not a fraction of a ledger
    """
    if not _WRITTEN.fullmatch(text):
        raise ValueError("not a fraction of a ledger")
    return Fraction(text)


def total(charges: Iterable[str]) -> Fraction:
    """The ε spent by reports with these charges, which are written as fractions.

    >>> total(["1/3", "1/3", "1/3"])
    Fraction(1, 1)
    """
    spent = Fraction(0)
    for charge, same in groupby(charges):
        spent = added(spent, written(charge), sum(1 for _ in same))
    return spent
