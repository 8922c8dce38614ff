"""Certificates: the exact privacy loss over all inputs and outputs, in rational arithmetic.

The ratio is a Fraction and is compared with a rational bound of e^ε, never with a float, so
"holds" is a proof about the integer weights that the samplers draw from.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedsel.errors import InvalidArgument, check_count, check_kind
from fedsel.exact import exceeds_exp, log
from fedsel.mechanisms.base import Mechanism, Value
from fedsel.mechanisms.two_stage import TwoStage

_MOST_SYMBOLS = 1 << 16


@dataclass(frozen=True)
class Certificate:
    """Claimed against exact loss of one mechanism. ``ratio`` is None where it is infinite."""

    mechanism: Mechanism
    d: int | None
    claimed: Fraction | float
    ratio: Fraction | None

    @property
    def holds(self) -> bool:
        """Whether the exact loss is at most the claimed one: decided in rationals.

        A mechanism that claims nothing holds nothing.
        """
        if self.claimed == math.inf:
            return False
        return self.ratio is not None and not exceeds_exp(self.ratio, self.claimed)

    @property
    def exact(self) -> float:
        """The exact loss ln(ratio), as the nearest float that does not contradict `holds`."""
        if self.ratio is None:
            return math.inf
        loss, claimed = log(self.ratio), float(self.claimed)
        if claimed == math.inf:
            return loss
        return min(loss, claimed) if self.holds else max(loss, math.nextafter(claimed, math.inf))

    def __str__(self) -> str:
        where = "" if self.d is None else f" at d = {self.d}"
        if self.claimed == math.inf:
            return f"{self.mechanism!r}{where}: not private, claims nothing"
        verdict = "holds" if self.holds else "FAILS"
        return (
            f"{self.mechanism!r}{where}: claimed ε = {float(self.claimed):.12g}, "
            f"exact ε = {self.exact:.12g}: {verdict}"
        )


def certify(mechanism: Mechanism, d: int | None = None) -> Certificate:
    """Compute the exact loss of a mechanism over all inputs and all outputs.

    A selection or two-stage mechanism needs the dimension d.

    >>> from fedsel.mechanisms import PerturbedSampling, PublishedPerturbedEncoding
    >>> certify(PerturbedSampling(1.0, k=2), d=10).holds
    True
    >>> print(certify(PublishedPerturbedEncoding(1.0, k=1), d=10))
    PublishedPerturbedEncoding(...) at d = 10: claimed ε = 1, exact ε = 1.17304321741: FAILS
    """
    check_kind("mechanism", mechanism, Mechanism)
    d = None if isinstance(mechanism, Value) else check_count("d", d)
    return Certificate(mechanism, d, mechanism.claimed, mechanism.loss_ratio(d))


def certify_by_enumeration(
    mechanism: TwoStage,
    gradients: Sequence[Sequence[Fraction | int]],
    epochs: int = 1,
) -> Certificate:
    """Loss of a client's whole transcript, by enumerating inputs and outputs of every epoch.

    An input is one gradient per epoch, each any of ``gradients``; the residual starts at zero, is
    carried from report to report and enters through accumulation and momentum (Algorithm 1). The
    claim is epochs · (ε₁ + ε₂).

    >>> from fedsel.mechanisms import Duchi, PerturbedSampling
    >>> m = TwoStage(PerturbedSampling(0.5, k=1), Duchi(1.0), momentum=0.5)
    >>> grid = [(a, b) for a in (-2, 1) for b in (-1, 2)]
    >>> certify_by_enumeration(m, grid, epochs=2).holds
    True
    """
    check_kind("mechanism", mechanism, TwoStage)
    exact = [tuple(Fraction(x) for x in g) for g in gradients]
    if len({len(g) for g in exact}) != 1:
        raise InvalidArgument("gradients", gradients, "non-empty and all of one length")
    d, epochs = len(exact[0]), check_count("epochs", epochs)
    if mechanism.value.symbols > _MOST_SYMBOLS:
        raise InvalidArgument("mechanism", mechanism, f"of at most {_MOST_SYMBOLS} symbols")
    largest: dict[tuple[tuple[int, int], ...], Fraction] = {}
    smallest: dict[tuple[tuple[int, int], ...], Fraction] = {}
    inputs = list(itertools.product(exact, repeat=epochs))
    for sequence in inputs:
        for transcript, p in _transcript_law(mechanism, sequence).items():
            largest[transcript] = max(largest.get(transcript, p), p)
            smallest[transcript] = min(smallest.get(transcript, p), p)
    claimed = mechanism.claimed
    total = Fraction(claimed) * epochs if claimed != math.inf else math.inf
    possible = [transcript for transcript, p in largest.items() if p > 0]
    impossible_for_some = any(smallest[o] == 0 for o in possible)
    ratio = None if impossible_for_some else max(largest[o] / smallest[o] for o in possible)
    return Certificate(mechanism, d, total, ratio)


def _transcript_law(
    mechanism: TwoStage, gradients: Sequence[tuple[Fraction, ...]]
) -> dict[tuple[tuple[int, int], ...], Fraction]:
    """Exact law of the reports of all epochs of one client."""
    zero = (Fraction(0),) * len(gradients[0])
    states: dict[tuple[tuple[int, int], ...], tuple[Fraction, tuple[Fraction, ...]]]
    states = {(): (Fraction(1), zero)}
    for gradient in gradients:
        following = {}
        for transcript, (p, residual) in states.items():
            accumulated = [a + b for a, b in zip(residual, gradient, strict=True)]
            for report, q in mechanism.report_law(residual, gradient).items():
                kept = tuple(
                    Fraction(0) if i == report[0] else a for i, a in enumerate(accumulated)
                )
                following[(*transcript, report)] = (p * q, kept)
        states = following
    return {transcript: p for transcript, (p, _) in states.items()}
