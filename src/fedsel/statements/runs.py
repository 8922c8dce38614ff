"""What a run of a server has had from its clients: ε, reports by epoch, and who must be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from fedsel.device import Reason
from fedsel.errors import InvalidArgument
from fedsel.mechanisms.central import CentralGuarantee
from fedsel.pages import Section, Table
from fedsel.server import Aggregator, RoundRecord
from fedsel.statements._document import Document
from fedsel.statements.ledgers import numbers
from fedsel.statements.meaning import certainty, exactly, in_percent, meaning, meaning_section
from fedsel.statements.shuffled import IfShuffled
from fedsel.wire import Intent

TRUST = (
    "The device, its operating system and fedsel on it are trusted with the data: they draw the"
    " report.",
    "The server is not trusted for privacy, nor is who reads its disks, the network, or another"
    " client: the bound holds against all of them together.",
    "For a useful model, not for privacy: the server is trusted to average, and most clients to"
    " report honestly.",
)
TRUST_ON_FLOWER = (
    "The app that a node runs is trusted as well: it must use FedSelMod, and do nothing else with"
    " the data.",
)
PUBLIC_MEANS = "for {} of the features: free of ε, and taken to be known to all"
LIMITS = (
    "This is the server's view. What a device has spent is in its own ledger: a report that was"
    " sent and lost counts there and not here.",
    "ε of the run is that of a client who reports once in an epoch, as policies demand unless their"
    " owners say otherwise. Other runs on the same device add their own.",
    "That a client took part, and in which round, is not hidden.",
)


@final
@dataclass(frozen=True)
class EpochReleased:
    """The reports of one epoch, and the most ε that a client has released at its end."""

    epoch: int
    rounds: int
    accepted: int
    dropped: int
    released: Fraction


@final
@dataclass(frozen=True)
class RunStatement:
    """What was released in a run, as the server knows it.

    ``per_report`` is proved to be at least the exact ε of a report; ``released`` is the most ε of
    one client so far: of the epochs in which reports were accepted. ``shuffled`` is what those
    reports guarantee centrally if a shuffler stood between, None before there are any.
    """

    run: bytes
    intent: Intent
    solution: str
    dim: int
    bits: int
    planned_epochs: int
    per_report: Fraction
    epochs: tuple[EpochReleased, ...]
    refusals: Mapping[str, int] = field(default_factory=dict)
    trust: tuple[str, ...] = TRUST
    shuffled: IfShuffled | None = None
    public_means: int = 0
    """Of how many features the centre came from public means, which cost no ε."""

    @classmethod
    def of(
        cls,
        server: Aggregator,
        *,
        refusals: Mapping[str, int] | None = None,
        trust: tuple[str, ...] = (),
    ) -> RunStatement:
        """The statement of a server's run so far; ``trust`` is what goes beyond that in devices."""
        charge = server.recipe.charge
        heard = [record for record in server.records if record.accepted]
        fewest = min((record.accepted for record in heard), default=0)
        epochs = len({record.epoch for record in heard})
        known = None if server.plan is None else server.plan.known
        return cls(
            run=server.run,
            intent=server.intent,
            solution=server.recipe.solution,
            dim=server.solution.dim,
            bits=server.solution.bits,
            planned_epochs=server.recipe.epochs,
            per_report=charge,
            epochs=_by_epoch(server.records, charge),
            refusals=dict(refusals or {}),
            trust=(*TRUST, *trust),
            shuffled=IfShuffled.of(server.solution.privacy, fewest, epochs),
            public_means=0 if known is None else int(known.given.sum()),
        )

    def central(self, *, delta: float | None = None) -> CentralGuarantee:
        """The central guarantee so far, *if* the reports of each round were shuffled.

        Of a client of the smallest round; δ is 1e-6 unless given. Several epochs need
        dp_accounting.
        """
        if self.shuffled is None:
            raise InvalidArgument("run", "without a report", "one that has had reports")
        return self.shuffled.central(delta=delta)

    @property
    def released(self) -> Fraction:
        """The most ε of one client so far."""
        return self.epochs[-1].released if self.epochs else Fraction(0)

    @property
    def planned(self) -> Fraction:
        """The most ε of one client, once all epochs are over."""
        return self.per_report * self.planned_epochs

    @property
    def reports(self) -> int:
        """How many reports were accepted."""
        return sum(epoch.accepted for epoch in self.epochs)

    def __str__(self) -> str:
        return (
            f"ε = {exactly(self.per_report)} a report; a client has released"
            f" {exactly(self.released)} at most, and {exactly(self.planned)} when all"
            f" {self.planned_epochs} epochs are over. {meaning(self.released, 'a client')}"
            + (f" {self.shuffled.sentence}" if self.shuffled else "")
        )

    def to_dict(self) -> dict[str, Any]:
        """The statement as JSON holds it."""
        return {
            "run": self.run.hex(),
            "purpose": self.intent.purpose or None,
            "recipient": self.intent.recipient or None,
            "solution": self.solution,
            "dim": self.dim,
            "bits": self.bits,
            **numbers("per_report", self.per_report),
            **numbers("released", self.released),
            **numbers("planned", self.planned),
            "certainty_released": certainty(self.released),
            "certainty_planned": certainty(self.planned),
            "if_shuffled": None if self.shuffled is None else self.shuffled.to_dict(),
            "epochs": [
                {
                    "epoch": e.epoch,
                    "rounds": e.rounds,
                    "accepted": e.accepted,
                    "dropped": e.dropped,
                    **numbers("released", e.released),
                }
                for e in self.epochs
            ],
            "public_means": self.public_means,
            "refusals": dict(self.refusals),
            "trust": [*self.trust, *self._trust_by_number],
        }

    @property
    def _public(self) -> dict[str, str]:
        given = self.public_means
        return {"public means": PUBLIC_MEANS.format(given)} if given else {}

    @property
    def _trust_by_number(self) -> tuple[str, ...]:
        return () if self.shuffled is None else self.shuffled.trust

    @property
    def document(self) -> Document:
        """The statement for people."""
        released = _released_section(self)
        return Document(
            title="What this run has released",
            summary=(
                f"A client has released ε = {float(self.released):.6g} at most. "
                + meaning(self.released, "a client"),
                *((self.shuffled.sentence,) if self.shuffled else ()),
            ),
            facts={
                "purpose": self.intent.purpose or "not stated",
                "recipient": self.intent.recipient or "not stated",
                "run": self.run.hex(),
                "solution": self.solution,
                "numbers in an update": str(self.dim),
                "bits in a report": str(self.bits),
                "reports accepted": str(self.reports),
                **(
                    {"public means": PUBLIC_MEANS.format(self.public_means)}
                    if self.public_means
                    else {}
                ),
            },
            sections=(
                released,
                Section(
                    "trust", "Who must be trusted", points=(*self.trust, *self._trust_by_number)
                ),
                meaning_section(),
                Section("limits", "What this page does not say", points=LIMITS),
            ),
        )

    def to_html(self) -> str:
        """One self-contained page."""
        return self.document.to_html()

    def _repr_html_(self) -> str:
        return self.document.fragment()


def _in_words(name: str) -> str:
    """What a device says with a reason; a name that is none of ours stays as it is."""
    return Reason[name].value if name in Reason.__members__ else name


def _by_epoch(records: Sequence[RoundRecord], charge: Fraction) -> tuple[EpochReleased, ...]:
    epochs: dict[int, list[RoundRecord]] = {}
    for record in records:
        epochs.setdefault(record.epoch, []).append(record)
    rows, heard = [], 0
    for epoch, rounds in sorted(epochs.items()):
        accepted = sum(r.accepted for r in rounds)
        heard += accepted > 0
        dropped = sum(r.rejected + r.duplicate + r.late for r in rounds)
        rows.append(EpochReleased(epoch, len(rounds), accepted, dropped, heard * charge))
    return tuple(rows)


def _released_section(statement: RunStatement) -> Section:
    rows = tuple(
        (
            e.epoch + 1,
            e.rounds,
            e.accepted,
            e.dropped,
            f"{float(e.released):.6g}",
            in_percent(e.released),
        )
        for e in statement.epochs
    )
    columns = (
        "epoch",
        "rounds",
        "reports",
        "dropped",
        "ε of a client at most",
        "certainty at most",
    )
    refused = tuple((_in_words(name), times) for name, times in statement.refusals.items())
    return Section(
        name="released",
        title="What was released",
        text=() if rows else ("No round is over yet.",),
        facts={
            "ε of a report": exactly(statement.per_report),
            "ε of a client so far": f"at most {exactly(statement.released)}",
            "ε of a client in the end": f"at most {exactly(statement.planned)}",
            **(statement.shuffled.facts if statement.shuffled else {}),
        },
        tables=(
            *((Table("By epoch, after each of them", columns, rows),) if rows else ()),
            *(
                (Table("Requests that clients refused", ("reason", "times"), refused),)
                if refused
                else ()
            ),
        ),
    )
