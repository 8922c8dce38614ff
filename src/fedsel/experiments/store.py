"""Results on disk: each finished task under its key, so that an interrupted run loses nothing."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from fedsel.errors import InvalidArgument
from fedsel.paths import source_digest

_APPLICATION = 0x66656453  # "fedS", in the header of the file
_DECIDING = (
    "exact.py",
    "errors.py",
    "random.py",
    "budget.py",
    "recipe.py",
    "auto.py",
    "reports.py",
    "mechanisms",
    "sampling",
    "models",
    "solutions",
    "server/step.py",
    "simulation",
    "data",
    "experiments/trial.py",
    "experiments/datasets.py",
    "paper/measures",
)
"""The sources that decide a result; pages, plots and commands do not."""


@cache
def code_version() -> str:
    """A name for the code that decides results: another code, another result."""
    return source_digest(*_DECIDING)


def key_of(kind: str, parameters: Mapping[str, Any], data: str = "") -> str:
    """The key of a task: its exact parameters, a digest of data of one's own, and the code."""
    text = json.dumps([kind, parameters, data, code_version()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class Store:
    """An SQLite file of results, each on the disk when `add` returns.

    Several processes may share one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.is_dir():
            raise InvalidArgument("store", str(path), "a file, not a folder")
        with self._open() as file:
            (application,) = file.execute("PRAGMA application_id").fetchone()
            (tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application != _APPLICATION and tables:
                raise InvalidArgument("store", str(path), "a results file of fedsel, or a new one")
            if tables:
                return
            file.execute(f"PRAGMA application_id = {_APPLICATION}")
            file.execute(
                "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, kind TEXT NOT NULL, "
                "parameters TEXT NOT NULL, code TEXT NOT NULL, result TEXT NOT NULL, "
                "seconds REAL NOT NULL, finished TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)"
            )

    def get(self, key: str) -> dict[str, Any] | None:
        """The result of this key, if there is one."""
        with self._open() as file:
            row = file.execute("SELECT result FROM results WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def seconds(self, key: str) -> float:
        """How long a task took; 0 if it is not here."""
        with self._open() as file:
            row = file.execute("SELECT seconds FROM results WHERE key = ?", (key,)).fetchone()
        return 0.0 if row is None else float(row[0])

    def add(
        self,
        key: str,
        kind: str,
        parameters: Mapping[str, Any],
        result: Mapping[str, Any],
        seconds: float = 0.0,
    ) -> dict[str, Any]:
        """Keep a result: it is on the disk when this returns, and returned as it will be read."""
        text = json.dumps(result)
        with self._open() as file:
            file.execute(
                "INSERT OR REPLACE INTO results (key, kind, parameters, code, result, seconds) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (key, kind, json.dumps(parameters), code_version(), text, seconds),
            )
        kept: dict[str, Any] = json.loads(text)
        return kept

    def __len__(self) -> int:
        with self._open() as file:
            return int(file.execute("SELECT count(*) FROM results").fetchone()[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction: threads and processes need not share any."""
        try:
            with closing(sqlite3.connect(self.path, timeout=60)) as file, file:
                file.execute("PRAGMA synchronous = FULL")
                yield file
        except sqlite3.Error as error:
            wanted = f"a results file of fedsel that can be read and written ({error})"
            raise InvalidArgument("store", str(self.path), wanted) from None
