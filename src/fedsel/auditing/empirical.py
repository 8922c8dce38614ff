"""Audit by experiment: a lower bound of the privacy loss that holds with stated confidence.

Pilot runs over many inputs choose a pair of inputs and an event; fresh, independent runs then
estimate its two probabilities, with exact (Clopper–Pearson) bounds. The choice never sees the runs
that it is judged by, so one bound is enough.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.auditing.events import Categories, Encoder, Raw, View, fit_views
from fedsel.errors import (
    InvalidArgument,
    check_count,
    check_finite,
    check_kind,
    check_vectors,
)
from fedsel.extras import needed
from fedsel.mechanisms import Mechanism, ReportMechanism, Selection, Value
from fedsel.progress import note
from fedsel.sampling import simulated
from fedsel.solutions import Solution

Vector = NDArray[np.float64]
Tell = Callable[[float], object]
Sampler = Callable[[Vector, int, int, Tell], Raw]
"""(input, trials, seed, who is told how many are done) → outputs"""

FALSE_ALARM = 1e-9
"""The chance that one lower bound lies above the true loss."""


class AuditEntropy(np.random.Generator):
    """What an audited callable draws from: a numpy Generator that also has ``below``.

    >>> entropy = AuditEntropy(np.random.Philox(1))
    >>> 0 <= entropy.below(6) < 6 and 0 <= entropy.random() < 1
    True
    """

    def below(self, n: int, /) -> int:
        """A uniform integer in 0 … n−1."""
        return int(self.integers(n))


@dataclass(frozen=True)
class Finding:
    """What an audit found: with confidence 1 − alpha the loss is at least ``lower_bound``."""

    claimed: float | None
    delta: float
    lower_bound: float
    pair: tuple[tuple[float, ...], tuple[float, ...]]
    event: str
    hits: tuple[int, int]
    trials: int
    alpha: float

    @property
    def violated(self) -> bool:
        """Whether the experiment refutes the claim."""
        return self.claimed is not None and self.lower_bound > self.claimed

    def __str__(self) -> str:
        claim = "no claim" if self.claimed is None else f"claimed ε = {self.claimed:g}"
        verdict = "VIOLATED" if self.violated else "not refuted"
        return (
            f"{claim}, ε ≥ {self.lower_bound:.4f} at confidence 1 − {self.alpha:g}: {verdict} "
            f"(event by {self.event}, {self.hits[0]} against {self.hits[1]} of {self.trials})"
        )


def clopper_pearson(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Exact lower and upper confidence bounds of a probability, each wrong with chance alpha.

    >>> low, high = clopper_pearson(0, 1000, 0.05)
    >>> low, round(high, 6)
    (0.0, 0.002991)
    """
    with needed("simulation", "audits"):
        from scipy.special import betaincinv

    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, alpha))
    high = 1.0 if hits == trials else 1 - float(betaincinv(trials - hits, hits + 1, alpha))
    return low, high


def candidate_inputs(d: int) -> list[Vector]:
    """Vectors in [−1, 1]^d that real errors tell apart: extremes of rank, value, sparsity, ties.

    >>> len(candidate_inputs(3))
    11
    """
    ones, first = np.ones(d), np.zeros(d)
    first[0] = 1
    ramp = np.arange(1, d + 1) / d
    inputs = [np.zeros(d), ones, -ones, first, -first, ones - first, ramp, ramp[::-1]]
    # The first entry ranked last, yet far from zero: both stages of a report at their extremes.
    inputs += [ones - 2 / 3 * first, -ones + 2 / 3 * first]
    inputs += [np.where(np.arange(d) % 2 == 0, 1.0, -1.0) * ramp]
    unique = {v.tobytes(): v for v in inputs}
    return [np.ascontiguousarray(v) for v in unique.values()]


def audit(
    target: Solution | Mechanism | Callable[..., object],
    *,
    d: int | None = None,
    claimed: float | None = None,
    delta: float = 0.0,
    inputs: Sequence[ArrayLike] | None = None,
    trials: int = 1_000_000,
    pilot: int = 100_000,
    seed: int = 0,
    alpha: float = FALSE_ALARM,
    vectorized: bool = False,
    float_bits: bool = True,
) -> Finding:
    """Search the worst pair of inputs and bound the privacy loss from below.

    ``target`` is a solution (the first report of a client), a mechanism, or any callable (vector,
    entropy) → output, where entropy is a numpy Generator with ``below(n)``; with ``vectorized`` it
    is (vector, entropy, n) → n outputs. Inputs are searched in [−1, 1]^d unless given. With delta
    > 0 the bound is on ε of (ε, δ)-privacy. Outputs in floating point are also judged by their last
    bits, which betray most noise that is added to data as a float; ``float_bits=False`` looks at
    the values alone.

    >>> from fedsel.mechanisms import PublishedPerturbedEncoding
    >>> audit(PublishedPerturbedEncoding(2.0, k=1), d=4, trials=200_000).violated
    True
    """
    trials, pilot = check_count("trials", trials), check_count("pilot", pilot, least=2)
    if not 0 < check_finite("alpha", alpha) < 1:
        raise InvalidArgument("alpha", alpha, "in (0, 1)")
    if not 0 <= float(check_finite("delta", delta)) < 1:
        raise InvalidArgument("delta", delta, "in [0, 1)")
    if claimed is not None and (not isinstance(claimed, Real) or not claimed >= 0):
        raise InvalidArgument("claimed", claimed, "a number ≥ 0")
    if isinstance(target, Mechanism | Solution):
        sampler = _own_sampler(target)
        candidates = _own_inputs(target, d) if inputs is None else []
        claimed = float(target.claimed) if claimed is None else claimed
    elif callable(target):
        sampler = _callable_sampler(target, vectorized)
        if inputs is None and d is None:
            raise InvalidArgument("d", d, "given, unless inputs are")
        candidates = candidate_inputs(check_count("d", d)) if inputs is None else []
    else:
        raise InvalidArgument(
            "target", target, "a solution, a mechanism or a callable (vector, entropy)"
        )
    if inputs is not None:
        check_kind("inputs", inputs, Sequence, np.ndarray)
        candidates = [check_vectors("inputs", v, ndim=1).astype(np.float64) for v in inputs]
    if len(candidates) < 2:
        raise InvalidArgument("inputs", len(candidates), "at least two vectors")

    with note("auditing", pilot * len(candidates) + 2 * trials) as tell:
        pilots = [sampler(v, pilot, _seed(seed, 0, i), tell) for i, v in enumerate(candidates)]
        encoder = Encoder(pilots)
        first, second, view, event = _worst(
            [encoder.read(raw) for raw in pilots], delta, encoder.floats and float_bits
        )
        hits = []
        for side, i in enumerate((first, second)):
            fresh = encoder.read(sampler(candidates[i], trials, _seed(seed, 1, side), tell))
            hits.append(int(np.isin(view.categories(fresh), event).sum()))
    low, _ = clopper_pearson(hits[0], trials, alpha / 2)
    _, high = clopper_pearson(hits[1], trials, alpha / 2)
    bound = math.log((low - delta) / high) if low > delta else 0.0
    return Finding(
        claimed,
        delta,
        max(0.0, bound),
        (tuple(candidates[first].tolist()), tuple(candidates[second].tolist())),
        view.name,
        (hits[0], hits[1]),
        trials,
        alpha,
    )


def _seed(seed: int, *purpose: int) -> int:
    """Seeds of independent streams: no two samples of an audit share one."""
    check_count("seed", seed, least=0)
    return int(np.random.SeedSequence(seed, spawn_key=purpose).generate_state(1, np.uint64)[0])


def _own_inputs(target: Mechanism | Solution, d: int | None) -> list[Vector]:
    if isinstance(target, Value):
        return [np.array([t]) for t in (-1.0, 1.0, -0.3, 0.0, 0.3)]
    mechanism = target.mechanism if isinstance(target, Solution) else target
    size = target.dim if isinstance(target, Solution) and d is None else check_count("d", d)
    scale = 3 * getattr(mechanism, "clip", 1 / 3)
    return [scale * v for v in candidate_inputs(size)]


def _own_sampler(target: Mechanism | Solution) -> Sampler:
    """Draw with the kernel, all trials from one vector."""

    def sample(vector: Vector, trials: int, seed: int, tell: Tell) -> Raw:
        tell(trials)  # one call of a kernel, at most
        who = simulated.cohort(trials, seed=seed)
        if isinstance(target, Selection):
            return simulated.select(target, vector[None, :], who)
        if isinstance(target, Value):
            return simulated.perturb(target, vector, who)
        if isinstance(target, ReportMechanism | Solution):
            reports = simulated.report(target, vector[None, :], who)
            return np.concatenate([reports.slot, reports.symbol], axis=1)
        raise InvalidArgument("target", target, "a solution, a mechanism or a callable")

    return sample


def _callable_sampler(program: Callable[..., object], vectorized: bool) -> Sampler:
    def sample(vector: Vector, trials: int, seed: int, tell: Tell) -> Raw:
        entropy = AuditEntropy(np.random.Philox(seed))
        if not vectorized:
            single = []
            for _ in range(trials):
                single.append(program(vector.copy(), entropy))
                tell(1)
            return single
        outputs = program(vector.copy(), entropy, trials)
        if not isinstance(outputs, Sequence | np.ndarray) or len(outputs) != trials:
            raise InvalidArgument("target", program, f"one that returns {trials} outputs")
        tell(trials)
        return outputs

    return sample


def _worst(
    outputs: Sequence[NDArray[np.generic]], delta: float, floats: bool
) -> tuple[int, int, View, Categories]:
    """The pair of inputs and the event that promise the largest lower bound.

    Events are unions of categories, those with the largest likelihood ratio first (Neyman and
    Pearson); the promise is the log-ratio less four standard errors, and one half of the pilot
    orders the categories while the other judges: chance must not favour rare outputs.
    """
    half = len(outputs[0]) // 2
    best: tuple[float, int, int, View, Categories] | None = None
    for view in fit_views(np.concatenate(outputs), floats):
        columns = [view.categories(o) for o in outputs]
        size = max(int(c.max()) for c in columns) + 1
        seen = [np.bincount(c[:half], minlength=size) for c in columns]
        counts = [np.bincount(c[half:], minlength=size) for c in columns]
        for first, second in itertools.permutations(range(len(outputs)), 2):
            order = np.argsort(-(seen[first] + 0.5) / (seen[second] + 0.5), kind="stable")
            hits = np.cumsum(counts[first][order])
            misses = np.cumsum(counts[second][order]) + 1.0
            excess = np.maximum(hits - delta * half, 0.5)
            promise = np.log(excess / misses) - 4 * np.sqrt(1 / np.maximum(hits, 1) + 1 / misses)
            i = int(np.argmax(promise))
            if best is None or promise[i] > best[0]:
                best = (float(promise[i]), first, second, view, order[: i + 1])
    if best is None:
        raise InvalidArgument("target", "its outputs", "numbers, or of at most 4096 kinds")
    return best[1:]
