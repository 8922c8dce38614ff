"""What a fit costs its clients, in words and numbers, and what it does not protect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedsel.errors import Epsilon, check_count, check_epsilon
from fedsel.preparation.plan import ON_RECORDS
from fedsel.simulation.leaks import SEED_UNDOES
from fedsel.solutions import Solution

COVERED = (
    "every report: no report is more than e^ε times as likely under one content of the client as"
    " under any other. This is pure ε-local differential privacy (no δ), against everyone{}, the"
    " server included",
    "coef_, intercept_, history_ without eval_set, and predictions: they are computed from the"
    " reports alone",
)
PREPARED = (
    f"preparation_, the centre and spread of the records: clients of the first rounds {ON_RECORDS}"
)
PUBLIC = (
    "feature bounds that were not declared, and preparation_: computed from {} public rows, which"
    " cost no ε"
)
NOT_COVERED_PUBLIC = "whoever is in the public rows: they are taken to be known to all"
NOT_COVERED = (
    "that a client takes part, when, and in which round; the number of clients",
    "the number and names of the features, and the set of classes: they are taken to be public",
    "what was fitted to the same records before (a scaler, a feature selection) or is computed"
    " from them beside the reports (score, eval_set)",
    "further fits on the same clients, a search for hyper-parameters among them: each costs its ε",
    "people who are several clients: they lose the sum; give groups",
    "real devices: this is a simulation, which holds all records itself",
)


@dataclass(frozen=True)
class PrivacyStatement:
    """The exact ε of one report and of all reports of a client, and what that means.

    ``per_report`` and ``total`` are infinite where a solution is not private; ``total`` counts the
    ``reports`` of one client in one fit or wave. Where the draws were ``seeded`` the guarantee does
    not hold against who knows the seed.
    """

    per_report: float
    total: float
    reports: int
    within_budget: bool
    client: str
    note: str
    bits: int
    seeded: bool
    covered: tuple[str, ...]
    not_covered: tuple[str, ...]

    def __str__(self) -> str:
        if math.isinf(self.per_report):
            lines = [f"NOT PRIVATE ({self.note})."]
        else:
            lines = [
                f"ε = {self.per_report:.6g} a report, {self.total:.6g} in total"
                f" ({self.reports} report{'s' * (self.reports > 1)} of {self.bits} bits;"
                f" a client is {self.client}).",
                f"{self.note}.",
            ]
        if not self.within_budget and not math.isinf(self.per_report):
            lines.append("THIS IS MORE THAN THE EPSILON THAT WAS ASKED FOR.")
        if self.seeded and not math.isinf(self.per_report):
            lines.append("DRAWN FROM A SEED: NOT FOR RELEASE.")
        for title, facts in (("Covered", self.covered), ("Not covered", self.not_covered)):
            if facts:
                lines += [f"{title}:", *(f"- {fact}" for fact in facts)]
        return "\n".join(lines)


def statement(
    solution: Solution,
    *,
    grouped: bool,
    seeded: bool,
    read: Sequence[str] = (),
    prepared: bool = False,
    public_rows: int = 0,
) -> PrivacyStatement:
    """What a fit with this solution costs a client; ``read`` names what bounds were not public."""
    privacy = solution.privacy
    private = not math.isinf(privacy.per_report)
    leaks = (
        *(SEED_UNDOES,) * seeded,
        *(f"the bounds of {what}, which were read from the records" for what in read),
        *(NOT_COVERED_PUBLIC,) * bool(public_rows),
    )
    but = " who does not know the seed" * seeded
    covered = (
        *(fact.format(but) for fact in COVERED),
        *(PREPARED,) * prepared,
        *(PUBLIC.format(public_rows),) * bool(public_rows),
    )
    return PrivacyStatement(
        per_report=privacy.per_report,
        total=privacy.total,
        reports=privacy.epochs,
        within_budget=privacy.within_budget,
        client="a group of records" if grouped else "one record",
        note=privacy.note,
        bits=solution.bits,
        seeded=seeded,
        covered=covered if private else (),
        not_covered=(*leaks, *NOT_COVERED) if private else ("everything",),
    )


def search_cost(
    epsilon: Epsilon, *, candidates: int = 1, splits: int = 5, refit: bool = True
) -> float:
    """The ε that a search with k-fold cross-validation costs a client, if all fits are private.

    A client is in all but one training split of each candidate, and in the refit; its reports
    compose. (Scoring on its held-out records is not covered at all.)

    >>> search_cost(2.0, candidates=3, splits=5)
    26.0
    """
    fits = check_count("candidates", candidates) * (check_count("splits", splits, least=2) - 1)
    return float(check_epsilon("epsilon", epsilon)) * (fits + bool(refit))
