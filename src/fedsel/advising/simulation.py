"""The alignment of a solution as simulated clients show it: the check of the moments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel.advising.moments import Moments, Updates
from fedsel.sampling import simulated
from fedsel.solutions import Solution

TOLERANCE = 0.05
"""The share of the computed alignment by which the measured one may differ: what the normal
approximation of entries costs, most for few dimensions."""
FALSE_ALARM = 1e-9
"""The probability that chance alone, on top of it, makes a check differ, by Student's law."""
LEAST_ROUNDS = 24
_AT_ONCE = 1 << 22
"""Entries of updates held at a time."""


@final
@dataclass(frozen=True)
class Check:
    """The computed and the simulated alignment of the mean of ``reports`` reports of a solution."""

    name: str
    reports: int
    rounds: int
    computed: float
    measured: float
    error: float

    @property
    def agrees(self) -> bool:
        """Whether they differ by no more than the model's tolerance and chance."""
        return abs(self.measured - self.computed) <= TOLERANCE * self.computed + self.chance

    @property
    def chance(self) -> float:
        """How far the measured alignment may be off by chance."""
        with needed("simulation", "advice"):
            from scipy.special import stdtrit

        return self.error * float(stdtrit(self.rounds - 1, 1 - FALSE_ALARM / 2))


def simulate(
    solution: Solution, updates: Updates, estimate: Moments, reports: int, rounds: int, seed: int
) -> Check:
    """Measure the alignment over ``rounds`` rounds, each with a direction and reports of its own.

    Measured is mean⟨m, u⟩/√mean‖m‖² over the rounds' means m, with the standard error of that
    ratio.
    """
    along, squared = np.empty(rounds), np.empty(rounds)
    for t in range(rounds):
        along[t], squared[t] = _round(solution, updates, reports, seed, t)
    top, root = float(along.mean()), math.sqrt(float(squared.mean()))
    # The ratio's error by its linear part in the two means.
    parts = (along - top) / root - top * (squared - root**2) / (2 * root**3)
    error = float(parts.std(ddof=1)) / math.sqrt(rounds)
    return Check(solution.name, reports, rounds, estimate.alignment(reports), top / root, error)


def _round(
    solution: Solution, updates: Updates, reports: int, seed: int, t: int
) -> tuple[float, float]:
    """⟨m, u⟩ and ‖m‖² of one round's mean m."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, t))))
    solution = solution.in_round(t)
    totals = solution.totals()
    s, a = updates.support, updates.agreement
    places = generator.permutation(updates.dim)[:s] if updates.sparse else slice(s)
    common = generator.standard_normal(s)
    common /= np.linalg.norm(common)
    step = max(1, _AT_ONCE // updates.dim)
    for first in range(0, reports, step):
        n = min(step, reports - first)
        rows = np.zeros((n, updates.dim), dtype=np.float32)
        rows[:, places] = updates.length * _directions(common, a, n, generator)
        who = simulated.cohort(n, seed=seed, epoch=t, first=first)
        totals.add(simulated.report(solution, rows, who))
    mean = solution.expand(totals.mean())
    u = np.zeros(updates.dim)
    u[places] = common
    return float(mean @ u), float(mean @ mean)


def _directions(
    u: NDArray[np.float64], a: float, n: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """a·u + √(1−a²)·z for n clients, z uniform among the directions orthogonal to u."""
    z = generator.standard_normal((n, len(u)))
    z -= np.outer(z @ u, u)
    z *= math.sqrt(1 - a * a) / np.linalg.norm(z, axis=1, keepdims=True)
    z += a * u
    return z
