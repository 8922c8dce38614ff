"""A learning rate from public quantities alone, where the norm of a record is not known.

`fedsel.solutions.steps.automatic_rate` is the rule where it is. This one bounds how far the noise
of all rounds together moves the weights, whatever the model.
"""

from __future__ import annotations

import math

from fedsel.errors import check_count
from fedsel.mechanisms import Uniform
from fedsel.solutions import Coded, Full, Picks, Solution
from fedsel.solutions.steps import report_size

DRIFT = 3.0
"""How far the noise of all rounds together may move the weights."""
DRIFT_OF_A_WEIGHT = 0.25
"""How far it may move each weight of a network, of which there are many."""
LEAD = 40.0
"""How much farther than noise the updates themselves may lead in a network."""
TYPICAL = 0.25
"""The size of a gradient's entries that the rule assumes, as a share of the clip."""


def public_rate(solution: Solution, *, batch: int, rounds: int, drift: float = DRIFT) -> float:
    """α = drift · √(n/T)/s for n reports a round and T rounds, s being the norm of a report.

    The mean of n reports is off by s/√n, mostly noise; T steps of α in random directions lead
    about α·s·√(T/n) away, and that is set to ``drift``. A solution of which clients accumulate α·g
    (…-O) is always off by the same, and gets 1.

    >>> from fedsel.solutions import solution
    >>> round(public_rate(solution("NP", dim=32), batch=100, rounds=100), 3)
    2.121
    """
    check_count("batch", batch)
    check_count("rounds", rounds)
    if solution.rate_inside:
        return 1.0
    # Where ε is large there is little noise left, and the update itself is what a report holds.
    size = math.hypot(report_size(solution), _plain_size(solution))
    return drift * math.sqrt(batch / rounds) / size


def network_rate(solution: Solution, *, batch: int, rounds: int) -> float:
    """`public_rate` for a network: a drift for each weight, and steps that stay stable.

    Where there is little noise, T updates of typical size, all in one direction, lead at most
    ``LEAD`` times as far as noise may.

    >>> from fedsel.solutions import solution
    >>> round(network_rate(solution("NP", dim=1210), batch=960, rounds=50), 3)
    0.8
    """
    drift = max(DRIFT, DRIFT_OF_A_WEIGHT * math.sqrt(solution.dim))
    rate = public_rate(solution, batch=batch, rounds=rounds, drift=drift)
    if solution.rate_inside:
        return rate
    return min(rate, LEAD * drift / (rounds * _update_size(solution)))


def _plain_size(solution: Solution) -> float:
    """The norm of a report without its noise, if entries have the typical size."""
    if isinstance(solution, Picks):
        return TYPICAL * solution.clip * solution.scale * math.sqrt(solution.picks)
    return TYPICAL * math.sqrt(solution.dim) if isinstance(solution, Full) else 0.0


def _update_size(solution: Solution) -> float:
    """The norm of the mean of reports without noise, if entries have the typical size."""
    if isinstance(solution, Coded):
        return getattr(solution.mechanism, "radius", None) or 1.0
    entry = TYPICAL * getattr(solution, "clip", 1.0)
    if isinstance(solution, Picks):
        alike = isinstance(solution.selection, Uniform)  # each entry as often as any other
        share = solution.picks / solution.dim * math.sqrt(solution.dim) if alike else 1.0
        return entry * solution.scale * share
    return entry * math.sqrt(solution.dim)
