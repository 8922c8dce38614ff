"""Where fedsel keeps what it can make or fetch again, and names of files that must last."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

PACKAGE = Path(__file__).parent


def cache_folder() -> Path:
    """FEDSEL_CACHE, or fedsel in the platform's cache folder (XDG_CACHE_HOME or ~/.cache)."""
    own = os.environ.get("FEDSEL_CACHE")
    if own:
        return Path(own).expanduser()
    platforms = os.environ.get("XDG_CACHE_HOME", "")
    # A relative XDG_CACHE_HOME is to be ignored, says the XDG specification.
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
    """Create a folder, and those above it, where they are missing; each name is then durable.

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


def source_digest(*names: str, beside: str = "") -> str:
    """A name for the sources under these files and folders of the package, and what is beside.

    >>> source_digest("errors.py") == source_digest("errors.py") != source_digest("exact.py")
    True
    """
    digest = hashlib.sha256(beside.encode())
    for entry in (PACKAGE / name for name in names):
        files = [entry] if entry.is_file() else sorted(entry.rglob("*"))
        for source in (file for file in files if file.suffix in (".py", ".c", ".h")):
            digest.update(str(source.relative_to(PACKAGE)).encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
