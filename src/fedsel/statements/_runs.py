"""What a run of a server has had from its clients: ε, reports by epoch, and who must be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from fedsel._internal.display import counted
from fedsel.device import Reason
from fedsel.errors import InvalidArgument
from fedsel.mechanisms.central import CentralGuarantee
from fedsel.pages import Section, Table
from fedsel.server import Aggregator, RoundRecord
from fedsel.server._checkpoint import Checkpoint
from fedsel.statements._meaning import (
    Document,
    Statement,
    certainty,
    exactly,
    in_percent,
    meaning,
    meaning_section,
    numbers,
)
from fedsel.statements._shuffled import ByRelay, IfShuffled, Shuffling
from fedsel.wire import Intent, ShuffleRule

TRUST = (
    "The device, its operating system and fedsel on it must be trusted with the data: they draw the"
    " report.",
    "For privacy, nobody else needs to be trusted: neither the server, nor anyone who reads its"
    " disks or the network, nor another client. The bound holds against all of them together.",
    "For a useful model, not for privacy, the server must average as announced, and most clients"
    " must report honestly.",
)
TRUST_ON_FLOWER = (
    "The app that a node runs must be trusted as well: it must use FedSelMod, and do nothing else"
    " with the data.",
)
_PUBLIC_MEANS = "of {} features: they cost no ε, and are assumed to be known to everybody"
_PUBLIC_ROWS = (
    "{:,} of them say how records are prepared: they cost no ε, and nobody in them is protected"
)
_MEASURED = "{:,}, at ε = {:.6g} each, all that such a client sends: it trains in no round"
_LIMITS = (
    "This is the server's view. Each device's own ledger records what the device has spent: a"
    " report that was sent and lost counts there and not here.",
    "The ε of the run assumes a client that reports once in an epoch, as policies demand unless"
    " their owners say otherwise. Other runs on the same device add their own ε.",
    "The run does not hide that a client took part, nor in which round.",
)


@final
@dataclass(frozen=True)
class EpochReleased:
    """The reports of one epoch, and the most ε that a client has released at its end.

    ``measured`` of the accepted ones were about the model, of clients that train in no round.
    """

    epoch: int
    rounds: int
    accepted: int
    dropped: int
    released: Fraction
    measured: int = 0


@final
@dataclass(frozen=True)
class RunStatement(Statement):
    """What was released in a run, as the server knows it.

    ``per_report`` is proved to be at least the exact ε of a report. ``shuffled`` is the central
    guarantee of the reports so far, as a relay shuffled them or if a shuffler mixed them; None
    before there are any.
    ``public_means`` counts the features whose centre came from public means, ``public_rows`` the
    public rows that gave the preparation of records; neither costs ε. ``per_measurement`` is the ε
    of a report on the model, all that a client that measures it sends; 0 where nobody does.
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
    shuffled: Shuffling | None = None
    public_means: int = 0
    public_rows: int = 0
    per_measurement: Fraction = Fraction(0)

    @classmethod
    def of(
        cls,
        server: Aggregator | Checkpoint,
        *,
        refusals: Mapping[str, int] | None = None,
        trust: tuple[str, ...] = (),
        shuffle: ShuffleRule | None = None,
    ) -> RunStatement:
        """The statement of a server's run so far; ``trust`` adds to the trust in devices.

        ``shuffle`` is the rule by which a relay has released the rounds; None without a relay, or
        where the checkpoint has it.
        """
        if shuffle is None and isinstance(server, Checkpoint) and server.shuffled is not None:
            shuffle = server.shuffled.rule
        solution = server.recipe.build()
        charge = server.recipe.charge
        known = None if server.plan is None else server.plan.known
        measuring = () if server.measuring is None else server.measuring.recipes
        per_measurement = max((recipe.charge for recipe in measuring), default=Fraction(0))
        return cls(
            run=server.run,
            intent=server.intent,
            solution=server.recipe.solution,
            dim=solution.dim,
            bits=solution.bits,
            planned_epochs=server.recipe.epochs,
            per_report=charge,
            epochs=_by_epoch(server, charge, per_measurement),
            refusals=dict(refusals or {}),
            trust=(*TRUST, *trust),
            shuffled=_shuffled(server, shuffle),
            per_measurement=per_measurement,
            public_means=0 if known is None else int(known.given.sum()),
            public_rows=0 if server.given is None else server.given.rows,
        )

    def central(self, *, delta: float | None = None) -> CentralGuarantee:
        """The central guarantee so far, *if* the reports of each round were shuffled.

        It holds for a client of the smallest round; δ is the relay's, or 1e-6, unless given.
        Several epochs need dp_accounting.
        """
        if self.shuffled is None:
            raise InvalidArgument("run", "no reports yet", "a run that has received reports")
        return self.shuffled.central(delta=delta)

    @property
    def released(self) -> Fraction:
        """The most ε of one client so far: only epochs with accepted reports count."""
        return self.epochs[-1].released if self.epochs else Fraction(0)

    @property
    def planned(self) -> Fraction:
        """The most ε of one client, once all epochs are over."""
        return max(self.per_report * self.planned_epochs, self.per_measurement)

    @property
    def measured(self) -> int:
        """How many of the accepted reports were about the model."""
        return sum(epoch.measured for epoch in self.epochs)

    @property
    def reports(self) -> int:
        """How many reports were accepted."""
        return sum(epoch.accepted for epoch in self.epochs)

    def __str__(self) -> str:
        return (
            f"ε = {exactly(self.per_report)} a report; a client has released at most"
            f" {exactly(self.released)}, and at most {exactly(self.planned)} after"
            f" {counted(self.planned_epochs, 'epoch')}. {meaning(self.released, 'a client')}"
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
            **dict.fromkeys((IfShuffled.key, ByRelay.key)),
            **({self.shuffled.key: self.shuffled.to_dict()} if self.shuffled else {}),
            "epochs": [{**vars(e), **numbers("released", e.released)} for e in self.epochs],
            **numbers("per_measurement", self.per_measurement),
            "public_means": self.public_means,
            "public_rows": self.public_rows,
            "refusals": dict(self.refusals),
            "trust": [*self._trust],
        }

    @property
    def _trust(self) -> tuple[str, ...]:
        return (*self.trust, *(self.shuffled.trust if self.shuffled else ()))

    @property
    def document(self) -> Document:
        cost = f"A client has released at most ε = {float(self.released):.6g}."
        summary = [f"{cost} {meaning(self.released, 'a client')}"]
        if self.shuffled:
            summary.append(self.shuffled.sentence)
        facts = {
            "purpose": self.intent.purpose or "not stated",
            "recipient": self.intent.recipient or "not stated",
            "run": self.run.hex(),
            "solution": self.solution,
            "numbers in an update": str(self.dim),
            "bits in a report": str(self.bits),
            "reports accepted": str(self.reports),
        }
        if self.per_measurement:
            facts["of them about the model"] = _MEASURED.format(
                self.measured, float(self.per_measurement)
            )
        if self.public_means:
            facts["public means"] = _PUBLIC_MEANS.format(self.public_means)
        if self.public_rows:
            facts["public rows"] = said_of_rows(self.public_rows)
        return Document(
            title="What this run has released",
            summary=tuple(summary),
            facts=facts,
            sections=(
                _released_section(self),
                Section("trust", "Who must be trusted", points=self._trust),
                meaning_section(),
                Section("limits", "What this page does not say", points=_LIMITS),
            ),
        )


def said_of_rows(count: int) -> str:
    """What public rows are used for, and whom the guarantee leaves out."""
    return _PUBLIC_ROWS.format(count)


def _by_question(server: Aggregator | Checkpoint) -> dict[int | None, list[RoundRecord]]:
    """The rounds that had reports, by the number of their question about the model, or None."""
    found: dict[int | None, list[RoundRecord]] = {}
    for record in server.records:
        if record.accepted:
            found.setdefault(server.question_of(record.round), []).append(record)
    return found


def _shuffled(server: Aggregator | Checkpoint, rule: ShuffleRule | None) -> Shuffling | None:
    """The central guarantee of the client that it protects least: one that trains or measures."""
    made: list[Shuffling | None] = []
    for question, records in _by_question(server).items():
        recipe, epochs = server.recipe, len({record.epoch for record in records})
        if question is not None and server.measuring is not None:
            recipe, epochs = server.measuring.recipes[question], 1
        privacy, fewest = recipe.build().privacy, min(record.accepted for record in records)
        if rule is None:
            made.append(IfShuffled.of(privacy, fewest, epochs))
        else:
            made.append(ByRelay.of(privacy, rule, fewest, epochs))
    known = [one for one in made if one is not None]
    if len(known) < 2:  # nothing is proved before somebody looks
        return known[0] if known else None
    return max(known, key=lambda one: one.guarantee.epsilon)


def _by_epoch(
    server: Aggregator | Checkpoint, charge: Fraction, per_measurement: Fraction
) -> tuple[EpochReleased, ...]:
    rows, trained, measured_before = [], 0, False
    for epoch in sorted({record.epoch for record in server.records}):
        rounds = [record for record in server.records if record.epoch == epoch]
        accepted = sum(r.accepted for r in rounds)
        measured = sum(r.accepted for r in rounds if server.question_of(r.round) is not None)
        trained += accepted > measured
        measured_before |= measured > 0
        dropped = sum(r.rejected + r.duplicate + r.late for r in rounds)
        released = max(trained * charge, per_measurement * measured_before)
        rows.append(EpochReleased(epoch, len(rounds), accepted, dropped, released, measured))
    return tuple(rows)


def _released_section(statement: RunStatement) -> Section:
    epochs = tuple(
        (e.epoch + 1, e.rounds, e.accepted, e.dropped, f"{float(e.released):.6g}", certain)
        for e in statement.epochs
        for certain in (in_percent(e.released),)
    )
    columns = ("epoch", "rounds", "reports", "dropped", "ε of a client at most")
    refused = tuple(
        (Reason[name].value if name in Reason.__members__ else name, times)
        for name, times in statement.refusals.items()
    )
    tables = (
        Table("By epoch, after each of them", (*columns, "certainty at most"), epochs),
        Table("Requests that clients refused", ("reason", "times"), refused),
    )
    return Section(
        name="released",
        title="What was released",
        text=() if epochs else ("No round is over yet.",),
        facts={
            "ε of a report": exactly(statement.per_report),
            "ε of a client so far": f"at most {exactly(statement.released)}",
            "ε of a client in the end": f"at most {exactly(statement.planned)}",
            **(statement.shuffled.facts if statement.shuffled else {}),
        },
        tables=tuple(table for table in tables if table.rows),
    )
