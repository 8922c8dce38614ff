"""The contract of stores: both kinds do the same, and no report is in a round that is over."""

import hashlib
import json
import shutil
import threading
import time
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

from fedsel.errors import InvalidArgument
from fedsel.server import Counts
from fedsel.service import _store
from fedsel.service._store import GatewayBatch, StoreUnavailable, open_store
from fedsel.service._training import opened
from fedsel.wire import ReportFormat
from tests.service.support import running, task_of

pytestmark = pytest.mark.xdist_group("processes")


@pytest.fixture
def store(store_url):
    opened = open_store(store_url)
    opened.begin("a run", b"begun", 10.0)
    yield opened
    opened.close()


STORES = Path(__file__).with_name("stores")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_store_of_the_first_version_opens(kind, quick_path, request):
    """Written before stores had revisions: nothing in it changes, and its run goes on."""
    facts = json.loads((STORES / "first.json").read_text())[kind]
    if kind == "sqlite":
        url = quick_path / "store"
        url.mkdir()
        shutil.copy(STORES / "first.sqlite", url / "service.sqlite")
    else:
        import psycopg

        url = request.getfixturevalue("postgres_url")
        with psycopg.connect(url) as connection:
            connection.execute((STORES / "first.sql").read_text())
    for _ in range(2):  # migrated, and then as it is
        store, task = open_store(url), task_of()
        assert store.choose("test")
        state = opened(task, store)
        now, form = store.status(), ReportFormat.of(state.recipe.build(), state.run)
        assert store.key().hex() == facts["key"]
        assert hashlib.sha256(store.checkpoint()).hexdigest() == facts["checkpoint"]
        assert state.state.weights.tolist() == facts["weights"]
        assert (now.round, now.opened, list(now.counts)) == (1, 1010.0, facts["counts"])
        rounds = store.rounds()
        assert [[opened, closed] for opened, closed, _ in rounds] == facts["times"]
        assert [measured for *_, measured in rounds][: len(facts["measures"])] == facts["measures"]
        with store.writing() as transaction:
            data = b"".join(transaction.reports(1))
            rows = sorted(data[i : i + form.size] for i in range(0, len(data), form.size))
            assert hashlib.sha256(b"".join(rows)).hexdigest() == facts["reports"]
            assert transaction.report_of(0, row(0)[0]).hex() == facts["first"]
            digest, _ = transaction.batch_of(GatewayBatch(b"g" * 16, b"b0", b""))
            assert digest.hex() == facts["batch"]
        store.close()
    with running(task_of(), url) as client:  # five reports are there: it ends at once
        client.wait_for(2)


def test_the_newest_revision_is_known_without_alembic():
    folder = Path(_store.__file__).with_name("_migrations")
    assert ScriptDirectory(str(folder)).get_current_head() == _store._HEAD


def test_a_store_of_a_newer_version_is_refused(store_url):
    opened = open_store(store_url)
    opened.execute("UPDATE alembic_version SET version_num = 'future'")
    opened.close()
    with pytest.raises(StoreUnavailable, match="newer version of fedsel"):
        open_store(store_url)


def row(i, report=b"r"):
    return (i.to_bytes(16, "big"), report)


def test_a_run_begins_once(store, store_url):
    assert store.begin("a run", b"another", 20.0) == b"begun"
    assert store.rounds() == [(10.0, None, None)]
    assert (store.status().round, store.status().opened) == (0, 10.0)
    key = store.key()
    assert len(key) == 32
    assert store.begin("another run", b"begun too", 30.0) == b"begun too"
    assert store.key() != key
    assert not store.choose("no run")
    assert store.choose("a run")
    assert store.key() == key


def test_runs_lie_side_by_side(store, store_url):
    """Each with reports, rounds and a connection of its own."""
    other = store.another()
    other.begin("another run", b"begun too", 20.0)
    with other.writing() as transaction:
        assert transaction.add(0, [row(1, b"o")]) == [None]
        transaction.tally(Counts(1))
    with store.writing() as transaction:
        assert transaction.report_of(0, row(1)[0]) is None
        assert transaction.add(0, [row(1)]) == [None]
    with other.closing() as transaction:
        assert list(transaction.reports(0)) == [b"o"]
        transaction.advance(b"after", 30.0, False, None)
    assert (store.status().round, other.status().round) == (0, 1)
    assert store.status().counts == Counts()
    assert store.names() == other.names() == ["a run", "another run"]
    other.rest()
    assert other.checkpoint() == b"after"
    other.close()
    assert store.checkpoint() == b"begun"


def test_reports_are_added_once(store):
    with store.writing() as transaction:
        assert transaction.round == 0
        assert transaction.add(0, [row(1), row(2, b"two")]) == [None, None]
    with store.writing() as transaction:
        assert transaction.add(0, [row(3), row(2, b"other"), row(1)]) == [None, b"two", b"r"]
        assert transaction.report_of(0, row(2)[0]) == b"two"
        assert transaction.report_of(1, row(2)[0]) is None
    with store.closing() as transaction:
        assert sorted(b"".join(transaction.reports(0))) == sorted(b"rtwor")


def test_a_transaction_that_fails_leaves_nothing(store):
    def fail():
        with store.writing() as transaction:
            transaction.add(0, [row(1)])
            transaction.tally(Counts(1))
            transaction.add_batch(GatewayBatch(b"g", b"1", b"rr"), b"d", Counts(2))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with store.writing() as transaction:
        assert transaction.add(0, [row(1)]) == [None]
        assert transaction.batch_of(GatewayBatch(b"g", b"1", b"")) is None
    assert store.status().counts == Counts()


def test_batches_are_known_again(store):
    batch, counts = GatewayBatch(b"gateway", b"1", b"xxyy"), Counts(2, 1, 0, 3)
    with store.writing() as transaction:
        assert transaction.batch_of(batch) is None
        transaction.add_batch(batch, b"digest", counts)
        assert transaction.batch_of(batch) == (b"digest", counts)
        assert transaction.batch_of(GatewayBatch(b"another", b"1", b"xxyy")) is None
        transaction.add(0, [row(1)])
        assert sorted(transaction.reports(0)) == [b"r", b"xxyy"]


def test_tallies_add_up(store):
    for counts in (Counts(3, 1, 0, 2), Counts(1, 0, 5, 0)):
        with store.writing() as transaction:
            transaction.tally(counts)
            seen = transaction.status().counts
    assert seen == store.status().counts == Counts(4, 1, 5, 2)


def test_rounds_end_one_after_another(store, store_url):
    with store.writing() as transaction:
        transaction.add(0, [row(1)])
        transaction.tally(Counts(1))
    with store.closing() as transaction:
        transaction.advance(b"after 0", 11.0, False, None)
    now = store.status()
    assert (now.round, now.opened, now.counts) == (1, 11.0, Counts())
    assert store.checkpoint() == b"after 0"
    with store.closing() as transaction:
        assert list(transaction.reports(1)) == []
        assert list(transaction.reports(0)) == [b"r"]
        transaction.advance(b"after 1", 12.0, True, "{}")
    assert store.rounds() == [(10.0, 11.0, None), (11.0, 12.0, "{}")]
    assert store.status().round == 2
    store.close()
    again = open_store(store_url)
    assert again.begin("a run", b"begun", 99.0) == b"after 1"
    assert again.status().round == 2
    again.close()


def test_many_reports_are_read_in_parts(store):
    count = 40_000
    with store.writing() as transaction:
        transaction.add(0, [row(i, i.to_bytes(16, "big")) for i in range(count)])
        parts = list(transaction.reports(0))
    assert len(parts) > 1
    data = b"".join(parts)
    assert {data[i : i + 16] for i in range(0, len(data), 16)} == {row(i)[0] for i in range(count)}


def test_what_is_no_store():
    with pytest.raises(InvalidArgument, match=r"store = 'mysql://…': must be a folder, or postg"):
        open_store("mysql://x")
    with pytest.raises(StoreUnavailable):
        open_store("postgresql://nobody@/nothing?host=/no/such/folder")


def test_no_report_is_added_while_a_round_ends(postgres_url):
    """A writer that comes during a close waits, and then sees the next round."""
    first, second = open_store(postgres_url), open_store(postgres_url)
    for store in (first, second):
        store.begin("a run", b"begun", 0.0)
    seen, waits = [], threading.Event()

    def write():
        waits.set()
        with second.writing() as transaction:
            seen.append(transaction.round)

    with first.closing() as transaction:
        thread = threading.Thread(target=write)
        thread.start()
        waits.wait()
        time.sleep(0.2)  # long enough to slip through, if it could
        assert seen == []
        transaction.advance(b"after", 1.0, False, None)
    thread.join(60)
    assert seen == [1]
    first.close()
    second.close()


def test_a_round_does_not_end_while_a_report_is_added(postgres_url):
    """Nor does it wait for ever: whoever closes is next, before writers that come after it."""
    stores = [open_store(postgres_url) for _ in range(3)]
    for store in stores:
        store.begin("a run", b"begun", 0.0)
    order = []

    def close():
        with stores[1].closing() as transaction:
            order.append("closed")
            assert b"".join(transaction.reports(0)) == b"r"
            transaction.advance(b"after", 1.0, False, None)

    def write():
        with stores[2].writing() as transaction:
            order.append(f"wrote in {transaction.round}")

    with stores[0].writing() as transaction:
        transaction.add(0, [row(1)])
        closer, writer = threading.Thread(target=close), threading.Thread(target=write)
        closer.start()
        time.sleep(0.2)
        writer.start()
        time.sleep(0.2)
        order.append("added")
    closer.join(60)
    writer.join(60)
    assert order == ["added", "closed", "wrote in 1"]
    for store in stores:
        store.close()
