"""How large a report is, and the learning rate that follows from public quantities alone.

The noise of a round's mean moves the weights at random; over T rounds of n reports of size s each,
a step α spreads its squared norm α²·T·s²/n evenly over d dimensions, and moves the margin of a
record of norm X by α·s·X·√(T/(n·d)). The automatic rate sets that to a fixed margin: with less a
model does not get far enough from where it starts, with more noise drowns it. It counts on the
average of the weights over the rounds, which takes part of the noise away.
"""

from __future__ import annotations

import math

import numpy as np

from fedsel.errors import InvalidArgument, check_count, check_positive
from fedsel.solutions.base import Solution
from fedsel.solutions.baselines import Cap, DimensionSets
from fedsel.solutions.coded import Coded
from fedsel.solutions.picks import Picks
from fedsel.solutions.projected import Projected
from fedsel.solutions.transforms import Rotated

RADIUS = 0.8
"""ρ over the norm of a gradient at zero weights."""
MARGIN = 1.4
"""By how much the noise of all rounds may move a margin."""
AVERAGING = 3.0
"""The power of the average over the rounds that goes with the automatic rate."""
_LARGEST = 32.0
"""The most that α·X² may be, where there is little or no noise."""


def report_size(solution: Solution) -> float:
    """√E‖decoded report‖² for a small update: the noise of one report, its ⊥ included.

    >>> from fedsel.solutions.registry import solution as named
    >>> round(report_size(named("RJ", epsilon=1.0, dim=124, rho=2.0)))
    56
    >>> report_size(named("NP", dim=124))
    0.0
    """
    if isinstance(solution, Coded):
        told = solution.mechanism.told(solution.book.size)
        # A rotated basis is padded to a power of two; what falls outside of d is cut off.
        inside = solution.dim / solution.book.size if isinstance(solution.book, Rotated) else 1.0
        return solution.scale * math.sqrt(told * inside)
    if isinstance(solution, Picks) and solution.value is not None:
        law = solution.selection.law(solution.dim)
        told = solution.picks * float(1 - law.bottom_probability)
        return solution.scale * solution.clip * math.sqrt(told * solution.value.variance(0))
    if isinstance(solution, Projected) and solution.value is not None:
        spread = float(np.linalg.norm(solution.recovery)) / math.sqrt(solution.q)
        return solution.q * solution.clip * spread * math.sqrt(solution.value.variance(0))
    if isinstance(solution, Cap):
        return solution.scale
    if isinstance(solution, DimensionSets):
        return solution.scale * math.sqrt(solution.size)
    return 0.0


def automatic_rate(solution: Solution, clients: float, rounds: int, norm: float = 1.0) -> float:
    """α from d, the clients of a round, the number of rounds, and the norm of a record.

    >>> from fedsel.solutions.registry import solution as named
    >>> made = named("RJ", epsilon=1.0, dim=124, rho=0.4)
    >>> round(automatic_rate(made, clients=390, rounds=100), 2)
    2.75
    """
    check_positive("clients", clients)
    check_count("rounds", rounds)
    check_positive("norm", norm)
    most = _LARGEST / norm**2
    size = report_size(solution)
    if size == 0:
        return most
    return min(most, MARGIN * math.sqrt(clients * solution.dim / rounds) / (size * norm))


def automatic_radius(norm: float = 1.0, classes: int = 2) -> float:
    """ρ for records of this norm: four fifths of the norm of a gradient at zero weights.

    That is half of the record's for two classes, √(1 − 1/C) of it for softmax over C.

    >>> automatic_radius(), round(automatic_radius(classes=10), 2)
    (0.4, 0.76)
    """
    if norm <= 0 or not math.isfinite(norm):
        raise InvalidArgument("norm", norm, "a positive number")
    check_count("classes", classes, least=2)
    return RADIUS * norm * (0.5 if classes == 2 else math.sqrt(1 - 1 / classes))
