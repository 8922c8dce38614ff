"""Reading somebody else's ledger: nothing is changed, and what cannot be read is said."""

import os
import shutil
import sqlite3
import threading

import pytest

from fedsel.device import Client, Fault, Ledger, LedgerError
from fedsel.device import _storage as storage
from fedsel.device._transaction import LedgerTransaction
from tests.device.test_ledger import POLICY, answer, tamper, used


def state(store):
    """Every file of a store: its bytes, and when it was last written."""
    return {f.name: (f.read_bytes(), f.stat().st_mtime_ns) for f in store.iterdir()}


def fault(store, witness=None):
    """Why a ledger cannot be inspected; that it was tried has changed nothing."""
    before = state(store) if store.is_dir() else None
    with pytest.raises(LedgerError) as error:
        Ledger(store, witness, timeout=0.05).inspect()
    assert (state(store) if store.is_dir() else None) == before
    return error.value.fault


@pytest.fixture
def store(quick_path):
    used(quick_path / "store")
    return quick_path / "store"


def test_it_says_what_reading_says_and_changes_nothing(store):
    expected = Ledger(store).read()
    before = state(store)
    assert Ledger(store).inspect() == expected
    assert len(expected.entries) > 0
    assert state(store) == before


def test_sqlite_itself_refuses_to_write(store):
    connection = storage.connect(
        store / storage.LEDGER_NAME, store / storage.WITNESS_NAME, 1.0, read_only=True
    )
    for statement in (
        "UPDATE main.state SET spent = '0'",
        "UPDATE witness.state SET reports = 0",
        "PRAGMA main.user_version = 1",
        "CREATE TABLE more (x)",
    ):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute(statement)
    connection.close()


def test_what_is_read_is_one_moment_of_both_files(store, monkeypatch):
    """A client may write meanwhile; and a file that was forged gets no say in how it is read."""
    seen = {}

    def noted(books):
        pragmas = ("query_only", "trusted_schema", "cell_size_check")
        rows = [books._connection.execute(f"PRAGMA {name}").fetchone() for name in pragmas]
        seen.update(settings=[row[0] for row in rows], inside=books._connection.in_transaction)
        return history(books)

    history = LedgerTransaction.history
    monkeypatch.setattr(LedgerTransaction, "history", noted)
    assert Ledger(store).inspect().entries
    assert seen == {"settings": [1, 0, 1], "inside": True}


def test_files_that_may_not_be_written_are_read(store):
    for file in store.iterdir():
        file.chmod(0o400)
    store.chmod(0o500)
    try:
        assert Ledger(store).inspect().entries
    finally:
        store.chmod(0o700)


def test_a_ledger_in_use_is_read_and_its_client_goes_on(store):
    """A client answers while another thread reads, again and again."""
    client, stop, seen = Client(POLICY, store), threading.Event(), []

    def read():
        while not stop.is_set():
            seen.append(len(Ledger(store).inspect().entries))

    reader = threading.Thread(target=read)
    reader.start()
    first = len(client.history().entries)
    try:
        for number in range(first, first + 3):
            answer(client, number)
    finally:
        stop.set()
        reader.join()
    assert len(client.history().entries) == first + 3
    assert seen == sorted(seen)
    assert set(seen) <= set(range(first, first + 4))


def test_a_ledger_that_is_held_is_in_use(store):
    client = Client(POLICY, store)
    with client.ledger.transaction(write=True):
        with pytest.raises(LedgerError) as error:
            Ledger(store, timeout=0.05).inspect()
        assert error.value.fault is Fault.BUSY
    assert Ledger(store).inspect().entries


def test_what_a_crash_left_is_not_put_right_by_who_only_reads(store):
    """A killed writer leaves its journal. The client plays it back, and then it can be read."""
    before = Ledger(store).inspect()
    child = os.fork()
    if child == 0:
        connection = storage.connect(store / storage.LEDGER_NAME, store / storage.WITNESS_NAME, 5.0)
        connection.execute("PRAGMA cache_size = 1")  # pages go to the file before the end
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("UPDATE witness.state SET reports = 0")
        connection.execute("UPDATE main.state SET reports = 0, spent = '0'")
        for _ in range(20):
            connection.execute(
                "INSERT INTO runs VALUES (randomblob(16), 9, randomblob(9999), 0, '')"
            )
        os._exit(0)
    os.waitpid(child, 0)
    assert (store / "ledger.sqlite-journal").exists()
    assert fault(store) is Fault.UNFINISHED
    assert Client(POLICY, store).history() == before
    assert Ledger(store).inspect() == before


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda s: (s / storage.LEDGER_NAME).write_bytes(b"no database" * 500), Fault.FOREIGN),
        (lambda s: (s / storage.LEDGER_NAME).write_bytes(b""), Fault.FOREIGN),
        (lambda s: (s / storage.LEDGER_NAME).unlink(), Fault.OCCUPIED),
        (lambda s: (s / storage.WITNESS_NAME).unlink(), Fault.DISAGREES),
        (lambda s: [f.unlink() for f in s.iterdir()], Fault.MISSING),
        (shutil.rmtree, Fault.MISSING),
        (
            lambda s: tamper(s / storage.LEDGER_NAME, "DELETE FROM reports WHERE number = 1"),
            Fault.DAMAGED,
        ),
        (
            lambda s: tamper(s / storage.WITNESS_NAME, "UPDATE state SET reports = 0"),
            Fault.DISAGREES,
        ),
        (lambda s: tamper(s / storage.LEDGER_NAME, "CREATE VIEW v AS SELECT 1"), Fault.FOREIGN),
    ],
)
def test_what_is_wrong_is_said(store, damage, expected):
    damage(store)
    assert fault(store) is expected


@pytest.mark.parametrize("error", [PermissionError(13, "no"), OSError(5, "disk")])
def test_what_the_file_system_refuses_cannot_be_read(store, monkeypatch, error):
    def refused(*_, **__):
        raise error

    monkeypatch.setattr(storage, "connect", refused)
    assert fault(store) is Fault.UNREADABLE
    with pytest.raises(LedgerError) as raised:
        Ledger(store).read()
    assert raised.value.fault is Fault.UNWRITABLE


def test_a_witness_elsewhere(quick_path):
    store, witness = quick_path / "store", quick_path / "witness"
    Client(POLICY, store, witness=witness, create=True)
    assert Ledger(store, witness).inspect().entries == ()
    assert fault(store) is Fault.DISAGREES
