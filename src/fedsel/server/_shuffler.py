"""The shuffler between devices and server: it sees who reports, but not what.

It keeps its rounds in one SQLite file, and every change is one transaction. A round is *open* while
it has a secret, under which names are hashed; *released* while it has a batch; and over when it has
neither. What is deleted is overwritten, and no journal outlives its transaction. Reports have no
number and no time: their table does not tell who came first.
"""

from __future__ import annotations

import hmac
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import NamedTuple, Self, final

from fedsel._internal.paths import make_folder
from fedsel.errors import InvalidArgument, check_count, check_kind
from fedsel.mechanisms.central import CentralGuarantee, compose
from fedsel.server._checkpoint import Counts, judge_round
from fedsel.server._folder import CheckpointError, FolderLock, connect_private, transaction
from fedsel.wire import Request, Sealing, Verdict
from fedsel.wire._report import ADDED_BYTES

FILE_NAME = "shuffler.sqlite"
_SECRET_BYTES = 32
_PRAGMAS = (
    "journal_mode = DELETE",  # a log would keep what was deleted
    "synchronous = EXTRA",
    "fullfsync = ON",
    "secure_delete = ON",
    "temp_store = MEMORY",
    "trusted_schema = OFF",
)
_OURS = {"application_id": 0x46535348, "user_version": 1}  # "FSSH"
_TABLES = [
    "CREATE TABLE settings (n_min INTEGER NOT NULL)",
    "CREATE TABLE rounds (tag BLOB PRIMARY KEY, run BLOB NOT NULL, number INTEGER NOT NULL, "
    "size INTEGER NOT NULL, secret BLOB, batch BLOB, UNIQUE (run, number))",
    "CREATE TABLE reports (tag BLOB NOT NULL, client BLOB NOT NULL, sealed BLOB NOT NULL, "
    "PRIMARY KEY (tag, client), UNIQUE (tag, sealed)) WITHOUT ROWID",
]


class _Round(NamedTuple):
    """A round of a run: its tag, the length of its sealed reports, and how far it has come."""

    tag: bytes
    number: int
    size: int
    secret: bytes | None
    released: bool

    @property
    def over(self) -> bool:
        return self.secret is None and not self.released


@final
class Shuffler:
    """Takes sealed reports of named clients, and hands a round's over without names or order.

    For each round: the server has it begun (`begin`), devices send what `Client.answer` has sealed
    (`receive`), and the server fetches the batch (`release`), which it can have as soon as
    ``n_min`` different clients have reported. Until the server has said that its step is durable
    (`confirm`, or the next `begin`) it gets the same batch again.

    A batch is the sealed reports of the round, each as long as the others, sorted by their own
    bytes. It is a function of their multiset alone: of nothing else that the shuffler knows.

    What was accepted is in ``folder`` before it is acknowledged. Names are there as hashes under a
    secret of the round, and both are erased by its release. The folder belongs to one shuffler at a
    time (`FolderInUse`), and ``n_min`` to the folder. Threads may share a shuffler; processes talk
    to it by whatever carries bytes, which must also say who a client is.

    Proof: docs/proofs/shuffler.md, H1, H2, H3.

    >>> import tempfile
    >>> with Shuffler(tempfile.mkdtemp(), n_min=100) as shuffler:
    ...     shuffler.receive("a client", b"nonsense")
    <Verdict.REJECTED: 'rejected'>
    """

    def __init__(self, folder: str | Path, *, n_min: int) -> None:
        self.n_min = check_count("n_min", n_min, least=2, most=1 << 32)  # one alone is not hidden
        self._file = Path(folder) / FILE_NAME
        make_folder(self._file.parent)
        self._mutex, self._counts = threading.Lock(), Counts()
        self._lock = FolderLock(self._file.parent)
        try:
            with self._named():
                self._database = connect_private(self._file)
            self._close = weakref.finalize(self, self._database.close)
            self._close.atexit = False  # a process that was forked off leaves the file alone
            try:
                self._open()
            except BaseException:
                self._close()
                raise
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> None:
        """Set the database up, or check that it is a shuffler's with the same ``n_min``."""
        execute = self._database.execute
        with self._named():
            for pragma in _PRAGMAS:
                execute(f"PRAGMA {pragma}")
        with self._transaction():
            if not self._schema():
                for statement in (*(f"PRAGMA {k} = {v}" for k, v in _OURS.items()), *_TABLES):
                    execute(statement)
                execute("INSERT INTO settings VALUES (?)", (self.n_min,))
            found = {name: execute(f"PRAGMA {name}").fetchone()[0] for name in _OURS}
            if found != _OURS or self._schema() != _TABLES:
                raise CheckpointError(
                    f"the file {str(self._file)!r} was not written by this version of the shuffler"
                )
            (begun_with,) = execute("SELECT n_min FROM settings").fetchone()
        if begun_with != self.n_min:
            raise InvalidArgument("n_min", self.n_min, f"{begun_with}, as in the folder")

    def _schema(self) -> list[str]:
        query = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
        return [sql for (sql,) in self._database.execute(query)]

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name the file in errors of SQLite."""
        try:
            yield
        except sqlite3.Error as error:
            text = f"the file {str(self._file)!r} cannot be used: {error}"
            raise CheckpointError(text) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._lock.check()
        with self._named(), transaction(self._database):
            yield

    def close(self) -> None:
        """Let others have the folder."""
        with self._mutex:
            if self._lock.held:  # else the file is another process's
                self._close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def counts(self) -> Counts:
        """What became of the messages since the shuffler was opened."""
        return self._counts

    def begin(self, request: bytes, server_key: str) -> None:
        """Begin the round of a request, for devices that seal for this key; again: nothing happens.

        A server that asks for a round has finished those before: they are forgotten, as by
        `confirm`. A round that is over is never begun again: of two batches of one round the server
        could see who is in one alone.
        """
        asked = Request.decode(request)
        tag = Sealing(bytes(request), server_key).tag
        with self._mutex, self._transaction():
            known = self._from(asked)
            if known is None:
                size, secret = asked.format.size + ADDED_BYTES, secrets.token_bytes(_SECRET_BYTES)
                values = (tag, asked.run, asked.round, size, secret)
                self._database.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, NULL)", values)
            elif known.number > asked.round or known.over:
                raise _wrong_round(asked, "a round that is not over")
            elif known.tag != tag:
                allowed = "the key that the round began with, beside the same request"
                raise InvalidArgument("server_key", server_key, allowed)
            self._forget(asked.run, asked.round)

    def _from(self, asked: Request) -> _Round | None:
        """The first round of a run that is not before the requested one."""
        where = "run = ? AND number >= ? ORDER BY number LIMIT 1"
        return self._found(where, asked.run, asked.round)

    def _found(self, where: str, *values: object) -> _Round | None:
        query = "SELECT tag, number, size, secret, batch IS NOT NULL FROM rounds WHERE "
        row = self._database.execute(query + where, values).fetchone()
        return None if row is None else _Round(*row)

    def _known(self, request: bytes) -> _Round:
        asked = Request.decode(request)
        known = self._from(asked)
        if known is None or known.number != asked.round or known.over:
            raise _wrong_round(asked, "a round that `begin` has begun and that is not over")
        return known

    def receive(self, client: object, message: object) -> Verdict:
        """Take the message of a client, durable on return; never raises for its content.

        ``client`` is a text, a number or bytes that the transport vouches for. A client counts once
        in a round, whatever it sends; what comes after the release is late.
        """
        return self.receive_many([(client, message)])[0]

    def receive_many(self, messages: Iterable[tuple[object, object]]) -> list[Verdict]:
        """Take pairs of a client and its message, all in one flush of the disk: as `receive`."""
        pairs = list(messages)
        with self._mutex:
            with self._transaction():
                verdicts = [self._judge(client, message) for client, message in pairs]
            self._counts = self._counts.plus(Counts.of(verdicts))  # once they are durable
        return verdicts

    def _judge(self, client: object, message: object) -> Verdict:
        name, sealed = _name_bytes(client), Sealing.split(message)
        known = None if name is None or sealed is None else self._found("tag = ?", sealed.tag)
        if name is None or sealed is None or known is None or len(sealed.content) != known.size:
            return Verdict.REJECTED
        verdict = judge_round(known.number, known.number + (known.secret is None))
        if verdict is not Verdict.ACCEPTED or known.secret is None:
            return verdict
        hashed = hmac.digest(known.secret, name, "sha256")
        # Ignored where there is one of this client already, or just this one of another.
        insert = "INSERT OR IGNORE INTO reports VALUES (?, ?, ?)"
        done = self._database.execute(insert, (sealed.tag, hashed, sealed.content))
        return Verdict.ACCEPTED if done.rowcount else Verdict.DUPLICATE

    def waiting(self, request: bytes) -> int:
        """How many clients have reported in an open round."""
        with self._mutex, self._transaction():
            return self._count(self._known(request))

    def _count(self, known: _Round) -> int:
        query = "SELECT count(*) FROM reports WHERE tag = ?"
        return int(self._database.execute(query, (known.tag,)).fetchone()[0])

    def release(self, request: bytes) -> bytes | None:
        """The batch of a round, which ends with it; None while fewer than ``n_min`` are there.

        It is the same batch however often it is fetched, until the round is confirmed.
        """
        execute = self._database.execute
        with self._mutex, self._transaction():
            known = self._known(request)
            if known.secret is None:
                query = "SELECT batch FROM rounds WHERE tag = ?"
                return bytes(execute(query, (known.tag,)).fetchone()[0])
            if self._count(known) < self.n_min:
                return None
            query = "SELECT sealed FROM reports WHERE tag = ? ORDER BY sealed"
            batch = b"".join(sealed for (sealed,) in execute(query, (known.tag,)))
            execute("DELETE FROM reports WHERE tag = ?", (known.tag,))
            change = "UPDATE rounds SET batch = ?, secret = NULL WHERE tag = ?"
            execute(change, (batch, known.tag))
            return batch

    def confirm(self, run: bytes, rounds: int) -> None:
        """Forget the first ``rounds`` rounds of a run: the server's steps of them are durable.

        ``confirm(server.run, server.round)`` is right at any time, after a restart of the server,
        too. What stays is that these rounds were: their tags, by which late reports are known.
        """
        check_kind("run", run, bytes)
        number = check_count("rounds", rounds, least=0, most=1 << 32)
        with self._mutex, self._transaction():
            self._forget(run, number)

    def _forget(self, run: bytes, before: int) -> None:
        for statement in (
            "DELETE FROM reports WHERE tag IN"
            " (SELECT tag FROM rounds WHERE run = ? AND number < ?)",
            "UPDATE rounds SET secret = NULL, batch = NULL WHERE run = ? AND number < ?"
            " AND (secret IS NOT NULL OR batch IS NOT NULL)",
        ):
            self._database.execute(statement, (run, before))

    def guarantee(
        self, request: bytes, *, delta: float = 1e-6, epochs: int = 1
    ) -> CentralGuarantee:
        """What ``n_min`` reports of this round guarantee, if all of them are honest.

        It holds for a client that reports in ``epochs`` epochs.
        """
        solution = Request.decode(request).recipe.build()
        return compose(solution, reports=self.n_min, epochs=epochs, delta=delta)


def _wrong_round(asked: Request, allowed: str) -> InvalidArgument:
    return InvalidArgument("request", f"for round {asked.round}", f"for {allowed}")


def _name_bytes(client: object) -> bytes | None:
    """The unique bytes of a name; None if it is no name."""
    if isinstance(client, str) and client:
        return b"s" + client.encode("utf-8", "surrogatepass")
    if isinstance(client, bytes) and client:
        return b"b" + client
    if isinstance(client, Integral) and not isinstance(client, bool):
        number = int(client)
        return b"i" + number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return None
