"""The central guarantee of n shuffled reports, of one round and of several epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Protocol

import numpy as np

from fedsel._internal.display import upper_bound
from fedsel._internal.exact import exp_lower, log
from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument, check_count, check_finite
from fedsel.mechanisms._certificate import Blanket
from fedsel.mechanisms.central._lattice import excess, rough_delta

DELTA = 1e-6
"""The default δ. It should be well below one over the number of clients."""
_TOLERANCE = 2e-4
"""The relative distance of the proved ε to the smallest one."""
_LEAST_DELTA = 1e-100


class Shuffled(Protocol):
    """A mechanism or solution with an integer law."""

    def blanket(self, d: int | None = None) -> Blanket:
        """Return the outputs, grouped by their weights for the two hardest inputs to hide."""
        ...


@dataclass(frozen=True)
class CentralGuarantee:
    """(ε, δ)-differential privacy of n reports against an observer of the shuffled reports.

    ``local`` is the ε of each report, which holds even if all others collude. A client sends one
    report in each of the ``epochs``.
    """

    epsilon: float
    delta: float
    reports: int
    local: float
    epochs: int = 1

    def __str__(self) -> str:
        rounds = "one round" if self.epochs == 1 else f"a round, in {self.epochs} epochs"
        return (
            f"central ε = {upper_bound(self.epsilon)} at δ = {self.delta:.3g} among "
            f"{self.reports:,} shuffled reports of {rounds}, if the shuffler is honest; "
            f"local ε = {upper_bound(round(self.local * self.epochs, 12))} if nobody is"
        )


def amplify(
    target: Shuffled,
    d: int | None = None,
    *,
    reports: int,
    delta: float | None = None,
    epsilon: float | None = None,
) -> CentralGuarantee:
    """Prove the central guarantee of ``reports`` shuffled reports of one round.

    Pass ``delta`` to find the smallest ε, or ``epsilon`` to find δ. ``reports`` counts the reports
    of honest clients that are shuffled together. A mechanism on a vector needs the dimension d.

    >>> from fedsel import solution
    >>> fj = solution("FJ", epsilon=4.0, dim=128, rho=0.4)
    >>> print(amplify(fj, reports=600, delta=1e-6))
    central ε = 1.93... at δ = 1e-06 among 600 shuffled reports of one round, ...
    """
    n = check_count("reports", reports)
    if (delta is None) == (epsilon is None):
        raise InvalidArgument("delta", delta, "set if epsilon is not, and omitted if it is")
    blanket = target.blanket(d)
    local = log(blanket.loss_ratio)
    if epsilon is not None:
        if check_finite("epsilon", epsilon) < 0:
            raise InvalidArgument("epsilon", epsilon, "≥ 0")
        return CentralGuarantee(float(epsilon), proved_delta(blanket, n, epsilon), n, local)
    wanted = check_delta(delta)
    return CentralGuarantee(proved_epsilon(blanket, n, wanted), wanted, n, local)


def check_delta(delta: object) -> float:
    """Return δ as a float in the allowed range."""
    value = check_finite("delta", delta)
    if not _LEAST_DELTA <= value < 1:
        raise InvalidArgument("delta", delta, f"in [{_LEAST_DELTA:g}, 1)")
    return float(value)


def proved_delta(
    blanket: Blanket, reports: int, epsilon: float, about: float | None = None
) -> float:
    """Return δ at ε, rounded up; ``about`` is an estimate of it."""
    if epsilon >= local_epsilon(blanket):
        return 0.0  # and no exponential of a huge ε
    if about is None:
        about = rough_delta(blanket, reports, math.exp(epsilon))
    bound = excess(blanket, reports, exp_lower(epsilon), min(0.5, max(about, _LEAST_DELTA)))
    return min(1.0, float_above(bound))


def float_below(x: Fraction) -> float:
    """Return the largest float that is not above x."""
    return -float_above(-x)


def float_above(x: Fraction) -> float:
    """Return the least float that is not below x."""
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)


@lru_cache(maxsize=256)
def proved_epsilon(blanket: Blanket, reports: int, delta: float) -> float:
    """Return nearly the smallest ε at which δ is proved to be at most ``delta``."""
    most = local_epsilon(blanket)
    guess, step = _crossing(blanket, reports, most, delta), _TOLERANCE
    while guess < most:
        if proved_delta(blanket, reports, guess, delta) <= delta:
            return guess
        guess, step = guess * (1 + step) + 1e-9, 2 * step
    return most


def local_epsilon(blanket: Blanket) -> float:
    """Return a float that is not below the local ε, at which δ is 0."""
    epsilon = log(blanket.loss_ratio)
    while exp_lower(epsilon) < blanket.loss_ratio:
        epsilon = math.nextafter(epsilon, math.inf)
    return epsilon


def _crossing(blanket: Blanket, reports: int, most: float, delta: float) -> float:
    """Find the ε up to ``most`` at which the rough δ falls to ``delta``, from above.

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
        # Illinois rule: halve the value at an end that stays twice, so that neither is stuck.
        if below:
            low, under, over = middle, found, over / 2 if before is True else over
        else:
            high, over, under = middle, found, under / 2 if before is False else under
    return high


_POINTS = 24
"""The number of ε at which δ of one epoch is proved. More are tighter, and slower."""
_SHARE_BEYOND = 1e-3
"""The share of δ that may lie beyond the largest of them."""
_STEPS_BETWEEN = 32
"""The resolution of dp_accounting, in steps between two such points."""


def compose(target: Shuffled, *, reports: int, epochs: int, delta: float) -> CentralGuarantee:
    """Prove the central guarantee of a client that reports once in each epoch.

    In every epoch its report is shuffled with those of ``reports − 1`` honest clients. δ(ε) of one
    epoch is proved at some ε; dp_accounting joins these points to a pessimistic privacy loss
    distribution and composes it. If clients remember what they sent (`remembers`), only the local ε
    of all epochs is proved.

    Proof: docs/proofs/shuffling.md, S9.

    >>> from fedsel import solution
    >>> print(compose(solution("Duchi", epsilon=1.0, dim=8), reports=40, epochs=9, delta=1e-2))
    central ε = 1.1... at δ = 0.01 among 40 shuffled reports of a round, in 9 epochs, ...
    """
    n, times = check_count("reports", reports), check_count("epochs", epochs)
    delta = check_delta(delta)
    if times == 1:
        return amplify(target, reports=n, delta=delta)
    blanket = target.blanket()
    local, most = log(blanket.loss_ratio), _sum_of(times, local_epsilon(blanket))
    if remembers(target):
        return CentralGuarantee(most, delta, n, local, times)
    with needed("accounting", "the central guarantee of several epochs"):
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    places, deltas, step = _curve(blanket, n, delta * _SHARE_BEYOND / times)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, places, deltas)
    composed = privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(times)
    epsilon = min(float(composed.get_epsilon_for_delta(delta)), most)
    return CentralGuarantee(epsilon, delta, n, local, times)


def add_up(target: Shuffled, *, reports: int, epochs: int, delta: float) -> CentralGuarantee:
    """Prove a weaker guarantee by adding up ε and δ of the epochs: fast, without dp_accounting.

    Its ε is about √epochs times the ε of `compose`, and at most the local ε of all epochs.

    >>> from fedsel import solution
    >>> print(add_up(solution("Duchi", epsilon=1.0, dim=8), reports=40, epochs=9, delta=1e-2))
    central ε = 4.0... at δ = 0.01 among 40 shuffled reports of a round, in 9 epochs, ...
    """
    n, times = check_count("reports", reports), check_count("epochs", epochs)
    share = check_delta(float_below(Fraction(check_delta(delta)) / times))
    blanket = target.blanket()
    epsilon = _sum_of(times, local_epsilon(blanket))
    if times == 1 or not remembers(target):
        epsilon = min(epsilon, _sum_of(times, proved_epsilon(blanket, n, share)))
    return CentralGuarantee(epsilon, delta, n, log(blanket.loss_ratio), times)


def remembers(target: Shuffled) -> bool:
    """Return whether a client's report depends on its reports in earlier epochs.

    Then a later report helps to link earlier ones to their senders, and shuffled rounds do not
    compose: over several epochs only the local guarantee is proved.
    """
    return bool(getattr(target, "accumulates", False))


def _sum_of(times: int, epsilon: float) -> float:
    return float_above(times * Fraction(epsilon))


def _curve(blanket: Blanket, reports: int, beyond: float) -> tuple[list[int], list[float], float]:
    """Return places i where δ of one epoch bends, δ(i·step) at each, and the step.

    For ε < 0 the divergence of a pair is 1 − e^ε + e^ε·δ(−ε) of the pair the other way round, and
    the proved δ holds for both. δ is convex in e^ε, so what rounding has left above the chord of
    its neighbours may be left out.
    """
    most = proved_epsilon(blanket, reports, beyond)
    step = most / (_POINTS * _STEPS_BETWEEN)
    above = [i * _STEPS_BETWEEN for i in range(_POINTS + 1)]
    proved = {i: proved_delta(blanket, reports, i * step) for i in above}
    curve = {-i: 1 - math.exp(-i * step) * (1 - proved[i]) for i in above if i} | proved
    kept: list[tuple[int, float]] = []
    for point in sorted(curve.items()):
        while len(kept) > 1 and not _bends(kept[-2], kept[-1], point, step):
            kept.pop()
        kept.append(point)
    values = np.minimum.accumulate([d for _, d in kept]).tolist()
    return [i for i, _ in kept], values, step


def _bends(a: tuple[int, float], b: tuple[int, float], c: tuple[int, float], step: float) -> bool:
    """Return whether b lies below the chord from a to c, on the scale of e^ε."""
    slopes = [
        (high[1] - low[1]) / (math.exp(high[0] * step) - math.exp(low[0] * step))
        for low, high in pairwise((a, b, c))
    ]
    return slopes[0] < slopes[1]
