"""What n shuffled reports of one round guarantee centrally."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

from fedsel._internal.exact import exp_lower, log
from fedsel.central.guess import rough_delta
from fedsel.central.lattice import excess
from fedsel.errors import InvalidArgument, check_count, check_finite
from fedsel.mechanisms._certificate import Blanket

DELTA = 1e-6
"""δ where none is given: a rule of thumb is well below one in the number of clients."""
_TOLERANCE = 2e-4
"""How near the ε that is proved comes to the one that is sought, as a share of it."""
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
    >>> fj = solution("FJ", epsilon=4.0, dim=128, rho=0.4)
    >>> print(amplify(fj, reports=600, delta=1e-6))
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


def float_below(x: Fraction) -> float:
    """The largest float that is not above x."""
    return -float_above(-x)


def float_above(x: Fraction) -> float:
    """The least float that is not below x."""
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)


@lru_cache(maxsize=256)
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
    """The ε up to ``most`` at which the rough δ, which falls, crosses ``delta``: from above.

    √(−ln δ) is nearly a line in ε, so that a few secants find it.
    """

    def beyond(epsilon: float) -> float:
        found = rough_delta(blanket, reports, math.exp(epsilon))
        return math.sqrt(-math.log(min(1.0, max(found, _LEAST_DELTA)))) - wanted

    wanted = math.sqrt(-math.log(delta))
    low, high, under, over, below = 0.0, most, beyond(0.0), beyond(most), None
    if under >= 0:
        return 0.0
    while high - low > _TOLERANCE * high and high > 1e-9:
        apart = _TOLERANCE * high / 2  # one step beyond the crossing closes the gap
        share = under / (under - over) if over > under else 0.5
        middle = min(max(low + share * (high - low), low + apart), high - apart)
        found, before = beyond(middle), below
        below = found < 0
        # An end that stays twice counts half, so that neither stays for ever.
        if below:
            low, under, over = middle, found, over / 2 if before is True else over
        else:
            high, over, under = middle, found, under / 2 if before is False else under
    return high
