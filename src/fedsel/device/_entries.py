"""What a ledger holds: entries, the runs that they belong to, and the chain between them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, final

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
class Lifetime:
    """A lifetime ε of a ledger: since when, after how many reports, and who allowed it.

    ``time`` is in seconds since 1970; None for the first one of a ledger that was begun before
    changes were recorded. ``by`` is empty where nobody had to allow it: at first, and when a policy
    lowers the lifetime.
    """

    epsilon: Fraction
    time: int | None = None
    reports: int = 0
    by: str = ""

    @property
    def row(self) -> tuple[str, int | None, int, str]:
        """The columns of its row."""
        return str(self.epsilon), self.time, self.reports, self.by

    @classmethod
    def of(cls, epsilon: Any, time: Any, reports: Any, by: Any) -> Lifetime:
        """Read the lifetime of a row; refuse what our own code never wrote."""
        if not all(map(isinstance, (epsilon, time, reports), (str, int | None, int))):
            raise LedgerError(Fault.DAMAGED)
        return cls(written(epsilon), time, reports, check_text("by", by, "recipient"))


@final
@dataclass(frozen=True)
class History:
    """All that a ledger says: budget, entries in their order, recipe and intent of each run.

    ``lifetimes`` are all that it has had, the present one last. ``identity`` is the random name
    that the ledger got when it was created: a copy has the same.
    """

    lifetime: Fraction
    spent: Fraction
    entries: tuple[Entry, ...]
    recipes: dict[bytes, Recipe]
    intents: dict[bytes, Intent] = field(default_factory=dict)
    identity: bytes = b""
    lifetimes: tuple[Lifetime, ...] = ()

    @property
    def raises(self) -> tuple[tuple[Lifetime, Lifetime], ...]:
        """Pairs of a lifetime and a larger one that followed it."""
        steps = pairwise(self.lifetimes)
        return tuple((old, new) for old, new in steps if new.epsilon > old.epsilon)

    @property
    def left(self) -> Fraction:
        """The ε that may still be spent."""
        return max(Fraction(0), self.lifetime - self.spent)


def check_lifetime(asked: Fraction, present: Fraction) -> None:
    """Refuse a lifetime above the present one, and say what an owner can do."""
    if asked > present:
        remedy = (
            f"lifetime = {float(asked)} must be at most {float(present)}. Lower it, or raise the"
            " ledger's for everybody to see: fedsel ledger raise DIR"
            f" --lifetime {float(asked)} --by NAME"
        )
        raise LedgerError(Fault.LIFETIME, remedy)


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
