"""Audit by experiment: a lower bound of the privacy loss that holds with stated confidence.

Pilot runs over many inputs choose a pair of inputs and an event. Fresh, independent runs then
bound the event's two probabilities exactly (Clopper–Pearson). The choice does not depend on these
runs, so no correction for multiple tests is needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.extras import needed
from fedsel._internal.progress import note
from fedsel.auditing._events import Categories, Encoder, Raw, View, fit_views
from fedsel.errors import (
    InvalidArgument,
    check_count,
    check_finite,
    check_kind,
    check_vectors,
)
from fedsel.mechanisms import Mechanism, ReportMechanism, Selection, Value
from fedsel.mechanisms._reports import Reports
from fedsel.sampling import simulated
from fedsel.sampling.answers import report_answers
from fedsel.solutions import Solution

Vector = NDArray[np.float64]
Tell = Callable[[float], object]
Sampler = Callable[[Any, int, int, Tell], Raw]
"""(input, trials, seed, callback with the number of trials just done) → outputs"""

FALSE_ALARM = 1e-9
"""The chance that one lower bound lies above the true loss."""
_MOST_OUTCOMES = 64
_MOST_DIRECTIONS, _ENTRIES_AT_ONCE = 8, 1 << 21


class AuditEntropy(np.random.Generator):
    """The source of randomness of an audited callable: a numpy Generator with ``below``.

    >>> entropy = AuditEntropy(np.random.Philox(1))
    >>> 0 <= entropy.below(6) < 6 and 0 <= entropy.random() < 1
    True
    """

    def below(self, n: int, /) -> int:
        """A uniform integer in 0 … n−1."""
        return int(self.integers(n))


@dataclass(frozen=True)
class Outcome:
    """One kind of output: its count for either input, and whether it is in the event."""

    label: str
    counts: tuple[int, int]
    in_event: bool


@dataclass(frozen=True)
class Finding:
    """The result of an audit: with confidence 1 − alpha the loss is at least ``lower_bound``.

    ``event`` names the view of outputs, ``words`` describes the outputs that distinguish the
    ``pair`` of inputs, and ``outcomes`` counts each kind of output for both. The event's
    probability is at least bounds[0] for the first input, and at most bounds[1] for the second.
    """

    claimed: float | None
    delta: float
    lower_bound: float
    pair: tuple[Any, Any]
    event: str
    hits: tuple[int, int]
    trials: int
    alpha: float
    words: str = ""
    outcomes: tuple[Outcome, ...] = ()
    bounds: tuple[float, float] = (0.0, 1.0)

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


def candidate_inputs(d: int) -> list[Vector]:
    """Vectors in [−1, 1]^d that expose real errors: extremes of rank, value, sparsity, ties.

    >>> len(candidate_inputs(3))
    11
    """
    ones, first = np.ones(d), np.zeros(d)
    first[0] = 1
    ramp = np.arange(1, d + 1) / d
    inputs = [np.zeros(d), ones, -ones, first, -first, ones - first, ramp, ramp[::-1]]
    # The first entry is ranked last yet far from zero, so both stages are at their extremes.
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

    ``target`` is a solution (a client's first report), a mechanism, or any callable (vector,
    entropy) → output, where entropy is a numpy Generator with ``below(n)``; with ``vectorized`` it
    is (vector, entropy, n) → n outputs. Inputs default to vectors in [−1, 1]^d. With delta > 0 the
    bound is on ε of (ε, δ)-privacy. Floats are also judged by their last bits, which expose most
    noise that is added as a float; ``float_bits=False`` looks at the values only.

    >>> from fedsel.mechanisms import PublishedPerturbedEncoding
    >>> audit(PublishedPerturbedEncoding(2.0, k=1), d=4, trials=200_000).violated
    True
    """
    if claimed is not None and (not isinstance(claimed, Real) or not claimed >= 0):
        raise InvalidArgument("claimed", claimed, "a number ≥ 0")
    own = isinstance(target, Mechanism | Solution)
    if isinstance(target, Mechanism | Solution):
        sampler = own_sampler(target)
        claimed = float(target.claimed) if claimed is None else claimed
    elif callable(target):
        sampler = _callable_sampler(target, vectorized)
    else:
        raise InvalidArgument(
            "target", target, "a solution, a mechanism or a callable (vector, entropy)"
        )
    if inputs is not None:
        check_kind("inputs", inputs, Sequence, np.ndarray)
        candidates = [check_vectors("inputs", v, ndim=1).astype(np.float64) for v in inputs]
    else:
        candidates = own_inputs(target, d) if own else candidate_inputs(check_count("d", d))
    found = experiment(
        sampler,
        candidates,
        claimed=claimed,
        trials=trials,
        pilot=pilot,
        seed=seed,
        alpha=alpha,
        delta=delta,
        float_bits=float_bits,
    )
    first, second = (tuple(vector.tolist()) for vector in found.pair)
    return replace(found, pair=(first, second))


def experiment(
    sample: Sampler,
    inputs: Sequence[Any],
    *,
    claimed: float | None,
    trials: int,
    pilot: int,
    seed: int,
    alpha: float = FALSE_ALARM,
    delta: float = 0.0,
    float_bits: bool = True,
) -> Finding:
    """Find the pair of inputs and the event that differ most, and bound the loss.

    ``sample(value, trials, seed, tell)`` returns ``trials`` independent outputs for an input, and
    calls ``tell`` with the number of trials just done. The bound is ln((p − δ)/q), with p a lower
    bound of the event's probability for the first input and q an upper bound for the second, each
    wrong with probability alpha/2.
    """
    check_count("trials", trials)
    check_count("pilot", pilot, least=2)
    if not 0 < check_finite("alpha", alpha) < 1:
        raise InvalidArgument("alpha", alpha, "in (0, 1)")
    if not 0 <= float(check_finite("delta", delta)) < 1:
        raise InvalidArgument("delta", delta, "in [0, 1)")
    if len(inputs) < 2:
        raise InvalidArgument("inputs", len(inputs), "at least two")
    with note("auditing", pilot * len(inputs) + 2 * trials) as tell:
        pilots = [sample(value, pilot, _seed(seed, 0, i), tell) for i, value in enumerate(inputs)]
        encoder = Encoder(pilots)
        bits = encoder.floats and float_bits
        first, second, view, event = _worst(
            [encoder.read(raw) for raw in pilots],
            delta,
            lambda outputs: fit_views(outputs, bits, booleans=encoder.booleans),
        )
        fresh = [
            view.categories(encoder.read(sample(inputs[i], trials, _seed(seed, 1, side), tell)))
            for side, i in enumerate((first, second))
        ]
    hits = [int(np.isin(seen, event).sum()) for seen in fresh]
    low, _ = clopper_pearson(hits[0], trials, alpha / 2)
    _, high = clopper_pearson(hits[1], trials, alpha / 2)
    bound = math.log((low - delta) / high) if low > delta else 0.0
    return Finding(
        claimed,
        delta,
        max(0.0, bound),
        (inputs[first], inputs[second]),
        view.name,
        (hits[0], hits[1]),
        trials,
        alpha,
        view.words(event),
        _outcomes(view, event, fresh),
        (low, high),
    )


def _seed(seed: int, *purpose: int) -> int:
    """A seed of an independent stream. No two samples of an audit share one."""
    check_count("seed", seed, least=0)
    return int(np.random.SeedSequence(seed, spawn_key=purpose).generate_state(1, np.uint64)[0])


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


def called_again(
    call: Callable[[Any, AuditEntropy], object], value: Any, trials: int, seed: int, tell: Tell
) -> list[object]:
    """The outputs of ``trials`` calls that draw from one stream."""
    entropy, outputs = AuditEntropy(np.random.Philox(seed)), []
    for _ in range(trials):
        outputs.append(call(value, entropy))
        tell(1)
    return outputs


def own_inputs(target: Any, d: int | None) -> list[Vector]:
    if isinstance(target, Value):
        return [np.array([t]) for t in (-1.0, 1.0, -0.3, 0.0, 0.3)]
    mechanism = target.mechanism if isinstance(target, Solution) else target
    size = target.dim if isinstance(target, Solution) and d is None else check_count("d", d)
    scale = 3 * getattr(mechanism, "clip", 1 / 3)
    return [scale * v for v in candidate_inputs(size)]


def own_sampler(target: Mechanism | Solution) -> Sampler:
    """Draw with the kernel, all trials from one vector."""

    def sample(vector: Vector, trials: int, seed: int, tell: Tell) -> Raw:
        tell(trials)  # one call of a kernel, at most
        who = simulated.cohort(trials, seed=seed)
        if isinstance(target, Selection):
            return simulated.select(target, vector[None, :], who)
        if isinstance(target, Value):
            return simulated.perturb(target, vector, who)
        if isinstance(target, ReportMechanism | Solution):
            reports = _reported(target, vector, who)
            pairs = np.concatenate([reports.slot, reports.symbol], axis=1)
            return np.concatenate([pairs, *_directions(target, reports)], axis=1)
        raise InvalidArgument("target", target, "a solution, a mechanism or a callable")

    return sample


def _reported(target: ReportMechanism | Solution, vector: Vector, who: simulated.Cohort) -> Reports:
    """The reports of a cohort that holds one vector; those of BR at once, if it is an answer."""
    held = vector.astype(np.float32)  # as a device does
    if isinstance(target, Solution) and target.transform.blocks is not None and held.max() > 0:
        answers = np.full(len(who.clients), held.argmax())
        return report_answers(target, answers, who.streams())
    return simulated.report(target, held[None, :], who)


def _directions(target: ReportMechanism | Solution, reports: Reports) -> list[NDArray[np.int64]]:
    """What a report adds to the totals, if it has codewords of its own: the first entries.

    They are in thousandths of a codeword's length. Hardly any two reports of FJ name the same
    codeword, so its number alone tells nothing.
    """
    if not isinstance(target, Solution) or target.transform.adder is None:
        return []
    adder = target.transform.adder
    _, steps = target.alphabet.steps(reports.symbol[:, 0])
    moved = np.empty((reports.clients, min(adder.places, _MOST_DIRECTIONS)), dtype=np.int64)
    unit = max(1, int(target.transform.length) // 1000)  # blocks are short: their entries are 0, 1
    at_once = max(1, _ENTRIES_AT_ONCE // adder.places)
    for first in range(0, reports.clients, at_once):
        some = slice(first, first + at_once)
        words = adder.codewords(reports.slot[some, 0])[:, : moved.shape[1]]
        moved[some] = words * steps[some, None] // unit
    return [moved]


def _callable_sampler(program: Callable[..., object], vectorized: bool) -> Sampler:
    def at_once(vector: Vector, trials: int, seed: int, tell: Tell) -> Raw:
        outputs = program(vector.copy(), AuditEntropy(np.random.Philox(seed)), trials)
        if not isinstance(outputs, Sequence | np.ndarray) or len(outputs) != trials:
            raise InvalidArgument("target", program, f"a callable that returns {trials} outputs")
        tell(trials)
        return outputs

    def one_by_one(vector: Vector, trials: int, seed: int, tell: Tell) -> Raw:
        return called_again(lambda v, e: program(v.copy(), e), vector, trials, seed, tell)

    return at_once if vectorized else one_by_one


def _outcomes(view: View, event: Categories, fresh: Sequence[Categories]) -> tuple[Outcome, ...]:
    """The count of each category, in the order of the view, with the rarest ones joined."""
    size = max(int(seen.max()) for seen in fresh) + 1
    counts = np.stack([np.bincount(seen, minlength=size) for seen in fresh])
    chosen = np.isin(np.arange(size), event)
    seen = np.flatnonzero(counts.sum(axis=0))
    often = seen[np.argsort(-counts[:, seen].max(axis=0), kind="stable")]
    kept, rest = np.sort(often[:_MOST_OUTCOMES]), often[_MOST_OUTCOMES:]
    made = [
        Outcome(view.label(int(c)), (int(counts[0, c]), int(counts[1, c])), bool(chosen[c]))
        for c in kept
    ]
    for inside in (True, False):
        joined = counts[:, rest[chosen[rest] == inside]].sum(axis=1)
        if joined.any():
            made.append(Outcome("all others", (int(joined[0]), int(joined[1])), inside))
    return tuple(made)


def _worst(
    outputs: Sequence[NDArray[np.generic]],
    delta: float,
    fit: Callable[[NDArray[np.generic]], list[View]],
) -> tuple[int, int, View, Categories]:
    """Choose the pair of inputs and the event that promise the largest lower bound.

    Events are unions of the categories with the largest likelihood ratios (Neyman and Pearson),
    scored by the log-ratio less four standard errors. One half of the pilot orders the categories
    and the other half scores them, so that chance does not favour rare outputs.
    """
    half = len(outputs[0]) // 2
    best: tuple[float, int, int, View, Categories] | None = None
    for view in fit(np.concatenate(outputs)):
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
        raise InvalidArgument(
            "target",
            "too many different outputs",
            "one with numbers or at most 4096 different outputs",
        )
    return best[1:]
