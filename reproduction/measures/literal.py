"""The paper's appendix line by line in plain Python, for its costs; not for use.

The names come from the pseudocode. It draws floats from a Mersenne twister, so nothing is private.
"""

from __future__ import annotations

import math
import random

from fedsel.mechanisms import BOTTOM


def literal_exp(r: list[float], epsilon: float, total: float, rng: random.Random) -> int:
    """Algorithm EXP. ``total`` is its ``sum``, which Sect. 4.2 initialises offline."""
    d = len(r)
    ascending = sorted(range(d), key=lambda j: abs(r[j]))
    p = []
    for j in range(d):
        z_j = ascending.index(j) + 1  # the linear search that makes it O(d²)
        p.append(math.exp(epsilon * z_j / (d - 1)) / total)
    x = rng.random()
    for j in range(d):
        x -= p[j]
        if x < 0:
            return j
    return d - 1


def literal_status(r: list[float], k: int) -> list[int]:
    """The status bits z of PE and PS: 1 for the k largest magnitudes."""
    d = len(r)
    z = [0] * d
    for j in sorted(range(d), key=lambda j: abs(r[j]), reverse=True)[:k]:
        z[j] = 1
    return z


def literal_pe(r: list[float], k: int, epsilon: float, rng: random.Random) -> int:
    """Algorithm PE."""
    p = math.exp(epsilon) / (math.exp(epsilon) + 1)
    perturbed = []
    for z_j in literal_status(r, k):
        if z_j == 1:
            perturbed.append(1 if rng.random() < p else 0)
        else:
            perturbed.append(1 if rng.random() < 1 - p else 0)
    chosen = [j for j in range(len(r)) if perturbed[j] == 1]
    if not chosen:
        return BOTTOM
    return rng.choice(chosen)


def literal_ps(r: list[float], k: int, epsilon: float, rng: random.Random) -> int:
    """Algorithm PS."""
    d = len(r)
    z = literal_status(r, k)
    x = rng.random()
    if x < math.exp(epsilon) * k / (d - k + math.exp(epsilon) * k):
        return rng.choice([j for j in range(d) if z[j] == 1])
    return rng.choice([j for j in range(d) if z[j] == 0])


def literal_pm(t: float, epsilon: float, rng: random.Random) -> float:
    """The value of PM for t in [−1, 1], with floats. (Wang et al. 2019, algorithm 2.)"""
    h = math.exp(epsilon / 2)
    C = (h + 1) / (h - 1)
    left = (C + 1) / 2 * t - (C - 1) / 2
    if rng.random() < h / (h + 1):
        return left + (C - 1) * rng.random()
    x = (C + 1) * rng.random()
    return -C + x if x < left + C else x - 1  # left of the window, or right of it
