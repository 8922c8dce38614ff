"""Several epochs of shuffled reports: privacy loss distributions of dp_accounting."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np

from fedsel._internal.exact import log
from fedsel._internal.extras import needed
from fedsel.central.amplification import (
    CentralGuarantee,
    Shuffled,
    amplify,
    check_delta,
    float_above,
    float_below,
    local_epsilon,
    proved_delta,
    proved_epsilon,
)
from fedsel.errors import check_count
from fedsel.mechanisms._certificate import Blanket

_POINTS = 24
"""At how many ε the δ of one epoch is proved: more is tighter, and takes longer."""
_SHARE_BEYOND = 1e-3
"""Which share of δ may lie beyond the largest of them."""
_STEPS_BETWEEN = 32
"""How finely dp_accounting tells losses apart, in steps between two such points."""


def compose(target: Shuffled, *, reports: int, epochs: int, delta: float) -> CentralGuarantee:
    """The central guarantee of a client that reports once in each epoch.

    In every epoch its report is shuffled with those of ``reports − 1`` honest others. δ(ε) of one
    epoch is proved at some ε, joined by dp_accounting to a privacy loss distribution that is never
    better, and composed there. Where clients remember what they sent (`remembers`), the local ε of
    all epochs is what is proved.

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
    with needed("accounting", "composition"):
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    places, deltas, step = _curve(blanket, n, delta * _SHARE_BEYOND / times)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(step, places, deltas)
    composed = privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(times)
    epsilon = min(float(composed.get_epsilon_for_delta(delta)), most)
    return CentralGuarantee(epsilon, delta, n, local, times)


def add_up(target: Shuffled, *, reports: int, epochs: int, delta: float) -> CentralGuarantee:
    """The same, with the ε and the δ of the epochs added up: one proof, and no dp_accounting.

    It is larger than what `compose` finds, about √epochs times, and at most the local ε of all.

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
    """Whether what a client reports depends on what it has reported in earlier epochs.

    Then a later report tells something of who sent which earlier one, and shuffled rounds do not
    compose: no central guarantee over several epochs is proved here beyond the local one.
    """
    return bool(getattr(target, "accumulates", False))


def _sum_of(times: int, epsilon: float) -> float:
    return float_above(times * Fraction(epsilon))


def _curve(blanket: Blanket, reports: int, beyond: float) -> tuple[list[int], list[float], float]:
    """Places i, δ(i·step) at each and the step: where δ of one epoch bends.

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
    """Whether b lies below the chord from a to c, on the scale of e^ε."""
    slopes = [
        (high[1] - low[1]) / (math.exp(high[0] * step) - math.exp(low[0] * step))
        for low, high in pairwise((a, b, c))
    ]
    return slopes[0] < slopes[1]
