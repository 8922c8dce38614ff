"""Solutions by the paper's abbreviations: NP, PM, PM-RP, PS-PM, PS-PM-C, …"""

from __future__ import annotations

import difflib
from fractions import Fraction
from typing import Literal

from fedsel.budget import THETA, Budget, hyper_parameters_free
from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    check_count,
    check_finite,
    check_kind,
    check_positive,
)
from fedsel.mechanisms import (
    Joint,
    Selection,
    SignedSampling,
    TopK,
    UnbiasedJoint,
    Uniform,
    Value,
)
from fedsel.mechanisms.registry import SELECTIONS, VALUES
from fedsel.mechanisms.selection import Exponential, Top, check_top
from fedsel.solutions.base import Solution
from fedsel.solutions.baselines import Cap, DimensionSets
from fedsel.solutions.coded import Coded
from fedsel.solutions.full import Full
from fedsel.solutions.picks import Picks
from fedsel.solutions.projected import Projected
from fedsel.solutions.transforms import Codebook, RandomDirections, Rotated

SELECTING = ("EXP", "PE", "PS", "PE-published")
PERTURBING = ("PM", "HM", "Duchi", "OW")
UNSCALED = "RS-"
"""A flat solution without its factor d: what is left of two-stage when selection is by chance."""
PLAIN = ("NP", "NP-RS", "NP-K", "RS")
SUFFIXES = ("", "-C", "-O", "-C-O")
ONE_SYMBOL = ("J", "UJ", "RJ", "RC")
REFERENCES = ("PrivUnit", "Duchi-L2", "SignDS")
"""Rivals to compare with, in floating point."""
REPORTING_DIRECTIONS = ("J", "RJ", "RC", *REFERENCES)
"""Those that report a direction, and its length at most by a public radius."""
FLAT = (("", ""), ("", "-RP"), (UNSCALED, ""))


def names() -> list[str]:
    """Every name that `solution` understands."""
    pairs = [f"{s}-{v}{x}" for s in SELECTING for v in PERTURBING for x in SUFFIXES]
    alone = [f"{s}{x}" for s in SELECTING for x in ("", "-O")]
    flat = [f"{start}{v}{end}" for start, end in FLAT for v in PERTURBING]
    return [*PLAIN, *flat, *pairs, *alone, *ONE_SYMBOL, *REFERENCES]


def canonical(name: str) -> str:
    """A solution's name as the paper writes it.

    >>> canonical("ps-duchi")
    'PS-Duchi'
    """
    check_kind("name", name, str)
    known = {n.lower(): n for n in names()}
    if name.lower() not in known:
        close = difflib.get_close_matches(name.lower(), known, n=4, cutoff=0.4)
        listed = ", ".join(known[c] for c in close) or "NP, PM, PM-RP, PS-PM, PS-PM-C, PS"
        raise InvalidArgument("name", name, f"a known solution, such as {listed}")
    return known[name.lower()]


def has_public_matrix(name: str) -> bool:
    """Whether a solution's projection or codebook is drawn from its seed.

    >>> [n for n in ("PM", "PM-RP", "J", "RJ", "RC") if has_public_matrix(n)]
    ['PM-RP', 'RJ', 'RC']
    """
    return name.endswith("-RP") or name in ("RJ", "RC")


def solution(
    name: str,
    *,
    epsilon: Epsilon | None = None,
    dim: int,
    epochs: int = 1,
    mu: float | Literal["auto"] = 0.1,
    k: Top = 0.1,
    clip: float = 1.0,
    momentum: float = 0.0,
    ratio: float = 0.1,
    batch: int | None = None,
    theta: float = THETA,
    seed: int = 0,
    rho: float | None = None,
    words: int | None = None,
) -> Solution:
    """A solution by its abbreviation, for ε in total over ``epochs`` and vectors of ``dim``.

    ``mu="auto"`` is hyper-parameters-free and needs ``batch``, the clients of a round; where it
    leaves nothing for the selection, the flat solution takes its place and says so. ``seed`` is
    that of the public projection of …-RP and of the codebooks of RJ and RC. ``rho`` is the public
    radius ρ of J, RJ, RC, PrivUnit and Duchi-L2 (None reports directions alone), ``words`` the
    codewords of RC. ``k`` is that of the paper's solutions and of SignDS, and the ‖v‖₁ of UJ; J, RJ
    and RC have the best for ε.

    >>> solution("ps-pm", epsilon=2.0, dim=100).privacy.per_report
    2.0
    >>> solution("PS-PN", epsilon=2.0, dim=100)
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: name = 'PS-PN': must be a known solution, such as PS-PM, ...
    """
    name = canonical(name)
    check_count("dim", dim)
    _check_shared(mu, k, clip, momentum, rho)
    if name in PLAIN:
        return _plain(name, dim, epochs)
    if name in ONE_SYMBOL:
        budget = Budget(_given(epsilon, name), epochs, 0.0)
        return _one_symbol(name, dim, budget, k, clip, rho, words, seed)
    if name in REFERENCES:
        return _reference(name, dim, Budget(_given(epsilon, name), epochs, 0.0), k, rho)
    selecting = next((s for s in sorted(SELECTING, key=len, reverse=True) if _leads(s, name)), None)
    epsilon = _given(epsilon, name)
    note = ""
    if mu == "auto":
        per_epoch = Budget(epsilon, epochs, 0.0).per_epoch
        if batch is None:
            raise InvalidArgument("batch", None, "given with mu = 'auto': the clients of a round")
        mu = hyper_parameters_free(dim, batch, per_epoch, theta)
        if mu == 0 and selecting is not None and selecting != name.removesuffix("-O"):
            note = f"; {name} asked for, but μ = 0: nothing of ε′ is left for the selection"
            name, selecting = name.removesuffix("-O").removesuffix("-C").split("-")[-1], None
    budget = Budget(epsilon, epochs, mu)
    if selecting is None:
        return _flat_or_projected(name, dim, budget, clip, ratio, seed, note)
    return _selected(name, selecting, dim, budget, k, clip, momentum)


def _check_shared(mu: float | str, k: Top, clip: float, momentum: float, rho: float | None) -> None:
    """What is wrong is wrong, also where a solution does not use it."""
    if mu != "auto":
        Budget(1.0, 1, mu)  # type: ignore[arg-type]
    check_top(k)
    check_positive("clip", clip)
    check_finite("momentum", momentum)
    if rho is not None:
        check_positive("rho", rho)


def _given(epsilon: Epsilon | None, name: str) -> Epsilon:
    if epsilon is None:
        raise InvalidArgument("epsilon", None, f"given for {name}")
    return epsilon


def _one_symbol(
    name: str,
    dim: int,
    budget: Budget,
    k: Top,
    clip: float,
    rho: float | None,
    words: int | None,
    seed: int,
) -> Solution:
    epsilon = budget.per_epoch
    mechanism: Joint = SignedSampling(epsilon, radius=rho)
    codebook: Codebook | None = None
    note = "all of ε′ for one signed "
    if name == "UJ":
        mechanism = UnbiasedJoint(epsilon, k, clip)
    elif name == "RJ":
        codebook, note = Rotated(dim, seed), note + "direction of a rotated basis"
    elif name == "RC":
        count = default_words(dim) if words is None else words
        codebook, note = RandomDirections(dim, count, seed), note + "direction of a random codebook"
    if codebook is None:
        note += "entry"
    return Coded(name, dim, budget.epochs, mechanism, codebook, epsilon, note)


def _reference(name: str, dim: int, budget: Budget, k: Top, rho: float | None) -> Solution:
    if name == "SignDS":
        return DimensionSets(name, dim, budget.epochs, budget.per_epoch, k)
    hemisphere = name == "Duchi-L2"
    return Cap(name, dim, budget.epochs, budget.per_epoch, rho, hemisphere)


def default_words(dim: int) -> int:
    """M of RC: the power of two at 8·d or above, at most 2^13.

    >>> default_words(100), default_words(5000)
    (1024, 8192)
    """
    return min(1 << 13, 1 << (8 * dim - 1).bit_length())


def _leads(prefix: str, name: str) -> bool:
    return name == prefix or name.startswith(prefix + "-")


def _plain(name: str, dim: int, epochs: int) -> Solution:
    note = "not private: "
    if name == "NP":
        return Full(name, dim, epochs)
    if name in ("NP-RS", "RS"):
        scaled = name == "NP-RS"
        note += f"one entry at random leaves as it is{', times d' if scaled else ''}"
        return Picks(name, dim, epochs, Uniform(), scale=float(dim if scaled else 1), note=note)
    note += "the largest entry leaves as it is"
    return Picks(name, dim, epochs, TopK(k=1), accumulate=True, note=note)


def flat_picks(epsilon: Fraction, dim: int) -> int:
    """How many dimensions a flat report draws: max(1, min(d, ⌊ε/2.5⌋)). (Wang et al. 2019.)

    >>> flat_picks(Fraction(6), 100), flat_picks(Fraction(1), 100), flat_picks(Fraction(50), 3)
    (2, 1, 3)
    """
    return max(1, min(dim, int(epsilon / Fraction(5, 2))))


def _value(name: str, epsilon: Fraction) -> Value:
    made: Value = VALUES[name](epsilon=epsilon)  # type: ignore[call-arg]
    return made


def _flat_or_projected(
    name: str, dim: int, budget: Budget, clip: float, ratio: float, seed: int, note: str
) -> Solution:
    epsilon = budget.per_epoch
    if name.endswith("-RP"):
        value = _value(name.removesuffix("-RP"), epsilon)
        text = "ε′ for one random coordinate of a public projection"
        return Projected(name, dim, budget.epochs, value, epsilon, ratio, clip, seed, text)
    picks = flat_picks(epsilon, dim)
    unscaled = name.startswith(UNSCALED)
    if unscaled:
        note += f"; not times d: as {name.removeprefix(UNSCALED)} at α/d"
    return Picks(
        name,
        dim,
        budget.epochs,
        Uniform(),
        _value(name.removeprefix(UNSCALED), epsilon / picks),
        epsilon,
        picks=picks,
        scale=(1 if unscaled else dim) / picks,
        clip=clip,
        note=f"ε′ for {picks} random entr{'y' if picks == 1 else 'ies'}{note}",
    )


def _selected(
    name: str, selecting: str, dim: int, budget: Budget, k: Top, clip: float, momentum: float
) -> Solution:
    rate_inside = name.endswith("-O")
    rest = name.removesuffix("-O").removeprefix(selecting).removeprefix("-")
    control = rest.endswith("-C")
    rest = rest.removesuffix("-C")
    share = budget.selection if rest else budget.per_epoch
    made: type[Selection] = SELECTIONS[selecting]
    selection = made(share) if made is Exponential else made(share, k)  # type: ignore[call-arg]
    if not rest:
        value, note = None, "not private: ε₁ = ε′ for the selection, the value leaves as it is"
    elif control:
        value = _value(rest, budget.per_epoch)
        note = "control group: ε₁ for the selection and all of ε′ for the value, over the budget"
    else:
        value, note = _value(rest, budget.value), "ε₁ for the selection and ε₂ for the value"
    if selection.published:
        note += "; PE as published loses more than its ε₁"
    return Picks(
        name,
        dim,
        budget.epochs,
        selection,
        value,
        budget.per_epoch,
        clip=clip,
        momentum=momentum,
        accumulate=True,
        accumulate_rate=rate_inside,
        note=note,
    )
