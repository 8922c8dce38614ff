"""The paper's names, and those beyond it, as compositions: NP, PM, PM-RP, PS-PM, FJ, …"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar, final

from fedsel.budget import Budget
from fedsel.errors import Epsilon, InvalidArgument, check_kind
from fedsel.mechanisms import (
    AsIs,
    FlatPicks,
    FullGradient,
    ReportMechanism,
    Selection,
    SignedSampling,
    TopK,
    TwoStage,
    UnbiasedJoint,
    Value,
)
from fedsel.mechanisms.registry import SELECTIONS, VALUES
from fedsel.mechanisms.selection import Exponential, Top
from fedsel.solutions.base import Solution
from fedsel.solutions.baselines import UNCERTIFIED, PrivUnit, SignDS
from fedsel.solutions.feedback import NOTHING_KEPT, Feedback
from fedsel.solutions.fresh import fresh_for, raised_for
from fedsel.solutions.rotated import rotated
from fedsel.solutions.transforms import Projection, RandomDirections, Transform

SELECTING = ("EXP", "PE", "PS", "PE-published")
PERTURBING = ("PM", "HM", "Duchi", "OW")
UNSCALED = "RS-"
"""A flat solution without its factor d: what is left of two-stage when selection is by chance."""
PLAIN = ("NP", "NP-RS", "NP-K", "RS")
SUFFIXES = ("", "-C", "-O", "-C-O")
ONE_SYMBOL = ("J", "UJ", "RJ", "RC", "FJ")
BASELINES = ("PrivUnit", "Duchi-L2", "SignDS")
"""Rivals to compare with, in floating point."""
REPORTING_DIRECTIONS = ("J", "RJ", "RC", "FJ", *BASELINES)
"""Those that report a direction, and its length at most by a public radius."""
REPORTING_MEANS = ("FJ", "RJ", "RC", "PrivUnit", "Duchi-L2", "NP")
"""Those whose reports have the mean of vectors of no particular shape, so that they can prepare
records; RJ and RC shorten what is very sparse (docs/proofs/transforms.md, T10)."""
NAME_BYTES = 24
"""The longest name that fits into a request."""
FLAT = (("", ""), ("", "-RP"), (UNSCALED, ""))


def _names_of_ours() -> Iterator[str]:
    yield from PLAIN
    yield from (f"{start}{v}{end}" for start, end in FLAT for v in PERTURBING)
    yield from (f"{s}-{v}{x}" for s in SELECTING for v in PERTURBING for x in SUFFIXES)
    yield from (f"{s}{x}" for s in SELECTING for x in ("", "-O"))
    yield from (*ONE_SYMBOL, *BASELINES)


_OURS = {name.lower(): name for name in _names_of_ours()}


def names() -> list[str]:
    """Every name of the registry."""
    return [*_OURS.values(), *_OWN]


Composer = Callable[["Parameters"], Solution]
_OWN: dict[str, Composer] = {}


class _Cache(Protocol):
    def cache_clear(self) -> None: ...


_CACHES: list[_Cache] = []
_Cached = TypeVar("_Cached", bound=_Cache)


def by_name(cache: _Cached) -> _Cached:
    """Have a cache emptied when a name is taken back, which may then mean another composition."""
    _CACHES.append(cache)
    return cache


def register(name: str, compose: Composer) -> None:
    """Give a composition of your own a name, under which every front end, server and device has it.

    ``compose`` makes the solution from the public parameters of a recipe; its ε in total is
    parameters.epsilon, that of a report `Parameters.budget`. Both ends must register the same.

    >>> from fedsel import Feedback, Rotated, TwoStage, solution
    >>> from fedsel.mechanisms import Duchi, PerturbedSampling
    >>> def rotated(parameters):
    ...     budget, dim = parameters.budget("R-PS-Duchi"), parameters.dim
    ...     selection = PerturbedSampling(budget.selection, parameters.k)
    ...     stages = TwoStage(selection, Duchi(budget.value))
    ...     return Solution("R-PS-Duchi", dim, stages, parameters.epochs, Rotated(dim),
    ...                     Feedback(accumulate=True), budget.per_epoch, "on a rotated basis")
    >>> register("R-PS-Duchi", rotated)
    >>> solution("r-ps-duchi", epsilon=2.0, dim=100).privacy.per_report
    2.0
    >>> unregister("R-PS-Duchi")
    """
    check_kind("name", name, str)
    taken = {n.lower() for n in names()}
    if not name.isascii() or not 0 < len(name) <= NAME_BYTES or name.lower() in taken:
        raise InvalidArgument("name", name, f"new, in ASCII, of at most {NAME_BYTES} letters")
    if not callable(compose):
        raise InvalidArgument("compose", compose, "a function of Parameters")
    _OWN[name] = compose


def unregister(name: str) -> None:
    """Take a name of `register` back."""
    if name not in _OWN:
        raise InvalidArgument("name", name, f"one of yours: {', '.join(_OWN) or 'there is none'}")
    del _OWN[name]
    for cache in _CACHES:
        cache.cache_clear()


def canonical(name: str, argument: str = "name") -> str:
    """A solution's name as the paper writes it.

    >>> canonical("ps-duchi")
    'PS-Duchi'
    """
    check_kind(argument, name, str)
    lower = name.lower()
    if lower in _OURS:  # names are looked up often
        return _OURS[lower]
    known = {n.lower(): n for n in names()}
    if lower not in known:
        close = difflib.get_close_matches(lower, known, n=4, cutoff=0.4)
        listed = ", ".join(known[c] for c in close) or "FJ, J, PM, PS-PM, NP"
        raise InvalidArgument(argument, name, f"a known solution, such as {listed}")
    return known[lower]


def has_public_matrix(name: str) -> bool:
    """Whether a solution's projection or codebook is drawn from its seed.

    >>> [n for n in ("PM", "PM-RP", "J", "RJ", "RC", "FJ") if has_public_matrix(n)]
    ['PM-RP', 'RJ', 'RC', 'FJ']
    """
    return name.endswith("-RP") or name in ("RJ", "RC", "FJ")


@final
@dataclass(frozen=True)
class Parameters:
    """All that a name of the registry is composed with: public, and nothing automatic.

    ``epsilon`` is that of all ``epochs`` together, None for solutions without privacy. ``seed`` is
    that of public projections and codebooks, ``asked`` the name of which this one takes the place.
    """

    epsilon: Epsilon | None
    dim: int
    epochs: int
    mu: float
    k: Top
    clip: float
    momentum: float
    ratio: float
    seed: int
    rho: float | None
    words: int | None
    bases: int | None = None
    asked: str | None = None

    def budget(self, name: str) -> Budget:
        """The budget, with its split by μ."""
        if self.epsilon is None:
            raise InvalidArgument("epsilon", None, f"given for {name}")
        return Budget(self.epsilon, self.epochs, self.mu)


def build(name: str, parameters: Parameters) -> Solution:
    """The solution of a name, composed with these parameters."""
    name = canonical(name)
    dim, epochs = parameters.dim, parameters.epochs
    if name in _OWN:
        composed = _OWN[name](parameters)
        if (composed.name, composed.dim, composed.epochs) != (name, dim, epochs):
            wanted = f"{name} of dim = {dim} and epochs = {epochs}"
            raise InvalidArgument("compose", composed, wanted)
        return composed
    if name in PLAIN:
        mechanism, feedback, note = _plain(name)
        return Solution(name, dim, mechanism, epochs, None, feedback, None, note)  # type: ignore[arg-type]
    budget = parameters.budget(name)
    transform: Transform | None = None
    feedback = NOTHING_KEPT
    if name in ONE_SYMBOL:
        mechanism, transform, note = _one_symbol(name, parameters, budget.per_epoch)
    elif name in BASELINES:
        mechanism, note = _baseline(name, parameters, budget.per_epoch), UNCERTIFIED
    elif selecting := selection_of(name):
        mechanism, feedback, note = _selected(name, selecting, parameters, budget)
    else:
        mechanism, transform, note = _flat(name, parameters, budget.per_epoch)
    return Solution(
        name,
        dim,
        mechanism,
        epochs,
        transform,  # type: ignore[arg-type]
        feedback,
        budget.per_epoch,
        note,
    )


def selection_of(name: str) -> str | None:
    """The selection mechanism that a name begins with, if it has two stages or is a selection.

    >>> selection_of("PE-published-PM"), selection_of("PM")
    ('PE-published', None)
    """
    known = sorted(SELECTING, key=len, reverse=True)
    return next((s for s in known if name == s or name.startswith(s + "-")), None)


def value_of(name: str) -> str:
    """The value mechanism of a two-stage name; empty where the value leaves as it is.

    >>> value_of("PS-PM-C-O"), value_of("PS-O")
    ('PM', '')
    """
    rest = name.removesuffix("-O").removesuffix("-C").removeprefix(selection_of(name) or "")
    return rest.removeprefix("-")


def default_codewords(dim: int) -> int:
    """M of RC: the power of two at 8·d or above, at most 2^13.

    >>> default_codewords(100), default_codewords(5000)
    (1024, 8192)
    """
    return min(1 << 13, 1 << (8 * dim - 1).bit_length())


def flat_picks(epsilon: Fraction, dim: int) -> int:
    """How many dimensions a flat report draws: max(1, min(d, ⌊ε/2.5⌋)). (Wang et al. 2019.)

    >>> flat_picks(Fraction(6), 100), flat_picks(Fraction(1), 100), flat_picks(Fraction(50), 3)
    (2, 1, 3)
    """
    return max(1, min(dim, int(epsilon / Fraction(5, 2))))


def _plain(name: str) -> tuple[ReportMechanism, Feedback, str]:
    if name == "NP":
        return FullGradient(), NOTHING_KEPT, "not private: the whole gradient leaves as it is"
    if name == "NP-K":
        note = "not private: the largest entry leaves as it is"
        return TwoStage(TopK(k=1), AsIs()), Feedback(accumulate=True), note
    scaled = name == "NP-RS"
    note = "not private: one entry at random leaves as it is" + (", times d" if scaled else "")
    return FlatPicks(AsIs(), scaled=scaled), NOTHING_KEPT, note


def _one_symbol(
    name: str, parameters: Parameters, epsilon: Fraction
) -> tuple[ReportMechanism, Transform | None, str]:
    dim, seed = parameters.dim, parameters.seed
    mechanism: ReportMechanism = SignedSampling(epsilon, radius=parameters.rho)
    note = "all of ε′ for one signed "
    if name == "UJ":
        return UnbiasedJoint(epsilon, parameters.k, parameters.clip), None, note + "entry"
    if name == "RJ":
        bases = rotated(dim, seed, epsilon, parameters.bases)
        return mechanism, bases, note + "direction of a rotated basis"
    if name == "FJ":
        fresh = fresh_for(epsilon, dim, seed)
        raised = SignedSampling(epsilon, raised_for(epsilon, dim), parameters.rho)
        return raised, fresh, note + "direction of a basis of its own"
    if name == "RC":
        codewords = default_codewords(dim) if parameters.words is None else parameters.words
        codebook = RandomDirections(dim, codewords, seed)
        return mechanism, codebook, note + "direction of a random codebook"
    return mechanism, None, note + "entry"


def _baseline(name: str, parameters: Parameters, epsilon: Fraction) -> ReportMechanism:
    if name == "SignDS":
        return SignDS(epsilon, parameters.dim, parameters.k)
    return PrivUnit(epsilon, parameters.dim, parameters.rho, hemisphere=name == "Duchi-L2")


def _value(name: str, epsilon: Fraction) -> Value:
    value: Value = VALUES[name](epsilon=epsilon)  # type: ignore[call-arg]
    return value


def _flat(
    name: str, parameters: Parameters, epsilon: Fraction
) -> tuple[ReportMechanism, Transform | None, str]:
    if name.endswith("-RP"):
        mechanism = FlatPicks(_value(name.removesuffix("-RP"), epsilon), clip=parameters.clip)
        projection = Projection(parameters.dim, parameters.ratio, parameters.seed)
        return mechanism, projection, "ε′ for one random coordinate of a public projection"
    picks, scaled = flat_picks(epsilon, parameters.dim), not name.startswith(UNSCALED)
    note = f"ε′ for {picks} random entr{'y' if picks == 1 else 'ies'}"
    if (asked := parameters.asked) is not None:
        note += f"; {asked} asked for, but μ = 0: nothing of ε′ is left for the selection"
    if not scaled:
        note += f"; not times d: as {name.removeprefix(UNSCALED)} at α/d"
    value = _value(name.removeprefix(UNSCALED), epsilon / picks)
    return FlatPicks(value, picks, parameters.clip, scaled), None, note


def _selected(
    name: str, selecting: str, parameters: Parameters, budget: Budget
) -> tuple[ReportMechanism, Feedback, str]:
    valued = value_of(name)
    share = budget.selection if valued else budget.per_epoch
    kind: type[Selection] = SELECTIONS[selecting]
    selection = kind(share) if kind is Exponential else kind(share, parameters.k)  # type: ignore[call-arg]
    value: Value | AsIs
    if not valued:
        value, note = AsIs(), "not private: ε₁ = ε′ for the selection, the value leaves as it is"
    elif name.removesuffix("-O").endswith("-C"):
        value = _value(valued, budget.per_epoch)
        note = "control group: ε₁ for the selection and all of ε′ for the value, over the budget"
    else:
        value, note = _value(valued, budget.value), "ε₁ for the selection and ε₂ for the value"
    if selection.published:
        note += "; PE as published loses more than its ε₁"
    feedback = Feedback(True, parameters.momentum, rate_inside=name.endswith("-O"))
    return TwoStage(selection, value, parameters.clip), feedback, note
