"""The ledger: every report that may have left a device, and what it cost, durable and exact.

A report is charged, kept with the new residual and flushed to the disk in one transaction over
ledger and witness (see `_storage`) before its bytes are returned. Each entry is linked to the one
before by SHA-256. The head of this chain also covers all lifetimes that the ledger has had and the
runs with their recipes, and the witness holds it with the number of entries. What is spent is the
sum of the entries (see `fedsel.solutions._privacy`). Every transaction checks all of this, unless
the file is still what was checked before: a change is noticed before a client answers, also one
that was made while it ran.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsel.device import _storage as storage
from fedsel.device._entries import (
    COLUMNS,
    NOTHING_STATED,
    Entry,
    History,
    KnownRun,
    Lifetime,
    as_bytes,
    check_lifetime,
    head_of,
    link_of,
)
from fedsel.device._storage import Fault, LedgerError
from fedsel.errors import InvalidArgument
from fedsel.recipe import decimal
from fedsel.solutions._privacy import added, total, written
from fedsel.wire import Intent, decode_recipe
from fedsel.wire._request import check_text

Residual = NDArray[np.float32]
_SEAL_BYTES = 32
_CHARGE = 5
_COVERED = (
    "SELECT number, lifetime, time, reports, allowed_by FROM main.lifetimes ORDER BY number",
    "SELECT number, run, task, open FROM main.runs ORDER BY number",
    "SELECT run, purpose, recipient FROM main.purposes ORDER BY run",
)
"""What the head covers beside the entries. A residual has a seal of its own."""
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
        self.lifetime, self.spent = written(lifetime), written(spent)
        self.begun = self.image()
        if self.begun is None or self.begun != known or self.version != storage.VERSION:
            self.spent = self._verified_sum(self.spent)
        self.lifetimes = self._lifetimes(self.lifetime)

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
        before version 4 is not known: the last one is its first.
        """
        if self.version != storage.VERSION:
            self._rows("UPDATE main.state SET spent = ?", str(self.spent))
            storage.upgrade(self._connection, self.version)
            self.version = storage.VERSION
            self._add(self.lifetimes[0])

    def _lifetimes(self, present: Fraction) -> tuple[Lifetime, ...]:
        """All lifetimes, the present one last."""
        if self.version < storage.SEALED_VERSION:
            return (Lifetime(present, reports=self.reports),)
        found = [Lifetime.of(*row) for _, *row in self._rows(_COVERED[0])]
        if not found or found[-1].epsilon != present:
            raise LedgerError(Fault.DAMAGED)
        return tuple(found)

    def _add(self, lifetime: Lifetime) -> None:
        self._rows("INSERT INTO main.lifetimes VALUES (NULL, ?, ?, ?, ?)", *lifetime.row)

    def _head(self, link: bytes) -> bytes:
        """The head of the chain whose last entry has this link: it covers what may change, too."""
        if self.version < storage.SEALED_VERSION:
            return link
        return head_of(link, [self._rows(query) for query in _COVERED])

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

    def set_lifetime(self, lifetime: Fraction, time: int, by: str = "") -> None:
        """Lower the lifetime ε, or raise it in the name ``by`` of the person who allows that."""
        if lifetime == self.lifetime:
            return
        if not by:
            check_lifetime(lifetime, self.lifetime)
        raised = lifetime > self.lifetime
        new = Lifetime(lifetime, time, self.reports, by if raised else "")
        self._add(new)
        self._rows("UPDATE main.state SET lifetime = ?", str(lifetime))
        self.lifetime, self.lifetimes = lifetime, (*self.lifetimes, new)

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
            lifetime=self.lifetime,
            spent=self.spent,
            entries=entries,
            recipes=recipes,
            intents={run: Intent(*texts) for run, texts in self._stated().items()},  # type: ignore[arg-type]
            identity=as_bytes(self.identity),
            lifetimes=self.lifetimes,
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
        if len(content) != 4 * dim or _seal(run, content) != sealed[-_SEAL_BYTES:]:
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
            kept = content + _seal(entry.run, content)
        self._rows("UPDATE main.runs SET residual = ? WHERE run = ?", kept, entry.run)
        self.reports = entry.number


class Ledger:
    """The ledger in a folder that the owner names; ``witness`` may be a file on another disk.

    Every use opens the files anew: processes, threads and forks may share a store.
    """

    def __init__(
        self, store: str | Path, witness: str | Path | None = None, timeout: float = 60.0
    ) -> None:
        self.store = Path(store).absolute()
        self.file = self.store / storage.LEDGER_NAME
        inside = self.store / storage.WITNESS_NAME
        self.witness = inside if witness is None else Path(witness).absolute()
        if self.store in self.witness.parents and self.witness != inside:
            raise InvalidArgument("witness", str(witness), "a file outside of the store")
        self.timeout = timeout
        self._known: bytes | None = None  # the image of the ledger when it was last checked

    def create(self, lifetime: Fraction) -> None:
        """Create the store; refused where anything is in its place."""
        first = (1, *Lifetime(lifetime, int(time.time())).row)
        with _explained():
            storage.create(
                self.store, self.witness, first, head_of(storage.GENESIS, [[first], [], []])
            )

    def raise_lifetime(self, lifetime: float | Fraction, by: str) -> None:
        """Raise the lifetime ε, in the name ``by``; every report shows it from then on."""
        raised, name = decimal("lifetime", lifetime), checked_name("by", by)
        with self.transaction(write=True) as books:
            before = books.lifetime
            if raised > before:
                books.set_lifetime(raised, int(time.time()), name)
        if raised <= before:
            raise InvalidArgument("lifetime", lifetime, f"above {before}, the present lifetime")

    @property
    def exists(self) -> bool:
        """Whether anything is where the store should be: an empty folder is nothing."""
        with _explained():
            if self.witness.exists() or (self.store.exists() and not self.store.is_dir()):
                return True
            return self.store.exists() and any(self.store.iterdir())

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[LedgerTransaction]:
        """Ledger and witness as they are at one time.

        With ``write`` they are held alone, files of an earlier version are brought up to date, and
        what is written is durable at the end, or not at all. The ledger is locked first and the
        witness second, in every process.
        """
        with _explained(), self._connected() as connection:
            connection.execute("BEGIN EXCLUSIVE" if write else "BEGIN")
            books = LedgerTransaction(connection, self._known)
            if write:
                books.upgrade()
            yield books
            if write:
                books.finish()
            image = books.image() if write else books.begun
            connection.execute("COMMIT" if write else "ROLLBACK")
            self._known = image

    @contextmanager
    def _connected(self, *, read_only: bool = False) -> Iterator[sqlite3.Connection]:
        if not self.file.is_file():
            raise LedgerError(Fault.OCCUPIED if self.exists else Fault.MISSING)
        files = (self.file, self.witness, self.timeout)
        connection = storage.connect(*files, read_only=read_only)
        try:
            yield connection
        finally:
            connection.close()  # rolls back what was not committed

    def read(self) -> History:
        """Check the whole ledger, file and chain, and return what it says."""
        self._known = None
        with self.transaction() as books:
            return books.history()

    def inspect(self) -> History:
        """`read` for somebody else's ledger: both files are opened for reading alone.

        It may be read while a client runs, which waits for as long as that takes. What a crash has
        left unfinished is not put right here, as `read` would: such a ledger is refused.
        """
        with _explained(unreadable=True), self._connected(read_only=True) as connection:
            connection.execute("BEGIN")
            return LedgerTransaction(connection).history()


@contextmanager
def _explained(*, unreadable: bool = False) -> Iterator[None]:
    """Turn what SQLite and the file system raise into a fault."""
    try:
        yield
    except sqlite3.Error as error:
        fault = storage.fault_of(error)
    except OSError:
        fault = Fault.UNWRITABLE
    except (ValueError, TypeError, ZeroDivisionError):  # content that our own code never wrote
        fault = Fault.DAMAGED
    else:
        return
    raise LedgerError(Fault.UNREADABLE if unreadable and fault is Fault.UNWRITABLE else fault)


def checked_name(argument: str, name: object) -> str:
    """Check the name of a person that reports will show."""
    text = check_text(argument, name, "recipient")
    if not text:
        raise InvalidArgument(argument, name, "the name of a person who allows the lifetime")
    return text


def _seal(run: bytes, content: bytes) -> bytes:
    return hashlib.sha256(run + content).digest()
