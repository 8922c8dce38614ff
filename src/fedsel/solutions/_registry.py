"""Every name of a solution, with all that is known of it: NP, PM, PM-RP, PS-PM, RJ, FJ, …

A name has one `Entry`. Whoever wants to know something of a solution by its name asks the entry.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, final

from fedsel.errors import InvalidArgument, check_kind
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
from fedsel.mechanisms._registry import SELECTIONS, VALUES
from fedsel.mechanisms._selection import Exponential
from fedsel.solutions._baselines import UNCERTIFIED, PrivUnit, SignDS
from fedsel.solutions._fresh import fresh_for, raised_for
from fedsel.solutions._rotated import rotated
from fedsel.solutions._solution import NOTHING_KEPT, Feedback, Solution
from fedsel.solutions._transforms import Projection, RandomDirections, Transform

if TYPE_CHECKING:
    from fedsel.recipe import Recipe

SELECTING = {
    "EXP": "its baseline of selection",
    "PE": "PE made to keep its ε",
    "PS": "its best selection",
    "PE-published": "PE as it is printed, which exceeds its ε",
}
"""The paper's selections, and what they are in it."""
PERTURBING = {
    "PM": "values as it has them",
    "HM": "values with less variance than PM",
    "Duchi": "values of one bit",
    "OW": "values with the least worst-case variance",
}
"""The value mechanisms; the first is the paper's usual one."""
UNSCALED = "RS-"
"""A flat solution without its factor d: what is left of two-stage when selection is by chance."""
NAME_BYTES = 24
"""The longest name that fits into a request."""
Composer = Callable[["Recipe"], Solution]
Family = Literal["plain", "flat", "two-stage", "one-symbol", "baseline", "own"]


@final
@dataclass(frozen=True)
class Entry:
    """A name and what it stands for.

    ``compose`` makes the solution from a recipe in which nothing is automatic; ``when`` says when
    to take it. ``selection`` and ``value`` are its mechanisms by their abbreviations, None where it
    has none. A ``control`` group (-C) spends all of ε on the value as well. With ``rate_inside``
    (-O) clients accumulate α times their gradient. ``projected`` (-RP) and ``unscaled`` (RS-) are
    kinds of flat ones.

    - ``directions``: it reports a direction, and its length at most by a public radius ρ.
    - ``means``: its reports have the mean of vectors of any shape, so that it can learn about
      records; RJ and RC shorten what is very sparse (docs/proofs/transforms.md, T10).
    - ``public_matrix``: its projection or codebook is drawn from a seed.
    """

    name: str
    family: Family
    compose: Composer = field(repr=False, compare=False)
    when: str = "One that was registered: its owner knows."
    selection: str | None = None
    value: str | None = None
    control: bool = False
    rate_inside: bool = False
    projected: bool = False
    unscaled: bool = False
    directions: bool = False
    means: bool = False
    public_matrix: bool = False

    @property
    def plain(self) -> bool:
        """Whether it has no ε at all."""
        return self.family == "plain"

    @property
    def unit_records(self) -> bool:
        """Whether records are best divided by their norm: for a direction, and for NP beside it.

        >>> [n for n in ("NP", "FJ", "PrivUnit", "PS-PM", "UJ") if entry(n).unit_records]
        ['NP', 'FJ', 'PrivUnit']
        """
        return self.directions or (self.plain and self.means)

    @property
    def variant(self) -> bool:
        """Whether it differs from another of its family by the mechanism of its value, or by -O.

        >>> [n for n in ("RJ", "PS-PM", "PS-HM", "PS-PM-O", "OW-RP") if entry(n).variant]
        ['PS-HM', 'PS-PM-O', 'OW-RP']
        """
        return self.rate_inside or self.value not in (None, *list(PERTURBING)[:1])


def entry(name: str, argument: str = "name") -> Entry:
    """What is known of a name, however it is capitalised; an error names the argument.

    >>> entry("ps-duchi-c").name, entry("PE-published-PM").selection, entry("PM").selection
    ('PS-Duchi-C', 'PE-published', None)
    """
    return _ENTRIES[canonical(name, argument)]


def entries() -> list[Entry]:
    """Every name with what is known of it; those that were registered last."""
    return list(_ENTRIES.values())


def names() -> list[str]:
    """Every name."""
    return list(_ENTRIES)


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

    ``compose`` makes the solution from a `fedsel.Recipe` in which nothing is automatic; its ε in
    total is recipe.epsilon, that of a report in `Recipe.budget`. Both ends must register the same.

    >>> from fedsel import Feedback, Rotated, TwoStage, solution
    >>> from fedsel.mechanisms import Duchi, PerturbedSampling
    >>> def rotated(recipe):
    ...     budget, dim = recipe.budget, recipe.dim
    ...     selection = PerturbedSampling(budget.selection, recipe.k)
    ...     stages = TwoStage(selection, Duchi(budget.value))
    ...     return Solution("R-PS-Duchi", dim, stages, recipe.epochs, Rotated(dim),
    ...                     Feedback(accumulate=True), budget.per_epoch, "on a rotated basis")
    >>> register("R-PS-Duchi", rotated)
    >>> solution("r-ps-duchi", epsilon=2.0, dim=100).privacy.per_report
    2.0
    >>> unregister("R-PS-Duchi")
    """
    check_kind("name", name, str)
    if not name.isascii() or not 0 < len(name) <= NAME_BYTES or name.lower() in _BY_LOWER:
        raise InvalidArgument("name", name, f"new, in ASCII, of at most {NAME_BYTES} letters")
    if not callable(compose):
        raise InvalidArgument("compose", compose, "a function of a Recipe")
    _ENTRIES[name] = Entry(name, "own", compose)
    _BY_LOWER[name.lower()] = name


def unregister(name: str) -> None:
    """Take a name of `register` back."""
    own = [known.name for known in entries() if known.family == "own"]
    if name not in own:
        raise InvalidArgument("name", name, f"one of yours: {', '.join(own) or 'there is none'}")
    del _ENTRIES[name], _BY_LOWER[name.lower()]
    for cache in _CACHES:
        cache.cache_clear()


def canonical(name: str, argument: str = "name") -> str:
    """A solution's name as the paper writes it.

    >>> canonical("ps-duchi")
    'PS-Duchi'
    """
    check_kind(argument, name, str)
    found = _BY_LOWER.get(name.lower())
    if found is None:
        close = difflib.get_close_matches(name.lower(), _BY_LOWER, n=4, cutoff=0.4)
        listed = ", ".join(_BY_LOWER[c] for c in close) or "FJ, J, PM, PS-PM, NP"
        raise InvalidArgument(argument, name, f"a known solution, such as {listed}")
    return found


def build(recipe: Recipe) -> Solution:
    """The solution of a recipe in which nothing is automatic any more."""
    known = entry(recipe.solution)
    built = known.compose(recipe)
    if (built.name, built.dim, built.epochs) != (known.name, recipe.dim, recipe.epochs):
        wanted = f"{known.name} of dim = {recipe.dim} and epochs = {recipe.epochs}"
        raise InvalidArgument("compose", built, wanted)
    return built


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


# --- compositions --------------------------------------------------------------------------------


def _solution(
    name: str,
    recipe: Recipe,
    mechanism: ReportMechanism,
    note: str,
    transform: Transform | None = None,
    feedback: Feedback = NOTHING_KEPT,
    budget: Fraction | None = None,
) -> Solution:
    dim = recipe.dim or 0
    return Solution(name, dim, mechanism, recipe.epochs, transform, feedback, budget, note)  # type: ignore[arg-type]


def _value(name: str, epsilon: Fraction) -> Value:
    value: Value = VALUES[name](epsilon=epsilon)  # type: ignore[call-arg]
    return value


def _plain() -> Iterator[Entry]:
    def of(
        name: str, mechanism: ReportMechanism, note: str, when: str, kept: bool = False
    ) -> Entry:
        feedback = Feedback(accumulate=True) if kept else NOTHING_KEPT

        def compose(recipe: Recipe) -> Solution:
            return _solution(name, recipe, mechanism, f"not private: {note}", feedback=feedback)

        return Entry(name, "plain", compose, when, means=name == "NP")

    yield of(
        "NP",
        FullGradient(),
        "the whole gradient leaves as it is",
        "To know what no privacy would give: the upper line of every comparison.",
    )
    yield of(
        "NP-RS",
        FlatPicks(AsIs(), scaled=True),
        "one entry at random leaves as it is, times d",
        "For ablations: what a random entry alone costs, without noise.",
    )
    yield of(
        "NP-K",
        TwoStage(TopK(k=1), AsIs()),
        "the largest entry leaves as it is",
        "For ablations: what sending the largest entry alone costs, without noise.",
        kept=True,
    )
    yield of(
        "RS",
        FlatPicks(AsIs(), scaled=False),
        "one entry at random leaves as it is",
        "For ablations: a random entry without its factor d.",
    )


def _flat(value: str, about: str, *, unscaled: bool = False) -> Entry:
    name = f"{UNSCALED}{value}" if unscaled else value

    def compose(recipe: Recipe) -> Solution:
        epsilon = recipe.budget.per_epoch
        picks = flat_picks(epsilon, recipe.dim or 0)
        note = f"ε′ for {picks} random entr{'y' if picks == 1 else 'ies'}"
        if (asked := recipe.asked) is not None:
            note += f"; {asked} asked for, but μ = 0: nothing of ε′ is left for the selection"
        if unscaled:
            note += f"; not times d: as {value} at α/d"
        mechanism = FlatPicks(_value(value, epsilon / picks), picks, recipe.clip, not unscaled)
        return _solution(name, recipe, mechanism, note, budget=epsilon)

    when = f"To compare with the paper's flat baseline, exactly unbiased: {about}."
    if unscaled:
        when = f"For ablations: as {value} at a d-th of its learning rate."
    return Entry(name, "flat", compose, when, value=value, unscaled=unscaled)


def _projected(value: str, about: str) -> Entry:
    name = f"{value}-RP"

    def compose(recipe: Recipe) -> Solution:
        epsilon = recipe.budget.per_epoch
        mechanism = FlatPicks(_value(value, epsilon), clip=recipe.clip)
        projection = Projection(recipe.dim or 0, recipe.ratio, recipe.seed)
        note = "ε′ for one random coordinate of a public projection"
        return _solution(name, recipe, mechanism, note, projection, budget=epsilon)

    when = f"To compare with the paper's compression: projected first, {about}."
    return Entry(name, "flat", compose, when, value=value, projected=True, public_matrix=True)


def _two_stage(selecting: str, value: str | None, *, control: bool, inside: bool) -> Entry:
    name = selecting + (f"-{value}" if value else "") + "-C" * control + "-O" * inside

    def compose(recipe: Recipe) -> Solution:
        budget = recipe.budget
        kind: type[Selection] = SELECTIONS[selecting]
        share = budget.per_epoch if value is None else budget.selection
        selection = kind(share) if kind is Exponential else kind(share, recipe.k)  # type: ignore[call-arg]
        perturbed: Value | AsIs
        if value is None:
            perturbed = AsIs()
            note = "not private: ε₁ = ε′ for the selection, the value leaves as it is"
        elif control:
            perturbed = _value(value, budget.per_epoch)
            note = "control group: ε₁ for the selection and all of ε′ for the value, over the "
            note += "budget"
        else:
            perturbed = _value(value, budget.value)
            note = "ε₁ for the selection and ε₂ for the value"
        if selection.published:
            note += "; PE as published loses more than its ε₁"
        mechanism = TwoStage(selection, perturbed, recipe.clip)
        feedback = Feedback(True, recipe.momentum, rate_inside=inside)
        return _solution(name, recipe, mechanism, note, None, feedback, budget.per_epoch)

    chosen, rate = SELECTING[selecting], "; clients accumulate α times their gradient" * inside
    if value is None:
        when = f"For the paper's ablations, not private: {chosen}, values as they are{rate}."
    elif control:
        when = f"For the paper's ablations, over its budget: {chosen}, all of ε for values{rate}."
    else:
        when = f"To reproduce the paper: {chosen}, {PERTURBING[value]}{rate}."
    facts = {"selection": selecting, "value": value, "control": control, "rate_inside": inside}
    return Entry(name, "two-stage", compose, when, **facts)  # type: ignore[arg-type]


def _one_symbol() -> Iterator[Entry]:
    Parts = tuple[ReportMechanism, Transform | None, str]

    def of(
        name: str, parts: Callable[[Recipe, Fraction], Parts], when: str, **facts: bool
    ) -> Entry:
        def compose(recipe: Recipe) -> Solution:
            epsilon = recipe.budget.per_epoch
            mechanism, transform, what = parts(recipe, epsilon)
            note = f"all of ε′ for one signed {what}"
            return _solution(name, recipe, mechanism, note, transform, budget=epsilon)

        return Entry(name, "one-symbol", compose, when, **facts)  # type: ignore[arg-type]

    def j(recipe: Recipe, epsilon: Fraction) -> Parts:
        return SignedSampling(epsilon, radius=recipe.rho), None, "entry"  # type: ignore[arg-type]

    def uj(recipe: Recipe, epsilon: Fraction) -> Parts:
        return UnbiasedJoint(epsilon, recipe.k, recipe.clip), None, "entry"

    def rj(recipe: Recipe, epsilon: Fraction) -> Parts:
        bases = rotated(recipe.dim or 0, recipe.seed, epsilon, recipe.bases)  # type: ignore[arg-type]
        return j(recipe, epsilon)[0], bases, "direction of a rotated basis"

    def rc(recipe: Recipe, epsilon: Fraction) -> Parts:
        dim = recipe.dim or 0
        codewords = default_codewords(dim) if recipe.words is None else recipe.words
        codebook = RandomDirections(dim, codewords, recipe.seed)
        return j(recipe, epsilon)[0], codebook, "direction of a random codebook"

    def fj(recipe: Recipe, epsilon: Fraction) -> Parts:
        dim = recipe.dim or 0
        raised = SignedSampling(epsilon, raised_for(epsilon, dim), recipe.rho)  # type: ignore[arg-type]
        return raised, fresh_for(epsilon, dim, recipe.seed), "direction of a basis of its own"

    coded = {"directions": True, "means": True, "public_matrix": True}
    yield of(
        "J",
        j,
        "Where updates have few entries that are not zero: cheaper than FJ, no rotation.",
        directions=True,
    )
    yield of("UJ", uj, "Where every single mean must be exactly unbiased.")
    yield of(
        "RJ",
        rj,
        "Where devices know no FJ, at ε ≤ 2: it bends the mean of sparse or similar updates.",
        **coded,
    )
    yield of(
        "RC",
        rc,
        "To compare with FJ: codewords that all reports share bend the mean, and it is slower.",
        **coded,
    )
    yield of(
        "FJ",
        fj,
        "First of all: accurate at every ε, its mean is right for every update, nothing to tune.",
        **coded,
    )


def _baseline(name: str, when: str, **facts: bool) -> Entry:
    """A rival to compare with, in floating point."""

    def compose(recipe: Recipe) -> Solution:
        epsilon, dim = recipe.budget.per_epoch, recipe.dim or 0
        mechanism: ReportMechanism
        if name == "SignDS":
            mechanism = SignDS(epsilon, dim, recipe.k)
        else:
            hemisphere = name == "Duchi-L2"
            mechanism = PrivUnit(epsilon, dim, recipe.rho, hemisphere=hemisphere)  # type: ignore[arg-type]
        return _solution(name, recipe, mechanism, UNCERTIFIED, budget=epsilon)

    return Entry(name, "baseline", compose, when, directions=True, **facts)  # type: ignore[arg-type]


def _ours() -> Iterator[Entry]:
    yield from _plain()
    yield from (_flat(value, about) for value, about in PERTURBING.items())
    yield from (_projected(value, about) for value, about in PERTURBING.items())
    yield from (_flat(value, about, unscaled=True) for value, about in PERTURBING.items())
    ends = [(control, inside) for inside in (False, True) for control in (False, True)]
    for selecting in SELECTING:
        for value in PERTURBING:
            for control, inside in ends:
                yield _two_stage(selecting, value, control=control, inside=inside)
    for selecting in SELECTING:
        for inside in (False, True):
            yield _two_stage(selecting, None, control=False, inside=inside)
    yield from _one_symbol()
    best = "To compare with the best report of a direction: for simulations alone."
    yield _baseline("PrivUnit", best, means=True)
    yield _baseline("Duchi-L2", "To compare with: for simulations alone.", means=True)
    yield _baseline("SignDS", "To compare with: for simulations alone.")


_ENTRIES = {known.name: known for known in _ours()}
_BY_LOWER = {name.lower(): name for name in _ENTRIES}
PLAIN = tuple(known.name for known in entries() if known.plain)
ONE_SYMBOL = tuple(known.name for known in entries() if known.family == "one-symbol")
BASELINES = tuple(known.name for known in entries() if known.family == "baseline")
