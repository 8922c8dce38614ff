"""How much a report reveals, alone (its certificate) and among shuffled reports (its blanket).

A certificate is the exact privacy loss over all inputs and outputs. Its ratio is a Fraction and is
compared with a rational bound of e^ε, never with a float, so "holds" is a proof about the integer
weights that the samplers draw from.

Write W(x, y) for the integer weight of output y on input x, T for the total, the same for every x,
and w(y) for a weight that no W(x, y) is below. The *blanket* w/T is the part of a report that does
not depend on its input. Among n shuffled reports it hides the difference between two inputs x₀ and
x₁ (Balle, Bell, Gascón, Nissim 2019): with G = (W(x₀, y) − e^ε·W(x₁, y))/w(y) for y drawn from the
blanket, and G = 0 with the rest of the probability,

    δ(ε) ≤ E[(G₁ + … + Gₙ)₊]/n.

Every mechanism here has one pair of inputs whose G exceeds the G of all other pairs in the convex
order, for every ε at once; so the pair's bound holds for all inputs.

Proof: docs/proofs/shuffling.md, S1–S6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from fedsel._internal.exact import exceeds_exp, log
from fedsel.errors import Epsilon, InvalidArgument, check_count
from fedsel.mechanisms._laws import RankLaw, SymbolLaw, Window


class OutputClass(NamedTuple):
    """How many ``outputs`` have weight ``first`` on x₀, ``second`` on x₁ and at least ``least``."""

    first: int
    second: int
    least: int
    outputs: int


@dataclass(frozen=True)
class Blanket:
    """The outputs of a mechanism, grouped by their weights for the two hardest inputs to hide.

    >>> blanket = Blanket.of_ranks(RankLaw([3, 1], [1, 3]))
    >>> blanket.total, [tuple(c) for c in blanket.classes]
    (6, [(1, 1, 1, 2), (1, 3, 1, 1), (3, 1, 1, 1)])
    >>> blanket.share  # of a report that does not depend on its input
    Fraction(2, 3)
    """

    classes: tuple[OutputClass, ...]
    total: int

    @classmethod
    def of(cls, classes: Iterable[OutputClass], total: int) -> Blanket:
        """Build a blanket: merge classes of equal weights, and sort."""
        counts: dict[tuple[int, int, int], int] = {}
        for first, second, least, count in classes:
            key = (first, second, least)
            counts[key] = counts.get(key, 0) + count
        if not counts or any(least < 1 for _, _, least in counts):
            raise ValueError("a blanket needs outputs that every input can have")
        return cls(tuple(OutputClass(*key, counts[key]) for key in sorted(counts)), total)

    @classmethod
    def of_ranks(cls, law: RankLaw) -> Blanket:
        """The blanket of two opposite orders: what one ranks first, the other ranks last."""
        edges, weights = law.edges, law.weights
        ends = np.union1d(edges, law.d - edges + law.counts)
        first = weights[np.searchsorted(edges, ends - 1, side="right")]
        second = weights[np.searchsorted(edges, law.d - ends, side="right")]
        counts = np.diff(ends, prepend=0)
        rows = zip(first.tolist(), second.tolist(), counts.tolist(), strict=True)
        classes = [OutputClass(a, b, law.minimum, count) for a, b, count in rows]
        if law.bottom:
            classes.append(OutputClass(law.bottom, law.bottom, law.bottom, 1))
        return cls.of(classes, law.total + law.bottom)

    @classmethod
    def of_symbols(cls, law: SymbolLaw) -> Blanket:
        """The blanket of the inputs −1 and 1, over all windows of the public coin."""
        common = math.lcm(*(w.total for w in law.windows))
        classes = []
        for coin, window in zip(law.coins, law.windows, strict=True):
            scale = coin * (common // window.total)
            for first, second, least, count in _opposite_ends(window):
                classes.append(OutputClass(scale * first, scale * second, scale * least, count))
        return cls.of(classes, sum(law.coins) * common)

    def times(self, other: Blanket) -> Blanket:
        """The blanket of a report in two independent parts, each on its hardest pair of inputs."""
        return Blanket.of(
            (
                OutputClass(
                    a.first * b.first, a.second * b.second, a.least * b.least, a.outputs * b.outputs
                )
                for a in self.classes
                for b in other.classes
            ),
            self.total * other.total,
        )

    @property
    def share(self) -> Fraction:
        """The probability that a report does not depend on its input."""
        return Fraction(sum(c.least * c.outputs for c in self.classes), self.total)

    @property
    def loss_ratio(self) -> Fraction:
        """The largest ratio of an output's probabilities for the two inputs: e^ε₀."""
        return max(Fraction(c.first, c.second) for c in self.classes)


def _opposite_ends(window: Window) -> Iterator[OutputClass]:
    """Group the symbols of a window by their weights for its first and its last cell.

    If the window is wider than the grid, its middle symbols are inside for every cell.
    """
    G, W, L, H = window.G, window.W, window.L, window.H
    apart, shared = min(G, W), max(0, W - G)
    yield OutputClass(H, L, L, apart)
    yield OutputClass(L, H, L, apart)
    if shared:
        yield OutputClass(H, H, H, shared)
    elif G > W:
        yield OutputClass(L, L, L, G - W)


@runtime_checkable
class Certifiable(Protocol):
    """A mechanism or a solution: it has a claimed and an exact loss."""

    @property
    def claimed(self) -> Epsilon: ...

    def loss_ratio(self, d: int | None = None) -> Fraction | None: ...


@dataclass(frozen=True)
class Certificate:
    """The claimed and the exact loss. ``ratio`` is None if it is infinite."""

    mechanism: Certifiable
    d: int | None
    claimed: Fraction | float
    ratio: Fraction | None

    @property
    def holds(self) -> bool:
        """Whether the exact loss is at most the claim, decided in rationals. No claim: False."""
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

    A mechanism on a vector needs the dimension d. A solution has its own, and claims the ε′ of one
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
        raise InvalidArgument("d", d, f"omitted, or {own} as in the solution")
    size = None if getattr(target, "scalar", False) else check_count("d", d if own is None else own)
    return Certificate(target, size, target.claimed, target.loss_ratio(size))
