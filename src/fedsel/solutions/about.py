"""What each name of the registry is for, and what its reports hold: for people who choose."""

from __future__ import annotations

from fedsel.solutions.base import Solution
from fedsel.solutions.registry import (
    PERTURBING,
    UNSCALED,
    canonical,
    selection_of,
    value_of,
)

_SINGLE = {
    "NP": "To know what no privacy would give: the upper line of every comparison.",
    "NP-RS": "For ablations: what a random entry alone costs, without noise.",
    "NP-K": "For ablations: what sending the largest entry alone costs, without noise.",
    "RS": "For ablations: a random entry without its factor d.",
    "FJ": "First of all: accurate at every ε, its mean is right for every update, nothing to tune.",
    "RJ": "Where devices know no FJ, at ε ≤ 2: it bends the mean of sparse or similar updates.",
    "J": "Where updates have few entries that are not zero: cheaper than FJ, no rotation.",
    "UJ": "Where every single mean must be exactly unbiased.",
    "RC": "To compare with FJ: codewords that all reports share bend the mean, and it is slower.",
    "PrivUnit": "To compare with the best report of a direction: for simulations alone.",
    "Duchi-L2": "To compare with: for simulations alone.",
    "SignDS": "To compare with: for simulations alone.",
}
_SELECTIONS = {
    "EXP": "its baseline of selection",
    "PE": "PE made to keep its ε",
    "PS": "its best selection",
    "PE-published": "PE as it is printed, which exceeds its ε",
}
_VALUES = {
    "PM": "values as it has them",
    "HM": "values with less variance than PM",
    "Duchi": "values of one bit",
    "OW": "values with the least worst-case variance",
}
_SLOTS = {
    "coordinates": "entries",
    "rotated": "directions of a rotated basis",
    "fresh bases": "directions in all bases",
    "random directions": "directions of a random codebook",
    "projection": "coordinates of a random projection",
}
"""What the slots of a report stand for, by the name of the transform."""


def is_variant(name: str) -> bool:
    """Whether a name differs from one of its family by the mechanism of its value, or by -O.

    >>> [name for name in ("RJ", "PS-PM", "PS-HM", "PS-PM-O", "OW-RP") if is_variant(name)]
    ['PS-HM', 'PS-PM-O', 'OW-RP']
    """
    usual = PERTURBING[0]
    if selection_of(name) is not None:
        return value_of(name) not in ("", usual) or name.endswith("-O")
    flat = _flat_value(name)
    return flat in PERTURBING and flat != usual


def when_to_take(name: str) -> str:
    """When to take a solution, in a sentence.

    >>> when_to_take("PS-PM")
    'To reproduce the paper: its best selection, values as it has them.'
    """
    name = canonical(name)
    if name in _SINGLE:
        return _SINGLE[name]
    selection, flat = selection_of(name), _flat_value(name)
    if selection is not None:
        return _of_two_stages(name, selection)
    if flat not in PERTURBING:
        return "One that was registered: its owner knows."
    if name.endswith("-RP"):
        return f"To compare with the paper's compression: projected first, {_VALUES[flat]}."
    if name.startswith(UNSCALED):
        return f"For ablations: as {flat} at a d-th of its learning rate."
    return f"To compare with the paper's flat baseline, exactly unbiased: {_VALUES[flat]}."


def _of_two_stages(name: str, selection: str) -> str:
    chosen, value = _SELECTIONS[selection], value_of(name)
    rate = "; clients accumulate α times their gradient" if name.endswith("-O") else ""
    if not value:
        return f"For the paper's ablations, not private: {chosen}, values as they are{rate}."
    if name.removesuffix("-O").endswith("-C"):
        return f"For the paper's ablations, over its budget: {chosen}, all of ε for values{rate}."
    return f"To reproduce the paper: {chosen}, {_VALUES[value]}{rate}."


def what_leaves(solution: Solution) -> str:
    """What a report of a solution holds, from the alphabet of its symbols.

    >>> from fedsel import solution
    >>> what_leaves(solution("RJ", epsilon=1.0, dim=100))
    'one of 128 directions of a rotated basis, with a sign'
    """
    alphabet, mechanism = solution.alphabet, solution.mechanism
    if mechanism.whole:
        if solution.privacy.ratio is None:
            return f"all {solution.dim:,} entries as they are"
        return f"a draw from all {solution.dim:,} entries, in floats"
    count = "one" if alphabet.picks == 1 else f"{alphabet.picks}"
    slots = f"{count} of {alphabet.slots:,} {_SLOTS.get(solution.transform.name, 'codewords')}"
    if alphabet.plain:
        told = "with its value as it is"
    elif alphabet.symbols == 2:
        told = "with a sign"
    else:
        told = f"with one of {alphabet.symbols:,} values"
    return f"{slots}, {told}" + (", or nothing (⊥)" if alphabet.abstains else "")


def _flat_value(name: str) -> str:
    return name.removeprefix(UNSCALED).removesuffix("-RP")
