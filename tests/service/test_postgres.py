"""Stores in PostgreSQL: flushed, found again, and silent about passwords."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedsel.errors import InvalidArgument
from fedsel.service._store import StoreUnavailable, open_store, shown
from tests.service.support import wait_until
from tests.service.test_store import row

pytestmark = pytest.mark.xdist_group("processes")
WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
def store(store_url):
    opened = open_store(store_url)
    opened.begin("a run", b"begun", 10.0)
    yield opened
    opened.close()


def test_a_commit_in_postgresql_is_flushed(postgres_url):
    """Whatever the database would do by itself."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as other:
        name = other.info.dbname
        other.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    opened = open_store(postgres_url)
    assert opened.execute("SHOW synchronous_commit").fetchone() == ("on",)
    opened.close()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_report_that_waited_for_the_end_of_a_round_is_not_added_to_it(postgres_url, isolation):
    """It would be accepted and counted nowhere: whatever transactions see by default."""
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as other:
        name = other.info.dbname
        other.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'")
    with contextlib.ExitStack() as stack:
        one, two = (open_store(postgres_url) for _ in range(2))
        for store in (one, two):
            stack.callback(store.close)
            store.begin("a run", b"begun", 10.0)

        def written():
            with two.writing() as transaction:
                return transaction.round, transaction.add(transaction.round, [row(1)])

        thread = stack.enter_context(ThreadPoolExecutor(1))
        with one.closing() as transaction:
            found = thread.submit(written)
            wait_until(lambda: one.execute(WAITING).fetchone())
            transaction.advance(b"next", 20.0, False, None)
        assert found.result() == (1, [None])
        with one.closing() as transaction:
            assert list(transaction.reports(0)) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresq://u:SECRET@127.0.0.1:1/x",  # misspelt
        "postgresql:/u:SECRET@127.0.0.1:1/x",
        "u:SECRET@127.0.0.1:1/x",
        "host=127.0.0.1 port=1 password=SECRET",
        "postgresql://u:SECRET@127.0.0.1:1/x",  # nobody is there
        "postgresql://u@127.0.0.1:1/x?password=SECRET",
        "postgresql://u:a@SECRET@127.0.0.1:1/x",  # to be written as %40
        "postgresql://u:a/SECRET@127.0.0.1:1/x",
        "postgresql://u:SECRET/a@127.0.0.1:1/x",
        "postgresql://u:SECRET a@127.0.0.1:1/x",
        "postgresql://u:SECRET%zz@127.0.0.1:1/x",
        "postgresql://u@127.0.0.1:1/x?passwd=SECRET",
    ],
)
def test_no_message_holds_the_password_of_a_store(quick_path, monkeypatch, url):
    monkeypatch.chdir(quick_path)
    with pytest.raises((InvalidArgument, StoreUnavailable)) as found:
        open_store(url)
    assert "SECRET" not in str(found.value)
    with contextlib.suppress(InvalidArgument):
        assert "SECRET" not in shown(url)
    assert not list(quick_path.iterdir())


def test_a_database_that_is_away_is_named_with_what_to_do():
    with pytest.raises(StoreUnavailable) as found:
        open_store("postgresql://u:SECRET@127.0.0.1:1/x")
    for part in ("postgresql://u@127.0.0.1:1/x", "refused", "Start it", "--store", "PGPASSWORD"):
        assert part in str(found.value)


def test_a_database_that_was_away_is_found_again(postgres_url):
    import psycopg

    store = open_store(postgres_url)
    store.begin("a run", b"begun", 0.0)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    with pytest.raises(StoreUnavailable), store.writing() as transaction:
        transaction.add(0, [row(1)])
    with store.writing() as transaction:
        assert transaction.add(0, [row(1)]) == [None]
    store.close()
