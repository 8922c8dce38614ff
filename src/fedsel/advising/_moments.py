"""First and second moments of a report: its signal on the mean, and its noise.

The model: the update of client i is r·(a·u + √(1−a²)·z_i), of norm r, with a common direction u, an
individual direction z_i orthogonal to u, and the agreement a. Directions are uniform over the
sphere of all d entries or, for sparse updates, of the same s entries.

With f(x) the mean of what a report adds to an entry of the size x·r/√s, the mean of all reports has
the inner product a·√s·E[f(x)·x] with u, since the mean of u given the update is a times its
direction. Its squared norm is s·Σ_h P_h(a)²·c_h², with c_h the coefficients of f in the polynomials
that are orthonormal for an entry of a random direction (Hermite's for large s) and P_h the Legendre
polynomials of the sphere (a^h for large s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.mechanisms import (
    FlatPicks,
    FullGradient,
    ReportMechanism,
    SignedSampling,
    TwoStage,
    UnbiasedJoint,
    Uniform,
    Value,
)
from fedsel.solutions import Projection, Solution

Floats = NDArray[np.float64]

SUPPORT = 0.1
"""The share of nonzero entries in sparse updates."""
LEAST_SUPPORT = 5
_FINE = 4096
_SINGLE = 2048
_DEGREE = 41
_NORMAL = 10_000
_NOTHING = 1e-9


@final
@dataclass(frozen=True)
class Updates:
    """The model of the clients' updates: public assumptions, no data.

    >>> Updates(dim=100, length=0.4, agreement=0.2, sparse=True).support
    10
    """

    dim: int
    length: float
    agreement: float
    sparse: bool = False

    @property
    def support(self) -> int:
        """s, the number of nonzero entries."""
        few = max(LEAST_SUPPORT, round(SUPPORT * self.dim))
        return min(self.dim, few) if self.sparse else self.dim


@final
@dataclass(frozen=True)
class Moments:
    """``signal`` ⟨mean report, u⟩, ``shared`` ‖mean report‖², ``second`` E‖report‖².

    >>> estimate = Moments(signal=0.1, shared=0.01, second=100.01)
    >>> round(estimate.alignment(10_000), 4), round(estimate.noise(10_000), 4)
    (0.7071, 1.0)
    >>> estimate.reports_for(0.5)
    3334
    """

    signal: float
    shared: float
    second: float

    def alignment(self, reports: float) -> float:
        """Return the cosine of the mean of reports with u: E⟨mean, u⟩/√E‖mean‖²."""
        squared = self.shared + self._variance / reports
        return self.signal / math.sqrt(squared) if squared > 0 else 0.0

    def noise(self, reports: float) -> float:
        """Return the norm of the noise in the mean of reports, over the signal."""
        return math.sqrt(self._variance / reports) / self.signal if self.signal > 0 else math.inf

    def reports_for(self, goal: float) -> int | None:
        """Return the number of reports that reach an alignment; None if no number does."""
        room = (self.signal / goal) ** 2 - self.shared
        return max(1, math.ceil(self._variance / room)) if room > 0 else None

    def over(self, bases: int) -> Moments:
        """Return the moments over rounds, each with its own basis and so its own bias."""
        shared = self.signal**2 + max(0.0, self.shared - self.signal**2) / bases
        return Moments(self.signal, shared, shared + self._variance)

    @property
    def _variance(self) -> float:
        return max(0.0, self.second - self.shared)


def moments(solution: Solution, updates: Updates) -> Moments:
    """Return the moments of one report of a solution under the model.

    >>> from fedsel import solution as named
    >>> model = Updates(dim=100, length=0.4, agreement=0.2)
    >>> estimate = moments(named("PM", epsilon=1.0, dim=100), model)
    >>> round(estimate.signal, 3), round(estimate.second ** 0.5)  # unbiased: 0.2 · 0.4
    (0.08, 192)
    """
    if solution.dim != updates.dim:
        raise InvalidArgument("solution", solution, f"a solution of dim = {updates.dim}")
    return _moments(solution.mechanism, solution, updates)


def has_moments(solution: Solution) -> bool:
    """Whether `moments` knows this mechanism on this transform."""
    transform, mechanism = solution.transform, type(solution.mechanism)
    known = _moments.dispatch(mechanism) is not _moments.dispatch(object)
    return known and (transform.identity or mechanism is SignedSampling)


@singledispatch
def _moments(mechanism: ReportMechanism, solution: Solution, updates: Updates) -> Moments:  # noqa: ARG001
    """Dispatch on the mechanism; you can register your own."""
    raise InvalidArgument(
        "solution", solution.name, "a solution of fedsel: the moments of others are not known"
    )


@_moments.register
def _(mechanism: FullGradient, solution: Solution, updates: Updates) -> Moments:  # noqa: ARG001
    signal = updates.agreement * updates.length
    return Moments(signal, signal**2, updates.length**2)


@final
@dataclass(frozen=True, eq=False)
class _Profile:
    """The magnitudes of ``size`` entries by rank, as weighted nodes x: quantiles of their law.

    The entries are √s times those of a random direction in s = ``sphere`` dimensions: nearly
    half-normal. ``weights`` sum to 1, and x has mean square 1, since norms are known.
    """

    size: int
    sphere: int
    x: Floats
    ranks: NDArray[np.int64]
    weights: Floats

    def mean(self, values: Floats) -> float:
        return float(self.weights @ values)

    def gain(self, f: Floats) -> float:
        """E[f(x)·x]."""
        return self.mean(f * self.x)

    def shared(self, f: Floats, a: float) -> float:
        """E[E[f(x) | y]²] for x and y of directions with the cosine a: Σ P_h(a)²·c_h².

        c_h are the coefficients of f in the polynomials that are orthonormal for x; the odd ones
        alone, as f is odd. P_h are the Legendre polynomials of the sphere. (Funk–Hecke.)
        """
        s = self.sphere
        before, now = np.zeros_like(self.x), np.ones_like(self.x)
        legendre, ahead = 1.0, a
        total = seen = 0.0
        for h in range(1, _DEGREE + 1):
            following = self.x * now - self.mean(self.x * now * before) * before
            norm = math.sqrt(self.mean(following**2))
            if norm < _NOTHING:
                break
            before, now = now, following / norm
            if h % 2:
                squared = self.mean(f * now) ** 2
                total += ahead**2 * squared
                seen += squared
            step = ((2 * h + s - 2) * a * ahead - h * legendre) / (h + s - 2)
            legendre, ahead = ahead, step
        rest = max(0.0, self.mean(f * f) - seen)
        return total + ahead**2 * rest


@lru_cache(maxsize=32)
def _profile(size: int, sphere: int, cut: int = 0) -> _Profile:
    """Return nodes at every rank, split if there are few and joined if there are many.

    No node spans the rank ``cut``, at which a law changes.
    """
    with needed("simulation", "advice"):
        from scipy.special import betaincinv, ndtri

    pieces = math.ceil(_FINE / size) if size < _FINE else 1
    single = min(size, _SINGLE)
    parts = [np.arange(single * pieces + 1) / pieces]
    if size > single:
        parts.append(np.rint(np.geomspace(single, size, _FINE)))
    if 0 < cut < size:
        parts.append(np.array([float(cut)]))
    edges = np.unique(np.concatenate(parts))
    middle = (edges[1:] + edges[:-1]) / 2
    if sphere > _NORMAL:
        x = -ndtri(middle / (2 * size))
    else:
        # x²/s of an entry x/√s of a random direction is Beta(1/2, (s − 1)/2).
        x = np.sqrt(sphere * betaincinv(0.5, (sphere - 1) / 2, 1 - middle / size))
    weights = np.diff(edges) / size
    x /= math.sqrt(float(weights @ x**2))
    return _Profile(size, sphere, x, np.floor(middle).astype(np.int64), weights)


def _second_moment(value: Value, t: Floats) -> Floats:
    """Return E[decoded²] at every t: a·t² + b on the grid of a window, linear between."""
    result = np.zeros_like(t)
    for share, w in zip(value.law.shares, value.law.windows, strict=True):
        grid = np.linspace(-1.0, 1.0, w.G + 1)
        a = float(1 / w.eta)
        b = float(w.second_moment(Fraction(1))) - a
        result += float(share) * np.interp(t, grid, a * grid**2 + b)
    return result


@_moments.register(TwoStage)
@_moments.register(FlatPicks)
def _(mechanism: TwoStage | FlatPicks, solution: Solution, updates: Updates) -> Moments:
    """Flat and two-stage: an entry of rank i is reported with the probability law(i)."""
    value, d = mechanism.value, solution.dim
    if value.plain:
        raise InvalidArgument("solution", solution.name, "a private solution, or NP")
    if isinstance(solution.transform, Projection):
        return _projected(solution.transform, value, mechanism.clip, updates)
    selection = mechanism.selection if isinstance(mechanism, TwoStage) else Uniform()
    s, law = updates.support, selection.law(d)
    profile = _profile(s, s, selection.top(d))
    weight = law.weights[np.searchsorted(law.edges, profile.ranks, side="right")]
    probability = mechanism.picks * weight.astype(np.float64) / (law.total + law.bottom)
    t = np.minimum(profile.x * updates.length / math.sqrt(s) / mechanism.clip, 1.0)
    unit = mechanism.scale(d) * mechanism.clip
    f = unit * probability * t
    zeros = mechanism.picks * float(1 - law.bottom_probability) - s * profile.mean(probability)
    second = s * profile.mean(probability * _second_moment(value, t))
    second += max(0.0, zeros) * value.variance(0)
    return _assemble(profile, f, updates.agreement, unit**2 * second)


def _assemble(profile: _Profile, f: Floats, a: float, second: float) -> Moments:
    signal = a * math.sqrt(profile.size) * profile.gain(f)
    return Moments(signal, max(signal**2, profile.size * profile.shared(f, a)), second)


def _projected(projection: Projection, value: Value, clip: float, updates: Updates) -> Moments:
    """…-RP: the part outside the q projected directions is lost for any number of clients.

    The projected update has entries of size r/√q. With P the projection onto q of d directions and
    γ the share that clipping leaves, the mean is γ·a·r·P·u, and ‖P·u‖² is q/d, or less if not all q
    directions are recovered.
    """
    q, a = projection.size, updates.agreement
    profile = _profile(q, updates.support)
    t = np.minimum(profile.x * updates.length / math.sqrt(q) / clip, 1.0)
    f = clip * t
    linear = a * math.sqrt(q) * profile.gain(f)
    recovered = projection.length**2 * q
    bent = max(0.0, profile.shared(f, a) - linear**2 / q)
    second = q * recovered * clip**2 * profile.mean(_second_moment(value, t))
    share = projection.rank / projection.dim
    return Moments(linear * share, linear**2 * share + recovered * bent, second)


@_moments.register
def _(mechanism: SignedSampling, solution: Solution, updates: Updates) -> Moments:
    """One symbol: the scores of a rotated or random codebook are normal for any update."""
    basis, a = solution.transform, updates.agreement
    plain = basis.identity
    size = updates.support if plain else basis.size
    k, unit = mechanism.top(basis.size), float(solution.alphabet.units[0])
    profile = _profile(size, updates.support, k)
    # If more are raised than are nonzero, zeros share the rest, with either sign.
    spare = max(0, k - size) / max(1, 2 * basis.size - size)
    lift = unit * mechanism.lift(basis.size) * (1 - spare)
    f = np.where(profile.ranks < k, lift, 0.0)
    whole = _assemble(profile, f, a, unit**2)
    if plain:
        return whole
    if not basis.shares_codewords:  # unbiased: reports share only the update
        signal = a * min(updates.length, mechanism.radius or 1.0)
        return Moments(signal, signal**2, solution.noise**2)
    if basis.entries:
        # Codewords are not orthogonal: relative to u, the others have random directions.
        signal = whole.signal * math.sqrt(basis.size / solution.dim)
        across = basis.size * profile.shared(f, a) * (1 - 1 / solution.dim)
        return Moments(signal, signal**2 + across, unit**2)
    # Rotations of M ≥ d add up along u, each with another bias. The M − d padded entries are
    # dropped.
    rotations, kept = basis.size * (basis.rms_correlation or 1.0) ** 2, basis.length**2
    along, bent = rotations * whole.signal**2, whole.shared - whole.signal**2
    estimate = Moments(math.sqrt(along), along + kept * bent, kept * whole.second)
    return estimate.over(basis.bases)


@_moments.register
def _(mechanism: UnbiasedJoint, solution: Solution, updates: Updates) -> Moments:
    """UJ: unbiased up to ‖v‖₁ = k and shortened beyond; ⊥ counts as zero."""
    s, d = updates.support, solution.dim
    profile, k = _profile(s, s), mechanism.top(d)
    v = np.minimum(profile.x * updates.length / math.sqrt(s) / mechanism.clip, 1.0)
    v *= min(1.0, k / (s * profile.mean(v)))
    low, high = mechanism.weights(d)
    probability = (2 * d * low + (high - low) * s * profile.mean(v)) / (2 * d * low + k * high)
    unit = float(solution.alphabet.units[0])
    return _assemble(profile, mechanism.clip * v, updates.agreement, unit**2 * probability)
