"""The paper's two-stage report: select a dimension, then perturb its value. (FedSel, Theorem 1.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

from fedsel.errors import Epsilon, InvalidArgument, check_finite, check_positive
from fedsel.mechanisms.base import Mechanism, Selection, Value
from fedsel.mechanisms.laws import BOTTOM


@final
@dataclass(frozen=True)
class TwoStage(Mechanism):
    """Select by ``selection``, clip to ±clip *after* the momentum is added, report by ``value``.

    A report is (dimension, symbol); it is exactly (ε₁ + ε₂)-LDP.

    >>> from fedsel.mechanisms import Duchi, PerturbedSampling
    >>> TwoStage(PerturbedSampling(0.5, k=1), Duchi(1.5)).claimed
    Fraction(2, 1)
    """

    name: ClassVar[str] = "two-stage"
    selection: Selection
    value: Value
    clip: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.selection, Selection):
            raise InvalidArgument("selection", self.selection, "a Selection mechanism")
        if not isinstance(self.value, Value):
            raise InvalidArgument("value", self.value, "a Value mechanism")
        object.__setattr__(self, "clip", check_positive("clip", self.clip))
        object.__setattr__(self, "momentum", float(check_finite("momentum", self.momentum)))

    @property
    def label(self) -> str:
        """The paper's abbreviation, such as PS-PM."""
        return f"{self.selection.name}-{self.value.name}"

    @property
    def claimed(self) -> Epsilon:
        """ε₁ + ε₂, added exactly."""
        if not (self.selection.private and self.value.private):
            return float("inf")
        return Fraction(self.selection.claimed) + Fraction(self.value.claimed)

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """The product of both stages' ratios.

        Their extremes meet in one report: a dimension ranked last may yet lie beyond the clip.
        """
        chosen, told = self.selection.loss_ratio(d), self.value.loss_ratio()
        return None if chosen is None or told is None else chosen * told

    def report_law(
        self, residual: Sequence[Fraction], gradient: Sequence[Fraction]
    ) -> dict[tuple[int, int], Fraction]:
        """Exact probability of each report (dimension, symbol): the readable twin of the samplers.

        r = residual + gradient is ranked; the value is r_j + η·residual_j, clipped. (Algorithm 1.)
        """
        accumulated = [a + b for a, b in zip(residual, gradient, strict=True)]
        ranks = self.selection.law(len(accumulated))
        clip, momentum = Fraction(self.clip), Fraction(self.momentum)
        law: dict[tuple[int, int], Fraction] = {}
        if ranks.bottom:
            law[(BOTTOM, 0)] = ranks.bottom_probability
        for j, chosen in enumerate(ranks.over(accumulated)):
            s = accumulated[j] + momentum * residual[j]
            t = max(-clip, min(clip, s)) / clip
            for symbol, p in enumerate(self.value.law.probabilities(t)):
                law[(j, symbol)] = chosen * p
        return law
