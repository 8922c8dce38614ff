"""The files of a store: flushed, the owner's alone, and refused where they are none."""

import os
import shutil
import sqlite3
import stat
from fractions import Fraction

import pytest

from fedsel.device import (
    Client,
    Fault,
    Ledger,
    LedgerError,
)
from fedsel.device import _storage as storage
from tests.device.test_ledger import POLICY, answer, fault_of, used


@pytest.fixture
def store(tmp_path):
    return used(tmp_path / "store")


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (sqlite3.SQLITE_BUSY, Fault.BUSY),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, Fault.BUSY),
        (sqlite3.SQLITE_LOCKED, Fault.BUSY),
        (sqlite3.SQLITE_NOTADB, Fault.FOREIGN),
        (sqlite3.SQLITE_CORRUPT, Fault.DAMAGED),
        (sqlite3.SQLITE_CORRUPT_INDEX, Fault.DAMAGED),
        (sqlite3.SQLITE_FULL, Fault.UNWRITABLE),
        (sqlite3.SQLITE_IOERR, Fault.UNWRITABLE),
        (sqlite3.SQLITE_READONLY, Fault.UNWRITABLE),
        (sqlite3.SQLITE_CANTOPEN, Fault.UNWRITABLE),
        (sqlite3.SQLITE_NOMEM, Fault.UNWRITABLE),
    ],
)
def test_what_an_error_of_sqlite_means(code, fault):
    error = sqlite3.OperationalError()
    error.sqlite_errorcode = code
    assert storage.fault_of(error) is fault
    assert storage.fault_of(sqlite3.IntegrityError()) is Fault.DAMAGED


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_every_transaction_is_flushed_and_leaves_no_residual_behind(store):
    """Nothing else shows it without a power cut: what SQLite was asked for, by its own numbers."""
    asked_for = {
        "main.journal_mode": "delete",  # atomic over both files, as a write-ahead log is not
        "witness.journal_mode": "delete",
        "main.synchronous": 3,  # EXTRA: the folder, too, once the journal is gone
        "witness.synchronous": 3,
        "fullfsync": 1,
        "main.secure_delete": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
    }
    with Ledger(store).transaction() as books:
        rows = {name: books._connection.execute(f"PRAGMA {name}") for name in asked_for}
        assert {name: row.fetchone()[0] for name, row in rows.items()} == asked_for


@pytest.mark.skipif(os.name != "posix", reason="folders are flushed where the platform can")
@pytest.mark.parametrize("apart", [False, True], ids=["beside", "elsewhere"])
def test_a_new_store_is_flushed_before_and_after_it_gets_its_name(tmp_path, monkeypatch, apart):
    store, flush, flushed = tmp_path / "store", os.fsync, []
    witness = tmp_path / "other" / "witness" if apart else None
    sizes = {}

    def noted(handle):
        seen = os.fstat(handle)
        flushed.append((seen.st_ino, store.exists()))
        sizes[seen.st_ino] = seen.st_size
        flush(handle)

    monkeypatch.setattr(os, "fsync", noted)
    Ledger(store, witness).create(Fraction(1))
    assert (store.stat().st_ino, False) in flushed  # what is in it
    assert (tmp_path.stat().st_ino, True) in flushed  # its name
    if apart:
        assert (witness.stat().st_ino, False) in flushed
        assert (witness.parent.stat().st_ino, False) in flushed
        assert sizes[witness.stat().st_ino] == witness.stat().st_size  # all that is in it
        assert not (store / storage.WITNESS_NAME).exists()


def test_files_are_the_owners_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        client = Client(POLICY, tmp_path / "s", witness=tmp_path / "far" / "witness", create=True)
        inside = Client(POLICY, tmp_path / "t", create=True)
        for number in range(2):
            answer(client, number)
            answer(inside, number)
    finally:
        os.umask(before)
    files = [tmp_path / "far" / "witness", *(f for f in tmp_path.glob("[st]/*"))]
    assert len(files) == 4
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "st"} == {0o700}


@pytest.mark.parametrize("name", [storage.LEDGER_NAME, storage.WITNESS_NAME])
@pytest.mark.parametrize("size", [0, 1, 50, 100, 512, 4096, 6000, 8192])
def test_truncated_files(store, name, size):
    file = store / name
    if size < file.stat().st_size:
        with file.open("r+b") as opened:
            opened.truncate(size)
        assert fault_of(store) in (Fault.FOREIGN, Fault.DAMAGED, Fault.DISAGREES)


def test_what_is_no_store(tmp_path):
    (tmp_path / "file").write_text("hello")
    for folder, fault in (
        (tmp_path, Fault.OCCUPIED),
        (tmp_path / "file", Fault.OCCUPIED),
    ):
        with pytest.raises(LedgerError) as error:
            Client(POLICY, folder, create=True)
        assert error.value.fault is fault
    other = tmp_path / "other"
    other.mkdir()
    sqlite3.connect(other / storage.LEDGER_NAME).execute("CREATE TABLE t (x)").connection.close()
    assert fault_of(other) is Fault.DISAGREES
    shutil.copy(other / storage.LEDGER_NAME, other / storage.WITNESS_NAME)
    assert fault_of(other) is Fault.FOREIGN


def test_a_missing_ledger_is_created_only_on_demand(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "none", tmp_path / "empty"):
        with pytest.raises(LedgerError) as error:
            Client(POLICY, folder)
        assert error.value.fault is Fault.MISSING
        Client(POLICY, folder, create=True)
        assert sorted(file.name for file in folder.iterdir()) == [
            storage.LEDGER_NAME,
            storage.WITNESS_NAME,
        ]
    Client(POLICY, tmp_path / "none", create=True)
    (tmp_path / "none" / storage.WITNESS_NAME).unlink()
    assert fault_of(tmp_path / "none") is Fault.DISAGREES
    (tmp_path / "empty" / storage.LEDGER_NAME).unlink()
    assert fault_of(tmp_path / "empty") is Fault.OCCUPIED
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
