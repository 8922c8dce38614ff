"""One-symbol solutions: the whole ε on one signed codeword of a public codebook."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, InvalidData, check_vectors
from fedsel.mechanisms import BOTTOM, Joint, SignedSampling, certify
from fedsel.mechanisms.one_symbol import upper_sum
from fedsel.random import Entropy
from fedsel.sampling.device import SYSTEM, draw_joint, norm
from fedsel.solutions.base import Alphabet, Privacy, Solution, Vector, bits_for
from fedsel.solutions.transforms import Codebook, Coordinates, Rotated

Signed = tuple[int, int]
"""(codeword, sign)."""


@final
@dataclass(frozen=True)
class Coded(Solution):
    """Rank the signed codewords by their inner product with the gradient, report one of them.

    With a radius the mean of the reports is the mean gradient up to that norm (exactly so for UJ,
    for J and its rotations as far as gradients point anywhere). The order of the codewords is all
    that the mechanism sees, so its certificate holds for every gradient. No residual is kept.

    >>> made = Coded("J", dim=100, epochs=1, mechanism=SignedSampling(2.0, radius=3.0))
    >>> made.bits, made.privacy.per_report
    (8, 2.0)
    """

    mechanism: Joint = field(default_factory=lambda: SignedSampling(1.0))
    codebook: Codebook | None = None
    budget: Fraction | None = None
    note: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.codebook is not None and self.codebook.dim != self.dim:
            raise InvalidArgument("codebook", self.codebook, f"of dim = {self.dim}")

    @property
    def decays_at_server(self) -> bool:
        return True

    def in_round(self, number: int) -> Coded:
        if isinstance(self.codebook, Rotated) and self.codebook.round != number:
            return replace(self, codebook=replace(self.codebook, round=number))
        return self

    @property
    def book(self) -> Codebook:
        return self.codebook or Coordinates(self.dim)

    @property
    def privacy(self) -> Privacy:
        ratio = certify(self.mechanism, self.book.size).ratio
        return Privacy(self.budget, ratio, self.epochs, self.note)

    @property
    def bits(self) -> int:
        return bits_for(2 * self.book.size + self.mechanism.abstains)

    @property
    def scale(self) -> float:
        """What one reported codeword stands for, such that the mean is about the mean gradient.

        For J on coordinates: exact for k equal entries. On a rotated or random codebook: exact on
        the mean over directions.
        """
        M, spread, mechanism = self.book.size, self.book.spread, self.mechanism
        if spread is None or not isinstance(mechanism, SignedSampling):
            return mechanism.scale(M)
        # What a report has in common with its update: the top k of M scores, raised by the lift.
        shared = mechanism.lift(M) * upper_sum(mechanism.top(M), M) * spread
        return (mechanism.radius or 1.0) / shared if shared else 0.0

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(
            slots=self.book.size,
            symbols=2,
            picks=1,
            abstains=self.mechanism.abstains,
            windows=np.zeros(2, dtype=np.int64),
            steps=np.array([1, -1]),
            units=np.array([self.scale]),
        )

    def expand(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.book.combine(totals)

    def encode(
        self, gradient: Vector, residual: Vector, entropy: Entropy = SYSTEM
    ) -> tuple[tuple[Signed, ...], Vector]:
        """One signed codeword, none for ⊥; no residual is used."""
        step = check_vectors("gradient", gradient, ndim=1)
        if len(step) != self.dim:
            raise InvalidData(f"gradient: must have {self.dim} entries")
        with np.errstate(over="ignore", invalid="ignore"):
            # Whether a client answers must not depend on an overflow of its scores.
            scores = np.nan_to_num(self.book.scores(step))
        sent = draw_joint(self.mechanism, scores, entropy, norm(step))
        said = () if sent.dimension == BOTTOM else ((sent.dimension, sent.symbol),)
        return said, residual

    def decode(self, messages: Sequence[object]) -> NDArray[np.float64]:
        pairs = [pair for message in messages for pair in message]  # type: ignore[attr-defined]
        said = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        totals = np.zeros(self.book.size)
        np.add.at(totals, said[:, 0], 1.0 - 2.0 * said[:, 1])
        mean: NDArray[np.float64] = self.book.combine(totals * (self.scale / max(1, len(messages))))
        return mean
