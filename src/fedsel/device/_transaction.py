"""One transaction over ledger and witness: what they say, checked, and what may be written there.

Each entry is linked to the one before by SHA-256. The head of this chain also covers all limits
that the ledger has had, the times that its owner has confirmed, and the runs with their recipes.
The witness holds it with the number of entries. What is spent is the sum of the entries (see
`fedsel.solutions._privacy`).
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fedsel.device import _storage as storage
from fedsel.device._budget import Limit, Past, fits, loosened
from fedsel.device._entries import (
    COLUMNS,
    NOTHING_STATED,
    Confirmation,
    Entry,
    History,
    KnownRun,
    Limits,
    as_bytes,
    check_limits,
    head_of,
    link_of,
)
from fedsel.device._storage import Fault, LedgerError
from fedsel.solutions._privacy import added, total, written
from fedsel.wire import Intent, decode_recipe

Residual = NDArray[np.float32]
_SEAL_BYTES = 32
_CHARGE = 5
_LIFETIMES = (
    "SELECT number, lifetime, time, reports, allowed_by FROM main.lifetimes ORDER BY number"
)
_LIMITS = "SELECT number, limits, time, reports, allowed_by FROM main.limits ORDER BY number"
_CLOCKS = "SELECT number, time, reports, allowed_by FROM main.clocks ORDER BY number"
_RUNS = "SELECT number, run, task, open FROM main.runs ORDER BY number"
_PURPOSES = "SELECT run, purpose, recipient FROM main.purposes ORDER BY run"
_COVERED = {
    storage.SEALED_VERSION: (_LIFETIMES, _RUNS, _PURPOSES),
    storage.LIMITS_VERSION: (_LIMITS, _CLOCKS, _RUNS, _PURPOSES),
}
"""What the head covers beside the entries, by version. A residual has a seal of its own."""
_QUICKER = 1000
"""Bytes of a file that are copied and hashed in the time in which one entry is checked."""


class LedgerTransaction:
    """The ledger inside one transaction. ``known`` is the `image` of a ledger that was checked."""

    def __init__(self, connection: sqlite3.Connection, known: bytes | None = None) -> None:
        self._connection = connection
        self.version = storage.check_files(connection)
        rows = list(self._rows("SELECT identity, lifetime, reports, spent, head FROM main.state"))
        seen = list(self._rows("SELECT identity, reports, head FROM witness.state"))
        if len(rows) != 1 or len(seen) != 1:
            raise LedgerError(Fault.DAMAGED)
        self.identity, lifetime, self.reports, spent, self.head = rows[0]
        if seen[0] != (self.identity, self.reports, self.head):
            raise LedgerError(Fault.DISAGREES)
        self.spent = written(spent)
        self.begun = self.image()
        if self.begun is None or self.begun != known or self.version != storage.VERSION:
            self.spent = self._verified_sum(self.spent)
        self.changes = self._changes(lifetime)

    def image(self) -> bytes | None:
        """A digest of all that the file holds, transaction included.

        None where it would take longer than to check the entries themselves: beside large
        residuals, and with an old SQLite.
        """
        return storage.image(self._connection, self.reports * _QUICKER)

    def _verified_sum(self, stated: Fraction) -> Fraction:
        """What is spent, if every entry fits its link, all of them the head, and the sum.

        It takes some 4 µs an entry, ten times as long as to see that nothing has changed.
        """
        link, number, charges = storage.GENESIS, 0, []
        intents = self._stated()
        for row in self._rows(f"SELECT {COLUMNS} FROM main.reports ORDER BY number"):  # noqa: S608
            link = link_of(link, row, intents.get(row[1]))
            number += 1
            if link != row[-1] or row[0] != number:
                raise LedgerError(Fault.DAMAGED)
            charges.append(row[_CHARGE])
        if (number, self._head(link)) != (self.reports, self.head):
            raise LedgerError(Fault.DAMAGED)
        spent = total(charges)
        exact = self.version == storage.EXACT_VERSION
        if stated != (sum(map(written, charges)) if exact else spent):
            raise LedgerError(Fault.DAMAGED)
        return spent

    def upgrade(self) -> None:
        """Bring the files of an earlier version up to date.

        Version 1 kept the exact sum, of unbounded size; `added` never gives less.
        Neither 1 nor 2 had a place for purposes: none was stated. What lifetimes a ledger has had
        before version 4 is not known: the last one is its first. Nothing but lifetimes was a limit
        before version 5.
        """
        if self.version != storage.VERSION:
            self._rows("UPDATE main.state SET spent = ?", str(self.spent))
            storage.upgrade(self._connection, self.version)
            self.version = storage.VERSION
            for change in self.changes:
                self._add(change)

    def _changes(self, lifetime: str) -> tuple[Limits, ...]:
        """All limits that the ledger has had, the present ones last; they have this lifetime."""
        if self.version < storage.SEALED_VERSION:
            return (Limits((Limit(written(lifetime)),), reports=self.reports),)
        if self.version < storage.LIMITS_VERSION:
            old = self._rows(_LIFETIMES)
            found = [Limits((Limit(written(epsilon)),), *rest) for _, epsilon, *rest in old]
        else:
            found = [Limits.of(*row) for _, *row in self._rows(_LIMITS)]
        if not found or found[-1].lifetime_text != lifetime:
            raise LedgerError(Fault.DAMAGED)
        return tuple(found)

    def _add(self, limits: Limits) -> None:
        self._rows("INSERT INTO main.limits VALUES (NULL, ?, ?, ?, ?)", *limits.row)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The present limits."""
        return self.changes[-1].limits

    def confirmations(self) -> tuple[Confirmation, ...]:
        """The times that the owner has confirmed."""
        if self.version < storage.LIMITS_VERSION:
            return ()
        return tuple(Confirmation.of(*row) for _, *row in self._rows(_CLOCKS))

    def _head(self, link: bytes) -> bytes:
        """The head of the chain whose last entry has this link: it covers what may change, too."""
        if self.version < storage.SEALED_VERSION:
            return link
        return head_of(link, [self._rows(query) for query in _COVERED[self.version]])

    @property
    def _link(self) -> bytes:
        """The link of the last entry."""
        last = self._one("SELECT link FROM main.reports ORDER BY number DESC LIMIT 1")
        return storage.GENESIS if last is None else as_bytes(last[0])

    def finish(self) -> None:
        """Make the heads of both files fit what was written, as the last thing of a transaction."""
        head = self._head(self._link)
        if head != self.head:
            for name in ("main", "witness"):
                told = f"UPDATE {name}.state SET reports = ?, head = ?"  # noqa: S608
                self._rows(told, self.reports, head)
            self.head = head

    def _stated(self) -> dict[bytes, tuple[object, object]]:
        """Purpose and recipient of each run that has some, as they are written."""
        if self.version < storage.STATED_VERSION:
            return {}
        rows = self._rows("SELECT run, purpose, recipient FROM main.purposes")
        return {as_bytes(run): (purpose, recipient) for run, purpose, recipient in rows}

    def _rows(self, sql: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(sql, values)

    def _one(self, sql: str, *values: object) -> tuple[object, ...] | None:
        row: tuple[object, ...] | None = self._rows(sql, *values).fetchone()
        return row

    def _count(self, sql: str, *values: object) -> int:
        return int(self._rows(sql, *values).fetchone()[0])

    def set_limits(self, limits: Iterable[Limit], time: int, by: str = "") -> None:
        """Make the limits stricter, or looser in the name ``by`` of the person who allows that."""
        new = Limits(tuple(limits), time, self.reports)
        if set(new.limits) == set(self.limits):
            return
        if loosened(new.limits, self.limits):
            if not by:
                check_limits(new.limits, self.limits)
            new = replace(new, by=by)
        self._add(new)
        self._rows("UPDATE main.state SET lifetime = ?", new.lifetime_text)
        self.changes = (*self.changes, new)

    def confirm(self, time: int, by: str) -> None:
        """Note the time that the owner has confirmed."""
        known = Confirmation(time, self.reports, by)
        self._rows("INSERT INTO main.clocks VALUES (NULL, ?, ?, ?)", *vars(known).values())

    def known_time(self) -> int | None:
        """The latest time that the ledger knows: of its creation, a report, or a confirmation."""
        (newest,) = self._rows("SELECT max(time) FROM main.reports").fetchone()
        confirmed = (one.time for one in self.confirmations())
        known = (newest, self.changes[0].time, *confirmed)
        return max((time for time in known if time is not None), default=None)

    def allows(self, limits: Iterable[Limit], stated: Intent, charge: Fraction, time: int) -> bool:
        """Whether all of these limits allow a report at a time."""
        return fits(limits, stated, charge, lambda limit: self._held(limit, time))

    def _held(self, limit: Limit, time: int) -> Fraction:
        # The sum that was checked already; it is what the limit would count.
        return self.spent if limit.is_lifetime else limit.held(self._past(limit.since(time)), time)

    def _past(self, since: int | None) -> list[Past]:
        """The reports from a time on, or all of them, as limits see them."""
        stated, late = self._stated(), "" if since is None else f" WHERE time >= {since:d}"
        rows = self._rows(f"SELECT run, time, charge FROM main.reports{late} ORDER BY number")  # noqa: S608
        return [Past(time, charge, *stated.get(run, ())) for run, time, charge in rows]

    def answered(self, run: bytes, number: int) -> Entry | None:
        """The report of a round, if there is one."""
        query = f"SELECT {COLUMNS} FROM main.reports WHERE run = ? AND round = ?"  # noqa: S608
        row = self._one(query, run, number)
        return None if row is None else Entry.of(row)

    def latest(self, run: bytes) -> tuple[int, int]:
        """The largest round and epoch that a run was answered in; (−1, −1) if none."""
        places = "SELECT max(round), max(epoch) FROM main.reports WHERE run = ?"
        number, epoch = self._rows(places, run).fetchone()
        return (-1, -1) if number is None else (number, epoch)

    def reports_in(self, run: bytes, epoch: int) -> int:
        """How many reports were made in an epoch of a run."""
        how_many = "SELECT count(*) FROM main.reports WHERE run = ? AND epoch = ?"
        return self._count(how_many, run, epoch)

    def reports_since(self, time: int) -> int:
        """How many reports are younger than this; a report from a clock that ran ahead counts."""
        return self._count("SELECT count(*) FROM main.reports WHERE time > ?", time)

    def known_run(self, run: bytes) -> KnownRun | None:
        """What the ledger knows about a run; None for a new one."""
        row = self._one("SELECT task, open FROM main.runs WHERE run = ?", run)
        return (
            None if row is None else KnownRun(as_bytes(row[0]), self._stated_of(run), bool(row[1]))
        )

    def _stated_of(self, run: bytes) -> Intent:
        if self.version < storage.STATED_VERSION:
            return NOTHING_STATED
        row = self._one("SELECT purpose, recipient FROM main.purposes WHERE run = ?", run)
        return NOTHING_STATED if row is None else Intent(*row)  # type: ignore[arg-type]

    def history(self) -> History:
        """All that the ledger says, once its pages are found to be whole."""
        for name in ("main", "witness"):
            if self._rows(f"PRAGMA {name}.quick_check").fetchall() != [("ok",)]:
                raise LedgerError(Fault.DAMAGED)
        rows = self._rows(f"SELECT {COLUMNS} FROM main.reports ORDER BY number")  # noqa: S608
        entries = tuple(map(Entry.of, rows))
        tasks = self._rows("SELECT run, task FROM runs")
        recipes = {run: decode_recipe(recipe) for run, recipe in tasks}
        if not {entry.run for entry in entries} <= set(recipes):
            raise LedgerError(Fault.DAMAGED)
        return History(
            spent=self.spent,
            changes=self.changes,
            entries=entries,
            recipes=recipes,
            intents={run: Intent(*texts) for run, texts in self._stated().items()},  # type: ignore[arg-type]
            identity=as_bytes(self.identity),
            confirmations=self.confirmations(),
        )

    def open_run(self, run: bytes, known: KnownRun, at_a_time: int) -> None:
        """Begin a run; the oldest ones beyond the limit are closed, their residuals erased."""
        number = self._count("SELECT coalesce(max(number), 0) + 1 FROM main.runs")
        self._rows("INSERT INTO main.runs VALUES (?, ?, ?, 1, NULL)", run, number, known.recipe)
        if known.intent:
            texts = (known.intent.purpose, known.intent.recipient)
            self._rows("INSERT INTO main.purposes VALUES (?, ?, ?)", run, *texts)
        self._rows(
            "UPDATE main.runs SET open = 0, residual = NULL WHERE open = 1 AND number NOT IN "
            "(SELECT number FROM main.runs WHERE open = 1 ORDER BY number DESC LIMIT ?)",
            at_a_time,
        )

    def residual(self, run: bytes, dim: int) -> Residual:
        """What a run has kept of earlier updates: zeros at first."""
        row = self._one("SELECT residual FROM main.runs WHERE run = ?", run)
        if row is None or row[0] is None:
            return np.zeros(dim, dtype=np.float32)
        sealed = as_bytes(row[0])
        content = sealed[:-_SEAL_BYTES]
        if len(content) != 4 * dim or seal_of(run, content) != sealed[-_SEAL_BYTES:]:
            raise LedgerError(Fault.DAMAGED)
        return np.frombuffer(content, dtype="<f4").astype(np.float32)

    def record(self, entry: Entry, residual: Residual | None) -> None:
        """Charge a report and keep the residual (None: erase it)."""
        link = entry.link(self._link, self._stated_of(entry.run))
        self.spent = added(self.spent, entry.charge)
        insert = "INSERT INTO main.reports VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._rows(insert, *entry.row, link)
        self._rows("UPDATE main.state SET spent = ?", str(self.spent))
        kept = None
        if residual is not None:
            content = np.ascontiguousarray(residual, dtype="<f4").tobytes()
            kept = content + seal_of(entry.run, content)
        self._rows("UPDATE main.runs SET residual = ? WHERE run = ?", kept, entry.run)
        self.reports = entry.number


def seal_of(run: bytes, content: bytes) -> bytes:
    """The seal of a residual: it belongs to this run."""
    return hashlib.sha256(run + content).digest()
