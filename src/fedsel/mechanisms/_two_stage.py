"""Reports of values: the paper's two stages, flat picks, and the whole vector in the clear."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np

from fedsel.errors import Epsilon, InvalidArgument, check_count, check_kind, check_positive
from fedsel.mechanisms._base import (
    Codebook,
    Mechanism,
    ReportLaw,
    ReportMechanism,
    Scores,
    Selection,
    Value,
    WholeVector,
)
from fedsel.mechanisms._certificate import Blanket, OutputClass
from fedsel.mechanisms._drawing import Entropy, draw_dimension, draw_distinct, draw_symbol
from fedsel.mechanisms._laws import RankLaw
from fedsel.mechanisms._reports import BOTTOM, Alphabet, Reports

_UNRANKED = np.empty(0)


class ValueReports(ReportMechanism):
    """A mechanism that chooses slots, clips the value at each to ±clip, and perturbs it."""

    value: Value
    clip: float

    @abstractmethod
    def scale(self, size: int) -> float:
        """The factor by which reported values are multiplied."""

    @abstractmethod
    def abstains(self, size: int) -> bool:
        """Whether a report can be ⊥."""

    @abstractmethod
    def choose(self, scores: Scores, entropy: Entropy) -> Iterator[int]:
        """Draw the slots of a report; none for ⊥."""

    @abstractmethod
    def slot_law(self, vector: Sequence[Fraction]) -> dict[tuple[int, ...], Fraction]:
        """Exact probability of each choice of slots."""

    def unit(self, size: int, codebook: Codebook | None = None) -> float:
        scale = self.scale(size)
        correlation = None if codebook is None else codebook.rms_correlation
        if correlation is not None:  # M codewords together count an update M·correlation² times
            scale /= size * correlation * correlation
        return scale if self.value.plain else scale * self.clip

    def alphabet(self, size: int, codebook: Codebook | None = None) -> Alphabet:
        unit, abstains = self.unit(size, codebook), self.abstains(size)
        if self.value.plain:
            return Alphabet.of_numbers(size, self.picks, unit, abstains=abstains)
        law = self.value.law
        offsets = np.array(law.offsets, dtype=np.int64)
        _, first = law.steps(offsets)
        units = unit * law.kappas
        return Alphabet(size, law.symbols, self.picks, abstains, offsets, first, 2, units)

    def draw(self, scores: Scores, entropy: Entropy, /) -> Reports:
        slots, symbols = [], []
        for j in self.choose(scores, entropy):
            slots.append(j)
            symbols.append(self._reported(scores.value(j), entropy))
        return Reports(slots, symbols) if slots else Reports([BOTTOM], [0])

    def _reported(self, s: float, entropy: Entropy) -> int | float:
        """Clip and perturb a value. Nothing may be added to it after clipping."""
        if self.value.plain:
            return s
        t = max(-self.clip, min(self.clip, s)) / self.clip
        return draw_symbol(self.value.law, t, entropy)

    def report_law(
        self, vector: Sequence[Fraction], values: Sequence[Fraction] | None = None
    ) -> ReportLaw:
        value_law = self.value.law
        clip, reported = Fraction(self.clip), vector if values is None else values
        laws = [value_law.probabilities(max(-clip, min(clip, s)) / clip) for s in reported]
        law: ReportLaw = {}
        for slots, chosen in self.slot_law(vector).items():
            for symbols in itertools.product(range(value_law.symbols), repeat=len(slots)):
                pairs = tuple(zip(slots, symbols, strict=True))
                law[pairs] = math.prod((laws[j][s] for j, s in pairs), start=chosen)
        return law

    def report_norm(self, entry: float, size: int) -> float:
        return entry * self.clip * self.scale(size) * math.sqrt(self.picks)


@final
@dataclass(frozen=True)
class TwoStage(ValueReports):
    """Select a slot by ``selection``, report its value by ``value``. (FedSel, Theorem 1.)

    Exactly (ε₁ + ε₂)-LDP, because the value is clipped last.

    Proof: docs/proofs/reports.md, P1, P2.

    >>> from fedsel.mechanisms import Duchi, PerturbedSampling
    >>> TwoStage(PerturbedSampling(0.5, k=1), Duchi(1.5)).claimed
    Fraction(2, 1)
    """

    name: ClassVar[str] = "two-stage"
    selection: Selection
    value: Value
    clip: float = 1.0

    def __post_init__(self) -> None:
        check_kind("selection", self.selection, Selection)
        check_kind("value", self.value, Value)
        object.__setattr__(self, "clip", check_positive("clip", self.clip))

    @property
    def label(self) -> str:
        """The paper's abbreviation, such as PS-PM."""
        return f"{self.selection.name}-{self.value.name}"

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        return self.selection, self.value

    def describe(self, d: int | None = None) -> list[str]:
        return [line for part in self.parts for line in part.describe(d)]

    def favoured(self, d: int) -> int | None:
        return self.selection.favoured(d)

    @property
    def published(self) -> bool:  # type: ignore[override]
        return self.selection.published

    @property
    def claimed(self) -> Epsilon:
        """ε₁ + ε₂, added exactly."""
        if not (self.selection.private and self.value.private):
            return math.inf
        return Fraction(self.selection.claimed) + Fraction(self.value.claimed)

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """The product of both stages' ratios.

        One report can attain both extremes: a dimension ranked last may still exceed the clip.
        """
        chosen, value = self.selection.loss_ratio(d), self.value.loss_ratio()
        return None if chosen is None or value is None else chosen * value

    def blanket(self, d: int | None = None) -> Blanket:
        """The blanket of opposite ranks and opposite values. ⊥ is equally likely for all inputs."""
        law, value = self.selection.law(check_count("d", d)), self.value.blanket()
        slots = Blanket.of_ranks(RankLaw(law.weights, law.counts.tolist())).times(value)
        if not law.bottom:
            return slots
        bottom = law.bottom * value.total
        abstaining = OutputClass(bottom, bottom, bottom, 1)
        return Blanket.of((*slots.classes, abstaining), slots.total + bottom)

    def scale(self, size: int) -> float:  # noqa: ARG002
        return 1.0

    def abstains(self, size: int) -> bool:
        return self.selection.law(size).bottom > 0

    def choose(self, scores: Scores, entropy: Entropy) -> Iterator[int]:
        law = self.selection.law(scores.size)
        magnitudes = _UNRANKED if law.uniform else np.abs(scores.all())
        j = draw_dimension(law, magnitudes, entropy)
        if j != BOTTOM:
            yield j

    def slot_law(self, vector: Sequence[Fraction]) -> dict[tuple[int, ...], Fraction]:
        law = self.selection.law(len(vector))
        by_slots: dict[tuple[int, ...], Fraction] = {
            (j,): p for j, p in enumerate(law.over(vector))
        }
        return by_slots | ({(): law.bottom_probability} if law.bottom else {})

    def noise_power(self, size: int) -> float:
        return float(1 - self.selection.law(size).bottom_probability) * self.value.variance(0)

    def mean_norm(self, entry: float, size: int, dim: int) -> float:  # noqa: ARG002
        return entry * self.clip * self.scale(size)


@final
@dataclass(frozen=True)
class FlatPicks(ValueReports):
    """``picks`` slots at random, without replacement, each value times M/picks: unbiased.

    Each value is perturbed at ε/picks. Slots do not depend on the data, so the losses of the values
    add up. ``scaled=False`` omits the factor M.

    Proof: docs/proofs/reports.md, P3, P4.

    >>> from fedsel.mechanisms import Duchi
    >>> FlatPicks(Duchi(0.5), picks=2).claimed
    Fraction(1, 1)
    """

    name: ClassVar[str] = "flat"
    value: Value
    picks: int = 1
    clip: float = 1.0
    scaled: bool = True

    def __post_init__(self) -> None:
        check_kind("value", self.value, Value)
        object.__setattr__(self, "picks", check_count("picks", self.picks))
        object.__setattr__(self, "clip", check_positive("clip", self.clip))

    @property
    def label(self) -> str:
        """The paper's abbreviation, such as PM."""
        return self.value.name

    @property
    def claimed(self) -> Epsilon:
        return Fraction(self.value.claimed) * self.picks if self.value.private else math.inf

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """The value's ratio to the power of ``picks``."""
        if d is not None and self.picks > check_count("d", d):
            raise InvalidArgument("picks", self.picks, f"at most d = {d}")
        value = self.value.loss_ratio()
        return None if value is None else value**self.picks

    def blanket(self, d: int | None = None) -> Blanket:  # noqa: ARG002
        """The blanket of opposite values at every slot. Slots do not depend on the input."""
        value = self.value.blanket()
        blanket = value
        for _ in range(self.picks - 1):
            blanket = blanket.times(value)
        return blanket

    def scale(self, size: int) -> float:
        return (size if self.scaled else 1) / self.picks

    def abstains(self, size: int) -> bool:  # noqa: ARG002
        return False

    def choose(self, scores: Scores, entropy: Entropy) -> Iterator[int]:
        return draw_distinct(scores.size, self.picks, entropy)

    def slot_law(self, vector: Sequence[Fraction]) -> dict[tuple[int, ...], Fraction]:
        orders = list(itertools.permutations(range(len(vector)), self.picks))
        return dict.fromkeys(orders, Fraction(1, len(orders)))

    def noise_power(self, size: int) -> float:  # noqa: ARG002
        return self.picks * self.value.variance(0)

    def mean_norm(self, entry: float, size: int, dim: int) -> float:
        if size != dim:  # unbiased on projections, too
            return entry * self.clip * math.sqrt(dim)
        return entry * self.clip * self.scale(size) * (self.picks / size * math.sqrt(size))


def flat_picks(epsilon: Fraction, dim: int) -> int:
    """The number of dimensions in a flat report: max(1, min(d, ⌊ε/2.5⌋)). (Wang et al. 2019.)

    >>> flat_picks(Fraction(6), 100), flat_picks(Fraction(1), 100), flat_picks(Fraction(50), 3)
    (2, 1, 3)
    """
    return max(1, min(dim, int(epsilon / Fraction(5, 2))))


@final
@dataclass(frozen=True)
class FullGradient(WholeVector):
    """NP: every entry, unchanged. Not private.

    No certificate: docs/proofs/reports.md, P9.

    >>> FullGradient().bits(100)
    3200
    """

    name: ClassVar[str] = "full"

    def loss_ratio(self, d: int | None = None) -> Fraction | None:  # noqa: ARG002
        return None

    def unit(self, size: int, codebook: Codebook | None = None) -> float:  # noqa: ARG002
        return 1.0

    def draw(self, scores: Scores, entropy: Entropy, /) -> Reports:  # noqa: ARG002
        return Reports(np.arange(scores.size), scores.values())

    def noise_power(self, size: int) -> float:  # noqa: ARG002
        return 0.0

    def report_norm(self, entry: float, size: int) -> float:
        return entry * math.sqrt(size)
