"""Ledgers that an earlier version wrote: they open, and nothing that was spent is forgotten.

`golden/ledger-v1` was written by version 1 of the format. It holds two reports of ε = 1/10 of an
honest run, and eight of hostile runs whose denominators have filled the 512 bits that the sum was
allowed: every further ε was refused, with 0.204 of 2 spent.
"""

import os
import random
import shutil
import signal
import sqlite3
import time
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fedsel.device import (
    Client,
    Fault,
    Intent,
    Ledger,
    LedgerError,
    Limit,
    Limits,
    Policy,
    Reason,
    Refused,
    Request,
)
from fedsel.device import _storage as storage
from tests.device.test_ledger import tamper
from tests.wire.support import complete

GOLDEN = Path(__file__).parents[1] / "golden" / "ledger-v1"
D = 8
HONEST_RUN = bytes(16)
HONEST = complete("PS-PM", epsilon=Fraction(1, 2), dim=D, epochs=5)
WEIGHTS, UPDATE = np.zeros(D), np.linspace(-1, 1, D)


def policy(**changes):
    given = {"lifetime": 2, "per_report": 0.5, "solutions": ["PS-PM", "PM"], "dimensions": [D]}
    return Policy.of({**given, "runs": 99, **changes})


@pytest.fixture
def store(quick_path):
    return shutil.copytree(GOLDEN, quick_path / "store")


def versions(store):
    found = []
    for name in (storage.LEDGER_NAME, storage.WITNESS_NAME):
        connection = sqlite3.connect(store / name)
        found.append(connection.execute("PRAGMA user_version").fetchone()[0])
        connection.close()
    return found


def written_sum(store):
    connection = sqlite3.connect(store / storage.LEDGER_NAME)
    (spent,) = connection.execute("SELECT spent FROM state").fetchone()
    connection.close()
    return Fraction(spent)


def ask(client, number=2):
    return client.answer(Request(HONEST_RUN, number, number, HONEST).encode(), WEIGHTS, UPDATE)


def new_run(client, epsilon):
    plan = complete("PM", epsilon=epsilon, dim=D)
    return client.answer(Request(b"n" * 16, 0, 0, plan).encode(), WEIGHTS, UPDATE)


def test_an_old_ledger_is_read_as_it_is(store):
    before = {file.name: file.read_bytes() for file in store.iterdir()}
    exact = written_sum(store)
    history = Client(policy(), store).history()
    assert len(history.entries) == 10
    assert sum(entry.charge for entry in history.entries) == exact
    assert exact < history.spent < exact + Fraction(1, 10**60)
    assert {file.name: file.read_bytes() for file in store.iterdir()} == before


def test_an_old_ledger_is_added_up_anew_as_long_as_it_is_old(store, monkeypatch):
    """Also where the file is known to be what was checked: the sum in it is the old one."""
    monkeypatch.setattr("fedsel.device._transaction._QUICKER", 10**6)
    client = Client(policy(), store)
    spent = []
    for _ in range(2):
        with client.ledger.transaction() as books:
            assert books.begun is not None
            spent.append(books.spent)
    assert spent[0] == spent[1] > written_sum(store)


def test_an_old_ledger_is_brought_up_to_date_with_the_first_report(store):
    exact = written_sum(store)
    client = Client(policy(), store)
    old = client.history()
    assert ask(client, 1) == old.entries[1].report  # a report that left before
    assert versions(store) == [1, 1]
    new_run(client, 0.35)  # which version 1 refused
    assert versions(store) == [5, 5]
    history = client.history()
    assert history.entries[:10] == old.entries
    assert 0 < history.spent - Fraction(7, 20) - exact < Fraction(1, 10**60)
    assert written_sum(store) == history.spent
    with client.ledger.transaction() as books:
        kept = books.residual(HONEST_RUN, D)
        assert kept.any()
    ask(client)
    with client.ledger.transaction() as books:
        assert not np.array_equal(books.residual(HONEST_RUN, D), kept)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_lifetime_brings_it_up_to_date_as_well(quick_path, version):
    store = shutil.copytree(GOLDEN.with_name(f"ledger-v{version}"), quick_path / "old")
    before = Ledger(store).read()
    first = Limits((Limit(Fraction(2)),), None, len(before.entries), "")
    assert before.changes == (first,)
    with pytest.raises(LedgerError) as error:
        Client(policy(lifetime=3), store)
    assert error.value.fault is Fault.LIFETIME
    assert versions(store) == [version] * 2
    history = Client(policy(lifetime=3), store, raised_by="The owner").history()
    assert versions(store) == [5, 5]
    assert history.left == before.left + 1
    assert (history.changes[0], history.entries) == (first, before.entries)
    assert (history.lifetime, history.changes[1].by) == (3, "The owner")


def test_what_rounding_puts_above_the_lifetime_is_spent(store):
    """The exact sum was the lifetime to the last bit; no error, and nothing is left."""
    exact = written_sum(store)
    client = Client(policy(lifetime=exact), store)
    assert client.history().spent > exact
    assert client.history().left == 0
    with pytest.raises(Refused) as error:
        new_run(client, 1e-6)
    assert error.value.reason is Reason.EXHAUSTED
    assert len(Client(policy(lifetime=exact), store).history().entries) == 10


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE state SET spent = '1/5'",
        "UPDATE reports SET charge = '0' WHERE number = 2",
        "DELETE FROM reports WHERE number = 10",
    ],
)
def test_an_old_ledger_that_was_changed_is_not_brought_up_to_date(store, statement):
    client = Client(policy(), store)
    tamper(store / storage.LEDGER_NAME, statement)
    for work in (lambda: ask(client), lambda: Client(policy(), store)):
        with pytest.raises(LedgerError) as error:
            work()
        assert error.value.fault is Fault.DAMAGED
    assert versions(store) == [1, 1]


def test_an_old_copy_of_one_file_beside_a_new_one_is_noticed(store):
    ask(Client(policy(), store))
    for name in (storage.LEDGER_NAME, storage.WITNESS_NAME):
        newer = (store / name).read_bytes()
        shutil.copy(GOLDEN / name, store / name)
        with pytest.raises(LedgerError) as error:
            Client(policy(), store)
        assert error.value.fault is Fault.DISAGREES
        (store / name).write_bytes(newer)
    assert len(Ledger(store).read().entries) == 11


def in_child(work):
    """Start a process of its own; returns its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # other tests may have left threads: the child needs none
        child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


@pytest.mark.slow
def test_kills_around_the_migration_leave_the_old_or_the_new_ledger(quick_path):
    """SIGKILL at random instants: both files are old or both are new, and nothing is forgotten.

    As often as it takes until both have been seen ten times, on a slow machine or a quick one.
    """
    rng = random.Random(1)
    exact = written_sum(GOLDEN)
    new_run(Client(policy(), shutil.copytree(GOLDEN, quick_path / "warm")), 0.35)
    longest, seen = 0.001, {1: 0, 5: 0}
    for number in range(1000):
        store = shutil.copytree(GOLDEN, quick_path / str(number))
        mine, theirs = os.pipe()

        def work(store=store, ready=theirs):
            client = Client(policy(), store)
            os.write(ready, b".")
            new_run(client, 0.35)

        child = in_child(work)
        os.read(mine, 1)
        time.sleep(rng.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(mine)
        os.close(theirs)
        history = Client(policy(), store).history()  # rolls back what was not finished
        found = versions(store)
        assert found in ([1, 1], [5, 5])
        seen[found[0]] += 1
        assert len(history.entries) == (10 if found == [1, 1] else 11)
        due = exact + (0 if found == [1, 1] else Fraction(7, 20))
        assert due < history.spent < due + Fraction(1, 10**60)
        ask(Client(policy(), store))
        assert versions(store) == [5, 5]
        longest *= 0.8 if found == [5, 5] else 1.3  # around the instant that matters
        if min(seen.values()) == 10:
            break
    assert min(seen.values()) == 10


def test_two_processes_on_one_old_ledger(store):
    def work(worker):
        client = Client(policy(), store)
        for number in range(10):
            plan = complete("PM", epsilon=0.01, dim=D)
            run = bytes([100 + worker, number]) * 8
            client.answer(Request(run, 0, 0, plan).encode(), WEIGHTS, UPDATE)

    children = [in_child(lambda i=i: work(i)) for i in range(2)]
    for child in children:
        os.waitpid(child, 0)
    history = Ledger(store).read()
    assert versions(store) == [5, 5]
    assert len(history.entries) == 30
    assert 0 < history.spent - Fraction(1, 5) - written_sum(GOLDEN) < Fraction(1, 10**60)


V2 = GOLDEN.with_name("ledger-v2")
"""Three reports of two runs, PS-PM with a residual and RJ, before runs had a purpose."""
STATED = Intent("Better suggestions", "Example Ltd")


@pytest.fixture
def second(quick_path):
    return shutil.copytree(V2, quick_path / "second")


def v2_policy():
    return policy(solutions=["PS-PM", "PM", "RJ"])


def test_a_ledger_of_version_2_is_read_as_it_is(second):
    before = {file.name: file.read_bytes() for file in second.iterdir()}
    history = Client(v2_policy(), second).history()
    assert history == Ledger(second).inspect()
    assert (history.spent, history.intents) == (Fraction(11, 20), {})
    assert [entry.time for entry in history.entries] == [
        1_700_000_000 + 86_400 * i for i in (0, 1, 2)
    ]
    assert versions(second) == [2, 2]
    assert {file.name: file.read_bytes() for file in second.iterdir()} == before


def test_a_ledger_of_version_2_gets_purposes_with_the_first_report(second):
    client = Client(v2_policy(), second)
    old = client.history()
    with client.ledger.transaction() as books:
        kept = books.residual(HONEST_RUN, D)
        assert kept.any()
    stated = Request(HONEST_RUN, 2, 2, HONEST, STATED)
    with pytest.raises(Refused) as error:  # it began without
        client.answer(stated.encode(), WEIGHTS, UPDATE)
    assert error.value.reason is Reason.CONFLICT
    assert versions(second) == [2, 2]
    ask(client)
    assert versions(second) == [5, 5]
    plan = complete("PM", epsilon=0.35, dim=D)
    client.answer(Request(b"n" * 16, 0, 0, plan, STATED).encode(), WEIGHTS, UPDATE)
    history = client.history()
    assert history.entries[:3] == old.entries
    assert history.intents == {b"n" * 16: STATED}
    assert history.spent == old.spent + Fraction(1, 10) + Fraction(7, 20)
    assert history.identity == old.identity


V3 = GOLDEN.with_name("ledger-v3")
"""A run with a purpose, closed by one of PS-PM with two reports, before lifetimes were recorded."""


@pytest.fixture
def third(quick_path):
    return shutil.copytree(V3, quick_path / "third")


def test_a_ledger_of_version_3_gets_its_lifetime_and_runs_into_the_chain(third):
    client = Client(v2_policy(), third)
    old = client.history()
    assert (versions(third), len(old.entries)) == ([3, 3], 3)
    ask(client)
    assert versions(third) == [5, 5]
    history = client.history()
    assert history.entries[:3] == old.entries
    assert history.changes == old.changes
    assert (history.intents, history.recipes) == (old.intents, old.recipes)
    tamper(third / storage.LEDGER_NAME, "UPDATE runs SET open = 1")
    with pytest.raises(LedgerError) as error:
        client.history()
    assert error.value.fault is Fault.DAMAGED


V4 = GOLDEN.with_name("ledger-v4")
"""As that of version 3, and its lifetime was raised by Ada Bell, then lowered, before windows."""


@pytest.fixture
def fourth(quick_path):
    return shutil.copytree(V4, quick_path / "fourth")


def test_a_ledger_of_version_4_gets_limits_in_place_of_its_lifetimes(fourth):
    old = Ledger(fourth).inspect()
    assert [(float(one.lifetime), one.reports, one.by) for one in old.changes] == [
        (2, 0, ""),
        (3, 2, "Ada Bell"),
        (1.5, 3, ""),
    ]
    assert old == Client(policy(solutions=["PS-PM", "PM"], lifetime=1.5), fourth).history()
    assert versions(fourth) == [4, 4]
    window = policy(solutions=["PS-PM", "PM"], lifetime=1.5, per_window=(1, "30 days"))
    client = Client(window, fourth)
    assert versions(fourth) == [5, 5]
    history = client.history()
    assert (history.changes[:3], history.entries) == (old.changes, old.entries)
    assert [str(limit) for limit in history.limits] == ["ε = 1.5 ever", "ε = 1 in any 30 days"]
    assert (history.known_time, history.identity) == (old.changes[0].time, old.identity)
    ask(client)
    assert client.history().entries[-1].time >= history.known_time
    tamper(fourth / storage.LEDGER_NAME, "UPDATE limits SET allowed_by = '' WHERE number = 2")
    with pytest.raises(LedgerError) as error:
        client.history()
    assert error.value.fault is Fault.DAMAGED


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lifetimes SET lifetime = '3' WHERE number = 3",
        "UPDATE lifetimes SET allowed_by = '' WHERE number = 2",
        "DELETE FROM lifetimes WHERE number = 1",
    ],
)
def test_a_ledger_of_version_4_that_was_changed_is_not_brought_up_to_date(fourth, statement):
    tamper(fourth / storage.LEDGER_NAME, statement)
    with pytest.raises(LedgerError) as error:
        Client(policy(lifetime=1), fourth)
    assert error.value.fault is Fault.DAMAGED
    assert versions(fourth) == [4, 4]


def test_a_migrated_ledger_without_a_known_time_asks_the_owner_for_it(quick_path):
    """Reports are known times; where there are none, the clock has nothing to be compared with."""
    store = shutil.copytree(V3, quick_path / "old")
    window = policy(solutions=["PS-PM", "PM", "RJ"], per_window=(1, "30 days"))
    client = Client(window, store)
    client._now = lambda: 1_700_172_800 + 60 * 86_400 + 1
    with pytest.raises(Refused) as error:
        ask(client)
    assert error.value.reason is Reason.CLOCK
    client._now = lambda: 1_700_172_800 + 60 * 86_400
    ask(client)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_an_old_ledger_that_is_brought_up_to_date_is_as_one_that_is_new(quick_path, version):
    old = shutil.copytree(GOLDEN.with_name(f"ledger-v{version}"), quick_path / "old")
    ask(Client(v2_policy(), old, raised_by="Ada"))
    Ledger(quick_path / "fresh").create(Fraction(2))
    schemas = []
    for store in (old, quick_path / "fresh"):
        connection = sqlite3.connect(store / storage.LEDGER_NAME)
        schemas.append(
            connection.execute("SELECT sql FROM sqlite_schema ORDER BY rowid").fetchall()
        )
        connection.close()
    assert schemas[0] == schemas[1]


def test_a_version_that_is_not_known_yet_is_refused(second, monkeypatch):
    """As the one before this would refuse what this one writes."""
    ask(Client(v2_policy(), second))
    monkeypatch.setattr(storage, "VERSION", 2)
    for work in (lambda: Client(v2_policy(), second), Ledger(second).inspect):
        with pytest.raises(LedgerError) as error:
            work()
        assert error.value.fault is Fault.FOREIGN
