"""Whether clients are enough: one formula, from public quantities, for advice and for a fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from fedsel.advising.moments import Updates, moments
from fedsel.solutions import Solution
from fedsel.solutions.registry import PLAIN, default_codewords
from fedsel.solutions.transforms import MOST_ENTRIES

GOAL = 0.5
"""The alignment of all reports together that is called usable: a linear model with this cosine to
the best one agrees with it on 1 − arccos(0.5)/π = 2/3 of records that point anywhere."""
_PROJECTION = 1 << 22
"""The largest public projection of …-RP, in entries, that is inverted for advice."""


@final
@dataclass(frozen=True)
class Prospect:
    """How well the mean of all reports aligns with the true mean, and the reports for `GOAL`.

    ``reports_needed`` is None where no number is enough.
    """

    alignment: float
    reports_needed: int | None


def prospect(solution: Solution, updates: Updates, *, reports: int, rounds: int) -> Prospect:
    """What so many reports over so many rounds would give, under the model of the updates.

    >>> from fedsel import solution
    >>> rj = solution("RJ", epsilon=1.0, dim=31, rho=0.4)
    >>> few = prospect(rj, Updates(31, 0.4, 0.2), reports=569, rounds=95)
    >>> round(few.alignment, 2), few.reports_needed
    (0.32, 1614)
    """
    estimate = moments(solution, updates)
    whole = estimate.over(rounds) if solution.name == "RJ" else estimate
    return Prospect(whole.alignment(reports), whole.reports_for(GOAL))


def too_large(name: str, dim: int) -> str:
    """Why the moments of a solution are not computed at this dimension; empty where they are."""
    if name == "PM-RP" and dim * max(1, dim // 10) > _PROJECTION:
        return f"its public projection has {dim} × {dim // 10} entries"
    if name == "RC" and dim * default_codewords(dim) > MOST_ENTRIES:
        return f"its public codebook has {default_codewords(dim)} × {dim} entries"
    return ""


def shortage(
    solution: Solution, updates: Updates, *, clients: int, epochs: int, rounds: int
) -> str:
    """That clients are too few for a usable model, in a sentence; empty where they are enough.

    Empty, too, where there is no telling: without privacy, and for solutions of one's own.

    >>> from fedsel import solution
    >>> rj = solution("RJ", epsilon=1.0, dim=31, rho=0.4)
    >>> model = Updates(31, 0.4, 0.2)
    >>> print(shortage(rj, model, clients=569, epochs=1, rounds=95))
    569 clients are too few for ε = 1 and d = 31: their reports would align 0.32 with ...
    >>> shortage(rj, model, clients=10_000, epochs=1, rounds=100)
    ''
    """
    dim = solution.dim
    if solution.name in PLAIN or solution.noise == 0 or dim < 2 or too_large(solution.name, dim):
        return ""
    try:
        found = prospect(solution, updates, reports=clients * epochs, rounds=rounds)
    except ValueError:  # its moments are not known
        return ""
    if found.alignment >= GOAL:
        return ""
    total = float(solution.claimed) * epochs
    return (
        f"{clients:,} clients are too few for ε = {total:.4g} and d = {dim:,}: their reports would "
        f"align {found.alignment:.2g} with the true mean of the updates, and a usable model needs "
        f"{needed(found, epochs)}, or a larger ε, or fewer features. Expect a model that is little "
        "better than a guess; see fedsel.advise(…)."
    )


def needed(found: Prospect, epochs: int) -> str:
    """What a usable model needs: the alignment, and about how many clients where some are enough.

    >>> needed(Prospect(0.3, 1614), epochs=1), needed(Prospect(0.3, None), epochs=1)
    ('0.5, about 1,700 clients', '0.5')
    """
    if found.reports_needed is None:
        return f"{GOAL:g}"
    return f"{GOAL:g}, about {_rough(math.ceil(found.reports_needed / epochs))} clients"


def _rough(count: int) -> str:
    """A count to two digits, rounded up.

    >>> _rough(1234567), _rough(87)
    ('1,300,000', '87')
    """
    unit = 10 ** max(0, len(str(count)) - 2)
    return f"{-(-count // unit) * unit:,}"
