"""Where the service keeps reports and runs: SQLite for one process, PostgreSQL for many."""

from __future__ import annotations

from pathlib import Path

from fedsel.errors import InvalidArgument
from fedsel.service.storage.base import (
    Batch,
    BatchResult,
    Books,
    Place,
    Store,
    StoreUnavailable,
)
from fedsel.service.storage.sqlite import SQLiteStore

__all__ = [
    "Batch",
    "BatchResult",
    "Books",
    "Place",
    "Store",
    "StoreUnavailable",
    "open_store",
]


def open_store(url: str | Path, *, alone: bool = True) -> Store:
    """The store of a URL: ``postgresql://…``, or a folder for SQLite.

    A folder belongs to one service at a time; who only reads is not ``alone``.
    """
    text = str(url)
    if text.startswith(("postgresql://", "postgres://")):
        from fedsel.service.storage.postgres import PostgresStore

        return PostgresStore(text)
    text = text.removeprefix("sqlite:///")
    if "://" in text or not text:
        raise InvalidArgument("store", url, "a folder, or postgresql://…")
    return SQLiteStore(Path(text), alone=alone)
