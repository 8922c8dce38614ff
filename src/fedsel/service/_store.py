"""The store of a service: runs, rounds, tallies, reports and batches in SQLite or PostgreSQL.

One database holds any number of runs. A run is written in transactions during which its open round
cannot end (`Store.writing`); another kind ends it (`Store.closing`). Every method may raise
`StoreUnavailable`: the outcome is unknown then, and the caller may try again. One thread at a time
uses a store; each run of a service has its own, on the same database (`Store.another`).

The queries are the same for both databases, with ``?`` for a value. Each database adds how to
connect, to lock, and to insert many reports at once.
"""

from __future__ import annotations

import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.server._checkpoint import Counts

_KEY_BYTES = 32
KEY_VARIABLE = "FEDSEL_SERVICE_KEY"
"""The secret that a run's keys follow from, in hexadecimal, where it is not to lie in the
database."""
_POSTGRES = ("postgresql://", "postgres://")
_HEAD = "1"
"""The newest revision in `_migrations`."""
_REPORTS_AT_A_TIME = 4096
_TALLY = (
    "INSERT INTO tallies AS t VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, round) DO UPDATE SET"
    " accepted = t.accepted + excluded.accepted, rejected = t.rejected + excluded.rejected,"
    " duplicate = t.duplicate + excluded.duplicate, late = t.late + excluded.late"
)
_TALLY_OF_WORKER = _TALLY.replace("(?,", "(?, ?,").replace("round)", "round, worker)")
_LIKE_A_URL = re.compile(r"[A-Za-z][\w+.-]+:/|[^/\\:]+:(?!\\)[^/]*@|.*\bpassword *=", re.IGNORECASE)
"""Matches an address, not a folder: no message may show its password."""


RoundRow = tuple[float, float | None, str | None]
"""When a round began and ended, in seconds of the epoch; and what `Transaction.advance` got as
``measured``."""


class StoreUnavailable(Exception):
    """The database does not answer; the caller may try again."""


@final
@dataclass(frozen=True)
class RoundStatus:
    """The open round of a run, when it began (seconds of the epoch), and its reports so far."""

    round: int
    opened: float
    counts: Counts


@final
@dataclass(frozen=True)
class GatewayBatch:
    """A gateway's batch as it came: one report after another.

    It is of this ``round`` alone, if set; ``digest``: of what it was made from, if of something
    else than ``data``.
    """

    gateway: bytes
    number: bytes
    data: bytes
    round: int | None = None
    digest: bytes | None = None


class Store(ABC):
    """The database of a service; all but `begin` and `choose` is about the chosen run."""

    several_processes: bool
    """Whether services of several processes may share it."""
    _run = 0
    _worker: tuple[bytes, ...] = ()
    """This process's name in tallies, where several processes keep them."""

    @abstractmethod
    def execute(self, query: str, *values: Any) -> Any:
        """Run one query and return its cursor."""

    @abstractmethod
    def stream(self, query: str, *values: Any) -> AbstractContextManager[Any]:
        """A cursor that does not hold all rows in memory."""

    @abstractmethod
    def insert(self, number: int, rows: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Insert the reports of participants who are new in the round; say which were inserted."""

    @abstractmethod
    def lock_batch(self, name: bytes) -> None:
        """Make other processes that write the same batch wait."""

    @abstractmethod
    def _answering(self) -> AbstractContextManager[None]:
        """Turn errors of the connection into `StoreUnavailable`."""

    @abstractmethod
    def _locked(self, lock: str) -> AbstractContextManager[None]:
        """One transaction under a lock: "begin", "writing" or "closing"."""

    @abstractmethod
    def lead(self) -> bool:
        """Whether this store alone does, until it is closed, what one process has to do."""

    @abstractmethod
    def scrub(self) -> None:
        """Leave nothing of what was erased, as far as the database allows."""

    @abstractmethod
    def another(self) -> Store:
        """A store on the same database, for another run and thread of this service."""

    @abstractmethod
    def rest(self) -> None:
        """Hold no connection that others could use, until the next query."""

    @abstractmethod
    def close(self) -> None:
        """Close the database."""

    def names(self) -> list[str]:
        """The names of all runs."""
        return [row[0] for row in self._rows("SELECT name FROM runs ORDER BY id")]

    def begin(
        self, name: str, checkpoint: bytes | Callable[[bytes], bytes], opened: float
    ) -> bytes:
        """Choose the run of this name, which begins with this checkpoint if new; its checkpoint.

        That may be a function of the run's secret (`secret`).
        """
        insert = "INSERT INTO runs (name, key, checkpoint, round) VALUES (?, ?, ?, 0)"
        with self._locked("begin"):
            if not self.choose(name):
                key = secrets.token_bytes(_KEY_BYTES)
                if callable(checkpoint):
                    checkpoint = checkpoint(key_of_environment() or key)
                self.execute(insert, name, key, checkpoint)
                self.choose(name)
                self._open_round(0, opened)
        return self.checkpoint()

    def choose(self, name: str) -> bool:
        """Choose the run of this name, if there is one."""
        rows = self._rows("SELECT id FROM runs WHERE name = ?", name)
        self._run = rows[0][0] if rows else 0
        return bool(rows)

    def key(self) -> bytes:
        """The run's own secret, which all its processes share."""
        return bytes(self._rows("SELECT key FROM runs WHERE id = ?", self._run)[0][0])

    @property
    def secret(self) -> bytes:
        """What the keys of a shuffled run follow from: of the environment, or the run's own."""
        return key_of_environment() or self.key()

    def checkpoint(self) -> bytes:
        """The run's checkpoint."""
        return bytes(self._rows("SELECT checkpoint FROM runs WHERE id = ?", self._run)[0][0])

    def status(self) -> RoundStatus:
        """The state of the open round."""
        query = """
            SELECT max(runs.round), max(opened), coalesce(sum(accepted), 0),
              coalesce(sum(rejected), 0), coalesce(sum(duplicate), 0), coalesce(sum(late), 0)
            FROM runs LEFT JOIN rounds ON rounds.run = id AND rounds.round = runs.round
            LEFT JOIN tallies ON tallies.run = id AND tallies.round = runs.round WHERE id = ?
        """
        ((number, opened, *counts),) = self._rows(query, self._run)
        return RoundStatus(number, opened or 0.0, Counts(*map(int, counts)))

    def ended(self, before: int) -> Counts:
        """The counts of all rounds before this one."""
        sums = (f"coalesce(sum({name}), 0)" for name in Counts._fields)
        query = f"SELECT {', '.join(sums)} FROM tallies WHERE run = ? AND round < ?"  # noqa: S608
        return Counts(*map(int, self._rows(query, self._run, before)[0]))

    def rounds(self) -> list[RoundRow]:
        """What the database knows of each round, the open one last."""
        query = "SELECT opened, closed, measured FROM rounds WHERE run = ? ORDER BY round"
        return self._rows(query, self._run)

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._answering():
            found: list[Any] = self.execute(query, *values).fetchall()
        return found

    def _open_round(self, number: int, opened: float) -> None:
        query = "INSERT INTO rounds (run, round, opened) VALUES (?, ?, ?)"
        self.execute(query, self._run, number, opened)

    def sorted_reports(self, number: int, size: int) -> Iterator[bytes]:
        """The different reports of a round, ``size`` at a time, in the order of their bytes."""
        query = "SELECT DISTINCT report FROM reports WHERE run = ? AND round = ? ORDER BY report"
        with self._answering(), self.stream(query, self._run, number) as cursor:
            while rows := cursor.fetchmany(size):
                yield b"".join(row[0] for row in rows)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """Begin a transaction, perhaps beside others, during which the open round cannot end."""
        with self._locked("writing"):
            yield Transaction(self, self._run)

    @contextmanager
    def closing(self) -> Iterator[Transaction]:
        """Begin an exclusive transaction, which may end the open round."""
        with self._locked("closing"):
            yield Transaction(self, self._run)


@final
class Transaction:
    """One transaction on a run: durable when its block ends, undone when the block raises.

    ``round`` is the open round; it stays open until the transaction ends, or ends it.
    """

    def __init__(self, store: Store, run: int) -> None:
        self._store, self._execute, self._run = store, store.execute, run
        self.round: int = self._execute("SELECT round FROM runs WHERE id = ?", run).fetchone()[0]
        self.status, self.checkpoint = store.status, store.checkpoint

    def add(self, number: int, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        """Add reports of different participants; return what each had sent before, None if new."""
        new = self._store.insert(number, rows)
        if all(new):
            return [None] * len(rows)
        return [
            None if added else self.report_of(number, row[0])
            for row, added in zip(rows, new, strict=True)
        ]

    def report_of(self, number: int, participant: bytes) -> bytes | None:
        """The report that a participant has sent in a round."""
        query = "SELECT report FROM reports WHERE run = ? AND round = ? AND participant = ?"
        row = self._execute(query, self._run, number, participant).fetchone()
        return None if row is None else bytes(row[0])

    def batch_of(self, batch: GatewayBatch) -> tuple[bytes, Counts] | None:
        """Digest and counts of the gateway's batch of this number; None if there was none."""
        self._store.lock_batch(batch.gateway + batch.number)
        query = (
            "SELECT digest, accepted, rejected, duplicate, late FROM batches"
            " WHERE run = ? AND gateway = ? AND batch = ?"
        )
        row = self._execute(query, self._run, batch.gateway, batch.number).fetchone()
        return None if row is None else (bytes(row[0]), Counts(*row[1:]))

    def add_batch(self, batch: GatewayBatch, digest: bytes, counts: Counts) -> None:
        """Add a batch that is not there yet to the open round; its data are what was accepted."""
        row = (self._run, batch.gateway, batch.number, self.round, digest, *counts, batch.data)
        self._execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)

    def batched(self, number: int) -> int:
        """How many reports the batches of a round had, whatever became of them."""
        query = (
            "SELECT coalesce(sum(accepted + rejected + duplicate + late), 0) FROM batches"
            " WHERE run = ? AND round = ?"
        )
        return int(self._execute(query, self._run, number).fetchone()[0])

    def tally(self, counts: Counts) -> None:
        """Add to the counts of the open round."""
        worker = self._store._worker
        query = _TALLY_OF_WORKER if worker else _TALLY
        self._execute(query, self._run, self.round, *worker, *counts)

    def reports(self, number: int) -> Iterator[bytes]:
        """All accepted reports of a round, many at a time, in no particular order."""
        for query, size in (
            ("SELECT report FROM reports WHERE run = ? AND round = ?", _REPORTS_AT_A_TIME),
            ("SELECT reports FROM batches WHERE run = ? AND round = ?", 1),
        ):
            with self._store.stream(query, self._run, number) as cursor:
                while rows := cursor.fetchmany(size):
                    yield b"".join(row[0] for row in rows)

    def distinct(self) -> int:
        """How many different reports the open round has."""
        # SQLite sorts groups on disk; count(DISTINCT) keeps a tree, six times slower at a million.
        query = (
            "SELECT count(*) FROM"
            " (SELECT 1 FROM reports WHERE run = ? AND round = ? GROUP BY report) AS different"
        )
        return int(self._execute(query, self._run, self.round).fetchone()[0])

    def erase(self) -> None:
        """Forget what the round before the open one was sent, though not by whom."""
        query = "UPDATE reports SET report = ? WHERE run = ? AND round = ?"
        self._execute(query, b"", self._run, self.round - 1)

    def advance(
        self,
        checkpoint: bytes,
        opened: float,
        last: bool,
        measured: str | None,
        *,
        to: int | None = None,
    ) -> None:
        """End the open round; begin the next one with this checkpoint, unless it was the last.

        ``measured`` is the JSON of accuracy and loss on the test set; the round keeps it. ``to`` is
        the number of the next round, where it is not the next number.
        """
        ended = "UPDATE rounds SET closed = ?, measured = ? WHERE run = ? AND round = ?"
        self._execute(ended, opened, measured, self._run, self.round)
        self.round = self.round + 1 if to is None else to
        moved = "UPDATE runs SET checkpoint = ?, round = ? WHERE id = ?"
        self._execute(moved, checkpoint, self.round, self._run)
        if not last:
            self._store._open_round(self.round, opened)


def key_of_environment() -> bytes | None:
    """The secret of the environment, if it has one."""
    text = os.environ.get(KEY_VARIABLE)
    if not text:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < 32:
        raise InvalidArgument(KEY_VARIABLE, "not shown", "at least 64 hexadecimal digits")
    return key[:64]


def migrate(
    execute: Callable[[str], Any],
    dialect: str,
    connect: Callable[[], Any],
    *begin: str,
    **options: Any,
) -> None:
    """Bring the tables of a store to the newest revision, all of it or nothing (alembic).

    ``execute`` runs a query; ``connect`` opens a connection on which ``begin`` begins.
    """
    with suppress(Exception):  # a store without revisions, or with none yet: alembic says why
        if execute("SELECT version_num FROM alembic_version").fetchone() == (_HEAD,):
            return  # without alembic, whose import takes time and memory
    with needed("service", "a store"):
        from alembic import command, config, util
        from sqlalchemy import create_engine, exc, pool

    settings = config.Config()
    settings.set_main_option("script_location", str(Path(__file__).with_name("_migrations")))
    engine = create_engine(f"{dialect}://", creator=connect, poolclass=pool.NullPool)
    try:
        with engine.begin() as connection:
            for statement in begin:
                connection.exec_driver_sql(statement)
            settings.attributes["options"] = {"connection": connection, **options}
            command.upgrade(settings, "head")
    except exc.DBAPIError as error:
        raise error.orig or error from None
    except util.CommandError as error:
        raise StoreUnavailable(f"it was written by a newer version of fedsel ({error})") from None


def open_store(url: str | Path, *, alone: bool = True) -> Store:
    """Open the store of a URL: ``postgresql://…``, or a folder for SQLite.

    A folder belongs to one service at a time; a mere reader is not ``alone``.
    """
    text = str(url).removeprefix("sqlite:///")
    if text.startswith(_POSTGRES):
        from fedsel.service._postgres import PostgresStore

        return PostgresStore(text)
    if _LIKE_A_URL.match(text) or not text:
        raise InvalidArgument("store", shown(text), "a folder, or postgresql://…")
    from fedsel.service._sqlite import SQLiteStore

    return SQLiteStore(Path(text), alone=alone)


def shown(url: str | Path) -> str:
    """How messages show a store: a folder as it is, a URL without password and options.

    >>> shown("postgresql://fedsel:secret@db.example:5432/fedsel?sslmode=require")
    'postgresql://fedsel@db.example:5432/fedsel'
    >>> shown("postgresq://fedsel:secret@db.example/fedsel"), shown("my.store")
    ('postgresq://…', 'my.store')
    """
    text = str(url)
    if text.startswith(_POSTGRES):
        from fedsel.service._postgres import place_of

        return place_of(text)
    if _LIKE_A_URL.match(text):
        scheme, found, _ = text.partition("://")
        return f"{scheme}://…" if found else "…"
    return text
