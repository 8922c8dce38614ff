"""The store of one process: SQLite in a folder, with a write-ahead log flushed at every commit."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from fedsel._internal.paths import make_folder
from fedsel.server.lock import FolderLock
from fedsel.server.outcome import Counts
from fedsel.service.storage.base import (
    KEY_BYTES,
    Batch,
    BatchResult,
    Place,
    StoreUnavailable,
)

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

    def place(self) -> Place:
        """Where the run is now."""
        query = """
            SELECT runs.round, opened, coalesce(accepted, 0), coalesce(rejected, 0),
              coalesce(duplicate, 0), coalesce(late, 0)
            FROM runs LEFT JOIN rounds ON rounds.run = id AND rounds.round = runs.round
            LEFT JOIN tallies ON tallies.run = id AND tallies.round = runs.round WHERE id = ?
        """
        number, opened, *counts = self._one(query, self._run)
        return Place(number, opened or 0.0, Counts(*counts))

    def times(self) -> list[tuple[float, float | None]]:
        """When each round began and ended."""
        query = "SELECT opened, closed FROM rounds WHERE run = ? ORDER BY round"
        return self._connection.execute(query, (self._run,)).fetchall()

    def measures(self) -> list[str | None]:
        """What the test set said after each round."""
        query = "SELECT measured FROM rounds WHERE run = ? AND closed IS NOT NULL ORDER BY round"
        return [row[0] for row in self._connection.execute(query, (self._run,))]

    @contextmanager
    def writing(self) -> Iterator[_SQLiteBooks]:
        """A transaction; there is one process, and one thread of it."""
        if self._lock is not None:
            self._lock.check()
        with self._transaction():
            yield _SQLiteBooks(self, self._connection, self._run)

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
class _SQLiteBooks:
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
