"""Certificates: the exact privacy loss over all inputs and outputs, in rational arithmetic.

The ratio is a Fraction and is compared with a rational bound of e^ε, never with a float, so
"holds" is a proof about the integer weights that the samplers draw from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

from fedsel.errors import Epsilon, InvalidArgument, check_count
from fedsel.exact import exceeds_exp, log
from fedsel.mechanisms.base import Value
from fedsel.mechanisms.value import AsIs


@runtime_checkable
class Certifiable(Protocol):
    """What has a claim and an exact loss: a mechanism, or a solution as it is shipped."""

    @property
    def claimed(self) -> Epsilon:
        """The ε that it claims; infinite if it claims nothing."""
        ...

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """Largest ratio of the probabilities of an output for two inputs; None if infinite."""
        ...


@dataclass(frozen=True)
class Certificate:
    """Claimed against exact loss. ``ratio`` is None where it is infinite."""

    mechanism: Certifiable
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


def certify(target: Certifiable, d: int | None = None) -> Certificate:
    """Compute the exact loss of a mechanism or a solution over all inputs and all outputs.

    A mechanism on a vector needs the dimension d; a solution has its own, and claims its ε′ for one
    report.

    Proof: docs/proofs/exact.md, E3.

    >>> from fedsel.mechanisms import PerturbedSampling, PublishedPerturbedEncoding
    >>> certify(PerturbedSampling(1.0, k=2), d=10).holds
    True
    >>> print(certify(PublishedPerturbedEncoding(1.0, k=1), d=10))
    PublishedPerturbedEncoding(...) at d = 10: claimed ε = 1, exact ε = 1.17304321741: FAILS
    """
    if not isinstance(target, Certifiable):
        raise InvalidArgument("target", target, "a mechanism or a solution")
    own = getattr(target, "dim", None)
    if own is not None and d not in (None, own):
        raise InvalidArgument("d", d, f"left out, or the solution's own: {own}")
    size = None if isinstance(target, Value | AsIs) else check_count("d", d if own is None else own)
    return Certificate(target, size, target.claimed, target.loss_ratio(size))
