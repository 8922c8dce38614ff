"""The experiment behind an audit: choose a pair of inputs and an event, then judge it afresh.

Pilot runs over many inputs choose a pair of inputs and an event; fresh, independent runs then
estimate its two probabilities, with exact (Clopper–Pearson) bounds. The choice never sees the runs
that it is judged by, so one bound is enough.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel.auditing.events import Categories, Encoder, Raw, View, fit_views
from fedsel.errors import InvalidArgument, check_count, check_finite

Tell = Callable[[float], object]
Sampler = Callable[[int, int, int, Tell], Raw]
"""(which input, trials, seed, who is told how many are done) → outputs"""

FALSE_ALARM = 1e-9
"""The chance that one lower bound lies above the true loss."""
_MOST_OUTCOMES = 64


@dataclass(frozen=True)
class Outcome:
    """One kind of output: how often either input gave it, and whether the event holds it."""

    label: str
    counts: tuple[int, int]
    in_event: bool


@dataclass(frozen=True)
class Evidence:
    """What an experiment has to show: a pair of inputs, an event, and counts of fresh runs."""

    pair: tuple[int, int]
    event: str
    words: str
    hits: tuple[int, int]
    outcomes: tuple[Outcome, ...]
    bounds: tuple[float, float]
    """At least this probability of the event for the first input, at most this for the second."""
    lower_bound: float


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


def check_settings(trials: object, pilot: object, alpha: object, delta: object) -> None:
    """Check the parameters that every audit has."""
    check_count("trials", trials)
    check_count("pilot", pilot, least=2)
    if not 0 < check_finite("alpha", alpha) < 1:
        raise InvalidArgument("alpha", alpha, "in (0, 1)")
    if not 0 <= float(check_finite("delta", delta)) < 1:
        raise InvalidArgument("delta", delta, "in [0, 1)")


def experiment(
    sample: Sampler,
    inputs: int,
    *,
    trials: int,
    pilot: int,
    seed: int,
    alpha: float = FALSE_ALARM,
    delta: float = 0.0,
    float_bits: bool = True,
    tell: Tell = abs,
) -> Evidence:
    """Find the pair of so many inputs and the event that differ most, and bound the loss.

    The bound is ln((p − δ)/q), for p at least the probability of the event for the first input and
    q at most that for the second, each wrong with chance alpha/2.
    """
    pilots = [sample(i, pilot, seed_of(seed, 0, i), tell) for i in range(inputs)]
    encoder = Encoder(pilots)
    first, second, view, event = _worst(
        [encoder.read(raw) for raw in pilots],
        delta,
        lambda pilot: fit_views(pilot, encoder.floats and float_bits, booleans=encoder.booleans),
    )
    fresh = [
        view.categories(encoder.read(sample(i, trials, seed_of(seed, 1, side), tell)))
        for side, i in enumerate((first, second))
    ]
    hits = [int(np.isin(seen, event).sum()) for seen in fresh]
    low, _ = clopper_pearson(hits[0], trials, alpha / 2)
    _, high = clopper_pearson(hits[1], trials, alpha / 2)
    bound = math.log((low - delta) / high) if low > delta else 0.0
    return Evidence(
        (first, second),
        view.name,
        view.words(event),
        (hits[0], hits[1]),
        _outcomes(view, event, fresh),
        (low, high),
        max(0.0, bound),
    )


def seed_of(seed: int, *purpose: int) -> int:
    """Seeds of independent streams: no two samples of an audit share one."""
    check_count("seed", seed, least=0)
    return int(np.random.SeedSequence(seed, spawn_key=purpose).generate_state(1, np.uint64)[0])


def _outcomes(view: View, event: Categories, fresh: Sequence[Categories]) -> tuple[Outcome, ...]:
    """Counts of each category, in the order of the view; rare ones beyond a number are joined."""
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
    """The pair of inputs and the event that promise the largest lower bound.

    Events are unions of categories, those with the largest likelihood ratio first (Neyman and
    Pearson); the promise is the log-ratio less four standard errors, and one half of the pilot
    orders the categories while the other judges: chance must not favour rare outputs.
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
        raise InvalidArgument("target", "its outputs", "numbers, or of at most 4096 kinds")
    return best[1:]
