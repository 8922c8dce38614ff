"""Entries of a ledger and their links."""

import hashlib
import json
import sqlite3
from fractions import Fraction

import pytest

from fedsel.device import Fault, Intent, LedgerError
from fedsel.device._entries import Entry
from tests.device.test_client import UPDATE, WEIGHTS
from tests.device.test_ledger import tamper
from tests.device.test_purposes import RUN, STATED, asked, opened


@pytest.mark.parametrize(
    ("statements", "fault"),
    [
        (["UPDATE purposes SET purpose = 'Something else'"], Fault.DAMAGED),
        (["UPDATE purposes SET recipient = ''"], Fault.DAMAGED),
        (["UPDATE purposes SET purpose = recipient, recipient = purpose"], Fault.DAMAGED),
        (["UPDATE purposes SET purpose = '', recipient = ''"], Fault.DAMAGED),
        (["UPDATE purposes SET purpose = x'00'"], Fault.DAMAGED),
        (["UPDATE purposes SET run = zeroblob(16)"], Fault.DAMAGED),
        (["DELETE FROM purposes"], Fault.DAMAGED),
        (["DROP TABLE purposes"], Fault.FOREIGN),
        (["ALTER TABLE purposes ADD COLUMN more TEXT"], Fault.FOREIGN),
    ],
)
def test_a_purpose_that_was_changed_on_the_disk_is_noticed(quick_path, statements, fault):
    client = opened(quick_path)
    client.answer(asked(), WEIGHTS, UPDATE)
    tamper(client.ledger.file, *statements)
    for work in (
        client.history,
        client.ledger.inspect,
        lambda: client.answer(asked(number=1), WEIGHTS, UPDATE),
    ):
        with pytest.raises(LedgerError) as error:
            work()
        assert error.value.fault is fault


def test_a_purpose_that_was_made_up_on_the_disk_is_noticed(quick_path):
    """Also one for a run that had none."""
    client = opened(quick_path)
    client.answer(asked(Intent()), WEIGHTS, UPDATE)
    connection = sqlite3.connect(client.ledger.file)
    connection.execute("INSERT INTO purposes VALUES (?, 'A study', '')", (RUN,))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError) as error:
        client.history()
    assert error.value.fault is Fault.DAMAGED


@pytest.mark.parametrize(
    "intent",
    [Intent(), STATED, Intent('Größe "messen" \\ prüfen'), Intent("", "Example Ltd")],
    ids=repr,
)
def test_a_link_is_the_digest_of_a_list(intent):
    """Ledgers are read for years: what is hashed is this list of JSON, and no other."""
    entry = Entry(3, RUN, 1, 7, 1_700_000_000, Fraction(2, 3), bytes(32), b"\x01\xff")
    before = bytes(range(32))
    listed = [3, 1, 7, 1_700_000_000, "2/3", RUN.hex(), "00" * 32, "01ff"]
    stated = [intent.purpose, intent.recipient] if intent else []
    expected = hashlib.sha256(before + json.dumps(listed + stated).encode()).digest()
    assert entry.link(before, intent) == expected
