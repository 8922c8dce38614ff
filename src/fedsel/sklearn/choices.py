"""What "auto" stands for: the public choices of an estimator, from public quantities alone."""

from __future__ import annotations

import math

from fedsel.errors import InvalidArgument, check_positive
from fedsel.simulation.averaging import check_averaging
from fedsel.simulation.rates import TYPICAL, public_rate
from fedsel.solutions import Solution
from fedsel.solutions.registry import REPORTING_DIRECTIONS, canonical
from fedsel.solutions.steps import AVERAGING, automatic_radius, automatic_rate

Choice = float | str
"""A number, or "auto"."""


def check_choices(
    learning_rate: Choice, averaging: Choice, unit_norm: bool | str, rho: Choice | None
) -> None:
    """Refuse what is neither a valid value nor "auto"."""
    if learning_rate != "auto":
        check_positive("learning_rate", learning_rate)
    if averaging != "auto":
        check_averaging(averaging)  # type: ignore[arg-type]
    if unit_norm not in (True, False, "auto"):
        raise InvalidArgument("unit_norm", unit_norm, 'True, False or "auto"')
    if rho not in ("auto", None):
        check_positive("rho", rho)


def unit_norm_of(unit_norm: bool | str, solution: str) -> bool:
    """Whether clients divide their record by its norm: where a report is a direction.

    >>> unit_norm_of("auto", "RJ"), unit_norm_of("auto", "PS-PM")
    (True, False)
    """
    if unit_norm == "auto":
        return canonical(solution) in REPORTING_DIRECTIONS
    return bool(unit_norm)


def radius_of(rho: Choice | None, unit: bool, entries: int, classes: int) -> float | None:
    """ρ for records with so many entries, of norm 1 or of entries of the typical size."""
    if rho != "auto":
        return rho  # type: ignore[return-value]
    return automatic_radius(1.0 if unit else TYPICAL * math.sqrt(entries), classes)


def rate_of(learning_rate: Choice, made: Solution, unit: bool, batch: int, rounds: int) -> float:
    """α, and with records of norm 1 the rule that knows it."""
    if learning_rate != "auto":
        return check_positive("learning_rate", learning_rate)
    if unit:
        return automatic_rate(made, batch, rounds)
    return public_rate(made, batch=batch, rounds=rounds)


def averaging_of(averaging: Choice, learning_rate: Choice) -> float:
    """The power of the average; with "auto" there is one where the rate is automatic, too.

    >>> averaging_of("auto", "auto"), averaging_of("auto", 0.5)
    (3.0, 0.0)
    """
    if averaging != "auto":
        return float(averaging)
    return AVERAGING if learning_rate == "auto" else 0.0
