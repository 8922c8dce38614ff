"""What a bound by the law must not be below, and the general bound that it must be below."""

import itertools
import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction
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


def exact_delta(blanket, reports, epsilon):
    """E[(G₁ + … + Gₙ)₊]/n of a law of three kinds of outputs, term by term, with 60 digits.

    Kinds are those likelier for the one input, those likelier for the other, and all others.
    """
    with localcontext(prec=60):
        return _exact_delta(blanket, reports, Decimal(epsilon).exp())


def _exact_delta(blanket, reports, growth):
    up, down, other = (
        next(c for c in blanket.classes if kind(c.first, c.second))
        for kind in (int.__gt__, int.__lt__, int.__eq__)
    )
    assert len(blanket.classes) == 3
    gains = [(c.first - growth * c.second) / c.least for c in (up, down, other)]
    shares = [Decimal(c.least * c.outputs) / blanket.total for c in (up, down, other)]
    shares.append(1 - sum(shares))
    powers = [[share**k for k in range(reports + 1)] for share in shares]
    total = Decimal(0)
    for a in range(1, reports + 1):
        for b in range(reports + 1 - a):
            if a * gains[0] + b * gains[1] <= 0:
                break
            for c in range(reports + 1 - a - b):
                gain = a * gains[0] + b * gains[1] + c * gains[2]
                if gain <= 0:
                    break
                rest = reports - a - b - c
                ways = math.comb(reports, a) * math.comb(reports - a, b)
                ways *= math.comb(reports - a - b, c)
                chance = powers[0][a] * powers[1][b] * powers[2][c] * powers[3][rest]
                total += ways * chance * gain
    return total / reports


def shuffled_delta(laws, n, growth):
    """The largest hockey-stick divergence of n shuffled reports, over all inputs of all users."""

    def beside(multisets, law):
        joined = Counter()
        for drawn, p in multisets.items():
            for y, q in law.items():
                joined[tuple(sorted((*drawn, y)))] += p * q
        return joined

    worst = Fraction(0)
    for others in itertools.combinations_with_replacement(laws, n - 1):
        multisets = {(): Fraction(1)}
        for law in others:
            multisets = beside(multisets, law)
        known = [beside(multisets, law) for law in laws]
        for one, other in itertools.permutations(known, 2):
            worst = max(worst, sum(max(one[y] - growth * other[y], Fraction(0)) for y in one))
    return worst


def exact_bound(values, n):
    """E[(G₁ + … + Gₙ)₊]/n in rationals."""
    rest = 1 - sum(p for _, p in values)
    law = {Fraction(0): Fraction(1)}
    for _ in range(n):
        after = Counter()
        for s, p in law.items():
            for g, q in [*values, (Fraction(0), rest)]:
                after[s + g] += p * q
        law = after
    return sum(p * s for s, p in law.items() if s > 0) / n
