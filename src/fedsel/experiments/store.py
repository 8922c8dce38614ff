"""Results on disk: one line a finished cell, so that an interrupted run loses nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Store:
    """A file of JSON lines, each a finished cell under its key.

    A line counts once it is whole and on the disk; a torn last line is ignored and overwritten
    by the next run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, dict[str, Any]] = {}
        whole = 0
        if path.exists():
            content = path.read_bytes()
            for line in content.splitlines(keepends=True):
                row = _parse(line)
                if row is None:
                    break
                whole += len(line)
                self._rows[row["key"]] = row
            if whole < len(content):
                with path.open("r+b") as file:
                    file.truncate(whole)

    def get(self, key: str) -> dict[str, Any] | None:
        """The finished cell of this key, if there is one."""
        return self._rows.get(key)

    def add(self, key: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a finished cell: it is on the disk when this returns."""
        full = {"key": key, **row}
        with self.path.open("ab") as file:
            file.write((json.dumps(full) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        self._rows[key] = full
        return full


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and "key" in row else None
