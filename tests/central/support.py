"""The general bound that knows only the local ε: what a bound by the law must be below."""

import math
from functools import lru_cache

import numpy as np
from scipy.stats import binom


def clone_delta(reports, local, epsilon):
    """δ at ε of n shuffled ε₀-local reports, by clones: an upper bound for every mechanism.

    Feldman, McMillan and Talwar, "Hiding Among the Clones" (FOCS 2021), Theorem 3.2: with
    C ~ Bin(n − 1, e^−ε₀), A ~ Bin(C, 1/2) and Δ ~ Bernoulli(e^ε₀/(e^ε₀ + 1)) the divergence is at
    most that of (A + Δ, C − A + 1 − Δ) and (A + 1 − Δ, C − A + Δ). Given C it is a sum over A. The
    C that are left out count with their whole probability.
    """
    flips = math.exp(-local)
    mean, deviation = (reports - 1) * flips, math.sqrt((reports - 1) * flips * (1 - flips))
    low, high = max(0, int(mean - 9 * deviation)), min(reports - 1, int(mean + 9 * deviation) + 40)
    kept = np.arange(low, high + 1)
    weights = binom.pmf(kept, reports - 1, flips)
    p = 1 / (1 + flips)
    total = max(0.0, 1 - float(weights.sum()))
    for count, weight in zip(kept.tolist(), weights.tolist(), strict=True):
        half = binom.pmf(np.arange(-1, count + 2), count, 0.5)
        one, other = p * half[:-1] + (1 - p) * half[1:], (1 - p) * half[:-1] + p * half[1:]
        total += weight * float(np.maximum(one - math.exp(epsilon) * other, 0).sum())
    return total * (1 + 1e-9) + 1e-13


@lru_cache
def clone_epsilon(reports, local, delta):
    """ε at δ by clones, to a part in a thousand, from above; at most the local ε."""
    low, high = 0.0, local
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        found = clone_delta(reports, local, middle)
        low, high = (low, middle) if found <= delta else (middle, high)
    return high
