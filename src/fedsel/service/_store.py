"""The store of one process: SQLite in a folder, with a write-ahead log flushed at every commit."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, final

from fedsel._internal.paths import make_folder
from fedsel.errors import InvalidArgument
from fedsel.server._admission import Counts
from fedsel.server._folder import FolderLock

KEY_BYTES = 32


class StoreUnavailable(Exception):
    """The database does not answer: what was asked may be asked again."""


@final
@dataclass(frozen=True)
class RoundStatus:
    """Where a run is: the round that is open, since when (seconds of the epoch), its reports."""

    round: int
    opened: float
    counts: Counts


class BatchResult(NamedTuple):
    """What became of a gateway's batch."""

    digest: bytes
    counts: Counts


@final
@dataclass(frozen=True)
class Batch:
    """What is kept of a gateway's batch: the accepted reports, and what became of all."""

    gateway: bytes
    number: bytes
    reports: bytes
    result: BatchResult


class Transaction(Protocol):
    """One transaction on a run: durable when its block ends, undone when the block raises."""

    @property
    def round(self) -> int:
        """The round that is open; it stays open until the transaction ends."""

    def add(self, number: int, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        """Add reports, each with its participant; for each, what that participant had sent before.

        None: it is new, and was added. Participants of the rows differ from each other.
        """

    def report_of(self, number: int, participant: bytes) -> bytes | None:
        """What a participant has sent in a round."""

    def batch_of(self, gateway: bytes, number: bytes) -> BatchResult | None:
        """What became of a batch; None if there was none."""

    def add_batch(self, number: int, batch: Batch) -> None:
        """Add a batch that is not there yet."""

    def tally(self, number: int, counts: Counts) -> None:
        """Count what became of reports in a round."""

    def place(self) -> RoundStatus:
        """Where the run is now."""

    def checkpoint(self) -> bytes:
        """The run's checkpoint."""

    def reports(self, number: int) -> Iterator[bytes]:
        """All accepted reports of a round, many at a time, in no particular order."""

    def advance(self, checkpoint: bytes, opened: float, last: bool, measured: str | None) -> None:
        """End the open round; begin the next one with this checkpoint, unless it was the last.

        ``measured`` is what the test set says of the model then, as JSON; kept with the round.
        """


class Store(Protocol):
    """The database of a service; used by one thread at a time."""

    several_processes: bool
    """Whether services of several processes may share it."""

    def begin(self, name: str, checkpoint: bytes, opened: float) -> bytes:
        """Choose the run of this name, begin it with this checkpoint if it is new; its checkpoint.

        Everything else is about that run.
        """

    def choose(self, name: str) -> bool:
        """Choose the run of this name, if there is one."""

    def key(self) -> bytes:
        """The run's own secret, which all its processes share."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction in which the open round cannot end."""

    def closing(self) -> AbstractContextManager[Transaction]:
        """A transaction of its own, in which the open round may be ended."""

    def place(self) -> RoundStatus:
        """Where the run is now."""

    def checkpoint(self) -> bytes:
        """The run's checkpoint."""

    def measures(self) -> list[str | None]:
        """What the test set said after each round, as it was given to `Transaction.advance`."""

    def times(self) -> list[tuple[float, float | None]]:
        """When each round began and ended, in seconds of the epoch."""

    def close(self) -> None:
        """Let go of the database."""


FILE_NAME = "service.sqlite"
AT_A_TIME = 4096
"""Reports that are read at a time."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key BLOB NOT NULL,
  checkpoint BLOB NOT NULL, round INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS rounds (
  run INTEGER NOT NULL, round INTEGER NOT NULL, opened REAL NOT NULL, closed REAL,
  measured TEXT,
  PRIMARY KEY (run, round)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tallies (
  run INTEGER NOT NULL, round INTEGER NOT NULL, accepted INTEGER NOT NULL,
  rejected INTEGER NOT NULL, duplicate INTEGER NOT NULL, late INTEGER NOT NULL,
  PRIMARY KEY (run, round)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reports (
  run INTEGER NOT NULL, round INTEGER NOT NULL, participant BLOB NOT NULL, report BLOB NOT NULL,
  PRIMARY KEY (run, round, participant)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (
  run INTEGER NOT NULL, gateway BLOB NOT NULL, batch BLOB NOT NULL, round INTEGER NOT NULL,
  digest BLOB NOT NULL, accepted INTEGER NOT NULL, rejected INTEGER NOT NULL,
  duplicate INTEGER NOT NULL, late INTEGER NOT NULL, reports BLOB NOT NULL,
  PRIMARY KEY (run, gateway, batch)
);
CREATE INDEX IF NOT EXISTS batches_of_round ON batches (run, round);
"""


@final
class SQLiteStore:
    """A folder with one database, which belongs to one service at a time."""

    several_processes = False

    def __init__(self, folder: Path, *, alone: bool = True) -> None:
        make_folder(folder)
        self._lock = FolderLock(folder) if alone else None
        try:
            self._connection = _opened(folder / FILE_NAME)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self._run = 0

    def begin(self, name: str, checkpoint: bytes, opened: float) -> bytes:
        """Choose the run of this name; begin it if it is new."""
        with self._transaction():
            if not self.choose(name):
                row = (name, secrets.token_bytes(KEY_BYTES), checkpoint)
                done = self._connection.execute(
                    "INSERT INTO runs (name, key, checkpoint, round) VALUES (?, ?, ?, 0)",
                    row,
                )
                self._run = int(done.lastrowid or 0)
                self._connection.execute(
                    "INSERT INTO rounds (run, round, opened) VALUES (?, 0, ?)", (self._run, opened)
                )
        return self.checkpoint()

    def choose(self, name: str) -> bool:
        """Choose the run of this name, if there is one."""
        with _usable():
            row = self._one("SELECT id FROM runs WHERE name = ?", name)
        self._run = 0 if row is None else row[0]
        return row is not None

    def key(self) -> bytes:
        """The run's own secret."""
        return bytes(self._one("SELECT key FROM runs WHERE id = ?", self._run)[0])

    def checkpoint(self) -> bytes:
        """The run's checkpoint."""
        return bytes(self._one("SELECT checkpoint FROM runs WHERE id = ?", self._run)[0])

    def place(self) -> RoundStatus:
        """Where the run is now."""
        query = """
            SELECT runs.round, opened, coalesce(accepted, 0), coalesce(rejected, 0),
              coalesce(duplicate, 0), coalesce(late, 0)
            FROM runs LEFT JOIN rounds ON rounds.run = id AND rounds.round = runs.round
            LEFT JOIN tallies ON tallies.run = id AND tallies.round = runs.round WHERE id = ?
        """
        number, opened, *counts = self._one(query, self._run)
        return RoundStatus(number, opened or 0.0, Counts(*counts))

    def times(self) -> list[tuple[float, float | None]]:
        """When each round began and ended."""
        query = "SELECT opened, closed FROM rounds WHERE run = ? ORDER BY round"
        return self._connection.execute(query, (self._run,)).fetchall()

    def measures(self) -> list[str | None]:
        """What the test set said after each round."""
        query = "SELECT measured FROM rounds WHERE run = ? AND closed IS NOT NULL ORDER BY round"
        return [row[0] for row in self._connection.execute(query, (self._run,))]

    @contextmanager
    def writing(self) -> Iterator[_SQLiteTransaction]:
        """A transaction; there is one process, and one thread of it."""
        if self._lock is not None:
            self._lock.check()
        with self._transaction():
            yield _SQLiteTransaction(self, self._connection, self._run)

    closing = writing

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        connection = self._connection
        with _usable():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _one(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, values).fetchone()

    def close(self) -> None:
        """Let others have the folder."""
        self._connection.close()
        if self._lock is not None:
            self._lock.release()


def _opened(file: Path) -> sqlite3.Connection:
    # It holds the key that signs invitations; the log beside it gets the same mode.
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=60.0)
    try:
        with _usable(f"{file}: ", "; restore it from a backup, or take another folder"):
            if connection.execute("SELECT 1 FROM sqlite_schema").fetchone():  # of a service?
                connection.execute("SELECT id, name, key, checkpoint, round FROM runs LIMIT 0")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _usable(before: str = "", after: str = "") -> Iterator[None]:
    """What keeps a database from being used: a lock, a full disk, another or a damaged file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
            raise  # an error of ours
        raise StoreUnavailable(f"{before}{error}{after}") from error


@final
class _SQLiteTransaction:
    """One transaction."""

    def __init__(self, store: SQLiteStore, connection: sqlite3.Connection, run: int) -> None:
        self._store, self._connection, self._run = store, connection, run
        self.round: int = store._one("SELECT round FROM runs WHERE id = ?", run)[0]
        self.place, self.checkpoint = store.place, store.checkpoint

    def add(self, number: int, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        execute, run = self._connection.execute, self._run
        insert = "INSERT INTO reports VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        return [
            None
            if execute(insert, (run, number, participant, report)).rowcount == 1
            else self.report_of(number, participant)
            for participant, report in rows
        ]

    def report_of(self, number: int, participant: bytes) -> bytes | None:
        row = self._connection.execute(
            "SELECT report FROM reports WHERE run = ? AND round = ? AND participant = ?",
            (self._run, number, participant),
        ).fetchone()
        return None if row is None else row[0]

    def batch_of(self, gateway: bytes, number: bytes) -> BatchResult | None:
        row = self._connection.execute(
            "SELECT digest, accepted, rejected, duplicate, late FROM batches"
            " WHERE run = ? AND gateway = ? AND batch = ?",
            (self._run, gateway, number),
        ).fetchone()
        return None if row is None else BatchResult(row[0], Counts(*row[1:]))

    def add_batch(self, number: int, batch: Batch) -> None:
        digest, counts = batch.result
        self._connection.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self._run, batch.gateway, batch.number, number, digest, *counts, batch.reports),
        )

    def tally(self, number: int, counts: Counts) -> None:
        self._connection.execute(
            "INSERT INTO tallies VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " accepted = accepted + excluded.accepted, rejected = rejected + excluded.rejected,"
            " duplicate = duplicate + excluded.duplicate, late = late + excluded.late",
            (self._run, number, *counts),
        )

    def reports(self, number: int) -> Iterator[bytes]:
        for query in (
            "SELECT report FROM reports WHERE run = ? AND round = ?",
            "SELECT reports FROM batches WHERE run = ? AND round = ?",
        ):
            single = " report " in query
            cursor = self._connection.execute(query, (self._run, number))
            while rows := cursor.fetchmany(AT_A_TIME if single else 1):
                yield b"".join(row[0] for row in rows)

    def advance(self, checkpoint: bytes, opened: float, last: bool, measured: str | None) -> None:
        run, execute = self._run, self._connection.execute
        execute(
            "UPDATE rounds SET closed = ?, measured = ? WHERE run = ? AND round = ?",
            (opened, measured, run, self.round),
        )
        self.round += 1
        execute(
            "UPDATE runs SET checkpoint = ?, round = ? WHERE id = ?", (checkpoint, self.round, run)
        )
        if not last:
            execute(
                "INSERT INTO rounds (run, round, opened) VALUES (?, ?, ?)",
                (run, self.round, opened),
            )


__all__ = [
    "Batch",
    "BatchResult",
    "RoundStatus",
    "Store",
    "StoreUnavailable",
    "Transaction",
    "open_store",
    "shown",
]
POSTGRES = ("postgresql://", "postgres://")


_LIKE_A_URL = re.compile(r"[A-Za-z][\w+.-]+:/|[^/\\:]+:(?!\\)[^/]*@|.*\bpassword *=", re.IGNORECASE)
"""No folder: an address, of which no message may show the password."""


def open_store(url: str | Path, *, alone: bool = True) -> Store:
    """The store of a URL: ``postgresql://…``, or a folder for SQLite.

    A folder belongs to one service at a time; who only reads is not ``alone``.
    """
    text = str(url).removeprefix("sqlite:///")
    if text.startswith(POSTGRES):
        from fedsel.service._postgres import PostgresStore

        return PostgresStore(text)
    if _LIKE_A_URL.match(text) or not text:
        raise InvalidArgument("store", shown(text), "a folder, or postgresql://…")
    return SQLiteStore(Path(text), alone=alone)


def shown(url: str | Path) -> str:
    """A store as messages show it: a folder as it is, of a URL no more than its place.

    >>> shown("postgresql://fedsel:secret@db.example:5432/fedsel?sslmode=require")
    'postgresql://db.example:5432/fedsel'
    >>> shown("postgresq://fedsel:secret@db.example/fedsel"), shown("my.store")
    ('postgresq://…', 'my.store')
    """
    text = str(url)
    if text.startswith(POSTGRES):
        from fedsel.service._postgres import place_of

        return place_of(text)
    if _LIKE_A_URL.match(text):
        scheme, found, _ = text.partition("://")
        return f"{scheme}://…" if found else "…"
    return text
