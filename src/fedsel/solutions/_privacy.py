"""How much a report reveals (`Privacy`), and how far it can move the mean (`Influence`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.exact import exceeds_exp, log, log_upper
from fedsel.errors import InvalidArgument

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
            raise InvalidArgument("privacy", self.note, "the privacy of a solution")
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
