"""The result of a view of an experiment's rows, and how claims are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedsel.pages import Table, Verdict
from reproduction.results import Gap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOLDS, FAILS, UNKNOWN = "holds", "does not hold", "not measured"
UNDECIDED = "undecided: no difference beyond two standard errors"


@dataclass(frozen=True)
class Picture:
    """A figure with the words that go with it."""

    figure: Figure
    caption: str
    alt: str


@dataclass(frozen=True)
class View:
    """Tables, pictures and verdicts; ``numbers`` goes into the JSON beside the rows."""

    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)


def command(name: str) -> str:
    """The command that repeats an experiment."""
    return f"python -m reproduction {name}"


def judge(
    name: str,
    claim: str,
    where: str,
    gaps: Mapping[str, Gap],
    *,
    ties: bool = False,
    unit: str = "points",
) -> Verdict:
    """A claim that every gap is positive, by more than two standard errors; or not negative.

    >>> judge("x", "a beats b", "5.2", {"s": Gap(1.0, 0.1), "t": Gap(-1.0, 0.1)}).verdict
    'holds in 1 of 2'
    """
    if not gaps:
        return Verdict(claim, where, UNKNOWN, "its data are missing", command(name))
    good = [not g.below if ties else g.above for g in gaps.values()]
    against = sum(g.below for g in gaps.values())
    low = min(gaps, key=lambda label: gaps[label].mean)
    high = max(gaps, key=lambda label: gaps[label].mean)
    numbers = f"{gaps[low]} {unit} ({low})"
    if low != high:
        numbers = f"from {numbers} to {gaps[high]} ({high})"
    if not all(good):
        open_ = len(good) - sum(good) - against
        numbers += f"; {against} the other way, {open_} within two standard errors"
    verdict = UNDECIDED if not any(good) and not against else counted(good)
    return Verdict(claim, where, verdict, numbers, command(name))


def plain(value: float) -> str:
    """Format a parameter."""
    return f"{value:g}"


def counted(good: list[bool]) -> str:
    """The verdict over several settings."""
    if all(good):
        return HOLDS
    return f"holds in {sum(good)} of {len(good)}" if any(good) else FAILS
