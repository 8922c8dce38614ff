"""One-symbol mechanisms, which spend all of ε on the choice of one signed slot.

The choice is among the 2M signed slots (+e_j, −e_j). On the scores of a public codebook the signed
slots are the signed codewords.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.exact import WEIGHT_BUDGET, exp_lower
from fedsel.errors import Epsilon, check_count, check_epsilon, check_positive
from fedsel.mechanisms._base import Codebook, ReportLaw, ReportMechanism, Scores, bits_for
from fedsel.mechanisms._certificate import Blanket
from fedsel.mechanisms._decimals import best_top
from fedsel.mechanisms._drawing import Entropy, draw_dimension
from fedsel.mechanisms._laws import INPUT_STEPS, RankLaw
from fedsel.mechanisms._reports import BOTTOM, Alphabet, Reports
from fedsel.mechanisms._selection import Top, check_top, count_top, threshold_law

PLUS, MINUS = 0, 1
"""The symbols of a one-symbol report: its sign."""


class OneSymbol(ReportMechanism):
    """A private report (slot, sign) of one vector, or ⊥ if the mechanism ``abstains``."""

    decays_at_server: ClassVar[bool] = True
    abstains: ClassVar[bool] = False
    radius: float | None

    @abstractmethod
    def top(self, d: int) -> int:
        """The number k of favoured slots among d."""

    def favoured(self, d: int) -> int | None:
        return self.top(d)

    def alphabet(self, size: int, codebook: Codebook | None = None) -> Alphabet:
        return Alphabet(
            slots=size,
            symbols=2,
            picks=1,
            abstains=self.abstains,
            offsets=np.array([0]),
            first=np.array([1]),
            stride=-2,
            units=np.array([self.unit(size, codebook)]),
        )

    def bits(self, size: int) -> int:
        return bits_for(2 * size + self.abstains)

    def noise_power(self, size: int) -> float:  # noqa: ARG002
        return 1.0

    def mean_norm(self, entry: float, size: int, dim: int) -> float:  # noqa: ARG002
        return self.radius or 1.0


def _signed(atom: int, size: int) -> tuple[int, int]:
    """Slot and sign of an atom in 0 … 2M−1; the positive ones come first."""
    return atom % size, PLUS if atom < size else MINUS


@final
@dataclass(frozen=True)
class SignedSampling(OneSymbol):
    """J: the right sign of each of the top k dimensions with weight e^ε, all else with weight 1.

    This is PS over the 2d signed dimensions, ranked by max(s·v_j, 0): exactly ε-LDP for every
    vector. If fewer than k entries are nonzero, zeros share the remaining places. By default ``k``
    is the best for ε and d. With a ``radius`` the vector is first negated with probability
    ½ − ‖v‖/(2·radius), which makes the report's mean proportional to ‖v‖ up to the radius. This
    preprocessing costs no privacy.

    Proof: docs/proofs/reports.md, P5, P6, P10.

    >>> SignedSampling(1.0, k=1).report_law([Fraction(2), Fraction(-3)])[((1, MINUS),)]
    Fraction(...)
    """

    name: ClassVar[str] = "J"
    epsilon: Epsilon
    k: Top | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        if self.k is not None:
            object.__setattr__(self, "k", check_top(self.k))
        if self.radius is not None:
            object.__setattr__(self, "radius", check_positive("radius", self.radius))

    def top(self, d: int) -> int:
        """The number of signed dimensions with weight e^ε."""
        return best_top(Fraction(self.epsilon), d) if self.k is None else count_top(self.k, d)

    def law(self, d: int) -> RankLaw:
        """The law over the ranks of the 2d signed dimensions."""
        return _signed_law(self, check_count("d", d, most=1 << 31))

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """max/min of the law: every signed dimension can hold every rank or tie."""
        law = self.law(check_count("d", d))
        return Fraction(law.maximum, law.minimum)

    def blanket(self, d: int | None = None) -> Blanket:
        """The blanket of a vector and its negative. A vector shorter than the radius mixes them."""
        return Blanket.of_ranks(self.law(check_count("d", d)))

    def lift(self, d: int) -> float:
        """How much more probable the right sign of a top dimension is than any other atom."""
        law = self.law(d)
        return (law.maximum - law.minimum) / law.total

    def unit(self, size: int, codebook: Codebook | None = None) -> float:
        """The unit that makes the mean report exact in a typical case.

        On coordinates that is a vector of k equal magnitudes whose norm is the radius; on codewords
        it is the average over all directions.
        """
        lift, k = self.lift(size), self.top(size)
        if codebook is None or codebook.rms_correlation is None:
            return (self.radius or 1.0) / (lift * math.sqrt(k)) if lift else 0.0
        shared = lift * codebook.top_sum(k) * codebook.rms_correlation
        return (self.radius or 1.0) / shared if shared else 0.0

    def describe(self, d: int | None = None) -> list[str]:
        size = check_count("d", d)
        return [f"raises k = {self.top(size)} of {2 * size} signed dimensions"]

    def keeps(self, norm: Fraction) -> Fraction:
        """The probability that a vector of this norm is not negated."""
        if self.radius is None:
            return Fraction(1)
        steps = keep_steps(float(norm), self.radius)
        return Fraction(steps, INPUT_STEPS)

    def draw(self, scores: Scores, entropy: Entropy, /) -> Reports:
        y, d = scores.all(), scores.size
        if self.radius is not None:
            steps = keep_steps(scores.norm(), self.radius)
            y = np.where(entropy.below(INPUT_STEPS) < steps, y, -y)
        signed = np.maximum(np.concatenate([y, -y]), 0)
        slot, sign = _signed(draw_dimension(self.law(d), signed, entropy), d)
        return Reports([slot], [sign])

    def report_law(
        self,
        vector: Sequence[Fraction],
        values: Sequence[Fraction] | None = None,  # noqa: ARG002
    ) -> ReportLaw:
        d = len(vector)
        norm = math.sqrt(sum(float(v) ** 2 for v in vector))
        kept = self.keeps(Fraction(norm))
        law: ReportLaw = {}
        for share, sign in ((kept, 1), (1 - kept, -1)):
            if not share:
                continue
            signed = [max(s * sign * v, Fraction(0)) for s in (1, -1) for v in vector]
            for atom, p in enumerate(self.law(d).over(signed)):
                report = (_signed(atom, d),)
                law[report] = law.get(report, Fraction(0)) + share * p
        return law


def keep_steps(norm: float, radius: float) -> int:
    """The probability ½ + min(1, norm/radius)/2 of keeping the sign, in steps of 1/INPUT_STEPS.

    >>> keep_steps(0.0, 1.0) == INPUT_STEPS // 2, keep_steps(9.0, 1.0) == INPUT_STEPS
    (True, True)
    """
    share = min(1.0, norm / radius)
    return math.floor((1.0 + share) * (INPUT_STEPS // 2) + 0.5)


@lru_cache(maxsize=16)
def _signed_law(mechanism: SignedSampling, d: int) -> RankLaw:
    return threshold_law(mechanism.epsilon, mechanism.top(d), 2 * d)


UNIT = 1 << 16
"""UJ rounds the entries of a vector to integers in 0 … UNIT."""


@final
@dataclass(frozen=True)
class UnbiasedJoint(OneSymbol):
    """UJ: (j, s) has the weight 1 + (e^ε − 1)·max(0, s·v_j) out of 2d + k·e^ε, ⊥ the rest.

    Exactly ε, and exactly unbiased for vectors of |v_j| ≤ 1 and ‖v‖₁ ≤ k on the grid of 1/UNIT.
    Entries are divided by ``clip``, and a longer vector is shortened to ‖v‖₁ = k.

    Proof: docs/proofs/reports.md, P7.

    >>> UnbiasedJoint(1.0, k=1).loss_ratio(10) <= exp_lower(1)
    True
    """

    name: ClassVar[str] = "UJ"
    abstains: ClassVar[bool] = True
    epsilon: Epsilon
    k: Top = 0.1
    clip: float = 1.0
    radius: ClassVar[None] = None  # type: ignore[misc]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "k", check_top(self.k))
        object.__setattr__(self, "clip", check_positive("clip", self.clip))

    def top(self, d: int) -> int:
        """The largest ‖v‖₁, k, that is reported without bias."""
        return count_top(self.k, d)

    def weights(self, d: int) -> tuple[int, int]:
        """(L, H): the weight of an atom is UNIT·L plus (H − L) times its entry."""
        return _joint_weights(Fraction(self.epsilon), self.top(d), check_count("d", d))

    def total(self, d: int) -> int:
        low, high = self.weights(d)
        return UNIT * (2 * d * low + self.top(d) * high)

    def noise_power(self, size: int) -> float:
        """The probability that the report of a zero vector is not ⊥."""
        low, high = self.weights(size)
        return 2 * size * low / (2 * size * low + self.top(size) * high)

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """H/L: an atom weighs between UNIT·L and UNIT·H, ⊥ between k·UNIT·L and k·UNIT·H."""
        low, high = self.weights(check_count("d", d))
        return Fraction(high, low)

    def blanket(self, d: int | None = None) -> Blanket:
        """The blanket of two disjoint choices of k atoms.

        The law raises k of 2d + k outputs, k of which are merged into ⊥.
        """
        size = check_count("d", d)
        low, high = self.weights(size)
        return Blanket.of_ranks(RankLaw([high, low], [self.top(size), 2 * size]))

    def unit(self, size: int, codebook: Codebook | None = None) -> float:
        low, high = self.weights(size)
        unit = self.clip * self.total(size) / (UNIT * (high - low)) if high > low else 0.0
        correlation = None if codebook is None else codebook.rms_correlation
        return unit if correlation is None else unit / (size * correlation * correlation)

    def describe(self, d: int | None = None) -> list[str]:
        size = check_count("d", d)
        return [f"unbiased up to ‖v‖₁ = {self.top(size)}; a sign stands for {self.unit(size):.6g}"]

    def entries(self, vector: Sequence[Fraction]) -> list[int]:
        """The magnitudes as integers: |v_j|/clip in units, shortened to a sum of k units."""
        d = len(vector)
        units = [min(UNIT, math.floor(float(abs(v)) / self.clip * UNIT)) for v in vector]
        most, total = self.top(d) * UNIT, sum(units)
        return [u * most // total for u in units] if total > most else units

    def draw(self, scores: Scores, entropy: Entropy, /) -> Reports:
        d, vector = scores.size, scores.values()
        low, high = self.weights(d)
        x, base = entropy.below(self.total(d)), 2 * d * low * UNIT
        # Computed even if the report ignores it, so that the time does not depend on the data.
        units = np.cumsum(self.unit_entries(vector))
        place = (x - base) // (high - low) if high > low else int(units[-1])
        j = int(np.count_nonzero(units <= place))
        if x < base:
            slot, sign = _signed(int(x // (low * UNIT)), d)
            return Reports([slot], [sign])
        if j == d:
            return Reports([BOTTOM], [0])
        return Reports([j], [PLUS if vector[j] > 0 else MINUS])

    def unit_entries(self, vector: NDArray[np.floating]) -> NDArray[np.int64]:
        """Compute `entries` with numpy."""
        with np.errstate(over="ignore"):
            raw = np.floor(np.abs(vector.astype(np.float64)) / self.clip * UNIT)
        units = np.minimum(raw, UNIT).astype(np.int64)
        most = self.top(len(vector)) * UNIT
        return units * most // max(most, int(units.sum()))

    def report_law(
        self,
        vector: Sequence[Fraction],
        values: Sequence[Fraction] | None = None,
    ) -> ReportLaw:
        reported = vector if values is None else values
        d = len(reported)
        low, high = self.weights(d)
        total = self.total(d)
        law: ReportLaw = {}
        for j, (v, u) in enumerate(zip(reported, self.entries(reported), strict=True)):
            for sign, right in ((PLUS, v > 0), (MINUS, v < 0)):
                weight = UNIT * low + ((high - low) * u if right else 0)
                law[((j, sign),)] = Fraction(weight, total)
        law[()] = 1 - sum(law.values(), Fraction(0))
        return law


@lru_cache(maxsize=256)
def _joint_weights(epsilon: Fraction, k: int, d: int) -> tuple[int, int]:
    growth = exp_lower(epsilon)
    low = max(1, math.floor(WEIGHT_BUDGET / (UNIT * (2 * d + k * growth))))
    # If e^ε does not fit into the weight budget, the ratio stays below it: less loss than claimed.
    return low, min(math.floor(growth * low), (WEIGHT_BUDGET // UNIT - 2 * d * low) // k)
