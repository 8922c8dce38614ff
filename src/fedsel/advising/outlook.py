"""What one solution would give, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, final

from fedsel.advising.moments import Moments
from fedsel.advising.sufficiency import GOAL, Prospect, needed
from fedsel.solutions import Solution
from fedsel.solutions._registry import entry


@final
@dataclass(frozen=True)
class Outlook:
    """What one solution would give.

    ``takes`` is the solution that runs under this name: flat where μ = 0. ``epsilon_per_report``
    and ``epsilon_total`` are exact. ``noise`` is that of a round's mean over its signal,
    ``alignment_round`` and ``alignment_all`` the cosines of the mean of a round and of all reports
    with the true mean update. ``clients_needed`` is for `GOAL`; None where no number is enough.
    ``mu`` is None where nothing is split, ``k`` where nothing is ranked by a threshold.
    """

    rank: int
    name: str
    takes: str
    epsilon_per_report: float
    epsilon_total: float
    mu: float | None
    k: int | None
    bits: int
    noise: float
    alignment_round: float
    alignment_all: float
    clients_needed: int | None
    learning_rate: float
    note: str
    solution: Solution = field(repr=False, compare=False)
    moments: Moments = field(repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """The numbers by name, for JSON."""
        hidden = ("solution", "moments")
        return {name: v for name, v in vars(self).items() if name not in hidden}


def reason(outlooks: tuple[Outlook, ...]) -> str:
    """One sentence: the best against the next and against the best of the paper's."""
    best, following = outlooks[0], outlooks[1]
    paper = next((o for o in outlooks if entry(o.name).family != "one-symbol"), best)
    text = f"{best.name} aligns {best.alignment_all:.2g} with the true mean over all reports"
    text += f", {following.name} {following.alignment_all:.2g}"
    if paper not in (best, following):
        text += f", the best of the paper's ({paper.name}) {paper.alignment_all:.2g}"
    if best.name == "RC":
        text += "; FJ costs a device far less, d·log d in place of d·M products"
    return text + "."


def impossible(best: Outlook, clients: int, epochs: int) -> list[str]:
    """That no solution can work, and how many clients would be needed; empty where one can."""
    if best.alignment_all >= GOAL:
        return []
    wanted = needed(Prospect(best.alignment_all, best.clients_needed), epochs=1)
    return [
        f"No solution can work: the best, {best.name}, would align {best.alignment_all:.2g} with "
        f"the true mean, over all {clients * epochs:,} reports; a usable model needs {wanted}."
    ]


def flat(outlooks: tuple[Outlook, ...], dim: int, batch: int) -> list[str]:
    """Which two-stage solutions have nothing left for the selection."""
    fallen = sorted(o.name for o in outlooks if o.takes != o.name)
    if not fallen:
        return []
    needed = math.sqrt(dim * math.log(dim) / batch)
    return [
        f"μ = 0 for {', '.join(fallen)}: a value needs ε′ of √(d ln d / n) = {needed:.3g} at "
        "least, nothing is left for the selection, and flat PM takes their place."
    ]


def split(best: Outlook, once: Outlook, epochs: int) -> str:
    """What splitting ε over the epochs costs; empty where it gains."""
    growth = best.moments.noise(1) / once.moments.noise(1)
    if best.alignment_all >= once.alignment_all:
        return ""
    return (
        f"ε split over {epochs} epochs loses: the noise of a report grows {growth:.3g}-fold and "
        f"{epochs} times the reports make up for √{epochs} = {math.sqrt(epochs):.3g} of it. All of "
        f"ε in one epoch aligns {once.alignment_all:.2g} ({once.name}), split "
        f"{best.alignment_all:.2g} ({best.name})."
    )
