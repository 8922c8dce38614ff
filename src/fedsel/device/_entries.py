"""What a ledger holds: entries, the runs that they belong to, and the chain between them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, final

from fedsel.device._budget import Limit, Past, Standing, latest, loosened
from fedsel.device._storage import Fault, LedgerError
from fedsel.recipe import Recipe
from fedsel.solutions._privacy import written
from fedsel.wire import Intent, Request, encode_recipe
from fedsel.wire._request import check_text

COLUMNS = "number, run, epoch, round, time, charge, digest, report, link"
_KINDS = (int, bytes, int, int, int, str, bytes, bytes, bytes)
NOTHING_STATED = Intent()


@final
@dataclass(frozen=True)
class Entry:
    """One report: its place in the run, when (seconds since 1970), its ε, and its bytes.

    ``digest`` is the SHA-256 of the request and the weights that it answers.
    """

    number: int
    run: bytes
    epoch: int
    round: int
    time: int
    charge: Fraction
    digest: bytes
    report: bytes

    @property
    def row(self) -> tuple[object, ...]:
        """The columns of its row, without the link."""
        return tuple({**vars(self), "charge": str(self.charge)}.values())

    def link(self, before: bytes, intent: Intent = NOTHING_STATED) -> bytes:
        """The link of the chain that this entry, of a run with this intent, adds to the last."""
        return link_of(before, self.row, (intent.purpose, intent.recipient))

    @classmethod
    def of(cls, row: Sequence[Any]) -> Entry:
        """Read the entry of a row; refuse what our own code never wrote."""
        if not all(map(isinstance, row, _KINDS)):
            raise LedgerError(Fault.DAMAGED)
        number, run, epoch, place, time, charge, digest, report, _ = row
        return cls(number, run, epoch, place, time, written(charge), digest, report)


@final
@dataclass(frozen=True)
class KnownRun:
    """A run: the bytes of its recipe, what its server says about it, and whether it is open."""

    recipe: bytes
    intent: Intent = NOTHING_STATED
    is_open: bool = True

    @classmethod
    def of(cls, request: Request, *, is_open: bool = True) -> KnownRun:
        """The run of a request."""
        return cls(encode_recipe(request.recipe), request.intent, is_open)


@final
@dataclass(frozen=True)
class Limits:
    """The limits of a ledger: since when, after how many reports, and who allowed them.

    ``time`` is in seconds since 1970; None for the first ones of a ledger that was begun before
    changes were recorded. ``by`` is empty where nobody had to allow them: at first, and when a
    policy makes them stricter.
    """

    limits: tuple[Limit, ...]
    time: int | None = None
    reports: int = 0
    by: str = ""

    @property
    def lifetime(self) -> Fraction | None:
        """The ε of all reports ever; None where no limit says it."""
        return next((limit.epsilon for limit in self.limits if limit.is_lifetime), None)

    @property
    def lifetime_text(self) -> str:
        """The lifetime as a ledger writes it; nothing where there is none."""
        return "" if self.lifetime is None else str(self.lifetime)

    @property
    def row(self) -> tuple[str, int | None, int, str]:
        """The columns of its row."""
        listed = [{**vars(limit), "epsilon": str(limit.epsilon)} for limit in self.limits]
        return json.dumps([[*one.values()] for one in listed]), self.time, self.reports, self.by

    @classmethod
    def of(cls, limits: Any, time: Any, reports: Any, by: Any) -> Limits:
        """Read the limits of a row; refuse what our own code never wrote."""
        if not all(map(isinstance, (limits, time, reports), (str, int | None, int))):
            raise LedgerError(Fault.DAMAGED)
        found = tuple(Limit(written(epsilon), *rest) for epsilon, *rest in json.loads(limits))
        kinds = (Fraction, int | None, str | None, str | None)
        if not found or not all(all(map(isinstance, vars(x).values(), kinds)) for x in found):
            raise LedgerError(Fault.DAMAGED)
        return cls(found, time, reports, check_text("by", by, "recipient"))


@final
@dataclass(frozen=True)
class Confirmation:
    """A time that the owner has confirmed, after how many reports, and the owner's name."""

    time: int
    reports: int
    by: str

    @classmethod
    def of(cls, time: Any, reports: Any, by: Any) -> Confirmation:
        """Read the confirmation of a row; refuse what our own code never wrote."""
        if not all(map(isinstance, (time, reports), (int, int))):
            raise LedgerError(Fault.DAMAGED)
        return cls(time, reports, check_text("by", by, "recipient"))


@final
@dataclass(frozen=True)
class History:
    """All that a ledger says: budget, entries in their order, recipe and intent of each run.

    ``changes`` are all limits that it has had, the present ones last; ``confirmations`` the times
    that its owner has confirmed. ``identity`` is the random name that the ledger got when it was
    created: a copy has the same.
    """

    spent: Fraction
    changes: tuple[Limits, ...]
    entries: tuple[Entry, ...] = ()
    recipes: dict[bytes, Recipe] = field(default_factory=dict)
    intents: dict[bytes, Intent] = field(default_factory=dict)
    identity: bytes = b""
    confirmations: tuple[Confirmation, ...] = ()

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The present limits."""
        return self.changes[-1].limits

    @property
    def lifetime(self) -> Fraction | None:
        """The ε of all reports ever; None where windows alone limit them."""
        return self.changes[-1].lifetime

    @property
    def raises(self) -> tuple[tuple[Limits, Limits], ...]:
        """Pairs of limits and looser ones that followed them."""
        steps = pairwise(self.changes)
        return tuple((old, new) for old, new in steps if loosened(new.limits, old.limits))

    @property
    def left(self) -> Fraction | None:
        """The ε that may still be spent; None without a lifetime."""
        return None if self.lifetime is None else max(Fraction(0), self.lifetime - self.spent)

    @property
    def past(self) -> tuple[Past, ...]:
        """The reports as limits see them."""
        return tuple(
            Past(entry.time, str(entry.charge), intent.purpose, intent.recipient)
            for entry in self.entries
            for intent in (self.intents.get(entry.run, NOTHING_STATED),)
        )

    @property
    def known_time(self) -> int | None:
        """The latest time that the ledger knows: of its creation, a report, or a confirmation."""
        times = [entry.time for entry in self.entries]
        times += [confirmation.time for confirmation in self.confirmations]
        begun = self.changes[0].time
        return max(times if begun is None else [begun, *times], default=None)

    def standings(self, now: float) -> tuple[Standing, ...]:
        """What each limit counts at a time by the device's clock, and what it gives back when."""
        time = latest(now, self.known_time)
        return tuple(Standing.of(limit, self.past, time) for limit in self.limits)


def check_limits(asked: Iterable[Limit], present: Iterable[Limit]) -> None:
    """Refuse limits that allow more than the present ones, and say what an owner can do."""
    new = Limits(tuple(asked))
    looser = loosened(new.limits, present)
    if not looser:
        return
    if new.lifetime is not None and all(limit.is_lifetime for limit in looser):
        old, more = float(looser[0].epsilon), float(new.lifetime)
        remedy = (
            f"lifetime = {more} must be at most {old}. Lower it, or raise the"
            " ledger's for everybody to see: fedsel ledger raise DIR"
            f" --lifetime {more} --by NAME"
        )
        raise LedgerError(Fault.LIFETIME, remedy)
    remedy = (
        f"its limit “{looser[0]}” follows from none of the policy's. Make the policy as strict, or"
        " allow it for everybody to see: fedsel ledger raise DIR --policy FILE --by NAME"
    )
    raise LedgerError(Fault.LIMITS, remedy)


def link_of(
    before: bytes, row: Sequence[object], stated: tuple[object, object] | None = None
) -> bytes:
    """SHA-256 of the link before and of an entry, written as a list of JSON.

    From the row itself, as text and hexadecimal digits: nothing that differs is written alike. What
    was ``stated`` of the run, its purpose and recipient, is at the end of the list, if anything.
    """
    number, run, epoch, place, time, charge, digest, report, *_ = row
    intent = f", {json.dumps(stated)[1:-1]}" if stated and any(stated) else ""
    content = (
        f'[{number}, {epoch}, {place}, {time}, "{charge}", "{as_bytes(run).hex()}", '
        f'"{as_bytes(digest).hex()}", "{as_bytes(report).hex()}"{intent}]'
    )
    return hashlib.sha256(before + content.encode("ascii")).digest()


def head_of(link: bytes, tables: Sequence[Iterable[Sequence[object]]]) -> bytes:
    """The head of a chain: SHA-256 of the link of the last entry and of all that may change.

    From the rows of the ``tables`` as they are written, in JSON, with bytes as a list of their
    digits: nothing that differs is written alike.
    """
    rows = [[[_plain(value) for value in row] for row in table] for table in tables]
    return hashlib.sha256(link + json.dumps(rows).encode("ascii")).digest()


def _plain(value: object) -> object:
    return [value.hex()] if isinstance(value, bytes) else value


def as_bytes(value: object) -> bytes:
    """The value, if it is bytes; anything else our own code never wrote there."""
    if not isinstance(value, bytes):
        raise LedgerError(Fault.DAMAGED)
    return value
