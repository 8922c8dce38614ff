"""The two files of a store: the ledger and its witness, as SQLite tables.

Both are written in one transaction, which SQLite makes atomic over two files (with a rollback
journal, not with a write-ahead log). So they always agree, after a crash too, and where they do
not, one of them is not what was last written.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import sqlite3
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from fedsel._internal.paths import make_folder, new_file, sync_folder, write_new
from fedsel.device._policy import Reason, Refused

APPLICATION = 0x4645_4453
"""SQLite's application_id of our files: "FEDS"."""
VERSION = 5
"""The version of both files."""
EXACT_VERSION, STATED_VERSION, SEALED_VERSION, LIMITS_VERSION = 1, 3, 4, 5
"""The last version that kept the exact sum of all charges, however long; the first that keeps
purposes; the first that keeps all lifetimes, and whose head covers them and the runs; the first
that keeps all limits in their place, and the times that the owner has confirmed."""
LEDGER_NAME, WITNESS_NAME = "ledger.sqlite", "witness.sqlite"
GENESIS = bytes(32)
"""The chain before the first report."""

_LEDGER_TABLES = (
    "CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), identity BLOB NOT NULL, "
    "lifetime TEXT NOT NULL, reports INTEGER NOT NULL, spent TEXT NOT NULL, head BLOB NOT NULL)",
    "CREATE TABLE runs (run BLOB PRIMARY KEY, number INTEGER NOT NULL, task BLOB NOT NULL, "
    "open INTEGER NOT NULL, residual BLOB)",
    "CREATE TABLE reports (number INTEGER PRIMARY KEY, run BLOB NOT NULL, epoch INTEGER NOT NULL, "
    "round INTEGER NOT NULL, time INTEGER NOT NULL, charge TEXT NOT NULL, digest BLOB NOT NULL, "
    "report BLOB NOT NULL, link BLOB NOT NULL, UNIQUE (run, round))",
)
_PURPOSES = (
    "CREATE TABLE purposes (run BLOB PRIMARY KEY, purpose TEXT NOT NULL, recipient TEXT NOT NULL) "
    "WITHOUT ROWID"
)
_LIFETIMES = (
    "CREATE TABLE lifetimes (number INTEGER PRIMARY KEY, lifetime TEXT NOT NULL, time INTEGER, "
    "reports INTEGER NOT NULL, allowed_by TEXT NOT NULL)"
)
_LIMITS = (
    "CREATE TABLE limits (number INTEGER PRIMARY KEY, limits TEXT NOT NULL, time INTEGER, "
    "reports INTEGER NOT NULL, allowed_by TEXT NOT NULL)"
)
_CLOCKS = (
    "CREATE TABLE clocks (number INTEGER PRIMARY KEY, time INTEGER NOT NULL, "
    "reports INTEGER NOT NULL, allowed_by TEXT NOT NULL)"
)
_LATER = (
    (STATED_VERSION, VERSION, _PURPOSES),
    (SEALED_VERSION, SEALED_VERSION, _LIFETIMES),
    (LIMITS_VERSION, VERSION, _LIMITS),
    (LIMITS_VERSION, VERSION, _CLOCKS),
)
"""Tables of the ledger that came later, with their first version and their last."""
_WITNESS_TABLES = (
    "CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), identity BLOB NOT NULL, "
    "reports INTEGER NOT NULL, head BLOB NOT NULL)",
)
_BUSY, _LOCKED, _CORRUPT, _NOT_A_DATABASE = 5, 6, 11, 26
_LEFT_BY_A_CRASH = (776, 264)
"""SQLITE_READONLY_ROLLBACK and _RECOVERY: a journal that only a writer can play back."""


class Fault(Enum):
    """What can be wrong with a ledger: said to the owner of the device."""

    MISSING = (
        "there is no ledger: create it once, by fedsel ledger create or Client(…, create=True)"
    )
    OCCUPIED = "the folder holds other files but no ledger, or a witness but not its ledger"
    FOREIGN = "this is not a ledger of fedsel, or it has another version"
    DAMAGED = "the ledger is damaged, so nothing is sent"
    DISAGREES = "ledger and witness disagree: one was restored from a copy or belongs elsewhere"
    BUSY = "another process holds the ledger"
    UNFINISHED = "a transaction was cut off: the next answer of its client puts the ledger right"
    UNREADABLE = "the ledger cannot be read: no permission, or the disk is failing"
    UNWRITABLE = "the ledger cannot be written: read-only, or the disk is full or failing"
    LIFETIME = "the lifetime of the policy is above the lifetime of the ledger"
    LIMITS = "the policy allows more than the limits of the ledger"


class LedgerError(Refused):
    """The ledger cannot be used, so nothing is sent. Never mended or reset silently.

    ``remedy`` tells the owner what to do, where the fault alone does not.
    """

    def __init__(self, fault: Fault, remedy: str = "") -> None:
        super().__init__(Reason.LEDGER)
        self.fault, self.remedy = fault, remedy
        self.args = (fault, remedy)

    def __str__(self) -> str:
        return f"{self.fault.value}: {self.remedy}" if self.remedy else self.fault.value

    def afresh(self) -> Refused:
        return LedgerError(self.fault, self.remedy)


_FOR_WRITING = (
    "main.journal_mode = DELETE",  # atomic over both files; WAL is not
    "witness.journal_mode = DELETE",
    "main.synchronous = EXTRA",
    "witness.synchronous = EXTRA",
    "fullfsync = ON",
    "secure_delete = ON",  # a residual that was replaced does not stay on the disk
)


def connect(
    ledger: Path, witness: Path, timeout: float, *, read_only: bool = False
) -> sqlite3.Connection:
    """Open both files, never creating one; with ``read_only`` SQLite itself refuses to write."""
    if not witness.is_file():
        raise LedgerError(Fault.DISAGREES)
    mode = "?mode=ro" if read_only else "?mode=rw"
    connection = sqlite3.connect(
        ledger.resolve().as_uri() + mode, uri=True, timeout=timeout, isolation_level=None
    )
    try:
        connection.execute("ATTACH ? AS witness", (witness.resolve().as_uri() + mode,))
        own = ("query_only = ON",) if read_only else _FOR_WRITING
        for pragma in (*own, "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def check_files(connection: sqlite3.Connection) -> int:
    """The version of both files; foreign files and unexpected tables are refused."""
    versions = []
    for name in ("main", "witness"):
        application = connection.execute(f"PRAGMA {name}.application_id").fetchone()[0]
        versions.append(int(connection.execute(f"PRAGMA {name}.user_version").fetchone()[0]))
        if application != APPLICATION or not EXACT_VERSION <= versions[-1] <= VERSION:
            raise LedgerError(Fault.FOREIGN)
    if versions[0] != versions[1]:  # both are raised in one transaction
        raise LedgerError(Fault.DISAGREES)
    for name, tables in (("main", _ledger_tables(versions[0])), ("witness", _WITNESS_TABLES)):
        rows = connection.execute(
            f"SELECT sql FROM {name}.sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"  # noqa: S608
        )
        # A trigger or a view of someone else's could make our statements do other things.
        if tuple(sql for (sql,) in rows) != tables:
            raise LedgerError(Fault.FOREIGN)
    return versions[0]


def _ledger_tables(version: int = VERSION) -> tuple[str, ...]:
    later = (table for since, until, table in _LATER if since <= version <= until)
    return (*_LEDGER_TABLES, *later)


def upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Add what the files of an earlier version lack, and mark both as ours of today."""
    if version == SEALED_VERSION:
        connection.execute("DROP TABLE main.lifetimes")
    for since, until, table in _LATER:
        if since > version and until == VERSION:
            connection.execute(table)  # in the first of the two files, "main"
    for name in ("main", "witness"):
        connection.execute(f"PRAGMA {name}.user_version = {VERSION}")


def image(connection: sqlite3.Connection, most_bytes: int) -> bytes | None:
    """A digest of the ledger's content as this transaction sees it; None above ``most_bytes``."""
    pages = connection.execute("PRAGMA main.page_count").fetchone()[0]
    size = connection.execute("PRAGMA main.page_size").fetchone()[0]
    if pages * size > most_bytes or not hasattr(connection, "serialize"):
        return None
    content = memoryview(connection.serialize(name="main"))
    digest = hashlib.sha256(content[:24])
    # Left out is what SQLite itself writes at the end of a transaction: its counters of changes.
    digest.update(content[28:92])
    digest.update(content[100:])
    return digest.digest()


def fault_of(error: sqlite3.Error) -> Fault:
    """What an error of SQLite means for the owner."""
    extended = getattr(error, "sqlite_errorcode", 0)
    if extended in _LEFT_BY_A_CRASH:
        return Fault.UNFINISHED
    code = extended & 0xFF
    if code in (_BUSY, _LOCKED):
        return Fault.BUSY
    if code == _NOT_A_DATABASE:
        return Fault.FOREIGN
    # Without a code it is Python that cannot read it: a text that is no UTF-8.
    if code in (_CORRUPT, 0) or isinstance(error, sqlite3.IntegrityError):
        return Fault.DAMAGED
    return Fault.UNWRITABLE


def create(
    store: Path, witness: Path, lifetime: str, limits: Sequence[object], head: bytes
) -> None:
    """Create a store where there is none; its folder appears whole or not at all.

    ``limits`` is the first row of that table.
    """
    apart = witness.parent != store
    if (store.exists() and any(store.iterdir())) or (apart and witness.exists()):
        raise LedgerError(Fault.OCCUPIED)
    make_folder(store.parent)
    identity = secrets.token_bytes(16)
    scratch = store.parent / f".{store.name}.{secrets.token_hex(8)}"
    scratch.mkdir(mode=0o700)
    try:
        _write(
            scratch / LEDGER_NAME,
            _ledger_tables(),
            ("INSERT INTO state VALUES (1, ?, ?, 0, '0', ?)", (identity, lifetime, head)),
            ("INSERT INTO limits VALUES (?, ?, ?, ?, ?)", limits),
        )
        _write(
            scratch / WITNESS_NAME,
            _WITNESS_TABLES,
            ("INSERT INTO state VALUES (1, ?, 0, ?)", (identity, head)),
        )
        if apart:
            make_folder(witness.parent)
            write_new(witness, (scratch / WITNESS_NAME).read_bytes())
            (scratch / WITNESS_NAME).unlink()
        sync_folder(scratch)
        scratch.rename(store)  # fails if another process was faster
        sync_folder(store.parent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write(file: Path, tables: tuple[str, ...], *rows: tuple[str, Sequence[object]]) -> None:
    new_file(file).close()  # SQLite gives its journals the same mode
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for table in tables:
            connection.execute(table)
        for insert, values in rows:
            connection.execute(insert, values)
        connection.execute("COMMIT")
    finally:
        connection.close()
