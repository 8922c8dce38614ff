"""A ledger that is changed while a client runs: noticed in the next transaction, at little cost."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from fedsel.device import Client, Fault, LedgerError, Limit
from fedsel.device import _storage as storage
from fedsel.device._transaction import LedgerTransaction
from tests.device.test_ledger import LIMITS, POLICY, answer, tamper, used

RICH = replace(POLICY, lifetime=100)
SHORT, LONG = 3, 38
"""With so many reports the entries are quicker to check, or the file as a whole."""


@pytest.fixture(autouse=True)
def quicker(monkeypatch):
    """Where the one begins and the other ends, for a ledger of eight pages."""
    monkeypatch.setattr("fedsel.device._transaction._QUICKER", 1200)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    client = Client(RICH, used(folder / f"{LONG}", RICH))
    for number in range(SHORT, LONG):
        answer(client, number)
    used(folder / f"{SHORT}", RICH)
    return folder


def opened(stores, entries, quick_path):
    """A client that has been opened on a ledger with so many reports."""
    return Client(RICH, shutil.copytree(stores / f"{entries}", quick_path / "store"))


@pytest.fixture
def checks(monkeypatch):
    """How many entries are checked, transaction by transaction."""
    counts, check = [], LedgerTransaction._verified_sum

    def counting(books, written):
        counts.append(books.reports)
        return check(books, written)

    monkeypatch.setattr(LedgerTransaction, "_verified_sum", counting)
    return counts


@pytest.mark.parametrize("entries", [SHORT, LONG])
@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE state SET spent = '0'"],
        ["UPDATE state SET spent = '1/5'"],
        ["UPDATE reports SET charge = '0' WHERE number = 1"],
        ["UPDATE reports SET charge = '0' WHERE number = 1", "UPDATE state SET spent = '1/5'"],
        ["UPDATE reports SET charge = '2/20' WHERE number = 1"],
        ["UPDATE reports SET time = 0 WHERE number = 1"],
        ["UPDATE reports SET epoch = 7 WHERE number = 1"],
        ["UPDATE reports SET round = 99 WHERE number = 1"],
        ["UPDATE reports SET run = zeroblob(16) WHERE number = 1"],
        ["UPDATE reports SET run = 'text' WHERE number = 1"],
        ["UPDATE reports SET digest = zeroblob(32) WHERE number = 1"],
        ["UPDATE reports SET report = zeroblob(16) WHERE number = 1"],
        ["UPDATE reports SET link = zeroblob(32) WHERE number = 1"],
        ["UPDATE reports SET number = -1 WHERE number = 1"],
        ["DELETE FROM reports WHERE number = 1"],
        ["DELETE FROM reports WHERE number = 3"],
        ["DELETE FROM reports WHERE number < 3", "UPDATE state SET spent = '1/10'"],
        *(statements.split("; ") for statements in LIMITS),
    ],
)
def test_every_change_is_noticed_before_a_report_is_charged_or_handed_out(
    stores, quick_path, entries, statements
):
    client = opened(stores, entries, quick_path)
    tamper(client.ledger.file, *statements)
    for number in (entries, 2):  # a new report, and one that was made before
        with pytest.raises(LedgerError) as error:
            answer(client, number)
        assert error.value.fault is Fault.DAMAGED


def test_bytes_that_were_changed_without_sqlite_are_noticed(stores, quick_path):
    client = opened(stores, LONG, quick_path)
    report = client.history().entries[4].report
    content = client.ledger.file.read_bytes()
    assert content.count(report) == 1
    client.ledger.file.write_bytes(content.replace(report, bytes(len(report))))
    with pytest.raises(LedgerError) as error:
        answer(client, LONG)
    assert error.value.fault is Fault.DAMAGED


def test_what_nobody_else_has_written_is_checked_once(stores, quick_path, checks):
    client = opened(stores, LONG, quick_path)
    answer(client, LONG)
    assert checks == [LONG]  # when it was opened
    other = Client(RICH, client.ledger.store)
    answer(other, LONG + 1)
    assert checks == [LONG, LONG + 1]
    assert answer(client, LONG + 1) == answer(other, LONG + 1)  # another process has written
    assert checks == [LONG, LONG + 1, LONG + 2]
    assert len(client.history().entries) == LONG + 2
    assert checks[3:] == [LONG + 2]  # history is thorough


def test_short_ledgers_are_checked_every_time(stores, quick_path, checks):
    client = opened(stores, SHORT, quick_path)
    answer(client, SHORT)
    assert checks == [SHORT] * 3  # opened, looked at, written


def test_an_sqlite_that_has_no_image_of_a_file_checks_every_time(
    stores, quick_path, checks, monkeypatch
):
    monkeypatch.setattr(storage, "image", lambda *_: None)
    client = opened(stores, LONG, quick_path)
    answer(client, LONG)
    assert checks == [LONG] * 3


def test_a_transaction_that_is_not_finished_leaves_nothing_known(stores, quick_path, checks):
    client = opened(stores, LONG, quick_path)

    def abandoned():
        with client.ledger.transaction(write=True) as books:
            books.set_limits([Limit(RICH.lifetime - 1)], 0)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        abandoned()
    answer(client, LONG)
    assert checks == [LONG]
    assert client.history().lifetime == RICH.lifetime


class Serialized:
    """A connection whose file is what a test says it is."""

    def __init__(self, content):
        self._content = content

    def execute(self, sql):
        pages, size = 1, len(self._content)
        return SimpleNamespace(fetchone=lambda: (pages if "count" in sql else size,))

    def serialize(self, name):
        return bytes(self._content)


def test_an_image_is_of_every_byte_but_the_counters_of_sqlite():
    """Bytes 24 to 27 and 92 to 99 of the file format: SQLite writes them when a change is over."""
    content = bytearray(512)
    before = storage.image(Serialized(content), len(content))
    assert storage.image(Serialized(content), len(content) - 1) is None
    unseen = []
    for place in range(len(content)):
        content[place] ^= 1
        if storage.image(Serialized(content), len(content)) == before:
            unseen.append(place)
        content[place] ^= 1
    assert unseen == [*range(24, 28), *range(92, 100)]
