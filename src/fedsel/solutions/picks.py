"""Solutions that send one or a few (dimension, value) pairs: two-stage, flat, NP-RS, NP-K."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, InvalidData, check_finite, check_positive, check_vectors
from fedsel.mechanisms import BOTTOM, Selection, Uniform, Value, certify
from fedsel.random import Entropy
from fedsel.sampling.device import SYSTEM, draw_dimension, draw_symbol, saturating_sum
from fedsel.solutions.base import (
    Alphabet,
    Privacy,
    Solution,
    Vector,
    alphabet_of,
    bits_for,
)

Pair = tuple[int, int | float]
"""(dimension, symbol), or (dimension, value) where values leave as they are."""


@final
@dataclass(frozen=True)
class Picks(Solution):
    """Choose ``picks`` dimensions by ``selection`` and report each value times ``scale``.

    With ``value`` None the value leaves as it is: not private. More than one pick needs the
    Uniform selection, and draws without replacement. ``budget`` is the ε′ that a report may cost.

    >>> from fedsel.mechanisms import Duchi
    >>> flat = Picks("Duchi", dim=4, epochs=1, selection=Uniform(), value=Duchi(1.0), scale=4.0)
    >>> flat.bits, flat.privacy.per_report
    (3, 1.0)
    """

    selection: Selection = field(default_factory=Uniform)
    value: Value | None = None
    budget: Fraction | None = None
    picks: int = 1
    scale: float = 1.0
    clip: float = 1.0
    momentum: float = 0.0
    accumulate: bool = False
    accumulate_rate: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "clip", check_positive("clip", self.clip))
        object.__setattr__(self, "momentum", float(check_finite("momentum", self.momentum)))
        if not 1 <= self.picks <= self.dim:
            raise InvalidArgument("picks", self.picks, f"in 1 … dim = {self.dim}")
        if self.picks > 1 and not isinstance(self.selection, Uniform):
            raise InvalidArgument("picks", self.picks, f"1 with {self.selection!r}")

    @property
    def accumulates(self) -> bool:
        return self.accumulate

    @property
    def rate_inside(self) -> bool:
        return self.accumulate_rate

    @property
    def privacy(self) -> Privacy:
        if self.value is None:
            return Privacy(self.budget, None, self.epochs, self.note)
        chosen = certify(self.selection, self.dim).ratio
        told = certify(self.value).ratio
        # Dimensions drawn without replacement are independent of the data; their values compose.
        ratio = None if chosen is None or told is None else chosen * told**self.picks
        return Privacy(self.budget, ratio, self.epochs, self.note)

    @property
    def bits(self) -> int:
        has_bottom = self.selection.law(self.dim).bottom > 0
        per_value = 32 if self.value is None else bits_for(self.value.symbols)
        return self.picks * (bits_for(self.dim + has_bottom) + per_value)

    @property
    def alphabet(self) -> Alphabet | None:
        if self.value is None:
            return None
        abstains = self.selection.law(self.dim).bottom > 0
        scale = self.scale * self.clip
        return alphabet_of(self.value, self.dim, scale, picks=self.picks, abstains=abstains)

    def encode(
        self, gradient: Vector, residual: Vector, entropy: Entropy = SYSTEM
    ) -> tuple[tuple[Pair, ...], Vector]:
        """The pairs of one client (none for ⊥), and the residual with the sent entry zeroed."""
        before = check_vectors("residual", residual, ndim=1)
        step = check_vectors("gradient", gradient, ndim=1)
        if len(before) != self.dim or len(step) != self.dim:
            raise InvalidData(f"gradient, residual: must have {self.dim} entries each")
        r = saturating_sum(before, step)
        pairs: list[Pair] = []
        for j in self._draw_dimensions(r, entropy):
            s = float(r[j]) + self.momentum * float(before[j])
            if self.value is None:
                pairs.append((j, s))
            else:
                t = max(-self.clip, min(self.clip, s)) / self.clip
                pairs.append((j, draw_symbol(self.value.law, t, entropy)))
        if not self.accumulate:
            return tuple(pairs), before
        kept = r.copy()
        kept[[j for j, _ in pairs]] = 0
        return tuple(pairs), kept

    def _draw_dimensions(self, r: Vector, entropy: Entropy) -> Iterator[int]:
        if self.picks > 1:
            yield from distinct(self.dim, self.picks, entropy)
            return
        j = draw_dimension(self.selection.law(self.dim), np.abs(r), entropy)
        if j != BOTTOM:
            yield j

    def decode(self, messages: Sequence[object]) -> NDArray[np.float64]:
        """Mean over the messages; an empty one (⊥) counts as a zero vector."""
        total = np.zeros(self.dim)
        for message in messages:
            for j, sent in message:  # type: ignore[attr-defined]
                total[j] += self.decoded(sent)
        return total / max(1, len(messages))

    def decoded(self, sent: int | float) -> float:
        """The value of a symbol (or of a plain value) on the scale of the mean."""
        if self.value is None:
            return self.scale * sent
        return self.scale * self.clip * float(self.value.decode(np.array([sent]))[0])


def distinct(d: int, picks: int, entropy: Entropy) -> Iterator[int]:
    """Dimensions drawn without replacement: each uniform among those not drawn before.

    >>> from fedsel.random import stream
    >>> sorted(distinct(3, 3, stream(0, 0, 0)))
    [0, 1, 2]
    """
    drawn: list[int] = []
    for p in range(picks):
        j = entropy.below(d - p)
        for earlier in drawn:  # ascending
            j += j >= earlier
        insort(drawn, j)
        yield j
