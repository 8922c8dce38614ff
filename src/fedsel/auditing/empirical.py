"""Audit by experiment: a lower bound of the privacy loss that holds with stated confidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.progress import note
from fedsel.auditing.events import Raw
from fedsel.auditing.experiment import (
    FALSE_ALARM,
    Evidence,
    Outcome,
    Tell,
    check_settings,
    clopper_pearson,
    experiment,
)
from fedsel.errors import InvalidArgument, check_count, check_kind, check_vectors
from fedsel.mechanisms import Mechanism, ReportMechanism, Selection, Value
from fedsel.sampling import simulated
from fedsel.solutions import Solution

__all__ = ["AuditEntropy", "Finding", "audit", "candidate_inputs", "clopper_pearson"]

Vector = NDArray[np.float64]
Sampler = Callable[[Vector, int, int, Tell], Raw]
"""(input, trials, seed, who is told how many are done) → outputs"""


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
    """What an audit found: with confidence 1 − alpha the loss is at least ``lower_bound``.

    ``event`` says how outputs were looked at, ``words`` which of them tell the pair apart, and
    ``outcomes`` how often each kind of output came for either input of the ``pair``.
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

    @classmethod
    def of(
        cls,
        found: Evidence,
        pair: tuple[Any, Any],
        *,
        claimed: float | None,
        delta: float,
        trials: int,
        alpha: float,
    ) -> Finding:
        """What the evidence of an experiment says about a claim."""
        return cls(
            claimed,
            delta,
            found.lower_bound,
            pair,
            found.event,
            found.hits,
            trials,
            alpha,
            found.words,
            found.outcomes,
        )

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
    check_settings(trials, pilot, alpha, delta)
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
        found = experiment(
            lambda i, count, stream, tell: sampler(candidates[i], count, stream, tell),
            len(candidates),
            trials=trials,
            pilot=pilot,
            seed=seed,
            alpha=alpha,
            delta=delta,
            float_bits=float_bits,
            tell=tell,
        )
    first, second = (tuple(candidates[i].tolist()) for i in found.pair)
    return Finding.of(
        found, (first, second), claimed=claimed, delta=delta, trials=trials, alpha=alpha
    )


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
