"""A solution: feedback × transform × mechanism, from which all else is derived.

Server and devices share one object of public parameters, so they cannot disagree, and devices call
`encode` of the very object that is certified.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import SYSTEM
from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    InvalidData,
    check_count,
    check_finite,
    check_kind,
    check_vectors,
)
from fedsel.mechanisms import Entropy
from fedsel.mechanisms._base import MAX_DIMENSION, ReportMechanism, Vector
from fedsel.mechanisms._certificate import Blanket
from fedsel.mechanisms._reports import BOTTOM, Alphabet, Reports, Totals
from fedsel.solutions._privacy import Influence, Privacy
from fedsel.solutions._transforms import Coordinates, Transform


@final
@dataclass(frozen=True)
class Feedback:
    """What a client keeps for later epochs: nothing, or (``accumulate``) what it has not sent.

    r = residual + update is ranked, r + momentum·residual is reported, and clipping comes last:
    privacy depends on this order. With ``rate_inside`` (…-O) a client multiplies its update by the
    learning rate α, and the server steps by the mean itself. (FedSel, Algorithm 1.)

    Proof: docs/proofs/composition.md, C2, and docs/proofs/transforms.md, T9.

    >>> keep = Feedback(accumulate=True, momentum=0.5)
    >>> before, update = np.array([1.0, 0.0]), np.array([1.0, 2.0])
    >>> r = keep.accumulated(before, update)
    >>> r, keep.reported_vector(before, r)
    (array([2., 2.]), array([2.5, 2. ]))
    """

    accumulate: bool = False
    momentum: float = 0.0
    rate_inside: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "momentum", float(check_finite("momentum", self.momentum)))

    def accumulated(self, residual: Vector, update: Vector) -> Vector:
        """r, kept finite on overflow, because whether a client answers must not depend on data."""
        if not self.accumulate:
            return update
        with np.errstate(over="ignore"):
            total: Vector = np.nan_to_num(residual + update)
        return total

    def reported_vector(self, residual: Vector, accumulated: Vector) -> Vector:
        """The vector from which values are reported, before clipping."""
        if not self.accumulate or self.momentum == 0:
            return accumulated
        with np.errstate(over="ignore", invalid="ignore"):
            wide = accumulated.astype(np.float64) + self.momentum * residual.astype(np.float64)
        return np.asarray(wide)

    def kept(
        self, residual: Vector, accumulated: Vector, sent: Iterable[int], transform: Transform
    ) -> Vector:
        """The residual after the slots of a report have been sent."""
        if not self.accumulate:
            return residual
        rest = accumulated
        for slot in sent:
            if slot != BOTTOM:
                rest = transform.without(rest, slot)
        return rest if rest is not accumulated else accumulated.copy()


NOTHING_KEPT = Feedback()


def norm(vector: Vector) -> float:
    """‖vector‖ in double precision; infinite on overflow."""
    wide = vector.astype(np.float64)
    with np.errstate(over="ignore"):
        return math.sqrt(float(wide @ wide))


class TransformedScores:
    """The `Scores` of a client's update: scores of r, and values to report."""

    def __init__(self, transform: Transform, ranked: Vector, reported: Vector) -> None:
        self._transform, self._ranked, self._reported = transform, ranked, reported

    @property
    def size(self) -> int:
        return self._transform.size

    def all(self) -> Vector:
        with np.errstate(over="ignore", invalid="ignore"):
            # An overflow of scores must not decide whether a client answers.
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


def plain_scores(vector: Vector) -> TransformedScores:
    """The `Scores` of a vector whose entries are both scores and values."""
    return TransformedScores(Coordinates(len(vector)), vector, vector)


@final
@dataclass(frozen=True)
class Solution:
    """A way to estimate the mean of updates of ``dim`` entries from private reports.

    A client's update passes ``feedback`` (which adds what was not sent before), ``transform``
    (scores of M public codewords) and ``mechanism`` (one private report on them). ``budget`` is the
    ε′ that a report may cost. Compose your own, or build one by name with `fedsel.solution`.

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
            raise InvalidArgument("transform", self.transform, f"a transform of dim = {self.dim}")
        if getattr(self.mechanism, "dim", self.dim) != self.dim:
            raise InvalidArgument("mechanism", self.mechanism, f"a mechanism of dim = {self.dim}")
        if self.mechanism.whole and not self.transform.identity:
            raise InvalidArgument("transform", self.transform, "Coordinates: all entries are sent")
        if self.mechanism.whole and self.feedback.accumulate:
            raise InvalidArgument("feedback", self.feedback, "Feedback(): all entries are sent")
        if self.mechanism.picks > self.transform.size:
            raise InvalidArgument(
                "picks", self.mechanism.picks, f"at most {self.transform.size}, the number of slots"
            )

    def in_round(self, number: int) -> Solution:
        """The solution for one round. Rounds are numbered through all epochs."""
        turned = self.transform.in_round(number)
        if turned.size != self.transform.size:  # the certificates are for this size
            allowed = f"a transform with {self.transform.size} slots in every round"
            raise InvalidArgument("transform", turned, allowed)
        return self if turned is self.transform else replace(self, transform=turned)

    # --- privacy --------------------------------------------------------------------------------

    @property
    def claimed(self) -> Epsilon:
        """ε′, the budget of one report, or the mechanism's claim if there is no budget."""
        return self.mechanism.claimed if self.budget is None else self.budget

    def loss_ratio(self, d: int | None = None) -> Fraction | None:  # noqa: ARG002
        """The exact largest ratio of probabilities of one report, which is the mechanism's.

        It is over all vectors of scores, so it holds for any feedback and transform. The basis of
        a report does not depend on the data.
        """
        return self.mechanism.loss_ratio(self.transform.size)

    @cached_property
    def privacy(self) -> Privacy:
        """The exact ε of a report and of all."""
        certified = self.mechanism.certified
        return Privacy(self.budget, self.loss_ratio(), self.epochs, self.note, certified, self)

    def blanket(self, d: int | None = None) -> Blanket:  # noqa: ARG002
        """The mechanism's blanket, which hides a report among shuffled ones.

        It is over all vectors of scores, so transform and feedback do not change it.
        """
        if not self.private:
            raise InvalidArgument("solution", self.name, "private and certified")
        return self.mechanism.blanket(self.transform.size)

    @property
    def private(self) -> bool:
        """Whether a certificate covers its reports."""
        return self.mechanism.certified and self.loss_ratio() is not None

    # --- both ends ------------------------------------------------------------------------------

    @cached_property
    def alphabet(self) -> Alphabet:
        """The possible reports, and what each symbol adds to a total."""
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
        """How far one report can move the sum of decoded reports; infinite for unbounded numbers.

        >>> from fedsel import solution
        >>> influence = solution("RJ", epsilon=1.0, dim=100, rho=0.4).influence
        >>> round(influence.largest, 2), round(influence.norm, 2)  # a codeword moves all entries
        (1.01, 10.06)
        """
        alphabet = self.alphabet
        return self.transform.influence(alphabet.picks).times(alphabet.bound)

    @property
    def accumulates(self) -> bool:
        """Whether a client keeps what it did not send for later epochs."""
        return self.feedback.accumulate

    @property
    def rate_inside(self) -> bool:
        """Whether clients multiply their update by α (…-O), so that the server's rate is 1."""
        return self.feedback.rate_inside

    @property
    def decays_at_server(self) -> bool:
        """Whether the server alone applies the regulariser λw, which is public."""
        return self.mechanism.decays_at_server

    def encode(
        self, gradient: Vector, residual: Vector, entropy: Entropy = SYSTEM
    ) -> tuple[Reports, Vector]:
        """Draw a client's report and return it with the new residual. Zeros mean no residual."""
        before = check_vectors("residual", residual, ndim=1)
        update = check_vectors("gradient", gradient, ndim=1)
        if len(before) != self.dim or len(update) != self.dim:
            raise InvalidData(f"gradient, residual: must have {self.dim} entries each")
        r = self.feedback.accumulated(before, update)
        bases = self.transform.bases
        basis = int(entropy.below(bases)) if bases > 1 else 0
        transform = self.transform.in_basis(basis)
        scores = TransformedScores(transform, r, self.feedback.reported_vector(before, r))
        report = self.mechanism.draw(scores, entropy)
        kept = self.feedback.kept(before, r, report.slot.tolist(), transform)
        return report.moved(basis * transform.size) if basis else report, kept

    def totals(self) -> Totals:
        """Empty totals for the reports of this solution's round."""
        return Totals(self.alphabet, self.transform.adder)

    def expand(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert the means of totals to an update (d,)."""
        return self.transform.combine(means)

    def decode(self, reports: Reports) -> NDArray[np.float64]:
        """The server's estimate of the mean update, from the reports of a round."""
        check_kind("reports", reports, Reports)
        totals = self.totals()
        totals.add(reports)
        return self.expand(totals.mean())


def what_leaves(solution: Solution) -> str:
    """Describe the content of a report of a solution.

    >>> from fedsel import solution
    >>> what_leaves(solution("RJ", epsilon=1.0, dim=100))
    'one of 128 directions of a rotated basis, with a sign'
    """
    alphabet, mechanism = solution.alphabet, solution.mechanism
    if mechanism.whole:
        if solution.privacy.ratio is None:
            return f"all {solution.dim:,} entries as they are"
        return f"a draw from all {solution.dim:,} entries, in floats"
    count = "one" if alphabet.picks == 1 else f"{alphabet.picks}"
    slots = f"{count} of {alphabet.slots:,} {solution.transform.slots_are}"
    if alphabet.plain:
        value = "with its value as it is"
    elif alphabet.symbols == 2:
        value = "with a sign"
    else:
        value = f"with one of {alphabet.symbols:,} values"
    return f"{slots}, {value}" + (", or nothing (⊥)" if alphabet.abstains else "")
