"""A learning rate from public quantities alone: nobody's records are looked at."""

from __future__ import annotations

import math

import numpy as np

from fedsel.errors import check_count
from fedsel.random import stream
from fedsel.solutions import Solution

DRIFT = 3.0
"""How far the noise of all rounds together may move the weights."""
TYPICAL = 0.25
"""The size of a gradient's entries that the rule assumes, as a share of the clip."""
_PROBES, _FEWEST_PROBES = 200, 25
_PROBED_ENTRIES = 10**7


def report_size(solution: Solution) -> float:
    """Mean squared length of a decoded report on a public vector of entries ± clip/4.

    >>> from fedsel.solutions import solution
    >>> report_size(solution("NP", dim=32))
    2.0
    """
    clip = float(getattr(solution, "clip", 1.0))
    signs = np.where(np.arange(solution.dim) % 2, -1.0, 1.0)
    vector, nothing = TYPICAL * clip * signs, np.zeros(solution.dim)
    squares = []
    many = max(_FEWEST_PROBES, min(_PROBES, _PROBED_ENTRIES // solution.dim))
    for i in range(many if solution.privacy.budget is not None else 1):
        message, _ = solution.encode(vector, nothing, stream(0, 0, i))
        decoded = solution.decode([message])
        squares.append(float(decoded @ decoded))
    return math.fsum(squares) / len(squares)


def public_rate(solution: Solution, *, batch: int, rounds: int, drift: float = DRIFT) -> float:
    """α = drift · √(n/(S·T)) for n reports a round and T rounds, S being `report_size`.

    The mean of n reports is off by √(S/n), mostly noise; T steps of α in random directions lead
    about α·√(T·S/n) away, and that is set to ``drift``. A solution of which clients accumulate
    α·g (…-O) is always off by the same, and gets 1.

    >>> from fedsel.solutions import solution
    >>> round(public_rate(solution("NP", dim=32), batch=100, rounds=100), 3)
    2.121
    """
    check_count("batch", batch)
    check_count("rounds", rounds)
    if solution.rate_inside:
        return 1.0
    size = report_size(solution)
    return drift * math.sqrt(batch / (size * rounds)) if size > 0 else 1.0
