"""What advice is asked for: public quantities, checked, and the model of updates behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

from fedsel.advising.moments import Updates
from fedsel.auto import Model, PublicFacts, radius
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive
from fedsel.preparation._plan import OCTAVES

MOST_DIMENSIONS = 1 << 24


@final
@dataclass(frozen=True)
class Asked:
    """The public quantities of `fedsel.advise`, without ε; the rounds of an epoch are even."""

    dim: int
    clients: int
    batch: int
    epochs: int
    sparse: bool
    agreement: float
    norm: float
    clip: float
    regression: bool

    def __post_init__(self) -> None:
        check_count("dim", self.dim, least=2, most=MOST_DIMENSIONS)
        check_count("batch", self.batch, most=check_count("clients", self.clients))
        check_count("epochs", self.epochs)
        if not isinstance(self.sparse, bool):
            raise InvalidArgument("sparse", self.sparse, "True or False")
        if not 0 < check_finite("agreement", self.agreement) <= 1:
            raise InvalidArgument("agreement", self.agreement, "in (0, 1]")
        for name in ("norm", "clip"):
            _check_magnitude(name, getattr(self, name))

    @property
    def rounds(self) -> int:
        """Of an epoch."""
        return math.ceil(self.clients / self.batch)

    @property
    def reports(self) -> int:
        """Of the smallest round."""
        return self.clients // self.rounds

    def in_rounds(self, rounds: int) -> Asked:
        """The same with so many rounds in an epoch."""
        return replace(self, batch=math.ceil(self.clients / rounds))

    @property
    def model(self) -> Model:
        """What is trained."""
        return "regression" if self.regression else "linear"

    @property
    def updates(self) -> Updates:
        """The model behind the numbers."""
        length = radius(self.norm, model=self.model)
        return Updates(self.dim, length, float(self.agreement), self.sparse)

    @property
    def setting(self) -> PublicFacts:
        """What `fedsel.auto` is told; declared ranges may be anything."""
        return PublicFacts(
            self.dim,
            self.batch,
            self.epochs * self.rounds,
            self.norm,
            model=self.model,
            offset=True,
            loose=OCTAVES,
        )


def _check_magnitude(name: str, value: object) -> None:
    """A length that arithmetic can square and divide by."""
    number = check_positive(name, value)
    if not 1e-9 <= number <= 1e9:
        raise InvalidArgument(name, value, "in 1e-9 … 1e9")
