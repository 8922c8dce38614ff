"""Where the service keeps reports and runs: SQLite for one process, PostgreSQL for many."""

from __future__ import annotations

import re
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
    "shown",
]
POSTGRES = ("postgresql://", "postgres://")


_LIKE_A_URL = re.compile(r"[A-Za-z][\w+.-]+:/|[^/\\:]+:(?!\\)[^/]*@|.*\bpassword *=", re.IGNORECASE)
"""No folder: an address, of which no message may show the password."""


def open_store(url: str | Path, *, alone: bool = True) -> Store:
    """The store of a URL: ``postgresql://…``, or a folder for SQLite.

    A folder belongs to one service at a time; who only reads is not ``alone``.
    """
    text = str(url).removeprefix("sqlite:///")
    if text.startswith(POSTGRES):
        from fedsel.service.storage.postgres import PostgresStore

        return PostgresStore(text)
    if _LIKE_A_URL.match(text) or not text:
        raise InvalidArgument("store", shown(text), "a folder, or postgresql://…")
    return SQLiteStore(Path(text), alone=alone)


def shown(url: str | Path) -> str:
    """A store as messages show it: a folder as it is, of a URL no more than its place.

    >>> shown("postgresql://fedsel:secret@db.example:5432/fedsel?sslmode=require")
    'postgresql://db.example:5432/fedsel'
    >>> shown("postgresq://fedsel:secret@db.example/fedsel"), shown("my.store")
    ('postgresq://…', 'my.store')
    """
    text = str(url)
    if text.startswith(POSTGRES):
        from fedsel.service.storage.postgres import place_of

        return place_of(text)
    if _LIKE_A_URL.match(text):
        scheme, found, _ = text.partition("://")
        return f"{scheme}://…" if found else "…"
    return text
