"""The privacy budget of a client: ε over E epochs, split between selection and value by μ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from fedsel.errors import Epsilon, InvalidArgument, check_count, check_epsilon, check_finite

THETA = 0.2
"""The paper's safe upper bound of μ."""


@final
@dataclass(frozen=True)
class Budget:
    """ε′ = ε/E an epoch, ε₁ = μ·ε′ for the selection, ε₂ = ε′ − ε₁ for the value: exact fractions.

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
        """ε′, what one report may cost."""
        return Fraction(self.epsilon) / self.epochs

    @property
    def selection(self) -> Fraction:
        """ε₁."""
        # The decimal that the user wrote: μ = 0.1 of ε′ = 2 is 0.2.
        return Fraction(repr(float(self.mu))) * self.per_epoch

    @property
    def value(self) -> Fraction:
        """ε₂."""
        return self.per_epoch - self.selection


def hyper_parameters_free(d: int, n: int, epsilon: Epsilon, theta: float = THETA) -> float:
    """μ = clip(1 − √(d ln d / n)/ε′, 0, θ) for n clients a round. (FedSel, section 5.3.)

    The value needs ε₂ of at least √(d ln d / n); what is left over goes to the selection. Zero
    says that nothing is left over: two stages are then no better than a flat report.

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
