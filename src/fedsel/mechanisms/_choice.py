"""A report that is the choice itself: a slot, drawn by PS, without a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np

from fedsel.errors import Epsilon, check_kind
from fedsel.mechanisms._base import Codebook, Mechanism, ReportLaw, ReportMechanism, Scores
from fedsel.mechanisms._certificate import Blanket
from fedsel.mechanisms._drawing import Entropy, draw_dimension
from fedsel.mechanisms._reports import Alphabet, Reports
from fedsel.mechanisms._selection import PerturbedSampling


@final
@dataclass(frozen=True)
class Choice(ReportMechanism):
    """Report the slot that ``selection`` chooses, and nothing else.

    The law of a report is the law of PS, so its certificate is that of PS. On the blocks of a
    design (`fedsel.solutions.Blocks`) it is the mechanism of BR.

    Proof: docs/proofs/reports.md, P11.

    >>> Choice(PerturbedSampling(1.0, k=1)).report_law([Fraction(0), Fraction(1)])
    {((0, 0),): Fraction(...), ((1, 0),): Fraction(...)}
    """

    name: ClassVar[str] = "choice"
    selection: PerturbedSampling

    def __post_init__(self) -> None:
        check_kind("selection", self.selection, PerturbedSampling)

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        return (self.selection,)

    @property
    def claimed(self) -> Epsilon:
        return self.selection.claimed

    def describe(self, d: int | None = None) -> list[str]:
        return self.selection.describe(d)

    def favoured(self, d: int) -> int | None:
        return self.selection.favoured(d)

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        return self.selection.loss_ratio(d)

    def blanket(self, d: int | None = None) -> Blanket:
        return self.selection.blanket(d)

    def lift(self, size: int) -> float:
        """How much more probable a slot of the top k is than any other."""
        law = self.selection.law(size)
        return (law.maximum - law.minimum) / law.total

    def unit(self, size: int, codebook: Codebook | None = None) -> float:
        """The unit that makes the mean report exact: on coordinates, of the share of each slot."""
        k = self.selection.top(size)
        if codebook is None or codebook.rms_correlation is None:
            gain = self.lift(size)
        else:
            gain = self.lift(size) * codebook.top_sum(k) * codebook.rms_correlation
        return 1 / gain if gain else 0.0

    def alphabet(self, size: int, codebook: Codebook | None = None) -> Alphabet:
        return Alphabet(
            slots=size,
            symbols=1,
            picks=1,
            abstains=False,
            offsets=np.array([0]),
            first=np.array([1]),
            stride=0,
            units=np.array([self.unit(size, codebook)]),
        )

    def draw(self, scores: Scores, entropy: Entropy, /) -> Reports:
        law = self.selection.law(scores.size)
        return Reports([draw_dimension(law, np.abs(scores.all()), entropy)], [0])

    def report_law(
        self,
        vector: Sequence[Fraction],
        values: Sequence[Fraction] | None = None,  # noqa: ARG002
    ) -> ReportLaw:
        return {((j, 0),): p for j, p in enumerate(self.selection.law(len(vector)).over(vector))}

    def noise_power(self, size: int) -> float:  # noqa: ARG002
        return 1.0
