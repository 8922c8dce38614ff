"""The cache folder, and folders whose names survive a crash."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
"""The folder of the package."""


def cache_folder() -> Path:
    """FEDSEL_CACHE, or fedsel in the platform's cache folder (XDG_CACHE_HOME or ~/.cache)."""
    own = os.environ.get("FEDSEL_CACHE")
    if own:
        return Path(own).expanduser()
    platforms = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative XDG_CACHE_HOME.
    base = Path(platforms) if Path(platforms).is_absolute() else Path.home() / ".cache"
    return base / "fedsel"


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
