"""The privacy mechanisms. Each is defined by an integer law; all else is derived from it."""

from __future__ import annotations

import difflib
from dataclasses import fields
from fractions import Fraction
from typing import Any, TypeVar

from fedsel.errors import Epsilon, InvalidArgument, check_epsilon, check_finite, check_kind, renamed
from fedsel.mechanisms._base import Mechanism, ReportMechanism, Selection, Value
from fedsel.mechanisms._certificate import Certificate, certify
from fedsel.mechanisms._choice import Choice
from fedsel.mechanisms._drawing import Entropy
from fedsel.mechanisms._laws import RankLaw, SymbolLaw, Window
from fedsel.mechanisms._one_symbol import OneSymbol, SignedSampling, UnbiasedJoint
from fedsel.mechanisms._reports import BOTTOM
from fedsel.mechanisms._selection import (
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    PublishedPerturbedEncoding,
    Top,
    TopK,
    Uniform,
)
from fedsel.mechanisms._two_stage import FlatPicks, FullGradient, TwoStage, ValueReports
from fedsel.mechanisms._value import Duchi, Hybrid, Identity, OptimalWindow, Piecewise, Unperturbed

__getattr__ = renamed(__name__, {"AsIs": "Unperturbed"}, until="0.2")

__all__ = [
    "BOTTOM",
    "ONE_SYMBOL",
    "SELECTIONS",
    "VALUES",
    "Certificate",
    "Choice",
    "Duchi",
    "Entropy",
    "Exponential",
    "FlatPicks",
    "FullGradient",
    "Hybrid",
    "Identity",
    "Mechanism",
    "OneSymbol",
    "OptimalWindow",
    "PerturbedEncoding",
    "PerturbedSampling",
    "Piecewise",
    "PublishedPerturbedEncoding",
    "RankLaw",
    "ReportMechanism",
    "Selection",
    "SignedSampling",
    "SymbolLaw",
    "TopK",
    "TwoStage",
    "UnbiasedJoint",
    "Uniform",
    "Unperturbed",
    "Value",
    "ValueReports",
    "Window",
    "certify",
    "mechanism",
]

SELECTIONS: dict[str, type[Selection]] = {
    cls.name: cls
    for cls in (
        Exponential,
        PerturbedEncoding,
        PerturbedSampling,
        PublishedPerturbedEncoding,
        Uniform,
        TopK,
    )
}
"""The selections, by name."""
VALUES: dict[str, type[Value]] = {
    cls.name: cls for cls in (Duchi, Piecewise, Hybrid, OptimalWindow, Identity)
}
"""The values, by name."""
ONE_SYMBOL: dict[str, type[OneSymbol]] = {cls.name: cls for cls in (SignedSampling, UnbiasedJoint)}
"""The one-symbol mechanisms, by name."""
_Kind = TypeVar("_Kind", bound=Mechanism)
_SINGLE: dict[str, type[Mechanism]] = {**SELECTIONS, **VALUES, **ONE_SYMBOL}


def mechanism(
    name: str, *, epsilon: Epsilon | None = None, k: Top | None = None, mu: float = 0.1
) -> Mechanism:
    """Build a mechanism from its abbreviation: EXP, PM, … or two stages as PS-PM, with ε₁ = μ·ε.

    ``k`` defaults to 0.1, and for J to the best value.

    >>> mechanism("ps", epsilon=1.0)
    PerturbedSampling(epsilon=1.0, k=0.1)
    >>> float(mechanism("EXP-HM", epsilon=2.0, mu=0.25).claimed)
    2.0
    >>> mechanism("PZ", epsilon=1.0)
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: name = 'PZ': must be a known mechanism, such as PS, PM, PE
    """
    check_kind("name", name, str)
    single = {n.lower(): n for n in _SINGLE}
    pairs = {f"{s}-{v}".lower(): (s, v) for s in SELECTIONS for v in VALUES}
    if name.lower() in single:
        return _build(_SINGLE[single[name.lower()]], epsilon, k)
    if name.lower() in pairs:
        return _two_stage(*pairs[name.lower()], epsilon, k, mu)
    listed = single | {low: "-".join(pair) for low, pair in pairs.items()}
    close = difflib.get_close_matches(name.lower(), listed, n=3, cutoff=0.3)
    known = ", ".join(listed[c] for c in close) or ", ".join(single.values())
    raise InvalidArgument("name", name, f"a known mechanism, such as {known}")


def _two_stage(
    first: str, second: str, epsilon: Epsilon | None, k: Top | None, mu: float
) -> TwoStage:
    """Split ε₁ = μ·ε and ε₂ = ε − ε₁ in rationals, so that they add up to ε exactly."""
    if epsilon is None:
        raise InvalidArgument("epsilon", None, f"a number > 0: {first}-{second} needs an ε")
    total = Fraction(check_epsilon("epsilon", epsilon))
    if not 0 <= check_finite("mu", mu) < 1:
        raise InvalidArgument("mu", mu, "in [0, 1)")
    selection = SELECTIONS[first]
    own = Fraction(repr(float(mu))) if "epsilon" in _parameters(selection) else Fraction(0)
    chosen = _build(selection, own * total, k)
    return TwoStage(chosen, _build(VALUES[second], (1 - own) * total, k))


def _build(kind: type[_Kind], epsilon: Epsilon | None, k: Top | None) -> _Kind:
    wanted = _parameters(kind)
    if "epsilon" in wanted and epsilon is None:
        raise InvalidArgument("epsilon", None, f"a number > 0: {kind.name} needs an ε")
    given: dict[str, Any] = {"epsilon": epsilon}
    if k is not None or kind.name not in ONE_SYMBOL:  # J chooses the best k itself
        given["k"] = 0.1 if k is None else k
    return kind(**{name: value for name, value in given.items() if name in wanted})


def _parameters(kind: type[Mechanism]) -> set[str]:
    return {f.name for f in fields(kind)}  # type: ignore[arg-type]
