"""A ledger that someone changed who knows its format: both files, and links that fit."""

import shutil
import sqlite3
from dataclasses import FrozenInstanceError, replace

import pytest

from fedsel import InvalidArgument
from fedsel.device import Client, Fault, Ledger, LedgerError
from fedsel.device import _storage as storage
from fedsel.device._transaction import seal_of
from tests.device.test_ledger import POLICY, RUN, D, answer, fault_of, tamper, used

LOW, HIGH = "zeroblob(32)", f"X'{'ff' * 32}'"
"""Digests that are less and more than any other."""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return used(tmp_path_factory.mktemp("written") / "store")


@pytest.fixture
def store(written, quick_path):
    return shutil.copytree(written, quick_path / "store")


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        *((f"UPDATE state SET reports = {number}", Fault.DAMAGED) for number in (2, 4)),
        *((f"UPDATE state SET head = {digest}", Fault.DAMAGED) for digest in (LOW, HIGH)),
        *((f"PRAGMA application_id = {number}", Fault.FOREIGN) for number in (1, 0x7FFF_FFFF)),
        ("PRAGMA user_version = 0", Fault.FOREIGN),
    ],
)
def test_what_both_files_say_is_not_believed(store, statement, fault):
    for name in (storage.LEDGER_NAME, storage.WITNESS_NAME):
        tamper(store / name, statement)
    assert fault_of(store) is fault


@pytest.mark.parametrize(
    ("name", "statement", "fault"),
    [
        (storage.LEDGER_NAME, f"UPDATE reports SET link = {LOW} WHERE number = 2", Fault.DAMAGED),
        (storage.LEDGER_NAME, f"UPDATE reports SET link = {HIGH} WHERE number = 2", Fault.DAMAGED),
        (storage.LEDGER_NAME, "UPDATE state SET spent = '29/100'", Fault.DAMAGED),
        (storage.LEDGER_NAME, "UPDATE state SET spent = '31/100'", Fault.DAMAGED),
        (storage.WITNESS_NAME, "DELETE FROM state", Fault.DAMAGED),
        (storage.WITNESS_NAME, "UPDATE state SET reports = 4", Fault.DISAGREES),
        (storage.WITNESS_NAME, f"UPDATE state SET head = {HIGH}", Fault.DISAGREES),
        (storage.WITNESS_NAME, "PRAGMA user_version = 1", Fault.DISAGREES),
        (storage.WITNESS_NAME, "PRAGMA user_version = 6", Fault.FOREIGN),
        (storage.WITNESS_NAME, "PRAGMA application_id = 1", Fault.FOREIGN),
        (storage.WITNESS_NAME, "CREATE TABLE a (b)", Fault.FOREIGN),
        (storage.WITNESS_NAME, "ALTER TABLE state RENAME COLUMN head TO a", Fault.FOREIGN),
        (storage.WITNESS_NAME, "ALTER TABLE state RENAME COLUMN head TO z", Fault.FOREIGN),
    ],
)
def test_what_one_file_says_is_not_believed(store, name, statement, fault):
    tamper(store / name, statement)
    assert fault_of(store) is fault


def test_what_was_read_is_not_changed_afterwards(store):
    history = Ledger(store).read()
    with pytest.raises(FrozenInstanceError):
        history.spent = 0
    with pytest.raises(FrozenInstanceError):
        history.entries[0].charge = 0


def forge(store, change):
    """Change every entry, and make the links, the head and the witness fit."""
    link, statements = storage.GENESIS, []
    for entry in Ledger(store).read().entries:
        forged = change(entry)
        link = forged.link(link)
        # Negative numbers first, since none of these is there yet.
        places = f"number = {-forged.number}, time = '{forged.time}', link = X'{link.hex()}'"
        statements.append(f"UPDATE reports SET {places} WHERE number = {entry.number}")
    statements.append("UPDATE reports SET number = -number WHERE number < 0")
    with Ledger(store).transaction() as books:
        head = f"UPDATE state SET head = X'{books._head(link).hex()}'"
    tamper(store / storage.LEDGER_NAME, *statements, head)
    tamper(store / storage.WITNESS_NAME, head)


def test_who_can_write_both_files_can_forge_an_entry(store):
    """So the others below are noticed by what is wrong in them, not by their links."""
    forge(store, lambda entry: replace(entry, time=entry.number))
    assert [entry.time for entry in Client(POLICY, store).history().entries] == [1, 2, 3]


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: replace(entry, number=entry.number - 1),
        lambda entry: replace(entry, number=entry.number + 1),
        lambda entry: replace(entry, time="now"),
    ],
    ids=["from zero", "from two", "no time"],
)
def test_an_entry_is_not_believed_because_its_link_fits(store, change):
    forge(store, change)
    assert fault_of(store) is Fault.DAMAGED


@pytest.mark.parametrize(
    "residual",
    [
        bytes(4 * D) + bytes(32),
        bytes(4 * D) + b"\xff" * 32,
        *(bytes(size) + seal_of(RUN, bytes(size)) for size in (4 * D - 4, 4 * D + 4, 0)),
        bytes(4 * D) + seal_of(bytes(16), bytes(4 * D)),
    ],
    ids=["low seal", "high seal", "short", "long", "empty", "of another run"],
)
def test_a_residual_is_of_its_run_and_size_and_sealed(store, residual):
    client = Client(POLICY, store)
    tamper(store / storage.LEDGER_NAME, f"UPDATE runs SET residual = X'{residual.hex()}'")
    with pytest.raises(LedgerError) as error:
        answer(client, 3)
    assert error.value.fault is Fault.DAMAGED
    assert len(client.history().entries) == 3


@pytest.mark.parametrize("name", ["a.sqlite", "z.sqlite", "folder/witness.sqlite"])
def test_a_witness_is_outside_of_the_store_or_the_one_inside(quick_path, name):
    with pytest.raises(InvalidArgument, match="witness"):
        Ledger(quick_path / "store", quick_path / "store" / name)


@pytest.mark.parametrize("folder", ["a/folder", "z/folder", "."])
def test_a_witness_elsewhere_is_nowhere_else(quick_path, folder):
    """Beside folders whose names come before and after that of the store, which need not exist."""
    witness = quick_path / folder / "w.sqlite"
    for _ in range(2):
        client = Client(
            POLICY, quick_path / "deep" / "down" / "store", witness=witness, create=True
        )
    answer(client, 0)
    assert witness.is_file()
    assert [file.name for file in client.ledger.store.iterdir()] == [storage.LEDGER_NAME]
    assert [file.name for file in client.ledger.store.parent.iterdir()] == ["store"]
    other = quick_path / "other"
    assert fault_of_new(other, witness) is Fault.OCCUPIED
    assert not other.exists()


def test_a_store_that_cannot_be_created_leaves_nothing_behind(quick_path):
    (quick_path / "file").touch()
    assert fault_of_new(quick_path / "store", quick_path / "file" / "w") is Fault.UNWRITABLE
    assert [file.name for file in quick_path.iterdir()] == ["file"]


def fault_of_new(store, witness):
    with pytest.raises(LedgerError) as error:
        Ledger(store, witness).create(POLICY.lifetime)
    return error.value.fault


def test_pages_that_no_query_reads_are_checked_as_well(store):
    file = store / storage.LEDGER_NAME
    connection = sqlite3.connect(file)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    index = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_reports_1'"
    (page,) = connection.execute(index).fetchone()
    connection.close()
    content = bytearray(file.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    file.write_bytes(content)
    with Ledger(store).transaction() as books:
        assert books.reports == 3
    assert fault_of(store) is Fault.DAMAGED
