"""Private choice of a dimension: EXP, PE, PS of the paper, Uniform, and the non-private TopK."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import numpy as np

from fedsel._internal.exact import WEIGHT_BUDGET, exp_lower, mulhi
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_epsilon
from fedsel.mechanisms import _decimals as encoding
from fedsel.mechanisms._base import Selection
from fedsel.mechanisms._laws import RankLaw

Top = int | float
"""k: an int counts dimensions, a float in (0, 1] is a fraction of d (1 is one, 1.0 is all)."""


class Share(float):
    """A fraction of d. Unlike a float it never equals an int, because k = 1 and k = 1.0 differ.

    >>> Share(1.0) == 1, Share(1.0) == 1.0, 1 == Share(1.0), Share(1.0) != 1
    (False, True, False, True)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and float(self) == float(other)

    def __ne__(self, other: object) -> bool:  # float.__ne__ ignores __eq__
        return not self == other

    def __hash__(self) -> int:
        return hash(("share", float(self)))


def check_top(k: object) -> Top:
    """Return k as an int ≥ 1 or a `Share` in (0, 1]."""
    allowed = "a count ≥ 1 (int) or a fraction of d in (0, 1] (float)"
    if isinstance(k, float | np.floating):
        if 0 < k <= 1:
            return Share(k)
        raise InvalidArgument("k", k, allowed)
    try:
        return check_count("k", k)
    except InvalidArgument:
        raise InvalidArgument("k", k, allowed) from None


def count_top(k: Top, d: int) -> int:
    """Return k as a count. A fraction of d is rounded down, but never below 1.

    >>> count_top(0.29, 100), count_top(0.1, 5), count_top(7, 10)
    (29, 1, 7)
    """
    if isinstance(k, float):
        # Uses the decimal that the user wrote: 0.29 · 100 is 29, not 28.99…
        return max(1, math.floor(Fraction(repr(float(k))) * d))
    if k > d:
        raise InvalidArgument("k", k, f"at most d = {d}")
    return k


def threshold_law(epsilon: Epsilon, k: int, d: int, bottom: float = 0.0) -> RankLaw:
    """Weight H for each of the top k ranks, L for the others, H/L ≤ e^ε, and P[⊥] = bottom.

    Proof: docs/proofs/selection.md, R3.

    >>> law = threshold_law(1.0, k=1, d=2)
    >>> 1 - 1e-15 < law.weight(0) / law.weight(1) / math.e <= 1
    True
    """
    growth = exp_lower(epsilon)
    low = max(1, math.floor(WEIGHT_BUDGET / (k * growth + d - k)))
    # If e^ε does not fit into the weight budget, the ratio stays below it: less loss than claimed.
    high = min(math.floor(growth * low), (WEIGHT_BUDGET - (d - k) * low) // k)
    weights, counts = ([high, low], [k, d - k]) if k < d else ([low], [d])
    total = sum(w * c for w, c in zip(weights, counts, strict=True))
    return RankLaw(weights, counts, bottom=round(total * bottom / (1 - bottom)))


@final
@dataclass(frozen=True)
class Exponential(Selection):
    """EXP: rank s from the top with probability ∝ exp(−ε s/(d−1)). (FedSel, Lemma 1.)

    Proof: docs/proofs/selection.md, R4.

    >>> law = Exponential(epsilon=1.0).law(3)
    >>> law.weight(0) > law.weight(1) > law.weight(2)
    True
    """

    name: ClassVar[str] = "EXP"
    epsilon: Epsilon

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "epsilon", check_epsilon("epsilon", self.epsilon, zero_allowed=True)
        )

    def build_law(self, d: int) -> RankLaw:
        """Integer weights max·exp(−ε s/(d−1)), never below max/e^ε.

        The weights are products of two small tables, s = a·block + b, in 63-bit integers. Without
        floats every machine builds the same table, in O(d) time and memory.
        """
        if d == 1 or self.epsilon == 0:
            return RankLaw([1], [d])
        maximum = WEIGHT_BUDGET // d
        minimum = math.ceil(maximum / exp_lower(self.epsilon))
        block = math.isqrt(d) + 1
        decay = Fraction(self.epsilon) / (d - 1)

        def table(steps: range) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
            return np.array(
                [math.floor((1 << 63) / exp_lower(decay * s)) for s in steps], dtype=np.uint64
            )

        coarse, fine = table(range(0, d, block)), table(range(block))
        weights = np.empty(d, dtype=np.int64)
        for start, row in zip(range(0, d, block), coarse, strict=True):
            powers = mulhi(row, fine[: d - start])
            weights[start : start + block] = mulhi(powers << np.uint64(1), np.uint64(2 * maximum))
        np.clip(weights, minimum, maximum, out=weights)
        np.minimum.accumulate(weights, out=weights)
        return RankLaw(weights)


@dataclass(frozen=True)
class _TopSelection(Selection):
    """A private selection that favours the top k."""

    epsilon: Epsilon
    k: Top = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "epsilon", check_epsilon("epsilon", self.epsilon, zero_allowed=True)
        )
        object.__setattr__(self, "k", check_top(self.k))

    def top(self, d: int) -> int:
        return count_top(self.k, d)

    def favoured(self, d: int) -> int | None:
        return self.top(d)


@final
@dataclass(frozen=True)
class PerturbedSampling(_TopSelection):
    """PS: each of the top k with e^ε/(k e^ε + d − k), every other with 1/(k e^ε + d − k).

    No ε-LDP mechanism that outputs an index hits the top k more often. (FedSel, Lemma 3.)

    Proof: docs/proofs/selection.md, R5, R6.

    >>> law = PerturbedSampling(epsilon=1.0, k=2).law(10)
    >>> round(float(2 * law.probability(0)), 4)
    0.4046
    """

    name: ClassVar[str] = "PS"

    def build_law(self, d: int) -> RankLaw:
        return threshold_law(self.epsilon, self.top(d), d)


@final
@dataclass(frozen=True)
class PerturbedEncoding(_TopSelection):
    """PE, calibrated: the status bits are flipped at the ε₀ < ε for which the true loss is ε.

    It abstains (⊥) with probability (1−p)^k p^(d−k), p = e^ε₀/(1 + e^ε₀), and otherwise equals PS.

    Proof: docs/proofs/selection.md, R7, R9.

    >>> PerturbedEncoding(epsilon=1.0, k=1).law(2).bottom_probability > 0.2
    True
    """

    name: ClassVar[str] = "PE"

    def build_law(self, d: int) -> RankLaw:
        k = self.top(d)
        flip = encoding.calibrated_epsilon(float(self.epsilon), k, d)
        return threshold_law(self.epsilon, k, d, encoding.bottom_probability(flip, k, d))


@final
@dataclass(frozen=True)
class PublishedPerturbedEncoding(_TopSelection):
    """PE as the paper prints it, flipping at ε: its true loss exceeds ε. (Lemma 2 is false.)

    Proof: docs/proofs/selection.md, R7, R8.

    >>> round(PublishedPerturbedEncoding(epsilon=1.0).true_epsilon(10), 3)
    1.173
    """

    name: ClassVar[str] = "PE-published"
    published: ClassVar[bool] = True

    def true_epsilon(self, d: int) -> float:
        """The true loss of the published mechanism."""
        return encoding.true_epsilon(float(self.epsilon), self.top(d), d)

    def build_law(self, d: int) -> RankLaw:
        k = self.top(d)
        bottom = encoding.bottom_probability(float(self.epsilon), k, d)
        return threshold_law(self.true_epsilon(d), k, d, bottom)


@final
@dataclass(frozen=True)
class Uniform(Selection):
    """Every dimension with the same probability, whatever the data: no privacy loss.

    Proof: docs/proofs/selection.md, R10.

    >>> Uniform().law(4).probability(3)
    Fraction(1, 4)
    """

    name: ClassVar[str] = "Uniform"

    @property
    def claimed(self) -> Epsilon:
        return 0.0

    def build_law(self, d: int) -> RankLaw:
        return RankLaw([1], [d])


@final
@dataclass(frozen=True)
class TopK(Selection):
    """One of the top k at random. Not private: the loss is infinite.

    Proof: docs/proofs/selection.md, R10.

    >>> TopK(k=2).law(4).over([1, 5, -3, 0])
    [Fraction(0, 1), Fraction(1, 2), Fraction(1, 2), Fraction(0, 1)]
    """

    name: ClassVar[str] = "TopK"
    k: Top = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_top(self.k))

    def top(self, d: int) -> int:
        return count_top(self.k, d)

    def build_law(self, d: int) -> RankLaw:
        k = self.top(d)
        return RankLaw([1, 0], [k, d - k]) if k < d else RankLaw([1], [d])
