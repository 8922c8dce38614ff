"""The store of one process: a folder with SQLite, locked for the service that uses it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, final

from fedsel._internal.paths import make_folder
from fedsel.server._folder import FolderLock, connect_private, transaction
from fedsel.service._store import Store, StoreUnavailable, migrate

_FILE_NAME = "service.sqlite"


@final
class _Folder:
    """A folder that stores of one service share; its lock is released with the last of them."""

    def __init__(self, path: Path, alone: bool) -> None:
        make_folder(path)
        self.path, self.users = path, 0
        self.lock = FolderLock(path) if alone else None
        self.turn = threading.Lock()  # SQLite lets one write, and makes others ask now and then

    def leave(self) -> None:
        self.users -= 1
        if not self.users and self.lock is not None:
            self.lock.release()


@final
class SQLiteStore(Store):
    """A folder with one database, which belongs to one service at a time.

    Its write-ahead log is flushed at every commit.
    """

    several_processes = False

    def __init__(self, folder: Path | _Folder, *, alone: bool = True) -> None:
        self._folder = folder if isinstance(folder, _Folder) else _Folder(folder, alone)
        self._folder.users += 1
        try:
            self._connection = _opened(self._folder.path / _FILE_NAME)
        except BaseException:
            self._folder.leave()
            raise

    def lead(self) -> bool:
        return True

    def scrub(self) -> None:
        with _usable():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def another(self) -> SQLiteStore:
        return SQLiteStore(self._folder)

    def rest(self) -> None:
        pass  # nobody lacks a connection to a file

    def execute(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, values)

    def stream(self, query: str, *values: Any) -> AbstractContextManager[Any]:
        return closing(self._connection.execute(query, values))

    def insert(self, number: int, rows: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        query = "INSERT INTO reports VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        execute, run = self._connection.execute, self._run
        return [
            execute(query, (run, number, participant, report)).rowcount == 1
            for participant, report in rows
        ]

    def _answering(self) -> AbstractContextManager[None]:
        return _usable()

    def lock_batch(self, name: bytes) -> None:
        del name  # there is one process, and one thread of it

    @contextmanager
    def _locked(self, lock: str) -> Iterator[None]:
        del lock
        if self._folder.lock is not None:
            self._folder.lock.check()
        with self._folder.turn, _usable(), transaction(self._connection):
            yield

    def close(self) -> None:
        self._connection.close()
        self._folder.leave()


def _opened(file: Path) -> sqlite3.Connection:
    # It holds the key that signs invitations; the log beside it gets the same mode.
    connect = partial(connect_private, file, timeout=60.0)
    with _usable(f"{file}: ", "; restore it from a backup, or take another folder"):
        connection = connect()
        try:
            if connection.execute("SELECT 1 FROM sqlite_schema").fetchone():  # of a service?
                connection.execute("SELECT id, name, key, checkpoint, round FROM runs LIMIT 0")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten
            migrate(connection.execute, "sqlite", connect, "BEGIN IMMEDIATE")
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def _usable(before: str = "", after: str = "") -> Iterator[None]:
    """Name what keeps a database from being used: a lock, a full disk, a damaged file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if type(error) not in (sqlite3.OperationalError, sqlite3.DatabaseError):
            raise  # an error of ours
        raise StoreUnavailable(f"{before}{error}{after}") from error
