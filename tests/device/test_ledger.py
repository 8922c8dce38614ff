"""The ledger: what is written stays, what was tampered with is noticed, and nothing is reset."""

import random
import shutil
import sqlite3
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.device import (
    Client,
    Fault,
    Ledger,
    LedgerError,
    Policy,
    Reason,
    Request,
)
from fedsel.device import _storage as storage
from fedsel.wire import encode_recipe
from fedsel.wire._request import RECIPE_BYTES
from tests.wire.support import complete

D = 16
RECIPE = complete("PS-PM", epsilon=4.0, dim=D, epochs=40)
POLICY = Policy(lifetime=2.0, per_report=0.1, solutions=["PS-PM"], dimensions=[D])
RUN = bytes(range(16))
WEIGHTS = np.zeros(D)


def update(weights):
    return np.linspace(-1, 1, D)


def asked(number):
    return Request(RUN, number, number, RECIPE).encode()


def answer(client, number):
    return client.answer(asked(number), WEIGHTS, update)


def used(folder, policy=POLICY):
    """A store with three reports."""
    client = Client(policy, folder, create=True)
    for number in range(3):
        answer(client, number)
    return folder


@pytest.fixture
def store(tmp_path):
    return used(tmp_path / "store")


def fault_of(store, **options):
    """The fault of a store, which is noticed when it is opened and changes nothing."""
    before = {file: file.read_bytes() for file in store.rglob("*") if file.is_file()}
    with pytest.raises(LedgerError) as error:
        Client(POLICY, store, create=True, **options)
    assert error.value.reason is Reason.LEDGER
    after = {file: file.read_bytes() for file in store.rglob("*") if file.is_file()}
    assert {k: v for k, v in after.items() if "journal" not in k.name} == before
    return error.value.fault


def tamper(file, *statements):
    connection = sqlite3.connect(file)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_history_survives_and_is_exact(store):
    history = Ledger(store).read()
    assert [entry.number for entry in history.entries] == [1, 2, 3]
    assert history.spent == Fraction(3, 10)
    assert (history.lifetime, history.left) == (2, Fraction(17, 10))
    again = Client(POLICY, store)
    assert answer(again, 2) == history.entries[2].report
    answer(again, 3)
    assert again.history().spent == Fraction(4, 10)


OTHER = encode_recipe(complete("PS-PM", epsilon=4.0, dim=D, epochs=20)).hex()
EIGHTY, WINDOW = '[["80", null, null, null]]', '[["2", 3600, null, null]]'
LIMITS = [
    "UPDATE state SET lifetime = '80'",
    "UPDATE state SET lifetime = '1'",
    f"UPDATE limits SET limits = '{EIGHTY}'; UPDATE state SET lifetime = '80'",
    f"UPDATE limits SET limits = '{WINDOW}'; UPDATE state SET lifetime = ''",
    "UPDATE limits SET limits = replace(limits, 'null', '3600')",
    "UPDATE limits SET limits = '[]'",
    "UPDATE limits SET limits = '{'",
    "UPDATE limits SET limits = '[[\"2\"]]'",
    "UPDATE limits SET time = time - 1",
    "UPDATE limits SET time = NULL",
    "UPDATE limits SET reports = 1",
    "UPDATE limits SET allowed_by = 'Somebody'",
    "UPDATE limits SET allowed_by = CAST(X'ff' AS TEXT)",
    "UPDATE limits SET allowed_by = 'a' || char(27)",
    f"INSERT INTO limits VALUES (2, '{EIGHTY}', 0, 0, 'x'); UPDATE state SET lifetime = '80'",
    f"INSERT INTO limits VALUES (0, '{EIGHTY}', 0, 0, 'x')",
    "DELETE FROM limits",
    "INSERT INTO clocks VALUES (1, 9999999999, 3, 'x')",
    "UPDATE runs SET open = 0",
    "UPDATE runs SET open = 2",
    "UPDATE runs SET number = 7",
    f"UPDATE runs SET task = X'{OTHER}'",
    f"INSERT INTO runs VALUES (X'{bytes(16).hex()}', 2, X'{OTHER}', 1, NULL)",
    f"INSERT INTO purposes VALUES (X'{bytes(16).hex()}', 'A purpose', '')",
]
"""Changes to what a device may still do."""


@pytest.mark.parametrize("statements", LIMITS)
def test_changes_to_lifetimes_and_runs_are_noticed(store, statements):
    tamper(store / storage.LEDGER_NAME, *statements.split("; "))
    assert fault_of(store) is Fault.DAMAGED
    with pytest.raises(LedgerError):
        Ledger(store).inspect()


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("DELETE FROM reports WHERE number = 3", Fault.DAMAGED),
        ("DELETE FROM reports", Fault.DAMAGED),
        ("UPDATE reports SET charge = '1/1000' WHERE number = 2", Fault.DAMAGED),
        ("UPDATE reports SET charge = 'x' WHERE number = 2", Fault.DAMAGED),
        ("UPDATE reports SET charge = '1/0' WHERE number = 2", Fault.DAMAGED),
        ("UPDATE reports SET report = zeroblob(16) WHERE number = 1", Fault.DAMAGED),
        ("UPDATE reports SET round = 'one' WHERE number = 1", Fault.DAMAGED),
        ("UPDATE reports SET number = 9 WHERE number = 2", Fault.DAMAGED),
        ("UPDATE state SET spent = '0'", Fault.DAMAGED),
        ("UPDATE state SET spent = 'nothing'", Fault.DAMAGED),
        ("UPDATE state SET lifetime = X'00'", Fault.DAMAGED),
        *(  # at once, whatever it would take to read such a number
            (f"UPDATE {where} = '1e999999999'", Fault.DAMAGED)
            for where in ("state SET lifetime", "limits SET limits", "state SET spent")
        ),
        ("UPDATE state SET reports = 2", Fault.DISAGREES),
        ("UPDATE state SET head = zeroblob(32)", Fault.DISAGREES),
        ("UPDATE state SET identity = zeroblob(16)", Fault.DISAGREES),
        ("DELETE FROM state", Fault.DAMAGED),
        ("DELETE FROM runs", Fault.DAMAGED),
        ("UPDATE runs SET task = zeroblob(109)", Fault.DAMAGED),
        (f"UPDATE runs SET task = zeroblob({RECIPE_BYTES})", Fault.DAMAGED),
        ("DROP TABLE reports", Fault.FOREIGN),
        ("CREATE TRIGGER t AFTER INSERT ON reports BEGIN DELETE FROM state; END", Fault.FOREIGN),
        ("CREATE VIEW v AS SELECT 1", Fault.FOREIGN),
        ("PRAGMA user_version = 1", Fault.DISAGREES),
        ("PRAGMA user_version = 6", Fault.FOREIGN),
        ("PRAGMA application_id = 0", Fault.FOREIGN),
    ],
)
def test_changes_to_the_ledger_are_noticed(store, statement, fault):
    tamper(store / storage.LEDGER_NAME, statement)
    assert fault_of(store) is fault


def test_a_residual_that_was_changed_is_noticed_before_it_is_used(store):
    client = Client(POLICY, store)
    tamper(store / storage.LEDGER_NAME, f"UPDATE runs SET residual = zeroblob({4 * D + 32})")
    with pytest.raises(LedgerError) as error:
        answer(client, 3)
    assert error.value.fault is Fault.DAMAGED
    assert len(client.history().entries) == 3


def test_an_older_copy_of_either_file_is_noticed(store, tmp_path):
    for name in (storage.LEDGER_NAME, storage.WITNESS_NAME):
        shutil.copy(store / name, tmp_path / name)
    client = Client(POLICY, store)
    answer(client, 3)
    for name in (storage.LEDGER_NAME, storage.WITNESS_NAME):
        newer = (store / name).read_bytes()
        shutil.copy(tmp_path / name, store / name)
        assert fault_of(store) is Fault.DISAGREES
        with pytest.raises(LedgerError):  # a client that was open notices as well
            answer(client, 4)
        (store / name).write_bytes(newer)
    answer(client, 4)


def test_a_whole_older_copy_is_noticed_by_a_witness_elsewhere(tmp_path):
    store, witness = tmp_path / "store", tmp_path / "elsewhere" / "witness"
    client = Client(POLICY, store, witness=witness, create=True)
    answer(client, 0)
    shutil.copytree(store, tmp_path / "copy")
    answer(client, 1)
    shutil.rmtree(store)
    assert_refused(Fault.OCCUPIED, store, witness)  # removed: not begun anew
    shutil.copytree(tmp_path / "copy", store)
    assert_refused(Fault.DISAGREES, store, witness)
    assert_refused(Fault.DISAGREES, store, None)
    with pytest.raises(InvalidArgument, match="outside of the store"):
        Client(POLICY, store, witness=store / "w")


def assert_refused(fault, store, witness):
    with pytest.raises(LedgerError) as error:
        Client(POLICY, store, witness=witness, create=True)
    assert error.value.fault is fault


def test_a_whole_older_copy_with_its_witness_is_not_noticed(store, tmp_path):
    """What the documentation says cannot be told."""
    shutil.copytree(store, tmp_path / "copy")
    answer(Client(POLICY, store), 3)
    shutil.rmtree(store)
    shutil.copytree(tmp_path / "copy", store)
    assert len(Client(POLICY, store).history().entries) == 3


@pytest.mark.slow
def test_bytes_turned_over_are_noticed_or_change_nothing(store):
    """Every byte of a used store, one at a time: it is refused, or says what it said before."""
    ledger, expected = Ledger(store), Ledger(store).read()
    rng = random.Random(0)
    noticed = 0
    for name in (storage.LEDGER_NAME, storage.WITNESS_NAME):
        file = store / name
        whole = file.read_bytes()
        places = [*range(100), *rng.sample(range(100, len(whole)), 300)]
        for place in places:
            changed = bytearray(whole)
            changed[place] ^= 1 << rng.randrange(8)
            file.write_bytes(changed)
            for journal in store.glob("*-*"):
                journal.unlink()
            try:
                assert ledger.read() == expected
            except LedgerError:
                noticed += 1
        file.write_bytes(whole)
    assert noticed > 50
    assert ledger.read() == expected


def test_the_files_of_two_stores_do_not_mix(tmp_path):
    for name in "ab":
        Client(POLICY, tmp_path / name, create=True)
    shutil.copy(tmp_path / "a" / storage.WITNESS_NAME, tmp_path / "b" / storage.WITNESS_NAME)
    assert fault_of(tmp_path / "b") is Fault.DISAGREES
