"""What a solution is: encode on the client, decode on the server, and an honest word on privacy.

Both ends are one object of public parameters, so they cannot disagree.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import check_count
from fedsel.exact import exceeds_exp, log, log_upper
from fedsel.mechanisms.base import MAX_DIMENSION, Value
from fedsel.random import Entropy
from fedsel.sampling.device import SYSTEM

Vector = NDArray[np.floating]


@dataclass(frozen=True)
class Privacy:
    """What one report, and all reports of a client, reveal.

    ``budget`` is what a report was allowed to cost; ``ratio`` the exact largest ratio of
    probabilities of one report (None where it is infinite); ``note`` says it in words. Where it is
    not ``certified`` the ratio is that of real numbers, not of what a computer draws.
    """

    budget: Fraction | None
    ratio: Fraction | None
    epochs: int
    note: str
    certified: bool = True

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


@dataclass(frozen=True, eq=False)
class Alphabet:
    """What a private report can say, for whoever writes it down or adds it up.

    A report is ``picks`` pairs (slot, symbol), or ⊥ where it ``abstains``. Symbol s adds steps[s],
    an integer, to the sum of window windows[s] of its slot; the total of a slot is that of its
    windows' sums times ``units``. Integer sums do not depend on the order of the reports.
    """

    slots: int
    symbols: int
    picks: int
    abstains: bool
    windows: NDArray[np.int64]
    steps: NDArray[np.int64]
    units: NDArray[np.float64]

    @property
    def bound(self) -> float:
        """The largest magnitude that one pair adds to a total."""
        return float(np.abs(self.steps * self.units[self.windows]).max())


def alphabet_of(
    value: Value, slots: int, scale: float, *, picks: int = 1, abstains: bool = False
) -> Alphabet:
    """The alphabet of pairs whose symbols are those of a value mechanism, times ``scale``."""
    windows, steps = value.law.steps(np.arange(value.symbols))
    units = scale * value.law.kappas
    return Alphabet(slots, value.symbols, picks, abstains, windows, steps, units)


@dataclass(frozen=True)
class Solution(ABC):
    """A way from gradients to a private mean, for vectors of ``dim`` entries over ``epochs``."""

    name: str
    dim: int
    epochs: int

    def __post_init__(self) -> None:
        check_count("dim", self.dim, most=MAX_DIMENSION)
        check_count("epochs", self.epochs)

    @property
    def accumulates(self) -> bool:
        """Whether a client keeps what it did not send, for later epochs."""
        return False

    @property
    def rate_inside(self) -> bool:
        """Whether clients accumulate α·g (…-O) and the server steps by the mean itself."""
        return False

    @property
    def decays_at_server(self) -> bool:
        """Whether the server alone applies the regulariser λw, which is public.

        Where reports follow the order of scores, clients must not add it: data with few distinct
        values tie, and then a tiny λw would decide the order of the ties and act as a large one.
        """
        return False

    def in_round(self, number: int) -> Solution:  # noqa: ARG002
        """The solution as both ends use it in a round; rounds count through all epochs."""
        return self

    @property
    @abstractmethod
    def privacy(self) -> Privacy:
        """The exact ε of a report and of all."""

    @property
    @abstractmethod
    def bits(self) -> int:
        """The length of a report in bits."""

    @property
    def alphabet(self) -> Alphabet | None:
        """What a report can say; None where something leaves unperturbed."""
        return None

    def expand(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        """The update (d,) that totals of all slots stand for."""
        return totals

    @abstractmethod
    def encode(
        self, gradient: Vector, residual: Vector, entropy: Entropy = SYSTEM
    ) -> tuple[object, Vector]:
        """A client's message and the residual that it keeps; zeros are "no residual"."""

    @abstractmethod
    def decode(self, messages: Sequence[object]) -> NDArray[np.float64]:
        """The server's estimate of the mean update, from the messages of a round."""


def bits_for(choices: int) -> int:
    """Bits that tell this many choices apart.

    >>> bits_for(100), bits_for(1)
    (7, 0)
    """
    return (choices - 1).bit_length()
