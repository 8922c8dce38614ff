"""Baselines from the literature, in floating point and for simulations only.

Their ε holds in real numbers. Floats can reveal more, so no certificate covers these mechanisms,
and devices refuse them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.exact import exp_lower
from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.mechanisms._base import Codebook, Scores, WholeVector, bits_for
from fedsel.mechanisms._drawing import Entropy
from fedsel.mechanisms._reports import Reports
from fedsel.mechanisms._selection import Top, count_top

_KNOTS = 1 << 12
_LARGEST_SET = 64
UNCERTIFIED = "in floating point, for simulations alone: its ε holds for real numbers"


@dataclass(frozen=True)
class Baseline(WholeVector):
    """A mechanism in floats for updates of ``dim`` entries. A report is a vector of numbers.

    No certificate: docs/proofs/reports.md, P9.
    """

    certified: ClassVar[bool] = False
    decays_at_server: ClassVar[bool] = True
    epsilon: Fraction
    dim: int

    def loss_ratio(self, d: int | None = None) -> Fraction | None:  # noqa: ARG002
        """e^ε, the ratio in real numbers."""
        return exp_lower(self.epsilon)

    @property
    @abstractmethod
    def scale(self) -> float:
        """The magnitude that a report adds to the sum."""

    @abstractmethod
    def sample(self, vector: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw the vector that a report adds: the readable twin of the kernels' draw."""

    def unit(self, size: int, codebook: Codebook | None = None) -> float:  # noqa: ARG002
        return self.scale

    def draw(self, scores: Scores, entropy: Entropy, /) -> Reports:
        rng = np.random.default_rng(entropy.below(1 << 62))
        return Reports(np.arange(scores.size), self.sample(scores.values(), rng))


@final
@dataclass(frozen=True)
class PrivUnit(Baseline):
    """PrivUnit: a direction in the cap around the gradient with probability p, else outside it.

    This is the best ε-private report of a direction in real numbers (Bhowmick et al. 2018), with
    the exact measure of the cap. Duchi-ℓ₂ is the case in which the cap is a half-sphere. With a
    radius ρ the direction is first reversed with probability ½ − ‖g‖/(2ρ), which makes the report
    unbiased up to that norm.

    >>> [round(PrivUnit(Fraction(1), 100, hemisphere=h).error) for h in (False, True)]
    [629, 731]
    """

    name: ClassVar[str] = "PrivUnit"
    radius: float | None = None
    hemisphere: bool = False

    def __post_init__(self) -> None:
        if self.dim < 2:
            raise InvalidArgument("dim", self.dim, f"at least 2 for {self.name}")

    def noise_power(self, size: int) -> float:  # noqa: ARG002
        return 1.0

    @cached_property
    def cut(self) -> float:
        """γ, the least inner product of the cap with the gradient's direction."""
        with needed("simulation", "PrivUnit"):
            from scipy import optimize

        if self.hemisphere:
            return 0.0
        optimum = optimize.minimize_scalar(
            lambda cut: -self._alignment(cut),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return float(optimum.x)

    @property
    def inside(self) -> float:
        """p, the probability of the cap."""
        return _odds(self.epsilon, cap_measure(self.cut, self.dim))

    @property
    def alignment(self) -> float:
        """m, the mean inner product of a report with the gradient's direction."""
        return self._alignment(self.cut)

    @property
    def error(self) -> float:
        """Mean squared error for a unit vector."""
        return 1 / self.alignment**2 - 1

    @property
    def scale(self) -> float:
        """The norm of a decoded report."""
        return (self.radius or 1.0) / self.alignment

    def _alignment(self, cut: float) -> float:
        d, q = self.dim, cap_measure(cut, self.dim)
        if not 0 < q < 1:
            return 0.0
        p = _odds(self.epsilon, q)
        # ∫ t over the cap: c/(d − 1)·(1 − γ²)^((d−1)/2), in logarithms for large d.
        log_mean = (
            math.lgamma(d / 2)
            - math.lgamma((d - 1) / 2)
            - math.log(math.pi) / 2
            - math.log(d - 1)
            + (d - 1) / 2 * math.log1p(-cut * cut)
        )
        return math.exp(log_mean) * (p / q - (1 - p) / (1 - q))

    @cached_property
    def quantiles(self) -> NDArray[np.float64]:
        """Quantiles of a report's inner product outside the cap (row 0) and inside it (row 1)."""
        with needed("simulation", "PrivUnit"):
            from scipy import special

        q = cap_measure(self.cut, self.dim)
        share = np.linspace(0.0, 1.0, _KNOTS + 1)
        below = np.array([share * (1 - q), (1 - q) + share * q])
        half = (self.dim - 1) / 2
        products: NDArray[np.float64] = 2 * special.betaincinv(half, half, below) - 1
        return products

    def sample(self, vector: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a vector on the sphere of radius ``scale``."""
        length = float(np.linalg.norm(vector))
        axis = vector / length if length else np.eye(self.dim)[0]
        if self.radius is not None and rng.random() >= 0.5 + min(1.0, length / self.radius) / 2:
            axis = -axis
        row = self.quantiles[int(rng.random() < self.inside)]
        along = float(np.interp(rng.random() * _KNOTS, np.arange(_KNOTS + 1), row))
        noise = rng.standard_normal(self.dim)
        noise -= (noise @ axis) * axis
        across = math.sqrt(max(0.0, 1 - along * along)) / float(np.linalg.norm(noise))
        return np.asarray(self.scale * (along * axis + across * noise))


def cap_measure(cut: float, d: int) -> float:
    """The share of the unit sphere in d dimensions with a first coordinate of at least cut ≥ 0.

    >>> cap_measure(0.0, 3), cap_measure(0.5, 3)  # in three dimensions areas go with heights
    (0.5, 0.25)
    """
    with needed("simulation", "PrivUnit"):
        from scipy.special import betainc

    return float(betainc((d - 1) / 2, 0.5, 1 - cut * cut)) / 2


def _odds(epsilon: Fraction, q: float) -> float:
    """p with p(1 − q)/(q(1 − p)) = e^ε."""
    return 1 / (1 + math.exp(-float(epsilon)) * (1 - q) / q)


@final
@dataclass(frozen=True)
class SignDS(Baseline):
    """SignDS: a random sign, and h dimensions of which at least ν are likely in the signed top k.

    A set with ν or more of the k largest entries of ±g has weight e^ε, any other weight 1 (Jiang et
    al. 2022). ``set_size`` is h, by default the one that differs most from chance; ν maximises the
    expected number of top-k entries. The server adds the sign to the h dimensions, so a report
    carries a direction but no length.

    >>> sign_ds = SignDS(Fraction(2), 100, k=0.1)
    >>> sign_ds.size, sign_ds.threshold, round(sign_ds.hits(), 2)
    (1, 1, 0.45)
    """

    name: ClassVar[str] = "SignDS"
    k: Top = 0.1
    set_size: int | None = None

    def __post_init__(self) -> None:
        if self.set_size is not None and not 1 <= self.set_size <= self.dim:
            raise InvalidArgument("set_size", self.set_size, f"in 1 … dim = {self.dim}")

    def bits(self, size: int) -> int:
        return 1 + self.size * bits_for(size)

    def noise_power(self, size: int) -> float:  # noqa: ARG002
        return float(self.size)

    @property
    def top(self) -> int:
        return count_top(self.k, self.dim)

    @property
    def scale(self) -> float:
        return 1.0

    @cached_property
    def size(self) -> int:
        """h."""
        if self.set_size is not None:
            return self.set_size
        by_chance = self.top / self.dim

        def stands_out(h: int) -> float:
            return (self.hits(h) - h * by_chance) / math.sqrt(h)

        return max(range(1, min(self.top, _LARGEST_SET) + 1), key=stands_out)

    @cached_property
    def threshold(self) -> int:
        """ν."""
        return self._threshold(self.size)

    def hits(self, h: int | None = None) -> float:
        """The expected number of top-k dimensions in a report."""
        h = self.size if h is None else h
        return self._hits(h, self._threshold(h))

    def _threshold(self, h: int) -> int:
        return max(range(1, h + 1), key=lambda least: self._hits(h, least))

    def _hits(self, h: int, least: int) -> float:
        return float(self.shares(h, least) @ np.arange(h + 1))

    def shares(self, h: int, least: int) -> NDArray[np.float64]:
        """The probability that a report contains 0 … h of the top k."""
        with needed("simulation", "SignDS"):
            from scipy.special import comb

        k, d = self.top, self.dim
        hits = np.arange(h + 1)
        with np.errstate(divide="ignore"):
            ways = np.log(comb(k, hits)) + np.log(comb(d - k, h - hits))
        weights = np.exp(ways - ways.max() + float(self.epsilon) * (hits >= least))
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares

    def sample(self, vector: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a vector with ±1 at h dimensions."""
        sign = 1.0 if rng.random() < 0.5 else -1.0
        # A stable sort of a shuffled vector breaks ties at random.
        order = rng.permutation(self.dim)
        ranked = order[np.argsort(-sign * vector[order], kind="stable")]
        shares = self.shares(self.size, self.threshold)
        hits = int(rng.choice(len(shares), p=shares))
        chosen = [
            *rng.choice(ranked[: self.top], hits, replace=False),
            *rng.choice(ranked[self.top :], self.size - hits, replace=False),
        ]
        sent = np.zeros(self.dim)
        sent[chosen] = sign * self.scale
        return sent
