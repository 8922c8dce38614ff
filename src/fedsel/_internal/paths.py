"""The folder of the package, and folders whose names survive a crash."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

PACKAGE = Path(__file__).parents[1]
"""The folder of the package."""


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the platform can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def new_file(path: str | Path) -> BinaryIO:
    """Create a file that only its owner reads, whatever the umask; refuse to replace another."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_new(path: str | Path, data: bytes) -> None:
    """Write a `new_file` that is durable on return."""
    with new_file(path) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(Path(path).parent)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, and make each name durable.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "a" / "b"
    >>> make_folder(place)
    >>> place.is_dir()
    True
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)
