"""The largest local ε that a central goal allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from fedsel._internal.exact import log
from fedsel.errors import InvalidArgument, check_count, check_positive
from fedsel.mechanisms.central._guarantee import (
    CentralGuarantee,
    Shuffled,
    check_delta,
    compose,
    proved_delta,
    remembers,
)
from fedsel.mechanisms.central._lattice import rough_delta

_TOLERANCE = 0.005
"""The relative error of the search for the largest local ε, before it is rounded down."""
_MOST = 16.0
_NORMAL = NormalDist()

Compose = Callable[[float], Shuffled]
"""Builds the solution for the local ε of one report."""


def local_budget(
    make: Compose,
    *,
    epsilon: float,
    delta: float,
    reports: int,
    epochs: int = 1,
    most: float = _MOST,
) -> CentralGuarantee:
    """Find the largest local ε, to a percent, with which reports keep a central goal.

    ``make`` returns the solution for the local ε of one report. The guarantee is proved for that
    solution: its ``local`` is the ε of each report, its ``epsilon`` at most the goal. A client
    reports once in each of the ``epochs``, in a round of ``reports``. For several epochs, composed
    by `compose`, the result is within a few percent of the largest.

    >>> from fedsel import solution
    >>> found = local_budget(
    ...     lambda e: solution("PS-PM", epsilon=e, dim=8), epsilon=0.5, delta=1e-4, reports=500
    ... )
    >>> found.local > 2 and found.epsilon <= 0.5
    True
    """
    return proved_budget(
        make, epsilon=epsilon, delta=delta, reports=reports, epochs=epochs, most=most
    )[1]


def proved_budget(
    make: Compose,
    *,
    epsilon: float,
    delta: float,
    reports: int,
    epochs: int = 1,
    most: float = _MOST,
) -> tuple[float, CentralGuarantee]:
    """Return the local ε for ``make``, to three digits, and its proved guarantee."""
    n, times = check_count("reports", reports), check_count("epochs", epochs)
    goal, delta = check_positive("epsilon", epsilon), check_delta(delta)
    local = rough_budget(make, epsilon=goal, delta=delta, reports=n, epochs=times, most=most)
    least, less = _always(goal, times), _TOLERANCE * times**0.5
    while True:
        found = _kept(make(local), goal, delta, n, times)
        if found is not None:
            return local, found
        if local <= least:
            break
        local = max(least, _three_digits(local * (1 - less)))
        less = min(0.5, 1.5 * less)  # the rough search was off by an unknown amount
    raise InvalidArgument("epsilon", epsilon, "larger: this solution cannot keep it")


def _kept(
    target: Shuffled, goal: float, delta: float, reports: int, epochs: int
) -> CentralGuarantee | None:
    """Return the proved guarantee of a solution that keeps the goal; None if it does not."""
    if epochs == 1:  # one proof at the goal in place of a search for the smallest ε
        blanket = target.blanket()
        if proved_delta(blanket, reports, goal, delta) > delta:
            return None
        return CentralGuarantee(goal, delta, reports, log(blanket.loss_ratio))
    found = compose(target, reports=reports, epochs=epochs, delta=delta)
    return found if found.epsilon <= goal else None


def _always(goal: float, epochs: int) -> float:
    """Return a local ε that keeps the goal without a shuffler, even if the sum is rounded up."""
    return goal if epochs == 1 else goal / epochs * (1 - 1e-9)


def rough_budget(
    make: Compose,
    *,
    epsilon: float,
    delta: float,
    reports: int,
    epochs: int = 1,
    most: float = _MOST,
) -> float:
    """Estimate the largest local ε, to three digits, for a central goal: in floats, not proved.

    Several epochs share the goal as they would with Gaussian noise.
    """
    most = check_positive("most", most)
    goal, low, high = epsilon, min(_always(epsilon, epochs), most), most
    if epochs > 1:
        goal = max(low, _share_of_an_epoch(epsilon, delta, epochs))

    def keeps(local: float) -> bool:
        target = make(local)
        if epochs > 1 and remembers(target):  # which may depend on ε
            return False
        return rough_delta(target.blanket(), reports, math.exp(goal)) <= delta

    if keeps(high):
        return high
    while high - low > _TOLERANCE * low:
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return max(_always(epsilon, epochs), _three_digits(low))


def _three_digits(number: float) -> float:
    """Round down to three digits, for a person to type in.

    >>> _three_digits(3.8479), _three_digits(0.061999)
    (3.84, 0.0619)
    """
    unit = 10.0 ** (math.floor(math.log10(number)) - 2)
    return round(math.floor(number / unit * (1 + 1e-12)) * unit, 12)


def _share_of_an_epoch(epsilon: float, delta: float, epochs: int) -> float:
    """Return the ε of one epoch of Gaussian noise that has (ε, δ) over all ``epochs``.

    >>> round(_share_of_an_epoch(1.0, 1e-6, 4), 2)
    0.48
    """
    mu = gaussian_distance(epsilon, delta) / math.sqrt(epochs)
    return _bisect(lambda e: _gaussian_delta(mu, e), delta, 0.0, epsilon)


def gaussian_distance(epsilon: float, delta: float) -> float:
    """Return the distance of two inputs, in deviations of Gaussian noise, for (ε, δ)-privacy.

    >>> round(gaussian_distance(1.0, 1e-6), 3)
    0.237
    """
    return _bisect(lambda mu: -_gaussian_delta(mu, epsilon), -delta, 1e-6, 100.0)


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ at ε of Gaussian noise of deviation 1 for a distance of μ (Balle, Wang 2018)."""
    cdf = _NORMAL.cdf
    return cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)


def _bisect(falling: Callable[[float], float], level: float, low: float, high: float) -> float:
    """Find where a falling function crosses a level."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if falling(middle) <= level else (middle, high)
    return high
