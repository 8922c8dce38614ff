"""Whether there are enough clients, by one formula of public quantities, for advice and fits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from fedsel._internal.extras import needed
from fedsel.advising._moments import Updates, moments
from fedsel.auto import AGREEMENT, PublicFacts, radius
from fedsel.errors import TooFewClientsWarning, warn_user
from fedsel.solutions import Solution, entry
from fedsel.solutions._transforms import MOST_ENTRIES, default_codewords

GOAL = 0.5
"""The alignment of all reports that counts as usable. A linear model with this cosine to the best
one agrees with it on 1 − arccos(0.5)/π = 2/3 of records with random directions."""
_NODES = 64
_PROJECTION = 1 << 22
"""The largest public projection of …-RP, in entries, that advice inverts."""


@final
@dataclass(frozen=True)
class Prospect:
    """The alignment of the mean of all reports with the true mean, and the reports for the goal.

    ``reports_needed`` is None if no number is enough.
    """

    alignment: float
    reports_needed: int | None
    goal: float = GOAL


def prospect(
    solution: Solution, updates: Updates, *, reports: int, rounds: int, goal: float = GOAL
) -> Prospect:
    """Return the prospect of a number of reports and rounds, under the model of the updates.

    >>> from fedsel import solution
    >>> fj = solution("FJ", epsilon=1.0, dim=31, rho=0.4)
    >>> few = prospect(fj, Updates(31, 0.4, 0.2), reports=569, rounds=95)
    >>> round(few.alignment, 2), few.reports_needed
    (0.32, 1623)
    """
    estimate = moments(solution, updates)
    whole = estimate.over(rounds) if solution.transform.per_round else estimate
    return Prospect(whole.alignment(reports), whole.reports_for(goal), goal)


def agreement_of(classes: int) -> float:
    """‖mean update‖ over the norm of one update, for C classes at the usual distance of two.

    With C class means on a simplex, m from their centre, the mean of (p − e_y)·xᵀ has the norm
    m/√C, and one update √(1 − 1/C); two means are m·√(2C/(C − 1)) apart. At a fixed distance the
    ratio falls like √(2/C).

    >>> agreement_of(2), round(agreement_of(20), 3)
    (0.2, 0.063)
    """
    return AGREEMENT * math.sqrt(2 / classes)


@lru_cache(maxsize=256)
def decisions(alignment: float, classes: int) -> float:
    """Return how often a model agrees with the best one, on records with random directions.

    The best model's margins of C classes are independent normal numbers g. A model with the cosine
    c to it has the margins c·g + √(1 − c²)·h. Both have their largest margin at the same class
    with the probability C·∫∫ φ₂(x, y; c)·Φ₂(x, y; c)^(C−1): for two classes 1 − arccos(c)/π.

    >>> round(decisions(0.5, 2), 6), round(decisions(0.5, 20), 3), round(decisions(0.0, 20), 3)
    (0.666667, 0.214, 0.05)
    """
    c = min(max(alignment, 0.0), 0.999)
    if classes == 2:
        return 1 - math.acos(c) / math.pi
    with needed("simulation", "advice"):
        from scipy.special import ndtr, owens_t

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    x, z = np.meshgrid(nodes, nodes)
    across = math.sqrt(1 - c * c)
    y = c * x + across * z
    below = (ndtr(x) + ndtr(y)) / 2 - (x * y < 0) / 2
    below -= owens_t(x, (y - c * x) / (x * across)) + owens_t(y, (x - c * y) / (y * across))
    mean = (np.outer(weights, weights) * np.clip(below, 0, 1) ** (classes - 1)).sum()
    return float(classes * mean / (2 * math.pi))


@lru_cache(maxsize=64)
def goal_for(classes: int) -> float:
    """Return the alignment that counts as usable for C classes.

    Such a model agrees with the best one on 3/(2C) of the records, half again as often as a guess,
    or on 2/3 if that is less.

    >>> [round(goal_for(classes), 2) for classes in (2, 3, 5, 10, 20)]
    [0.5, 0.42, 0.27, 0.17, 0.12]
    """
    if classes == 2:
        return GOAL
    with needed("simulation", "advice"):
        from scipy.optimize import brentq

    return float(brentq(lambda c: decisions(c, classes) - 1.5 / classes, 0.0, GOAL))


def too_large(name: str, dim: int) -> str:
    """Return why a solution's moments are not computed at this dimension; "" if they are."""
    known = entry(name)
    if known.projected and dim * max(1, dim // 10) > _PROJECTION:
        return f"its public projection has {dim} × {dim // 10} entries"
    if "words" in known.uses and dim * default_codewords(dim) > MOST_ENTRIES:
        return f"its public codebook has {default_codewords(dim)} × {dim} entries"
    return ""


def shortage(
    solution: Solution,
    updates: Updates,
    *,
    clients: int,
    epochs: int,
    rounds: int,
    classes: int | None = 2,
) -> str:
    """Return a warning that clients are too few for a usable model, or "" if they are enough.

    It is also empty without privacy and for solutions with unknown moments. ``classes`` is None in
    a regression.

    >>> from fedsel import solution
    >>> fj = solution("FJ", epsilon=1.0, dim=31, rho=0.4)
    >>> model = Updates(31, 0.4, 0.2)
    >>> print(shortage(fj, model, clients=569, epochs=1, rounds=95))
    569 clients are too few for ε = 1 and d = 31: their reports would align 0.32 with ...
    >>> shortage(fj, model, clients=10_000, epochs=1, rounds=100)
    ''
    """
    dim = solution.dim
    if solution.noise == 0 or dim < 2 or too_large(solution.name, dim):
        return ""
    goal = GOAL if classes is None else goal_for(classes)
    try:
        found = prospect(solution, updates, reports=clients * epochs, rounds=rounds, goal=goal)
    except ValueError:  # its moments are not known
        return ""
    if found.alignment >= goal:
        return ""
    total = float(solution.claimed) * epochs
    return (
        f"{clients:,} clients are too few for ε = {total:.4g} and d = {dim:,}: their reports would "
        f"align {found.alignment:.2g} with the true mean of the updates, and a usable model needs "
        f"{wanted_clients(found, epochs)}, or a larger ε, or fewer features. "
        f"{_expected(found.alignment, classes)} See fedsel.advise(…)."
    )


def _expected(alignment: float, classes: int | None) -> str:
    if classes is None:
        return "Expect a model that is little better than a constant."
    return (
        "If the classes are no easier to tell apart than usual, expect a model that decides like"
        f" the best one for {decisions(alignment, classes):.0%} of the records; a guess does for"
        f" {1 / classes:.0%}."
    )


def warn_about_clients(
    solution: Solution,
    setting: PublicFacts,
    *,
    clients: int,
    epochs: int,
    classes: int | None,
    grouped: bool,
) -> None:
    """Warn if the clients are too few for a usable model, from public quantities alone.

    Unknown quantities take their most favourable values, to avoid false warnings: all features at
    their bounds if the norm of a record is unknown, and identical records if clients hold several.
    """
    norm = setting.norm or math.sqrt(setting.features or solution.dim)
    length = radius(norm, setting.classes, setting.model)
    agreement = 1.0 if grouped else agreement_of(classes or 2)
    warning = shortage(
        solution,
        Updates(solution.dim, length, agreement),
        clients=clients,
        epochs=epochs,
        rounds=setting.rounds,
        classes=classes,
    )
    if warning:
        warn_user(warning, TooFewClientsWarning)


def wanted_clients(found: Prospect, epochs: int) -> str:
    """Describe what a usable model needs: the alignment, and about how many clients.

    >>> wanted_clients(Prospect(0.3, 1614), epochs=1), wanted_clients(Prospect(0.3, None), epochs=1)
    ('0.5, about 1,700 clients', '0.5')
    """
    if found.reports_needed is None:
        return f"{found.goal:.2g}"
    return f"{found.goal:.2g}, about {_rough(math.ceil(found.reports_needed / epochs))} clients"


def _rough(count: int) -> str:
    """Round a count up to two digits.

    >>> _rough(1234567), _rough(87)
    ('1,300,000', '87')
    """
    unit = 10 ** max(0, len(str(count)) - 2)
    return f"{-(-count // unit) * unit:,}"
