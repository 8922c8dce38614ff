"""The privacy budget of a client: how ε is split over epochs and stages, and how it is spent.

A charge is an exact rational (`Privacy.charge`) that the server has a say in. Added up as they
are, charges with ever new denominators would make a sum that grows with every request. So the sum
is rounded up to a fixed grid, the multiples of 1/`GRID`, before a charge is added that it has no
denominator in common with. Write s_n for the sum after the charges c_1, …, c_n:

    s_0 = 0,    s_n = s_{n−1} + c_n            if the denominator of s_{n−1} divides GRID·den(c_n),
                s_n = ⌈s_{n−1}⌉ + c_n          else, with ⌈·⌉ the next multiple of 1/GRID.

1. *The true sum is never more*: c_1 + … + c_n ≤ s_n, by induction, since ⌈s⌉ ≥ s. A device reports
   only while s_n ≤ lifetime, compared exactly; so the reports cost the lifetime at most.
2. *No server makes it long*: in both cases the denominator of s_n divides GRID·den(c_n), because
   that of ⌈s⌉ divides GRID. It has the bits of GRID and of the last charge, 310 at most.
3. *One price is added up exactly*: after c_n the denominator divides GRID·den(c_n), and the next
   report of the same price needs no rounding. So E reports of ε/E on a fresh ledger are exactly ε,
   and the last one is not lost where the lifetime is ε.
4. *Usual prices are added up exactly in any order*: the sum is on the grid as long as all charges
   are. What is rounded, for prices that are not, is less than 1/GRID < 10^−61 at each change of
   the price; a lifetime that such a mixture would meet to the last digit loses its last report.

Proof: docs/proofs/composition.md, C5, C6.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import final

from fedsel.errors import Epsilon, InvalidArgument, check_count, check_epsilon, check_finite

THETA = 0.2
"""The paper's safe upper bound of μ."""


@final
@dataclass(frozen=True)
class Budget:
    """The exact split of ε: ε′ = ε/E per epoch, ε₁ = μ·ε′ for the selection, ε₂ = ε′ − ε₁.

    Proof: docs/proofs/composition.md, C8.

    >>> Budget(epsilon=2.0, epochs=4, mu=0.1).selection
    Fraction(1, 20)
    """

    epsilon: Epsilon
    epochs: int = 1
    mu: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))
        object.__setattr__(self, "epochs", check_count("epochs", self.epochs))
        if not 0 <= check_finite("mu", self.mu) < 1:
            raise InvalidArgument("mu", self.mu, "in [0, 1)")

    @property
    def per_epoch(self) -> Fraction:
        """ε′, the budget of one report."""
        return Fraction(self.epsilon) / self.epochs

    @property
    def selection(self) -> Fraction:
        """ε₁."""
        # Uses the decimal that the user wrote: μ = 0.1 of ε′ = 2 is exactly 0.2.
        return Fraction(repr(float(self.mu))) * self.per_epoch

    @property
    def value(self) -> Fraction:
        """ε₂."""
        return self.per_epoch - self.selection


def hyper_parameters_free(d: int, n: int, epsilon: Epsilon, theta: float = THETA) -> float:
    """μ = clip(1 − √(d ln d / n)/ε′, 0, θ) for n clients a round. (FedSel, section 5.3.)

    The value needs ε₂ of at least √(d ln d / n), and the selection gets the rest. If that is zero,
    two stages are no better than a flat report.

    >>> hyper_parameters_free(d=100, n=600, epsilon=2.0)
    0.2
    >>> hyper_parameters_free(d=100, n=600, epsilon=0.5)
    0.0
    """
    check_count("d", d)
    check_count("n", n)
    share = float(check_epsilon("epsilon", epsilon))
    if not 0 <= check_finite("theta", theta) < 1:
        raise InvalidArgument("theta", theta, "in [0, 1)")
    needed = math.sqrt(d * math.log(d) / n)
    return 0.0 if share <= needed else min(1 - needed / share, theta)


GRID = math.lcm(*range(1, 101), 1 << 40, 10**17)
"""On the grid are decimals of up to 17 digits, also over any number of epochs up to 100 if they
have few digits, and the steps of 2^−36 in which `exact.log_upper` proves a charge."""
_WRITTEN = re.compile(r"[0-9]+(/[0-9]+)?")


def rounded_up(amount: Fraction) -> Fraction:
    """Round up to the next multiple of 1/GRID.

    >>> rounded_up(Fraction(1, 30)), 0 < rounded_up(Fraction(1, 101)) - Fraction(1, 101) < 1e-61
    (Fraction(1, 30), True)
    """
    return Fraction(-(-amount.numerator * GRID // amount.denominator), GRID)


def added(spent: Fraction, charge: Fraction, reports: int = 1) -> Fraction:
    """The ε spent after ``reports`` further reports of one price.

    >>> added(Fraction(1, 101), Fraction(1, 101), reports=100)
    Fraction(1, 1)
    >>> added(Fraction(1, 101), Fraction(1, 103)) > Fraction(1, 101) + Fraction(1, 103)
    True
    """
    fits = GRID * charge.denominator % spent.denominator == 0
    return (spent if fits else rounded_up(spent)) + reports * charge


def written(text: str) -> Fraction:
    """Parse a fraction in the form that ledgers write. Exponents could make it endless.

    >>> written("2/15")
    Fraction(2, 15)
    >>> written("1e999999999")
    Traceback (most recent call last):
    ValueError: not a fraction of a ledger
    """
    if not _WRITTEN.fullmatch(text):
        raise ValueError("not a fraction of a ledger")
    return Fraction(text)


def total(charges: Iterable[str]) -> Fraction:
    """The ε spent by reports with these charges, which are written as fractions.

    >>> total(["1/3", "1/3", "1/3"])
    Fraction(1, 1)
    """
    spent = Fraction(0)
    for charge, same in groupby(charges):
        spent = added(spent, written(charge), sum(1 for _ in same))
    return spent
