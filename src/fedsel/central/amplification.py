"""What n shuffled reports guarantee centrally, and which local ε a central goal allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from fedsel.central.guess import rough_delta
from fedsel.central.lattice import excess
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive
from fedsel.exact import exp_lower, log
from fedsel.mechanisms.blanket import Blanket

_TOLERANCE = 2e-4
"""How near the ε that is proved comes to the one that is sought, as a share of it."""
_BUDGET_TOLERANCE = 0.01
_LEAST_DELTA = 1e-100


class Shuffled(Protocol):
    """What reports by a law of integers: a mechanism, or a solution as it is shipped."""

    def blanket(self, d: int | None = None) -> Blanket:
        """The two inputs that are hardest to hide, and what all inputs have in common."""
        ...


@dataclass(frozen=True)
class CentralGuarantee:
    """What n reports guarantee to whoever sees them shuffled: (ε, δ)-differential privacy.

    ``local`` is what each report guarantees by itself, whoever colludes with whom; a client sends
    one in each of so many ``epochs``.
    """

    epsilon: float
    delta: float
    reports: int
    local: float
    epochs: int = 1

    def __str__(self) -> str:
        rounds = "one round" if self.epochs == 1 else f"a round, in {self.epochs} epochs"
        return (
            f"central ε = {self.epsilon:.4g} at δ = {self.delta:.3g} among {self.reports:,} "
            f"shuffled reports of {rounds}, if the shuffler is honest; "
            f"local ε = {self.local * self.epochs:.4g} if nobody is"
        )


def amplify(
    target: Shuffled,
    d: int | None = None,
    *,
    reports: int,
    delta: float | None = None,
    epsilon: float | None = None,
) -> CentralGuarantee:
    """The central guarantee of ``reports`` shuffled reports of one round, proved.

    With ``delta`` the smallest ε that is proved, with ``epsilon`` the δ. ``reports`` counts those
    of honest clients, of one round, that are shuffled together. As in `certify`, a mechanism on a
    vector needs the dimension d; a solution has its own.

    >>> from fedsel import solution
    >>> rj = solution("RJ", epsilon=4.0, dim=128, rho=0.4)
    >>> print(amplify(rj, reports=600, delta=1e-6))
    central ε = 1.93... at δ = 1e-06 among 600 shuffled reports of one round, ...
    """
    n = check_count("reports", reports)
    if (delta is None) == (epsilon is None):
        raise InvalidArgument("delta", delta, "given, or epsilon, and not both")
    blanket = target.blanket(d)
    local = log(blanket.loss_ratio)
    if epsilon is not None:
        if check_finite("epsilon", epsilon) < 0:
            raise InvalidArgument("epsilon", epsilon, "≥ 0")
        return CentralGuarantee(float(epsilon), proved_delta(blanket, n, epsilon), n, local)
    wanted = check_delta(delta)
    return CentralGuarantee(proved_epsilon(blanket, n, wanted), wanted, n, local)


def check_delta(delta: object) -> float:
    """Return δ as a float that is worth a proof."""
    value = check_finite("delta", delta)
    if not _LEAST_DELTA <= value < 1:
        raise InvalidArgument("delta", delta, f"in [{_LEAST_DELTA:g}, 1)")
    return float(value)


def proved_delta(
    blanket: Blanket, reports: int, epsilon: float, about: float | None = None
) -> float:
    """δ at ε, rounded up; ``about`` is a first idea of it."""
    if epsilon >= local_epsilon(blanket):
        return 0.0  # and no exponential of a huge ε
    if about is None:
        about = rough_delta(blanket, reports, math.exp(epsilon))
    bound = excess(blanket, reports, exp_lower(epsilon), min(0.5, max(about, _LEAST_DELTA)))
    return min(1.0, float_above(bound))


def float_above(x: Fraction) -> float:
    """The least float that is not below x."""
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)


def proved_epsilon(blanket: Blanket, reports: int, delta: float) -> float:
    """The smallest ε, nearly, at which δ is proved to be at most ``delta``."""
    most = local_epsilon(blanket)
    guess, step = _crossing(blanket, reports, most, delta), _TOLERANCE
    while guess < most:
        if proved_delta(blanket, reports, guess, delta) <= delta:
            return guess
        guess, step = guess * (1 + step) + 1e-9, 2 * step
    return most


def local_epsilon(blanket: Blanket) -> float:
    """A float that is not below ε₀, at which δ is 0."""
    epsilon = log(blanket.loss_ratio)
    while exp_lower(epsilon) < blanket.loss_ratio:
        epsilon = math.nextafter(epsilon, math.inf)
    return epsilon


def _crossing(blanket: Blanket, reports: int, most: float, delta: float) -> float:
    """The ε up to ``most`` at which the rough δ, which falls, crosses ``delta``: from above."""
    low, high = 0.0, most
    while high - low > _TOLERANCE * high and high > 1e-9:
        middle = (low + high) / 2
        found = rough_delta(blanket, reports, math.exp(middle))
        low, high = (low, middle) if found <= delta else (middle, high)
    return high


def local_budget(
    compose: Callable[[float], Shuffled],
    *,
    epsilon: float,
    delta: float,
    reports: int,
    most: float = 16.0,
) -> CentralGuarantee:
    """The largest local ε, to one part in a hundred, with which reports keep a central goal.

    ``compose`` returns the solution for a local ε. What is returned is proved for that solution:
    its ``local`` is the ε to give each report, its ``epsilon`` at most the goal.

    >>> from fedsel import solution
    >>> found = local_budget(
    ...     lambda e: solution("PS-PM", epsilon=e, dim=8), epsilon=0.5, delta=1e-4, reports=500
    ... )
    >>> found.local > 2 and found.epsilon <= 0.5
    True
    """
    n = check_count("reports", reports)
    goal = check_positive("epsilon", epsilon)
    most = check_positive("most", most)
    delta = check_delta(delta)

    def rough(local: float) -> float:
        return rough_delta(compose(local).blanket(), n, math.exp(goal))

    low, high = min(goal, most), most  # a local ε of the goal itself always keeps it
    if rough(high) <= delta:
        low = high
    while high - low > _BUDGET_TOLERANCE * low:
        middle = (low + high) / 2
        low, high = (middle, high) if rough(middle) <= delta else (low, middle)
    while True:
        blanket = compose(low).blanket()
        if proved_delta(blanket, n, goal, delta) <= delta:
            return CentralGuarantee(goal, delta, n, log(blanket.loss_ratio))
        if low <= goal:
            raise InvalidArgument("epsilon", epsilon, "one that the solution keeps by itself")
        low = max(goal, low * (1 - _BUDGET_TOLERANCE))
