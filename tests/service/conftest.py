"""Stores of both kinds, and a PostgreSQL for all tests of a worker."""

import secrets

import pytest

from tests.service.postgres import Cluster, installed


@pytest.fixture(scope="session")
def cluster():
    """A PostgreSQL; skips where none is installed."""
    if not installed():
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    made = Cluster()
    yield made
    made.stop()


@pytest.fixture
def postgres_url(cluster):
    """A database of the test's own."""
    import psycopg

    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(cluster.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return cluster.url.replace("/fedsel?", f"/{name}?")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, quick_path):
    """A store of each kind, of the test's own."""
    if request.param == "sqlite":
        return str(quick_path / "store")
    return request.getfixturevalue("postgres_url")
