"""Shuffled reports of a few clients: exact loss of the multiset, an attack, and the proved bound.

One client holds x₀ or x₁, all others hold one public vector, and an observer sees the multiset of
their reports. For few reports over few outputs the two laws are enumerated, which gives the exact ε
at δ for every choice of vectors; the worst choice is then attacked by experiment. The bound of
`fedsel.amplify` holds for all vectors of all clients, so it lies above both.

Proof: docs/proofs/shuffling.md, S10.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsel.auditing import Finding, candidate_inputs, experiment
from fedsel.mechanisms import ReportMechanism
from fedsel.sampling import simulated

Law = Mapping[Any, Fraction]
"""The probability of each report."""
Multiset = tuple[int, ...]
"""The count of each report, in a fixed order of reports."""
_ROOM = 1 << 16
"""Exceeds the number of symbols, so that slot and symbol can be packed into one number."""


@final
@dataclass(frozen=True)
class Attack:
    """One client holds ``first`` or ``second``, the others ``others``; with the exact ε at δ."""

    first: NDArray[np.float32]
    second: NDArray[np.float32]
    others: NDArray[np.float32]
    growth: Fraction

    @property
    def epsilon(self) -> float:
        """ε at δ of the multiset, for these vectors."""
        return math.log(self.growth)


def worst_attack(target: ReportMechanism, d: int, reports: int, delta: Fraction) -> Attack:
    """The candidate vectors for which ε at δ is largest.

    >>> from fedsel.mechanisms import SignedSampling
    >>> alone = worst_attack(SignedSampling(2.0, k=1), 2, 1, Fraction(0))
    >>> among_four = worst_attack(SignedSampling(2.0, k=1), 2, 4, Fraction(1, 100))
    >>> round(alone.epsilon, 6), among_four.epsilon < 2
    (2.0, True)
    """
    laws: dict[tuple[tuple[Any, Fraction], ...], NDArray[np.float32]] = {}
    for vector in _inputs(target, d):
        law = target.report_law([Fraction(float(x)) for x in vector])
        laws.setdefault(tuple(sorted(law.items())), vector)
    known = [(dict(key), vector) for key, vector in laws.items()]
    rough: list[tuple[float, int, int, int]] = []
    for place, (others, _) in enumerate(known):
        beside = multisets({y: float(p) for y, p in others.items()}, reports - 1)
        seen = [_joined(beside, {y: float(p) for y, p in law.items()}) for law, _ in known]
        for i, j in itertools.permutations(range(len(known)), 2):
            rough.append((_growth(seen[i], seen[j], float(delta)), i, j, place))
    _, i, j, place = max(rough)
    (one, first), (other, second), (others, held) = known[i], known[j], known[place]
    beside = multisets(others, reports - 1)
    growth = _growth(_joined(beside, one), _joined(beside, other), delta)
    return Attack(first, second, held, Fraction(growth))


def _inputs(target: ReportMechanism, d: int) -> Iterator[NDArray[np.float32]]:
    """Candidate vectors in a device's precision, some entries beyond the clip."""
    scale = 3 * getattr(target, "clip", 1 / 3)
    for vector in candidate_inputs(d):
        yield (scale * vector).astype(np.float32)


def multisets(law: Mapping[Any, Any], reports: int) -> dict[Multiset, Any]:
    """The law of the multiset of ``reports`` independent reports.

    >>> multisets({"a": Fraction(1, 4), "b": Fraction(3, 4)}, 2)
    {(2, 0): Fraction(1, 16), (1, 1): Fraction(3, 8), (0, 2): Fraction(9, 16)}
    """
    outputs = sorted(law)
    seen: dict[Multiset, Any] = {(0,) * len(outputs): 1}
    for _ in range(reports):
        seen = _joined(seen, law)
    return seen


def _joined(seen: Mapping[Multiset, Any], law: Mapping[Any, Any]) -> dict[Multiset, Any]:
    """The law of a multiset with one more report."""
    joined: dict[Multiset, Any] = {}
    for place, output in enumerate(sorted(law)):
        p = law[output]
        for counts, q in seen.items():
            more = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            joined[more] = joined.get(more, 0) + p * q
    return joined


def _growth(one: Mapping[Multiset, Any], other: Mapping[Multiset, Any], delta: Any) -> Any:
    """The least e^ε with P[S] ≤ e^ε·Q[S] + δ for all events S.

    The worst events consist of the outcomes with the largest ratios (Neyman and Pearson).
    """
    order = sorted(one, key=lambda y: one[y] / other[y], reverse=True)
    most, p, q = 1, 0 * delta, 0 * delta
    for y in order:
        p, q = p + one[y], q + other[y]
        most = max(most, (p - delta) / q)
    return most


def attack_shuffled(
    target: ReportMechanism,
    attack: Attack,
    *,
    reports: int,
    delta: float,
    claimed: float,
    trials: int,
    pilot: int,
    seed: int,
) -> Finding:
    """Bound ε at δ of shuffled reports from below, by experiment."""

    def sample(
        held: NDArray[np.float32], count: int, stream: int, tell: Callable[[float], object]
    ) -> NDArray[np.int64]:
        own = _drawn(target, held, count, _seed(stream, 0))
        beside = _drawn(target, attack.others, count * (reports - 1), _seed(stream, 1))
        tell(count)
        return np.sort(np.column_stack([own, beside.reshape(count, reports - 1)]), axis=1)

    return experiment(
        sample,
        (attack.first, attack.second),
        claimed=claimed,
        trials=trials,
        pilot=pilot,
        seed=seed,
        delta=delta,
        float_bits=False,
    )


def _seed(stream: int, purpose: int) -> int:
    sequence = np.random.SeedSequence(stream, spawn_key=(purpose,))
    return int(sequence.generate_state(1, np.uint64)[0])


def _drawn(
    target: ReportMechanism, vector: NDArray[np.float32], count: int, seed: int
) -> NDArray[np.int64]:
    """Draw reports on one vector, each packed into one number."""
    if count == 0:
        return np.zeros(0, np.int64)
    reports = simulated.report(target, vector[None, :], simulated.cohort(count, seed=seed))
    return np.asarray(reports.slot[:, 0].astype(np.int64) * _ROOM + reports.symbol[:, 0])
