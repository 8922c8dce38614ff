"""Advice for a central goal: which local ε a shuffler allows, in how many rounds, and without one.

The reports of one round are shuffled together, so fewer and larger rounds hide a report better and
allow it a larger local ε. But a model takes one step a round, and records are prepared only where
an epoch has `FEWEST_ROUNDS`. So many it has unless the user says otherwise: on ADULT and KDD fewer
lose far more than their ε wins, and more win nothing (docs/shuffling.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict, final

from fedsel._internal.progress import note
from fedsel.advising.advice import Advice, advice_for
from fedsel.advising.asked import Asked
from fedsel.advising.candidates import NAMES, candidate, outlooks
from fedsel.advising.sufficiency import prospect
from fedsel.auto import FEWEST_ROUNDS
from fedsel.central import CentralGuarantee
from fedsel.central.budget import proved_budget, rough_budget
from fedsel.solutions import Solution

LADDER = (1, 5, 10, FEWEST_ROUNDS, 50, 100)
"""Rounds of an epoch that are compared."""


@final
@dataclass(frozen=True)
class Rung:
    """So many rounds in an epoch, the local ε of a report that they allow, and what it gives."""

    rounds: int
    reports: int
    local: float
    alignment: float


@final
@dataclass(frozen=True)
class CentralAdvice:
    """A central goal (``epsilon``, ``delta``): what it allows with a shuffler, and without.

    ``guarantee`` is proved for the recommended solution with the rounds of the advice. The local ε
    of the other solutions are proved as well where there is one epoch, and searched in floats for
    several. ``ladder`` is the recommended solution with other numbers of rounds, searched in
    floats. ``without`` is the advice where nobody shuffles: its local ε is the central goal.
    """

    epsilon: float
    delta: float
    guarantee: CentralGuarantee
    ladder: tuple[Rung, ...]
    without: Advice

    def sentences(self, advice: Advice) -> tuple[str, ...]:
        """With a shuffler, without one, and what the rounds decide."""
        best, other, plain = advice.outlooks[0], self.without.outlooks[0], self.without
        epochs = "" if advice.epochs == 1 else f" in each of {advice.epochs} epochs"
        total = "" if advice.epochs == 1 else f", {best.epsilon_total:.4g} in all"
        return (
            f"With a shuffler: {best.name} at local ε = {best.epsilon_per_report:.4g}{epochs}"
            f"{total}, {_rounds(advice.asked.rounds)} of {advice.asked.reports:,} reports or more,"
            f" aligns {best.alignment_all:.2g}. Proved: {self.guarantee}.",
            f"Without a shuffler: {other.name} at local ε = {self.epsilon:g} in all,"
            f" {_rounds(plain.rounds)}, aligns {other.alignment_all:.2g}. Nobody need be trusted.",
            "Fewer rounds hide a report among more, and allow it a larger local ε; but a model"
            f" takes one step a round, and below {FEWEST_ROUNDS} rounds no record is prepared."
            " Only honest reports hide others: plan with fewer than all.",
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "guarantee": asdict(self.guarantee),
            "ladder": [asdict(rung) for rung in self.ladder],
            "without": self.without.as_dict(),
        }


class _Goal(TypedDict):
    epsilon: float
    delta: float
    reports: int
    epochs: int


def advise_centrally(asked: Asked, unshuffled: Asked, epsilon: float, delta: float) -> Advice:
    """Advice for a central goal: for shuffled reports, with that for others beside it."""
    goal, local, proofs = _goal(asked, epsilon, delta), dict[str, float](), {}

    def prove(name: str) -> None:
        local[name], proofs[name] = proved_budget(_maker(name, asked), **goal)

    def total_of(name: str) -> float:
        if name not in local:
            if asked.epochs == 1:  # a proof takes less than the search before it
                prove(name)
            else:
                local[name] = rough_budget(_maker(name, asked), **goal)
            tell(1)
        return local[name] * asked.epochs

    with note("searching local budgets", len(NAMES) + len(LADDER) + 1) as tell:
        # A proof may lower an ε, and with it the rank: until the first is one that is proved.
        while (best := outlooks(asked, total_of)[0].name) not in proofs:
            prove(best)
        tell(1)
        advice = advice_for(asked, total_of, one_epoch_instead=False)
        counts = {asked.rounds, *(rounds for rounds in LADDER if rounds <= asked.clients)}
        ladder = []
        for rounds in sorted(counts):
            ladder.append(_rung(best, asked.in_rounds(rounds), epsilon, delta))
            tell(1)
    without = advice_for(unshuffled, lambda _: epsilon)
    found = CentralAdvice(epsilon, delta, proofs[best], tuple(ladder), without)
    return replace(advice, central=found)


def _rounds(count: int) -> str:
    return f"{count} round{'s' * (count > 1)}"


def _goal(asked: Asked, epsilon: float, delta: float) -> _Goal:
    return {"epsilon": epsilon, "delta": delta, "reports": asked.reports, "epochs": asked.epochs}


def _maker(name: str, asked: Asked) -> Callable[[float], Solution]:
    """The solution for a local ε of one report."""
    return lambda local: candidate(name, local * asked.epochs, asked)


def _rung(name: str, asked: Asked, epsilon: float, delta: float) -> Rung:
    make = _maker(name, asked)
    local = rough_budget(make, **_goal(asked, epsilon, delta))
    reports, rounds = asked.clients * asked.epochs, asked.rounds * asked.epochs
    found = prospect(make(local), asked.updates, reports=reports, rounds=rounds)
    return Rung(asked.rounds, asked.reports, local, found.alignment)
