"""Where a shuffler keeps its rounds: one SQLite file, and every change of it is one transaction.

A round is *open* while it has a secret, under which names are hashed; *released* while it has a
batch; and over when it has neither. What is deleted is overwritten, and no journal outlives its
transaction. Reports have no number and no time: their table does not tell who came first.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

from fedsel.server._checkpoint import CheckpointError

FILE_NAME = "shuffler.sqlite"
_APPLICATION = 0x46535348  # "FSSH"
_VERSION = 1
_TABLES = (
    "CREATE TABLE settings (n_min INTEGER NOT NULL)",
    "CREATE TABLE rounds (tag BLOB PRIMARY KEY, run BLOB NOT NULL, number INTEGER NOT NULL, "
    "size INTEGER NOT NULL, secret BLOB, batch BLOB, UNIQUE (run, number))",
    "CREATE TABLE reports (tag BLOB NOT NULL, client BLOB NOT NULL, sealed BLOB NOT NULL, "
    "PRIMARY KEY (tag, client), UNIQUE (tag, sealed)) WITHOUT ROWID",
)


@dataclass(frozen=True)
class StoredRound:
    """A round of a run: its tag, the length of its sealed reports, and how far it has come."""

    tag: bytes
    run: bytes
    number: int
    size: int
    secret: bytes | None
    released: bool

    @property
    def over(self) -> bool:
        """Whether its reports are gone."""
        return self.secret is None and not self.released


@final
class RoundStore:
    """The file in a folder that is locked; all its errors are `CheckpointError`."""

    def __init__(self, folder: Path, n_min: int) -> None:
        self._file = folder / FILE_NAME
        os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))  # journals get the same mode
        with _told(self._file):
            # One thread at a time uses it: the shuffler sees to that.
            self._base = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
        self._close = weakref.finalize(self, self._base.close)
        self._close.atexit = False  # a process that was forked off leaves the file alone
        try:
            with _told(self._file):
                for pragma in (
                    "journal_mode = DELETE",  # a log would keep what was deleted
                    "synchronous = EXTRA",
                    "fullfsync = ON",
                    "secure_delete = ON",
                    "temp_store = MEMORY",
                    "trusted_schema = OFF",
                ):
                    self._base.execute(f"PRAGMA {pragma}")
            self._check(n_min)
        except BaseException:
            self.close()
            raise

    def _check(self, n_min: int) -> None:
        with self.transaction():
            if not self._schema():
                self._base.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._base.execute(f"PRAGMA user_version = {_VERSION}")
                for table in _TABLES:
                    self._base.execute(table)
                self._base.execute("INSERT INTO settings VALUES (?)", (n_min,))
            ours = tuple(
                self._base.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            )
            if ours != (_APPLICATION, _VERSION) or self._schema() != _TABLES:
                raise CheckpointError(f"the file {str(self._file)!r} is no shuffler's of today")

    def _schema(self) -> tuple[str, ...]:
        query = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
        return tuple(sql for (sql,) in self._base.execute(query))

    @property
    def n_min(self) -> int:
        """How many clients a round must have: as it was when the store was created."""
        (number,) = self._base.execute("SELECT n_min FROM settings").fetchone()
        return int(number)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing, durable at the end."""
        with _told(self._file):
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Let go of the file."""
        self._close()

    def round(self, tag: bytes) -> StoredRound | None:
        """The round of a tag."""
        return self._found("tag = ?", tag)

    def at(self, run: bytes, number: int) -> StoredRound | None:
        """The first round of a run from a number on."""
        return self._found("run = ? AND number >= ? ORDER BY number LIMIT 1", run, number)

    def _found(self, where: str, *values: object) -> StoredRound | None:
        row = self._base.execute(
            "SELECT tag, run, number, size, secret, batch IS NOT NULL "  # noqa: S608 - ours
            f"FROM rounds WHERE {where}",
            values,
        ).fetchone()
        return None if row is None else StoredRound(*row)

    def begin(self, begun: StoredRound) -> None:
        """Add a round."""
        values = (begun.tag, begun.run, begun.number, begun.size, begun.secret)
        self._base.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, NULL)", values)

    def add(self, tag: bytes, client: bytes, sealed: bytes) -> bool:
        """Keep a report, unless there is one of this client, or just this one of another."""
        values = (tag, client, sealed)
        return (
            self._base.execute("INSERT OR IGNORE INTO reports VALUES (?, ?, ?)", values).rowcount
            > 0
        )

    def count(self, tag: bytes) -> int:
        """How many reports an open round has."""
        query = "SELECT count(*) FROM reports WHERE tag = ?"
        return int(self._base.execute(query, (tag,)).fetchone()[0])

    def release(self, tag: bytes) -> None:
        """Put the batch in the place of names and reports: sorted by their own bytes."""
        query = "SELECT sealed FROM reports WHERE tag = ? ORDER BY sealed"
        batch = b"".join(sealed for (sealed,) in self._base.execute(query, (tag,)))
        self._base.execute("DELETE FROM reports WHERE tag = ?", (tag,))
        change = "UPDATE rounds SET batch = ?, secret = NULL WHERE tag = ?"
        self._base.execute(change, (batch, tag))

    def batch(self, tag: bytes) -> bytes:
        """What was released."""
        query = "SELECT batch FROM rounds WHERE tag = ?"
        return bytes(self._base.execute(query, (tag,)).fetchone()[0])

    def forget(self, run: bytes, before: int) -> None:
        """Drop all that is left of the rounds of a run below a number, but that they were."""
        which = "run = ? AND number < ?"
        self._base.execute(
            f"DELETE FROM reports WHERE tag IN (SELECT tag FROM rounds WHERE {which})",  # noqa: S608
            (run, before),
        )
        self._base.execute(
            f"UPDATE rounds SET secret = NULL, batch = NULL WHERE {which} "  # noqa: S608
            "AND (secret IS NOT NULL OR batch IS NOT NULL)",
            (run, before),
        )


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """An error of SQLite, as one that a server knows."""
    try:
        yield
    except sqlite3.Error as error:
        raise CheckpointError(f"the file {str(file)!r} cannot be used: {error}") from error
