"""The ledger: every report that may have left a device, and what it cost, durable and exact.

A report is charged, kept with the new residual and flushed to the disk in one transaction over
ledger and witness (see `_storage`) before its bytes are returned. Every transaction checks that
nobody else has changed anything (see `_transaction`), unless the file is still what was checked
before: a change is noticed before a client answers, also one that was made while it ran.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

from fedsel.device import _storage as storage
from fedsel.device._budget import Limit, loosened
from fedsel.device._entries import History, Limits, head_of
from fedsel.device._policy import Policy
from fedsel.device._storage import Fault, LedgerError
from fedsel.device._transaction import LedgerTransaction
from fedsel.errors import InvalidArgument, check_kind
from fedsel.recipe import decimal
from fedsel.wire._request import check_text


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
        self._now: Callable[[], float] = time.time  # replaced by tests alone
        self._known: bytes | None = None  # the image of the ledger when it was last checked

    def create(self, budget: Fraction | Policy) -> None:
        """Create the store with a lifetime, or the limits of a policy; refused where one is."""
        limits = budget.limits if isinstance(budget, Policy) else (Limit(budget),)
        first = Limits(limits, math.floor(self._now()))
        row = (1, *first.row)
        head = head_of(storage.GENESIS, [[row], [], [], []])
        with _explained():
            storage.create(self.store, self.witness, first.lifetime_text, row, head)

    def raise_lifetime(self, lifetime: float | Fraction, by: str) -> None:
        """Raise the lifetime ε, in the name ``by``; every report shows it from then on."""
        raised, name = decimal("lifetime", lifetime), checked_name("by", by)
        with self.transaction(write=True) as books:
            before = books.changes[-1].lifetime
            if before is not None and raised > before:
                others = (limit for limit in books.limits if not limit.is_lifetime)
                books.set_limits((Limit(raised), *others), math.floor(self._now()), name)
        if before is None:
            raise InvalidArgument("lifetime", lifetime, "omitted: the ledger has no lifetime")
        if raised <= before:
            raise InvalidArgument("lifetime", lifetime, f"above {before}, the present lifetime")

    def raise_limits(self, policy: Policy, by: str) -> None:
        """Allow what a policy does, in the name ``by``; every report shows it from then on."""
        check_kind("policy", policy, Policy)
        name = checked_name("by", by)
        with self.transaction(write=True) as books:
            looser = loosened(policy.limits, books.limits)
            if looser:
                books.set_limits(policy.limits, math.floor(self._now()), name)
        if not looser:
            allowed = "one that allows more than the ledger: this one needs nobody's name"
            raise InvalidArgument("policy", [str(limit) for limit in policy.limits], allowed)

    def confirm_clock(self, by: str) -> None:
        """Confirm, in the name ``by``, that the clock of this device is right now."""
        name = checked_name("by", by)
        with self.transaction(write=True) as books:
            books.confirm(math.floor(self._now()), name)

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
    """Check the name of a person whom reports will show."""
    text = check_text(argument, name, "recipient")
    if not text:
        raise InvalidArgument(argument, name, "the name of a person who answers for it")
    return text
