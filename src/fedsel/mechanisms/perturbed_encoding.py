"""The true privacy loss of Perturbed Encoding, and its calibration.

PE flips each top-k status bit with probability 1−p and reports one of the ones at random. The
paper's proof of Lemma 2 puts the *expected* number of ones into both sides of the ratio; but the
number of the other ones depends on whether the reported dimension is a top one. With
f(x) = (1−p+px)^(k−1) (p+(1−p)x)^(d−k−1) on [0, 1] the true loss is

    ε_true = ε₀ + log1p((2p−1) ∫(1−x) f dx / ∫(1−p+px) f dx).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

_NODES = 96
_DECAY = 60.0
"""Beyond y = _DECAY/rate the integrand is below e^−60 of its peak."""


@cache
def _quadrature() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def true_epsilon(flip: float, k: int, d: int) -> float:
    """Exact loss of PE whose bits are flipped at ε₀ = flip, with k of d top dimensions.

    >>> round(true_epsilon(1.0, 1, 2), 3)
    1.311
    """
    if k == d:
        return 0.0
    p = 1 / (1 + math.exp(-flip))
    q = 1 / (1 + math.exp(flip))
    # f in y = 1 − x falls from 1 at y = 0 at least as fast as e^(−rate·y).
    rate = (k - 1) * p + (d - k - 1) * q
    reach = min(1.0, _DECAY / rate) if rate > 0 else 1.0
    nodes, weights = _quadrature()
    y = reach * nodes
    with np.errstate(divide="ignore"):
        f = np.exp((k - 1) * np.log1p(-p * y) + (d - k - 1) * np.log1p(-q * y))
    gap = float(np.dot(weights, y * f))
    norm = float(np.dot(weights, (1 - p * y) * f))
    return flip + math.log1p(math.tanh(flip / 2) * gap / norm)


def calibrated_epsilon(epsilon: float, k: int, d: int) -> float:
    """The ε₀ at which the bits must be flipped for a true loss of ε.

    >>> round(true_epsilon(calibrated_epsilon(1.0, 3, 10), 3, 10), 12)
    1.0
    """
    if k == d or epsilon == 0:
        return epsilon
    low, high = epsilon / 2, epsilon
    while low < (middle := (low + high) / 2) < high:
        if true_epsilon(middle, k, d) <= epsilon:
            low = middle
        else:
            high = middle
    return low


def bottom_probability(flip: float, k: int, d: int) -> float:
    """P[⊥] = (1−p)^k p^(d−k): no bit is one. The same for every input.

    >>> bottom_probability(0.0, 1, 2)
    0.25
    """
    log_q, log_p = -flip - math.log1p(math.exp(-flip)), -math.log1p(math.exp(-flip))
    return math.exp(k * log_q + (d - k) * log_p)
