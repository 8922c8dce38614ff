"""What a relay can promise to a fleet: an n_min that all rounds reach, and what that guarantees."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

from fedsel.advising._outlook import Asked, candidate
from fedsel.auto import FAILURE, reachable_n_min
from fedsel.errors import Epsilon
from fedsel.mechanisms.central import CentralGuarantee, add_up
from fedsel.mechanisms.central._budget import proved_budget
from fedsel.wire import ShuffleRule


@final
@dataclass(frozen=True)
class RelayAdvice:
    """The largest n_min that all rounds reach, but with probability `FAILURE`.

    ``guarantee`` is that of the recommended solution among the honest of so many reports, and
    ``local`` the ε of all reports of a client; for a central goal the largest that keeps it.
    """

    rule: ShuffleRule
    local: float
    guarantee: CentralGuarantee

    def sentences(self, asked: Asked) -> tuple[str, ...]:
        """What is reached and when, and both numbers."""
        return (
            "Behind a relay each client picks its round at random: with a probability of"
            f" {1 - FAILURE:g} n_min = {self.rule.n_min:,} is reached in each of {asked.rounds}"
            f" rounds, if {1 - asked.drop_out:.4g} of {asked.clients:,} clients report.",
            f"Then {self.rule.said(self.guarantee.epsilon, self.local)}, where"
            f" {self.rule.most_dishonest:,} reports of a round may be dishonest.",
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        rule = {**vars(self.rule), "honest": self.rule.honest, "failure": FAILURE}
        return {**rule, "local": self.local, "guarantee": asdict(self.guarantee)}


def advise_relay(
    asked: Asked, name: str, epsilon: Epsilon, goal: float | None, delta: float
) -> RelayAdvice | None:
    """Advise a relay for a solution: of this total ε, or of the largest for a central goal.

    None if no round is certain of two reports.
    """
    n_min = reachable_n_min(
        asked.clients, asked.rounds_per_epoch, epochs=asked.epochs, drop_out=asked.drop_out
    )
    if n_min < 2:
        return None
    rule = ShuffleRule(n_min, asked.dishonest, delta)
    among: dict[str, Any] = {"reports": rule.honest, "epochs": asked.epochs, "delta": delta}
    if goal is None:
        proved = add_up(candidate(name, epsilon, asked), **among)
        return RelayAdvice(rule, float(epsilon), proved)
    local, proved = proved_budget(
        lambda each: candidate(name, each * asked.epochs, asked), epsilon=goal, **among
    )
    return RelayAdvice(rule, round(local * asked.epochs, 12), proved)
