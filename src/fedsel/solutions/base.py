"""A solution: feedback × transform × mechanism, from which all else about it is derived.

Both ends are one object of public parameters, so they cannot disagree; and the object that is
certified is the one whose `encode` a device calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    InvalidData,
    check_count,
    check_kind,
    check_vectors,
)
from fedsel.exact import exceeds_exp, log, log_upper
from fedsel.mechanisms.base import MAX_DIMENSION
from fedsel.mechanisms.blanket import Blanket
from fedsel.mechanisms.reporting import ReportMechanism, Vector, norm
from fedsel.random import SYSTEM, Entropy
from fedsel.reports import Alphabet, Reports, Totals
from fedsel.solutions.feedback import NOTHING_KEPT, Feedback
from fedsel.solutions.influence import Influence
from fedsel.solutions.transforms import Coordinates, Transform

if TYPE_CHECKING:
    from fedsel.central import CentralGuarantee
    from fedsel.central.amplification import Shuffled


@dataclass(frozen=True)
class Privacy:
    """What one report, and all reports of a client, reveal.

    ``budget`` is what a report was allowed to cost; ``ratio`` the exact largest ratio of
    probabilities of one report (None where it is infinite); ``note`` says it in words. Where it is
    not ``certified`` the ratio is that of real numbers, not of what a computer draws. ``source`` is
    the solution that it is of.

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
        """What the reports guarantee if those of a round, ``reports`` or more, are shuffled.

        It holds against whoever sees only what an honest shuffler passes on; `per_report` and
        `total` hold against everybody. Of all epochs, or of so many ``epochs``; δ is 1e-6 unless
        given. Several epochs need dp_accounting (`fedsel.central.compose`).

        >>> from fedsel import solution
        >>> privacy = solution("RJ", epsilon=2.0, dim=8, rho=0.4).privacy
        >>> print(privacy.central(reports=500, delta=1e-5))
        central ε = 0.4... at δ = 1e-05 among 500 shuffled reports of one round, ...
        """
        from fedsel.central import DELTA, compose

        if self.source is None:
            raise InvalidArgument("privacy", self.note, "that of a solution")
        return compose(
            self.source,
            reports=reports,
            epochs=self.epochs if epochs is None else epochs,
            delta=DELTA if delta is None else delta,
        )

    @property
    def per_report(self) -> float:
        """Exact ε of one report; infinite where it is not private."""
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
        """Whether a report is proved to cost at most its budget: decided in rationals."""
        if self.ratio is None or self.budget is None or not self.certified:
            return False
        return not exceeds_exp(self.ratio, self.budget)

    @property
    def charge(self) -> Fraction | None:
        """What a ledger charges for one report: a rational proved to be at least its exact ε.

        The budget where the report nearly uses it up; less where the law loses less, and more
        where it loses more than it was allowed. None where the report is not private, or not
        certified to be.
        """
        if self.ratio is None or not self.certified:
            return None
        proved = log_upper(self.ratio)
        if self.budget is not None and self.within_budget:
            return min(proved, self.budget)
        return proved


class TransformedScores:
    """What a mechanism may ask of a client's update: scores of r, values of what is told."""

    def __init__(self, transform: Transform, ranked: Vector, reported: Vector) -> None:
        self._transform, self._ranked, self._reported = transform, ranked, reported

    @property
    def size(self) -> int:
        return self._transform.size

    def all(self) -> Vector:
        with np.errstate(over="ignore", invalid="ignore"):
            # Whether a client answers must not depend on an overflow of its scores.
            scores: Vector = np.nan_to_num(self._transform.scores(self._ranked))
        return scores

    def value(self, slot: int) -> float:
        return float(np.nan_to_num(self._transform.value(self._reported, slot)))

    def values(self) -> NDArray[np.float64]:
        with np.errstate(over="ignore", invalid="ignore"):
            values: NDArray[np.float64] = np.nan_to_num(self._transform.values(self._reported))
        return values

    def norm(self) -> float:
        return norm(self._ranked)


@final
@dataclass(frozen=True)
class Solution:
    """A way from updates to a private mean, for vectors of ``dim`` entries over ``epochs``.

    A client's update passes ``feedback`` (what was not sent before is added), ``transform`` (scores
    of M public codewords) and ``mechanism`` (one private report on them). ``budget`` is the ε′ that
    a report may cost. Compose one of your own, or take one by name with `fedsel.solution`.

    Proof: docs/proofs/transforms.md, T1.

    >>> from fedsel.mechanisms import Duchi, FlatPicks
    >>> flat = Solution("flat", dim=4, mechanism=FlatPicks(Duchi(1.0)), budget=Fraction(1))
    >>> flat.bits, flat.privacy.per_report
    (3, 1.0)
    """

    name: str
    dim: int
    mechanism: ReportMechanism
    epochs: int = 1
    transform: Transform = None  # type: ignore[assignment]  # coordinates, if none is given
    feedback: Feedback = field(default=NOTHING_KEPT)
    budget: Fraction | None = None
    note: str = ""

    def __post_init__(self) -> None:
        check_count("dim", self.dim, most=MAX_DIMENSION)
        check_count("epochs", self.epochs)
        check_kind("mechanism", self.mechanism, ReportMechanism)
        check_kind("feedback", self.feedback, Feedback)
        if self.transform is None:
            object.__setattr__(self, "transform", Coordinates(self.dim))
        check_kind("transform", self.transform, Transform)
        if self.transform.dim != self.dim:
            raise InvalidArgument("transform", self.transform, f"of dim = {self.dim}")
        if getattr(self.mechanism, "dim", self.dim) != self.dim:
            raise InvalidArgument("mechanism", self.mechanism, f"of dim = {self.dim}")
        if self.mechanism.whole and not isinstance(self.transform, Coordinates):
            raise InvalidArgument("transform", self.transform, "Coordinates: all entries are sent")
        if self.mechanism.whole and self.feedback.accumulate:
            raise InvalidArgument("feedback", self.feedback, "nothing: all entries are sent")
        if self.mechanism.picks > self.transform.size:
            raise InvalidArgument(
                "picks", self.mechanism.picks, f"in 1 … the slots: {self.transform.size}"
            )

    def in_round(self, number: int) -> Solution:
        """The solution as both ends use it in a round; rounds count through all epochs."""
        turned = self.transform.in_round(number)
        return self if turned is self.transform else replace(self, transform=turned)

    # --- privacy --------------------------------------------------------------------------------

    @property
    def claimed(self) -> Epsilon:
        """ε′, what one report may cost; what the mechanism claims where no budget was given."""
        return self.mechanism.claimed if self.budget is None else self.budget

    def loss_ratio(self, d: int | None = None) -> Fraction | None:  # noqa: ARG002
        """The exact largest ratio of probabilities of one report: that of its mechanism.

        A mechanism's ratio is over all vectors of scores, so it holds whatever feedback and
        transform make of the client's data and of its own past reports; and which basis a report
        takes does not depend on them.
        """
        return self.mechanism.loss_ratio(self.transform.size)

    @cached_property
    def privacy(self) -> Privacy:
        """The exact ε of a report and of all."""
        certified = self.mechanism.certified
        return Privacy(self.budget, self.loss_ratio(), self.epochs, self.note, certified, self)

    def blanket(self, d: int | None = None) -> Blanket:  # noqa: ARG002
        """What hides a report among others once they are shuffled: that of its mechanism.

        Which basis a report takes does not depend on the data, and the blanket is over all vectors
        of scores: transform and feedback change nothing.
        """
        if not self.private:
            raise InvalidArgument("solution", self.name, "private: a certified one")
        return self.mechanism.blanket(self.transform.size)

    @property
    def private(self) -> bool:
        """Whether a certificate covers its reports."""
        return self.mechanism.certified and self.loss_ratio() is not None

    # --- both ends ------------------------------------------------------------------------------

    @cached_property
    def alphabet(self) -> Alphabet:
        """What a report can say, and what its symbols stand for."""
        transform = self.transform
        alphabet = self.mechanism.alphabet(transform.size, transform.codebook)
        return alphabet if transform.bases == 1 else replace(alphabet, slots=transform.slots)

    @cached_property
    def bits(self) -> int:
        """The length of a report in bits."""
        return self.mechanism.bits(self.transform.slots)

    @property
    def noise(self) -> float:
        """√E‖decoded report‖² for a small update: the noise of one report, its ⊥ included.

        >>> from fedsel import solution
        >>> round(solution("RJ", epsilon=1.0, dim=124, rho=2.0).noise)
        56
        """
        power = self.mechanism.noise_power(self.transform.size)
        unit = self.mechanism.unit(self.transform.size, self.transform.codebook)
        return unit * self.transform.length * math.sqrt(power) if power else 0.0

    @cached_property
    def influence(self) -> Influence:
        """How far one report can move the sum of all decoded reports, whoever sends it.

        Infinite where numbers leave as they are: nothing bounds them.

        >>> from fedsel import solution
        >>> influence = solution("RJ", epsilon=1.0, dim=100, rho=0.4).influence
        >>> round(influence.largest, 2), round(influence.norm, 2)  # a codeword moves all entries
        (1.01, 10.06)
        """
        alphabet = self.alphabet
        return self.transform.influence(alphabet.picks).times(alphabet.bound)

    @property
    def accumulates(self) -> bool:
        """Whether a client keeps what it did not send, for later epochs."""
        return self.feedback.accumulate

    @property
    def rate_inside(self) -> bool:
        """Whether clients report on α times their update (…-O), so that the server's rate is 1."""
        return self.feedback.rate_inside

    @property
    def decays_at_server(self) -> bool:
        """Whether the server alone applies the regulariser λw, which is public."""
        return self.mechanism.decays_at_server

    def encode(
        self, gradient: Vector, residual: Vector, entropy: Entropy = SYSTEM
    ) -> tuple[Reports, Vector]:
        """A client's report and the residual that it keeps; zeros are "no residual"."""
        before = check_vectors("residual", residual, ndim=1)
        update = check_vectors("gradient", gradient, ndim=1)
        if len(before) != self.dim or len(update) != self.dim:
            raise InvalidData(f"gradient, residual: must have {self.dim} entries each")
        r = self.feedback.accumulated(before, update)
        bases = self.transform.bases
        basis = int(entropy.below(bases)) if bases > 1 else 0
        transform = self.transform.in_basis(basis)
        scores = TransformedScores(transform, r, self.feedback.told(before, r))
        report = self.mechanism.draw(scores, entropy)
        kept = self.feedback.kept(before, r, report.slot.tolist(), transform)
        return report.moved(basis * transform.size) if basis else report, kept

    def totals(self) -> Totals:
        """Empty totals for the reports of a round: the one that this solution is of."""
        return Totals(self.alphabet, self.transform.adder)

    def expand(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """The update (d,) that the means of totals stand for."""
        return self.transform.combine(means)

    def decode(self, reports: Reports) -> NDArray[np.float64]:
        """The server's estimate of the mean update, from the reports of a round."""
        totals = self.totals()
        totals.add(reports)
        return self.expand(totals.mean())
