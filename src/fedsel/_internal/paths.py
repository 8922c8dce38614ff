"""The folder of the package, and folders whose names survive a crash."""

from __future__ import annotations

import os
from pathlib import Path

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
