"""What a fit costs its clients, in words and numbers, and what it does not protect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedsel.errors import InvalidArgument, SeededNoiseWarning, warn_user
from fedsel.mechanisms.central import CentralGuarantee
from fedsel.pages import Section
from fedsel.preparation.plan import ON_RECORDS
from fedsel.solutions import Privacy, Solution
from fedsel.statements._document import Document
from fedsel.statements.meaning import exactly, in_percent, meaning, meaning_section
from fedsel.statements.shuffled import IfShuffled

SEED_UNDOES = (
    "whoever knows or guesses the seed: the draws can be repeated and the noise undone. This model"
    " is not for release"
)
"""Against whom the guarantee of a seeded model does not hold."""
COVERED = (
    "every report: no report is more than e^ε times as likely under one content of the client as"
    " under any other. This is pure ε-local differential privacy (no δ), against everyone{}, the"
    " server included"
)
PREPARED = (
    f"preparation_, the centre and spread of the records: clients of the first rounds {ON_RECORDS}"
)
PUBLIC = (
    "feature bounds that were not declared, and preparation_: computed from {} public rows, which"
    " cost no ε"
)
PUBLIC_MEANS = "the centre of {} of the features in preparation_: public means, which cost no ε"
NOT_COVERED_PUBLIC = "whoever is in the public rows: they are taken to be known to all"
NOT_COVERED_MEANS = "whoever the public means were computed from: they are taken to be known to all"
NOT_COVERED = (
    "that a client takes part, when, and in which round; the number of clients",
    "the number and names of the features, and the set of classes: they are taken to be public",
    "what was fitted to the same records before (a scaler, a feature selection) or is computed"
    " from them beside the reports (score, eval_set)",
    "further fits on the same clients, a search for hyper-parameters among them: each costs its ε",
    "people who are several clients: they lose the sum; give groups",
    "real devices: this is a simulation, which holds all records itself",
)
_TOO_MUCH = "THIS IS MORE THAN THE EPSILON THAT WAS ASKED FOR."
_SEEDED = "DRAWN FROM A SEED: NOT FOR RELEASE."


@dataclass(frozen=True)
class PrivacyStatement:
    """The exact ε of one report and of all reports of a client, and what that means.

    ``per_report`` and ``total`` are infinite where a solution is not private; ``total`` counts the
    ``reports`` of one client in one fit or wave. Where the draws were ``seeded`` the guarantee does
    not hold against who knows the seed. ``charge`` is what a device's ledger would charge for one
    report, a rational proved to be at least its ε; None where it is not private. ``shuffled`` is
    what a shuffler would make of the same reports in a deployment of the same recipe; None before
    there are any.

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

        Of a client of the smallest round, for the rounds that the fit used, those that prepare
        among them; δ is 1e-6 unless given. Several epochs need dp_accounting.
        """
        if self.shuffled is None:
            raise InvalidArgument("privacy", self.note, "that of a private fit")
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
                *self._if_shuffled,
            ]
        lines += self._alarms
        for title, facts in (("Covered", self.covered), ("Not covered", self.not_covered)):
            if facts:
                lines += [f"{title}:", *(f"- {fact}" for fact in facts)]
        return "\n".join(lines)

    @property
    def _if_shuffled(self) -> tuple[str, ...]:
        return () if self.shuffled is None else (self.shuffled.sentence,)

    @property
    def _alarms(self) -> list[str]:
        if not self.private:
            return []
        return [_TOO_MUCH] * (not self.within_budget) + [_SEEDED] * self.seeded

    def to_html(self) -> str:
        """The statement as one self-contained page.

        >>> from fedsel import solution
        >>> made = solution("PM", epsilon=2.0, dim=8)
        >>> told = fit_statement(made, released="the weights", grouped=False, seeded=False)
        >>> "at most 88 % certain" in told.to_html()
        True
        """
        return self.document.to_html()

    def _repr_html_(self) -> str:
        return self.document.fragment()

    @property
    def document(self) -> Document:
        """The statement for people."""
        sections = [
            Section(
                name=title.lower(),
                title=title,
                points=tuple(f"{fact[0].upper()}{fact[1:]}." for fact in facts),
            )
            for title, facts in (("Covered", self.covered), ("Not covered", self.not_covered))
            if facts
        ]
        return Document(
            title="What this fit tells about its clients",
            summary=self._summary,
            facts=self._facts,
            sections=(
                *sections,
                *_trust_section(self.shuffled),
                *((meaning_section(),) if self.private else ()),
            ),
        )

    @property
    def _summary(self) -> tuple[str, ...]:
        if not self.private:
            return (f"NOT PRIVATE: {self.note}.",)
        total = f"A client, {self.client}, loses ε = {self.total:.6g} in total."
        told = f"{total} {meaning(self.total, 'a client')}"
        return (*self._alarms, told, *self._if_shuffled, f"{self.note}.")

    @property
    def _facts(self) -> dict[str, str]:
        facts = {
            "reports of a client": str(self.reports),
            "bits in a report": str(self.bits),
            "a client is": self.client,
        }
        if not self.private:
            return facts
        shown = {
            "ε of a report": f"{self.per_report:.12g}",
            "ε in total": f"{self.total:.12g}",
            "certainty at most": in_percent(self.total),
        }
        if self.charge is not None:
            shown["a ledger charges"] = f"{exactly(self.charge)}, for one report"
        if self.shuffled is not None:
            shown |= self.shuffled.facts
        return {**shown, **facts}


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


def _trust_section(shuffled: IfShuffled | None) -> tuple[Section, ...]:
    if shuffled is None:
        return ()
    return (Section("trust", "Who must be trusted for which number", points=shuffled.trust),)


def fit_statement(
    solution: Solution,
    *,
    released: str,
    grouped: bool,
    seeded: bool,
    read: Sequence[str] = (),
    prepared: bool = False,
    public_rows: int = 0,
    public_means: int = 0,
    fewest_reports: int = 0,
) -> PrivacyStatement:
    """What a fit with this solution costs a client.

    ``released`` names what is computed from the reports alone, ``read`` what bounds were not
    public, ``public_means`` how many features had one. The smallest round had ``fewest_reports``.
    """
    privacy = solution.privacy
    private = not math.isinf(privacy.per_report)
    leaks = (
        *(SEED_UNDOES,) * seeded,
        *(f"the bounds of {what}, which were read from the records" for what in read),
        *(NOT_COVERED_PUBLIC,) * bool(public_rows),
        *(NOT_COVERED_MEANS,) * bool(public_means),
    )
    but = " who does not know the seed" * seeded
    covered = (
        COVERED.format(but),
        f"{released}: they are computed from the reports alone",
        *(PREPARED,) * prepared,
        *(PUBLIC.format(public_rows),) * bool(public_rows),
        *(PUBLIC_MEANS.format(public_means),) * bool(public_means),
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
        charge=privacy.charge,
        shuffled=IfShuffled.of(privacy, fewest_reports, privacy.epochs),
    )
