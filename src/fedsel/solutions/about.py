"""What a report of a solution holds, in words: for people who choose."""

from __future__ import annotations

from fedsel.solutions.base import Solution

_SLOTS = {
    "coordinates": "entries",
    "rotated": "directions of a rotated basis",
    "fresh bases": "directions in all bases",
    "random directions": "directions of a random codebook",
    "projection": "coordinates of a random projection",
}
"""What the slots of a report stand for, by the name of the transform."""


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
