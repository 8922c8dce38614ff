"""What a fit costs its clients, in words and numbers, and what it does not protect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from fedsel._internal.display import upper_bound
from fedsel.errors import InvalidArgument, SeededNoiseWarning, warn_user
from fedsel.mechanisms.central import CentralGuarantee
from fedsel.pages import Section
from fedsel.preparation._plan import ON_RECORDS
from fedsel.solutions import Privacy, Solution
from fedsel.statements._meaning import (
    Document,
    Statement,
    exactly,
    in_percent,
    meaning,
    meaning_section,
)
from fedsel.statements._shuffled import IfShuffled

SEED_UNDOES = (
    "whoever knows or guesses the seed: the draws can be repeated and the noise undone. This model"
    " is not for release"
)
"""Against whom the guarantee of a seeded model does not hold."""
MEASURED_APART = (
    "clients who measured, by the number that a shuffler would give: their ε is the local one"
)
_NOT_COVERED = (
    "that a client takes part, when, and in which round; the number of clients",
    "the number and names of the features, and the set of classes: they are assumed to be public",
    "what was fitted to the same records before (a scaler, a feature selection) or is computed"
    " from them beside the reports (score, eval_set)",
    "further fits on the same clients, such as a search for hyper-parameters: each costs its ε",
    "a person who is several clients: their ε add up; groups make them one client",
    "real devices: this is a simulation, which holds all records itself",
)


@dataclass(frozen=True)
class PrivacyStatement(Statement):
    """The exact ε of one report and of all reports of a client, and what that means.

    ``per_report`` and ``total`` are infinite where a solution is not private; ``total`` counts the
    ``reports`` of one client in one fit or wave. The guarantee of ``seeded`` draws does not hold
    against anybody who knows the seed. ``charge`` is what a device's ledger would charge for one
    report, a rational proved to be at least its ε; None where it is not private. ``shuffled`` is
    the central guarantee of a deployment of the same recipe with a shuffler; None before there are
    reports.

    It prints as text; `to_html` is a page of its own, and notebooks show it by themselves.
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
    charge: Fraction | None = None
    shuffled: IfShuffled | None = None

    def central(self, *, delta: float | None = None) -> CentralGuarantee:
        """The central guarantee of a deployment with the same rounds, *if* they are shuffled.

        It holds for a client of the smallest round and all rounds of the fit, preparing ones
        included; δ is 1e-6 unless given. Several epochs need dp_accounting.
        """
        if self.shuffled is None:
            raise InvalidArgument("privacy", self.note, "a private fit")
        return self.shuffled.central(delta=delta)

    @property
    def private(self) -> bool:
        """Whether ε is finite."""
        return not math.isinf(self.per_report)

    def __str__(self) -> str:
        if not self.private:
            lines = [f"NOT PRIVATE ({self.note})."]
        else:
            lines = [
                f"ε = {self.per_report:.6g} a report, {self.total:.6g} in total"
                f" ({self.reports} report{'s' * (self.reports > 1)} of {self.bits} bits;"
                f" a client is {self.client}).",
                f"{self.note}.",
                *((self.shuffled.sentence,) if self.shuffled else ()),
                *self._alarms,
            ]
        for title, facts in self._lists:
            lines += [f"{title}:", *(f"- {fact}" for fact in facts)]
        return "\n".join(lines)

    @property
    def _alarms(self) -> tuple[str, ...]:
        return (
            *("THIS IS MORE THAN THE EPSILON THAT WAS ASKED FOR.",) * (not self.within_budget),
            *("DRAWN FROM A SEED: NOT FOR RELEASE.",) * self.seeded,
        )

    @property
    def _lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        both = (("Covered", self.covered), ("Not covered", self.not_covered))
        return tuple((title, facts) for title, facts in both if facts)

    @property
    def document(self) -> Document:
        sections = [
            Section(
                name=title.lower(),
                title=title,
                points=tuple(f"{fact[0].upper()}{fact[1:]}." for fact in facts),
            )
            for title, facts in self._lists
        ]
        facts = {
            "reports of a client": str(self.reports),
            "bits in a report": str(self.bits),
            "a client is": self.client,
        }
        title = "What this fit reveals about its clients"
        if not self.private:
            return Document(title, (f"NOT PRIVATE: {self.note}.",), facts, tuple(sections))
        amounts = {
            "ε of a report": f"{self.per_report:.12g}",
            "ε in total": f"{self.total:.12g}",
            "certainty at most": in_percent(self.total),
        }
        if self.charge is not None:
            amounts["a ledger charges"] = f"{exactly(self.charge)}, for one report"
        cost = f"A client, {self.client}, loses ε = {self.total:.6g} in total."
        summary = [*self._alarms, f"{cost} {meaning(self.total, 'a client')}", f"{self.note}."]
        if self.shuffled is not None:
            amounts |= self.shuffled.facts
            summary.insert(-1, self.shuffled.sentence)
            trust = "Who must be trusted for which number"
            sections.append(Section("trust", trust, points=self.shuffled.trust))
        sections.append(meaning_section())
        return Document(title, tuple(summary), amounts | facts, tuple(sections))


def warn_about_seed(parameter: str, privacy: Privacy) -> None:
    """Warn that the noise of a private model follows from a seed."""
    if math.isinf(privacy.per_report):
        return  # there is no noise to undo
    warn_user(
        f"{parameter} is fixed: whoever knows or guesses it can repeat the draws and undo the noise"
        f" of every client. Do not release this model; {parameter}=None draws from the operating"
        " system. In simulations, ignore fedsel.errors.SeededNoiseWarning.",
        SeededNoiseWarning,
    )


def fit_statement(
    solution: Solution,
    *,
    released: str,
    grouped: bool,
    seeded: bool,
    read: Sequence[str] = (),
    declared: Sequence[str] = (),
    prepared: bool = False,
    public_rows: int = 0,
    public_means: int = 0,
    fewest_reports: int = 0,
    epochs: int | None = None,
    measured: int = 0,
    measured_at: float = 0.0,
) -> PrivacyStatement:
    """What a fit with this solution costs a client.

    ``released`` names what is computed from the reports alone, ``read`` the bounds that were not
    public, ``declared`` what a schema says, ``public_means`` how many features had one. The
    smallest round had ``fewest_reports``, and a client reported in ``epochs``, or in all.
    ``measured`` clients reported on the finished model instead, at ``measured_at``.
    """
    privacy = solution.privacy if epochs is None else replace(solution.privacy, epochs=epochs)
    but = " who does not know the seed" * seeded
    covered = [
        "every report: no report is more than e^ε times as likely under one content of the client"
        " as under any other. This is pure ε-local differential privacy (no δ), against"
        f" everyone{but}, the server included",
        f"{released}: they are computed from the reports alone",
    ]
    leaks = [SEED_UNDOES] * seeded
    leaks += [f"the bounds of {what}, which were read from the records" for what in read]
    if declared:
        covered.append(
            f"{', '.join(declared)}: a schema declared them, and nothing was read from the records"
        )
        leaks.append("anybody whose data was looked at to write the schema: it is public")
    if prepared:
        covered.append(
            "preparation_, the centre and spread of the records: clients of the first rounds"
            f" {ON_RECORDS}"
        )
    if public_rows:
        covered.append(
            "feature bounds that were not declared, and preparation_: computed from"
            f" {public_rows} public rows, which cost no ε"
        )
        leaks.append("anybody whose data is in the public rows: these are assumed to be public")
    if public_means:
        covered.append(
            f"the centre of {public_means} of the features in preparation_: public means, which"
            " cost no ε"
        )
        leaks.append("anybody whose data is in the public means: these are assumed to be public")
    if measured:
        covered.append(_of_measuring(measured, measured_at))
        leaks += [MEASURED_APART] * bool(fewest_reports)
    private = not math.isinf(privacy.per_report)
    return PrivacyStatement(
        per_report=privacy.per_report,
        total=privacy.total,
        reports=privacy.epochs,
        within_budget=privacy.within_budget,
        client="a group of records" if grouped else "one record",
        note=privacy.note,
        bits=solution.bits,
        seeded=seeded,
        covered=tuple(covered) if private else (),
        not_covered=(*leaks, *_NOT_COVERED) if private else ("everything",),
        charge=privacy.charge,
        shuffled=IfShuffled.of(privacy, fewest_reports, privacy.epochs),
    )


def _of_measuring(clients: int, epsilon: float) -> str:
    who = f"{clients:,} clients" if clients > 1 else "1 client"
    return (
        f"measurement_, which may be released with the model: {who} measured it with one report at"
        f" ε = {upper_bound(epsilon)} each, which is all that they spent, and trained in no round"
    )
