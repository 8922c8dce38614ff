"""The entries of all solution names: NP, PM, PM-RP, PS-PM, RJ, FJ, …

Code that needs a fact about a solution by its name asks the name's `Entry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

from fedsel.mechanisms import (
    SELECTIONS,
    VALUES,
    Choice,
    Exponential,
    FlatPicks,
    FullGradient,
    PerturbedSampling,
    ReportMechanism,
    Selection,
    SignedSampling,
    TopK,
    TwoStage,
    UnbiasedJoint,
    Unperturbed,
    Value,
)
from fedsel.mechanisms._two_stage import flat_picks
from fedsel.solutions._baselines import UNCERTIFIED, PrivUnit, SignDS
from fedsel.solutions._blocks import Blocks, best_blocks
from fedsel.solutions._caps import raised_for
from fedsel.solutions._fresh import fresh_for
from fedsel.solutions._rotated import rotated
from fedsel.solutions._solution import NOTHING_KEPT, Feedback, Solution
from fedsel.solutions._transforms import Projection, RandomDirections, Transform, default_codewords

if TYPE_CHECKING:
    from fedsel.recipe import Recipe

SELECTING = {
    "EXP": "its baseline of selection",
    "PE": "PE made to keep its ε",
    "PS": "its best selection",
    "PE-published": "PE as it is printed, which exceeds its ε",
}
"""The paper's selections, and their roles in the paper."""
PERTURBING = {
    "PM": "values as it has them",
    "HM": "values with less variance than PM",
    "Duchi": "values of one bit",
    "OW": "values with the least worst-case variance",
}
"""The value mechanisms; the first is the paper's usual one."""
Family = Literal["plain", "flat", "two-stage", "one-symbol", "answer", "baseline", "own"]


@final
@dataclass(frozen=True)
class Entry:
    """A name of a solution and the facts about it.

    - ``compose`` builds the solution from a recipe in which nothing is automatic.
    - ``when`` says in one sentence when to choose it.
    - ``uses`` names the parameters of a recipe that matter to it, besides ε, dim and epochs.
    - ``selection``, ``value`` are the abbreviations of its mechanisms, or None.
    - ``control`` (-C): all of ε is spent on the value as well.
    - ``rate_inside`` (-O): clients accumulate α times their gradient.
    - ``unscaled`` (RS-): the factor d of a flat report is omitted.
    - ``directions``: it reports a direction, and its length only up to a public radius ρ.
    - ``means``: its reports are unbiased for vectors of any shape, so it can learn about records.
      RJ and RC shorten very sparse vectors (docs/proofs/transforms.md, T10).
    """

    name: str
    family: Family
    compose: Callable[[Recipe], Solution] = field(repr=False, compare=False)
    when: str = "Your own composition, added by fedsel.solutions.register."
    uses: frozenset[str] = frozenset()
    selection: str | None = None
    value: str | None = None
    control: bool = False
    rate_inside: bool = False
    unscaled: bool = False
    directions: bool = False
    means: bool = False

    @property
    def public_matrix(self) -> bool:
        """Whether its projection or codebook is drawn from a public seed."""
        return "seed" in self.uses

    @property
    def answers(self) -> bool:
        """Whether it reports which of M public answers a client has, and trains no model."""
        return self.family == "answer"

    @property
    def projected(self) -> bool:
        """Whether it reports on a random projection (-RP)."""
        return "ratio" in self.uses

    @property
    def plain(self) -> bool:
        """Whether it has no ε: NP and its ablations."""
        return self.family == "plain"

    @property
    def unit_records(self) -> bool:
        """Whether records should be divided by their norm: for directions, and NP for comparison.

        >>> from fedsel.solutions import entry
        >>> [n for n in ("NP", "FJ", "PrivUnit", "PS-PM", "UJ") if entry(n).unit_records]
        ['NP', 'FJ', 'PrivUnit']
        """
        return self.directions or (self.plain and self.means)

    @property
    def variant(self) -> bool:
        """Whether it is a variant of another solution, by its value mechanism or by -O.

        >>> from fedsel.solutions import entry
        >>> [n for n in ("RJ", "PS-PM", "PS-HM", "PS-PM-O", "OW-RP") if entry(n).variant]
        ['PS-HM', 'PS-PM-O', 'OW-RP']
        """
        return self.rate_inside or self.value not in (None, *list(PERTURBING)[:1])


# --- compositions --------------------------------------------------------------------------------


class _Parts(NamedTuple):
    mechanism: ReportMechanism
    note: str
    transform: Transform | None = None
    feedback: Feedback = NOTHING_KEPT


_Composition = Callable[["Recipe", Fraction, int], _Parts]
"""Builds the parts of a solution from a recipe, the ε′ of a report and the dimension d."""


def _entry(
    name: str, family: Family, composition: _Composition, when: str, uses: str = "", **facts: Any
) -> Entry:
    def compose(recipe: Recipe) -> Solution:
        dim = recipe.dim or 0
        budget = None if family == "plain" else recipe.budget.per_epoch
        mechanism, note, transform, feedback = composition(recipe, budget or Fraction(0), dim)
        return Solution(name, dim, mechanism, recipe.epochs, transform, feedback, budget, note)  # type: ignore[arg-type]

    return Entry(name, family, compose, when, frozenset(uses.split()), **facts)


def _value(name: str, epsilon: Fraction) -> Value:
    value: Value = VALUES[name](epsilon=epsilon)  # type: ignore[call-arg]
    return value


def _plain(
    name: str, mechanism: ReportMechanism, note: str, when: str, *, kept: bool = False
) -> Entry:
    parts = _Parts(mechanism, f"not private: {note}", feedback=Feedback(accumulate=kept))
    whole = mechanism.whole
    return _entry(name, "plain", lambda recipe, epsilon, dim: parts, when, means=whole)  # noqa: ARG005


def _flat(value: str, about: str, *, unscaled: bool = False) -> Entry:
    def parts(recipe: Recipe, epsilon: Fraction, dim: int) -> _Parts:
        picks = flat_picks(epsilon, dim)
        note = f"ε′ for {picks} random entr{'y' if picks == 1 else 'ies'}"
        if (asked := recipe.requested_solution) is not None:
            note += f"; {asked} asked for, but μ = 0: nothing of ε′ is left for the selection"
        if unscaled:
            note += f"; not times d: as {value} at α/d"
        perturbed = _value(value, epsilon / picks)
        return _Parts(FlatPicks(perturbed, picks, recipe.clip, not unscaled), note)

    name = f"RS-{value}" if unscaled else value
    when = f"To compare with the paper's flat baseline, exactly unbiased: {about}."
    if unscaled:
        when = f"For ablations: as {value} at a d-th of its learning rate."
    return _entry(name, "flat", parts, when, "clip", value=value, unscaled=unscaled)


def _projected(value: str, about: str) -> Entry:
    def parts(recipe: Recipe, epsilon: Fraction, dim: int) -> _Parts:
        mechanism = FlatPicks(_value(value, epsilon), clip=recipe.clip)
        note = "ε′ for one random coordinate of a public projection"
        return _Parts(mechanism, note, Projection(dim, recipe.ratio, recipe.seed))

    when = f"To compare with the paper's compression: projected first, {about}."
    return _entry(f"{value}-RP", "flat", parts, when, "clip ratio seed", value=value)


def _two_stage(selecting: str, value: str | None, *, control: bool, inside: bool) -> Entry:
    kind: type[Selection] = SELECTIONS[selecting]

    def parts(recipe: Recipe, epsilon: Fraction, dim: int) -> _Parts:  # noqa: ARG001
        budget = recipe.budget
        share = epsilon if value is None else budget.selection
        selection = kind(share) if kind is Exponential else kind(share, recipe.k)  # type: ignore[call-arg]
        perturbed: Value
        if value is None:
            perturbed = Unperturbed()
            note = "not private: ε₁ = ε′ for the selection, the value is sent without noise"
        elif control:
            perturbed = _value(value, epsilon)
            note = "control group: ε₁ for the selection and all of ε′ for the value, over the "
            note += "budget"
        else:
            perturbed = _value(value, budget.value)
            note = "ε₁ for the selection and ε₂ for the value"
        if selection.published:
            note += "; PE as published loses more than its ε₁"
        feedback = Feedback(True, recipe.momentum, rate_inside=inside)
        return _Parts(TwoStage(selection, perturbed, recipe.clip), note, feedback=feedback)

    chosen, rate = SELECTING[selecting], "; clients accumulate α times their gradient" * inside
    if value is None:
        when = f"For the paper's ablations, not private: {chosen}, values without noise{rate}."
    elif control:
        when = f"For the paper's ablations, over its budget: {chosen}, all of ε for values{rate}."
    else:
        when = f"To reproduce the paper: {chosen}, {PERTURBING[value]}{rate}."
    name = selecting + (f"-{value}" if value else "") + "-C" * control + "-O" * inside
    uses = "mu clip momentum" + " k" * (kind is not Exponential)
    facts = {"selection": selecting, "value": value, "control": control, "rate_inside": inside}
    return _entry(name, "two-stage", parts, when, uses, **facts)


def _signed(
    what: str,
    transform: Callable[[Recipe, Fraction, int], Transform | None] = lambda *_: None,
    raised: Callable[[Fraction, int], int | None] = lambda *_: None,
) -> _Composition:
    """J on the scores of a transform, with the best k unless ``raised`` computes another."""

    def parts(recipe: Recipe, epsilon: Fraction, dim: int) -> _Parts:
        mechanism = SignedSampling(epsilon, raised(epsilon, dim), recipe.rho)  # type: ignore[arg-type]
        note = f"all of ε′ for one signed {what}"
        return _Parts(mechanism, note, transform(recipe, epsilon, dim))

    return parts


def _uj(recipe: Recipe, epsilon: Fraction, dim: int) -> _Parts:  # noqa: ARG001
    mechanism = UnbiasedJoint(epsilon, recipe.k, recipe.clip)
    return _Parts(mechanism, "all of ε′ for one signed entry")


def _rotation(recipe: Recipe, epsilon: Fraction, dim: int) -> Transform:
    return rotated(dim, recipe.seed, epsilon, recipe.bases)  # type: ignore[arg-type]


def _codebook(recipe: Recipe, epsilon: Fraction, dim: int) -> Transform:  # noqa: ARG001
    codewords = default_codewords(dim) if recipe.words is None else recipe.words
    return RandomDirections(dim, codewords, recipe.seed)


def _fresh(recipe: Recipe, epsilon: Fraction, dim: int) -> Transform:
    return fresh_for(epsilon, dim, recipe.seed)


def blocks_of(recipe: Recipe) -> Blocks:
    """The blocks of BR, by a recipe that gives M as ``dim``.

    The best ones for ε if k is a share; else k is u of cyclotomic ones of e = ``bases`` and
    v = ``words`` or, without bases, the size of all subsets.
    """
    answers, k = recipe.dim or 0, recipe.k
    if isinstance(k, float):
        return best_blocks(recipe.budget.per_epoch, answers)
    if recipe.bases is None:
        return Blocks(answers, k)
    return Blocks(answers, k, recipe.words or 0, recipe.bases)  # type: ignore[arg-type]


def _block_response(recipe: Recipe, epsilon: Fraction, dim: int) -> _Parts:  # noqa: ARG001
    blocks = blocks_of(recipe)
    mechanism = Choice(PerturbedSampling(epsilon, blocks.holding))
    note = f"all of ε′ for one block of {blocks.block_size} of {blocks.answers:,} answers"
    return _Parts(mechanism, note, blocks)


def _priv_unit(*, hemisphere: bool) -> _Composition:
    def parts(recipe: Recipe, epsilon: Fraction, dim: int) -> _Parts:
        mechanism = PrivUnit(epsilon, dim, recipe.rho, hemisphere=hemisphere)  # type: ignore[arg-type]
        return _Parts(mechanism, UNCERTIFIED)

    return parts


def _sign_ds(recipe: Recipe, epsilon: Fraction, dim: int) -> _Parts:
    return _Parts(SignDS(epsilon, dim, recipe.k), UNCERTIFIED)


def _plain_ones() -> Iterator[Entry]:
    yield _plain(
        "NP",
        FullGradient(),
        "the whole gradient is sent without noise",
        "To know what no privacy would give: the upper line of every comparison.",
    )
    yield _plain(
        "NP-RS",
        FlatPicks(Unperturbed(), scaled=True),
        "one entry at random is sent without noise, times d",
        "For ablations: what a random entry alone costs, without noise.",
    )
    yield _plain(
        "NP-K",
        TwoStage(TopK(k=1), Unperturbed()),
        "the largest entry is sent without noise",
        "For ablations: what sending the largest entry alone costs, without noise.",
        kept=True,
    )
    yield _plain(
        "RS",
        FlatPicks(Unperturbed(), scaled=False),
        "one entry at random is sent without noise",
        "For ablations: a random entry without its factor d.",
    )


def _one_symbol_ones() -> Iterator[Entry]:
    facts: dict[str, Any] = {"directions": True, "means": True}
    when = "Where updates have few entries that are not zero: cheaper than FJ, no rotation."
    yield _entry("J", "one-symbol", _signed("entry"), when, "rho", directions=True)
    when = "Where every single mean must be exactly unbiased."
    yield _entry("UJ", "one-symbol", _uj, when, "k clip")
    when = "Where devices know no FJ, at ε ≤ 2: it bends the mean of sparse or similar updates."
    rj = _signed("direction of a rotated basis", _rotation)
    yield _entry("RJ", "one-symbol", rj, when, "rho bases seed", **facts)
    when = "To compare with FJ: codewords that all reports share bend the mean, and it is slower."
    rc = _signed("direction of a random codebook", _codebook)
    yield _entry("RC", "one-symbol", rc, when, "rho words seed", **facts)
    when = "First of all: accurate at every ε, its mean is right for every update, nothing to tune."
    fj = _signed("direction of a basis of its own", _fresh, raised_for)
    yield _entry("FJ", "one-symbol", fj, when, "rho seed", **facts)


def our_entries() -> Iterator[Entry]:
    yield from _plain_ones()
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
    yield from _one_symbol_ones()
    when = "To ask a question: which of M public answers each client has, as exactly as can be."
    yield _entry("BR", "answer", _block_response, when, "k words bases")
    best = "To compare with the best report of a direction: for simulations alone."
    other = "To compare with: for simulations alone."
    facts = {"directions": True, "means": True}
    yield _entry("PrivUnit", "baseline", _priv_unit(hemisphere=False), best, "rho", **facts)
    yield _entry("Duchi-L2", "baseline", _priv_unit(hemisphere=True), other, "rho", **facts)
    yield _entry("SignDS", "baseline", _sign_ds, other, "k", directions=True)
