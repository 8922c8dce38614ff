"""The store of many processes: PostgreSQL, with a lock in the database that ends a round once.

Whoever adds reports holds the run's advisory lock shared, whoever ends a round holds it alone. So
no report is committed into a round that is over, and one process ends it. Advisory locks queue in
order, unlike locks of rows, and write nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, final

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.service._store import Store, StoreUnavailable, migrate

with needed("service", "a store in PostgreSQL"):
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

_LOCK, _SETUP, _LEAD = 0x66656473, 0x66656474, 0x66656475
"""The spaces of our advisory locks: on runs, for setting up tables and runs, and for leading."""


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
    """What a URL names, without password and options."""
    found = _parsed(url)
    user = f"{found['user']}@" if found.get("user") else ""
    port = f":{found['port']}" if "port" in found else ""
    return f"postgresql://{user}{found.get('host', '')}{port}/{found.get('dbname', '')}"


@lru_cache
def _translated(query: str) -> str:
    return query.replace("?", "%s")


@final
class PostgresStore(Store):
    """A database that any number of services share. Each has its own row of each tally."""

    several_processes = True

    def __init__(self, url: str) -> None:
        self._url, self._place = url, place_of(url)
        self._password = _parsed(url).get("password", "")
        self._worker = (secrets.token_bytes(8),)
        self._connect = partial(psycopg.connect, url, connect_timeout=10)
        self._kept: psycopg.Connection[Any] | None = None
        try:
            with self._answering():
                migrate(
                    self.execute,
                    "postgresql+psycopg",
                    self._connect,
                    f"SELECT pg_advisory_xact_lock({_SETUP}, 0)",
                    "CREATE SCHEMA IF NOT EXISTS fedsel",
                    version_table_schema="fedsel",
                )
        except psycopg.Error as error:  # it answers, but not to this user
            self.close()
            raise StoreUnavailable(self._said("does not let us in", error)) from None
        except StoreUnavailable:
            self.close()
            raise

    @property
    def _connection(self) -> psycopg.Connection[Any]:
        if self._kept is None or self._kept.closed:
            self._kept = self._connect(autocommit=True)
            # Durable when we say so, whatever the server's own default.
            self._kept.execute("SET synchronous_commit = on")
            # After a lock each statement sees what was committed before it: see `_locked`.
            self._kept.execute("SET default_transaction_isolation = 'read committed'")
            self._kept.execute("SET search_path = fedsel")
        return self._kept

    def execute(self, query: str, *values: Any) -> Any:
        return self._connection.execute(_translated(query), values, binary=True)

    @contextmanager
    def stream(self, query: str, *values: Any) -> Iterator[Any]:
        connection = self._connection
        with connection.transaction(), psycopg.ServerCursor(connection, "reports") as cursor:
            cursor.execute(_translated(query), values, binary=True)
            yield cursor

    def insert(self, number: int, rows: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        # In one order everywhere: two processes that add the same ones cannot wait for each other.
        ordered = sorted(rows)
        done = self._connection.execute(
            "INSERT INTO reports SELECT %s, %s, * FROM unnest(%b::bytea[], %b::bytea[])"
            " ON CONFLICT DO NOTHING RETURNING participant",
            (self._run, number, [row[0] for row in ordered], [row[1] for row in ordered]),
            binary=True,
        ).fetchall()
        new = {bytes(row[0]) for row in done}
        return [row[0] in new for row in rows]

    def lock_batch(self, name: bytes) -> None:
        query = "SELECT pg_advisory_xact_lock(hashtextextended(encode(?, 'hex'), ?))"
        self.execute(query, name, self._run)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()  # the next query gets a connection of its own
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

    @contextmanager
    def _locked(self, lock: str) -> Iterator[None]:
        shared = "_shared" if lock == "writing" else ""
        which = (_SETUP, 0) if lock == "begin" else (_LOCK, self._run)
        with self._answering(), self._connection.transaction():
            # A statement of its own: the next one sees what was committed before the lock.
            self.execute(f"SELECT pg_advisory_xact_lock{shared}(?, ?)", *which)
            yield

    def lead(self) -> bool:
        with self._answering():
            query = "SELECT pg_try_advisory_lock(?, ?)"
            found: bool = self.execute(query, _LEAD, self._run).fetchone()[0]
        return found

    def scrub(self) -> None:
        # The rows that were replaced; their bytes are overwritten when new ones need the room.
        with self._answering():
            self.execute("VACUUM reports")

    def another(self) -> PostgresStore:
        return PostgresStore(self._url)

    def rest(self) -> None:
        self.close()  # the next query opens another one

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
