"""Mechanisms by the paper's abbreviations."""

from __future__ import annotations

import difflib
from dataclasses import fields
from fractions import Fraction
from typing import Any, cast

from fedsel.errors import Epsilon, InvalidArgument, check_epsilon, check_finite, check_kind
from fedsel.mechanisms._base import Mechanism, Selection, Value
from fedsel.mechanisms._one_symbol import OneSymbol, SignedSampling, UnbiasedJoint
from fedsel.mechanisms._selection import (
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    PublishedPerturbedEncoding,
    Top,
    TopK,
    Uniform,
)
from fedsel.mechanisms._two_stage import TwoStage
from fedsel.mechanisms._value import Duchi, Hybrid, Identity, OptimalWindow, Piecewise

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
"""The mechanisms of one symbol, by name."""
_SINGLE: dict[str, type[Mechanism]] = {**SELECTIONS, **VALUES, **ONE_SYMBOL}


def mechanism(
    name: str, *, epsilon: Epsilon | None = None, k: Top | None = None, mu: float = 0.1
) -> Mechanism:
    """A mechanism by its abbreviation: EXP, PM, … or two stages as PS-PM, with ε₁ = μ·ε.

    ``k`` None is 0.1, and of J the best.

    >>> mechanism("ps", epsilon=1.0)
    PerturbedSampling(epsilon=1.0, k=0.1)
    >>> float(mechanism("EXP-HM", epsilon=2.0, mu=0.25).claimed)
    2.0
    >>> mechanism("PZ", epsilon=1.0)
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: name = 'PZ': must be a known mechanism; close to it: PS, PM, PE
    """
    check_kind("name", name, str)
    known = {n.lower(): n for n in _SINGLE}
    if name.lower() in known:
        return _build(known[name.lower()], epsilon, k)
    for first in SELECTIONS:
        head, rest = name[: len(first)], name[len(first) :]
        if (
            head.lower() == first.lower()
            and rest[:1] == "-"
            and known.get(rest[1:].lower()) in VALUES
        ):
            return _two_stage(first, known[rest[1:].lower()], epsilon, k, mu)
    pairs = {f"{s}-{v}".lower(): f"{s}-{v}" for s in SELECTIONS for v in VALUES}
    close = difflib.get_close_matches(name.lower(), {**known, **pairs}, n=3, cutoff=0.3)
    listed = ", ".join({**known, **pairs}[c] for c in close) or ", ".join(known.values())
    raise InvalidArgument("name", name, f"a known mechanism; close to it: {listed}")


def _two_stage(
    first: str, second: str, epsilon: Epsilon | None, k: Top | None, mu: float
) -> TwoStage:
    """ε₁ = μ·ε and ε₂ = ε − ε₁ in rationals, so that they add up to ε exactly."""
    if epsilon is None:
        raise InvalidArgument("epsilon", None, f"given for {first}-{second}")
    total = Fraction(check_epsilon("epsilon", epsilon))
    if not 0 <= check_finite("mu", mu) < 1:
        raise InvalidArgument("mu", mu, "in [0, 1)")
    own = Fraction(repr(float(mu))) if "epsilon" in _fields(first) else Fraction(0)
    selection, value = _build(first, own * total, k), _build(second, (1 - own) * total, k)
    if not isinstance(selection, Selection) or not isinstance(value, Value):
        raise InvalidArgument("name", f"{first}-{second}", "a selection and a value mechanism")
    return TwoStage(selection, value)


def _build(name: str, epsilon: Epsilon | None, k: Top | None) -> Mechanism:
    parameters: dict[str, object] = {"epsilon": epsilon, "k": 0.1 if k is None else k}
    if k is None and name in ONE_SYMBOL:
        del parameters["k"]  # J has the best one for ε and d
    wanted = _fields(name)
    if "epsilon" in wanted and epsilon is None:
        raise InvalidArgument("epsilon", None, f"given for {name}")
    kind: Any = _SINGLE[name]
    return cast(Mechanism, kind(**{f: parameters[f] for f in parameters if f in wanted}))


def _fields(name: str) -> set[str]:
    """The parameters of a mechanism."""
    return {f.name for f in fields(_SINGLE[name])}  # type: ignore[arg-type]
