"""The store of many processes: PostgreSQL, with a lock in the database that ends a round once.

Whoever adds reports holds the run's advisory lock shared, whoever ends a round holds it alone. So
no report is committed into a round that is over, and one process ends it. Advisory locks queue in
order, unlike locks of rows, and write nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.server._admission import Counts
from fedsel.service._store import (
    KEY_BYTES,
    Batch,
    BatchResult,
    RoundStatus,
    StoreUnavailable,
)

with needed("service", "a store in PostgreSQL"):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

AT_A_TIME = 16384
"""Reports that are read at a time."""
_LOCK, _SETUP = 0x66656473, 0x66656474
"""The space of our advisory locks, and the one for setting up tables."""

_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS fedsel;
CREATE TABLE IF NOT EXISTS fedsel.runs (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE,
  key bytea NOT NULL, checkpoint bytea NOT NULL, round bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS fedsel.rounds (
  run integer NOT NULL, round bigint NOT NULL, opened double precision NOT NULL,
  closed double precision, measured text, PRIMARY KEY (run, round)
);
CREATE TABLE IF NOT EXISTS fedsel.tallies (
  run integer NOT NULL, round bigint NOT NULL, worker bytea NOT NULL, accepted bigint NOT NULL,
  rejected bigint NOT NULL, duplicate bigint NOT NULL, late bigint NOT NULL,
  PRIMARY KEY (run, round, worker)
);
CREATE TABLE IF NOT EXISTS fedsel.reports (
  run integer NOT NULL, round bigint NOT NULL, participant bytea NOT NULL, report bytea NOT NULL,
  PRIMARY KEY (run, round, participant)
);
CREATE TABLE IF NOT EXISTS fedsel.batches (
  run integer NOT NULL, gateway bytea NOT NULL, batch bytea NOT NULL, round bigint NOT NULL,
  digest bytea NOT NULL, accepted bigint NOT NULL, rejected bigint NOT NULL,
  duplicate bigint NOT NULL, late bigint NOT NULL, reports bytea NOT NULL,
  PRIMARY KEY (run, gateway, batch)
);
CREATE INDEX IF NOT EXISTS batches_of_round ON fedsel.batches (run, round);
"""


def _parsed(url: str) -> dict[str, Any]:
    """The parameters of a URL; one that libpq takes otherwise than it was meant is refused.

    libpq's own words may hold a part of the password: they are not repeated.
    """
    try:
        found = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.Error:
        found = {"host": "@"}
    port = found.get("port", "").replace(",", "")
    if "@" in found.get("host", "") or "@" in found.get("dbname", "") or port.strip("0123456789"):
        allowed = (
            "postgresql://USER@HOST:PORT/DATABASE; special characters of a password are written as"
            " %40 and so on, or leave it to PGPASSWORD"
        )
        raise InvalidArgument("store", "postgresql://…", allowed)
    return found


def place_of(url: str) -> str:
    """What a URL names, without user, password and options."""
    found = _parsed(url)
    port = f":{found['port']}" if "port" in found else ""
    return f"postgresql://{found.get('host', '')}{port}/{found.get('dbname', '')}"


@final
class PostgresStore:
    """A database that any number of services share. Each has its own row of each tally."""

    several_processes = True

    def __init__(self, url: str) -> None:
        self._place, self._password = place_of(url), _parsed(url).get("password", "")
        self._url, self._run = url, 0
        self._worker = secrets.token_bytes(8)
        self._kept: psycopg.Connection[Any] | None = None
        try:
            with self._answering(), self._connection.transaction():
                self._connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_SETUP,))
                self._connection.execute(_SCHEMA)
        except psycopg.Error as error:  # it answers, but not to this user
            raise StoreUnavailable(self._said("does not let us in", error)) from None

    @property
    def _connection(self) -> psycopg.Connection[Any]:
        if self._kept is None or self._kept.closed:
            self._kept = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
            # Durable when it is said to be, whatever the server's own default.
            self._kept.execute("SET synchronous_commit = on")
        return self._kept

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """What the database does not answer may be asked again, on a connection of its own."""
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if self._kept is not None:
                self._kept.close()
            self._kept = None
            raise StoreUnavailable(self._said("does not answer", error)) from error

    def _said(self, what: str, error: psycopg.Error) -> str:
        """What is wrong in the database's words, and what to do; never the password."""
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if self._password:
            reason = reason.replace(self._password, "…")
        return (
            f"PostgreSQL at {self._place} {what} ({reason}). Start it there, or correct --store;"
            " its password is best given by PGPASSWORD, or a file that PGPASSFILE names"
        )

    def begin(self, name: str, checkpoint: bytes, opened: float) -> bytes:
        """Choose the run of this name; begin it if it is new."""
        with self._answering(), self._connection.transaction():
            self._connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_SETUP,))
            if not self.choose(name):
                row = (name, secrets.token_bytes(KEY_BYTES), checkpoint)
                self._run = self._one(
                    "INSERT INTO fedsel.runs (name, key, checkpoint, round)"
                    " VALUES (%s, %s, %s, 0) RETURNING id",
                    *row,
                )[0]
                self._connection.execute(
                    "INSERT INTO fedsel.rounds (run, round, opened) VALUES (%s, 0, %s)",
                    (self._run, opened),
                )
        return self.checkpoint()

    def choose(self, name: str) -> bool:
        """Choose the run of this name, if there is one."""
        with self._answering():
            row = self._one("SELECT id FROM fedsel.runs WHERE name = %s", name)
        self._run = 0 if row is None else row[0]
        return row is not None

    def key(self) -> bytes:
        """The run's own secret."""
        with self._answering():
            return bytes(self._one("SELECT key FROM fedsel.runs WHERE id = %s", self._run)[0])

    def checkpoint(self) -> bytes:
        """The run's checkpoint."""
        query = "SELECT checkpoint FROM fedsel.runs WHERE id = %s"
        with self._answering():
            return bytes(self._one(query, self._run, binary=True)[0])

    def place(self) -> RoundStatus:
        """Where the run is now."""
        query = """
            SELECT r.round, o.opened, coalesce(sum(accepted), 0)::bigint,
              coalesce(sum(rejected), 0)::bigint, coalesce(sum(duplicate), 0)::bigint,
              coalesce(sum(late), 0)::bigint
            FROM fedsel.runs r
            LEFT JOIN fedsel.rounds o ON o.run = r.id AND o.round = r.round
            LEFT JOIN fedsel.tallies t ON t.run = r.id AND t.round = r.round
            WHERE r.id = %s GROUP BY r.round, o.opened
        """
        with self._answering():
            number, opened, *counts = self._one(query, self._run)
        return RoundStatus(number, opened or 0.0, Counts(*counts))

    def times(self) -> list[tuple[float, float | None]]:
        """When each round began and ended."""
        query = "SELECT opened, closed FROM fedsel.rounds WHERE run = %s ORDER BY round"
        with self._answering():
            return self._connection.execute(query, (self._run,)).fetchall()

    def measures(self) -> list[str | None]:
        """What the test set said after each round."""
        query = (
            "SELECT measured FROM fedsel.rounds WHERE run = %s AND closed IS NOT NULL"
            " ORDER BY round"
        )
        with self._answering():
            return [row[0] for row in self._connection.execute(query, (self._run,)).fetchall()]

    @contextmanager
    def writing(self) -> Iterator[_PostgresTransaction]:
        """A transaction beside those of other processes, in which the open round cannot end."""
        with self._transaction_on("pg_advisory_xact_lock_shared") as transaction:
            yield transaction

    @contextmanager
    def closing(self) -> Iterator[_PostgresTransaction]:
        """A transaction of its own."""
        with self._transaction_on("pg_advisory_xact_lock") as transaction:
            yield transaction

    @contextmanager
    def _transaction_on(self, lock: str) -> Iterator[_PostgresTransaction]:
        with self._answering(), self._connection.transaction():
            # A statement of its own: the next one sees what was committed before the lock.
            self._connection.execute(f"SELECT {lock}(%s, %s)", (_LOCK, self._run))
            yield _PostgresTransaction(self, self._connection, self._run, self._worker)

    def _one(self, query: str, *values: Any, binary: bool = False) -> Any:
        return self._connection.execute(query, values, binary=binary).fetchone()

    def close(self) -> None:
        """Let go of the connection."""
        if self._kept is not None:
            self._kept.close()


@final
class _PostgresTransaction:
    """One transaction."""

    def __init__(
        self, store: PostgresStore, connection: psycopg.Connection[Any], run: int, worker: bytes
    ) -> None:
        self._connection, self._run, self._worker = connection, run, worker
        self.round: int = store._one("SELECT round FROM fedsel.runs WHERE id = %s", run)[0]
        self.place, self.checkpoint = store.place, store.checkpoint

    def add(self, number: int, rows: Sequence[tuple[bytes, bytes]]) -> list[bytes | None]:
        # In one order everywhere: two processes that add the same ones cannot wait for each other.
        ordered = sorted(rows)
        names, reports = [row[0] for row in ordered], [row[1] for row in ordered]
        done = self._connection.execute(
            "INSERT INTO fedsel.reports SELECT %s, %s, * FROM unnest(%b::bytea[], %b::bytea[])"
            " ON CONFLICT DO NOTHING RETURNING participant",
            (self._run, number, names, reports),
            binary=True,
        ).fetchall()
        if len(done) == len(rows):
            return [None] * len(rows)
        new = {bytes(row[0]) for row in done}
        return [None if row[0] in new else self.report_of(number, row[0]) for row in rows]

    def report_of(self, number: int, participant: bytes) -> bytes | None:
        row = self._connection.execute(
            "SELECT report FROM fedsel.reports WHERE run = %s AND round = %s AND participant = %s",
            (self._run, number, participant),
        ).fetchone()
        return None if row is None else bytes(row[0])

    def batch_of(self, gateway: bytes, number: bytes) -> BatchResult | None:
        # Two of the same batch, on two processes: the second waits for the first.
        self._connection.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(encode(%s, 'hex'), %s))",
            (gateway + number, self._run),
        )
        row = self._connection.execute(
            "SELECT digest, accepted, rejected, duplicate, late FROM fedsel.batches"
            " WHERE run = %s AND gateway = %s AND batch = %s",
            (self._run, gateway, number),
        ).fetchone()
        return None if row is None else BatchResult(bytes(row[0]), Counts(*row[1:]))

    def add_batch(self, number: int, batch: Batch) -> None:
        digest, counts = batch.result
        self._connection.execute(
            "INSERT INTO fedsel.batches VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %b)",
            (self._run, batch.gateway, batch.number, number, digest, *counts, batch.reports),
        )

    def tally(self, number: int, counts: Counts) -> None:
        self._connection.execute(
            "INSERT INTO fedsel.tallies AS t VALUES (%s, %s, %s, %s, %s, %s, %s)"
            " ON CONFLICT (run, round, worker) DO UPDATE SET"
            " accepted = t.accepted + excluded.accepted, rejected = t.rejected + excluded.rejected,"
            " duplicate = t.duplicate + excluded.duplicate, late = t.late + excluded.late",
            (self._run, number, self._worker, *counts),
        )

    def reports(self, number: int) -> Iterator[bytes]:
        for query, size in (
            ("SELECT report FROM fedsel.reports WHERE run = %s AND round = %s", AT_A_TIME),
            ("SELECT reports FROM fedsel.batches WHERE run = %s AND round = %s", 1),
        ):
            with psycopg.ServerCursor(self._connection, "reports_of_round") as cursor:
                cursor.execute(query, (self._run, number), binary=True)
                while rows := cursor.fetchmany(size):
                    yield b"".join(row[0] for row in rows)

    def advance(self, checkpoint: bytes, opened: float, last: bool, measured: str | None) -> None:
        run, execute = self._run, self._connection.execute
        execute(
            "UPDATE fedsel.rounds SET closed = %s, measured = %s WHERE run = %s AND round = %s",
            (opened, measured, run, self.round),
        )
        self.round += 1
        execute(
            "UPDATE fedsel.runs SET checkpoint = %b, round = %s WHERE id = %s",
            (checkpoint, self.round, run),
        )
        if not last:
            execute(
                "INSERT INTO fedsel.rounds (run, round, opened) VALUES (%s, %s, %s)",
                (run, self.round, opened),
            )
