"""Where fedsel keeps what it can make or fetch again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """FEDSEL_CACHE, or fedsel in the platform's cache folder (XDG_CACHE_HOME or ~/.cache)."""
    own = os.environ.get("FEDSEL_CACHE")
    if own:
        return Path(own).expanduser()
    platforms = os.environ.get("XDG_CACHE_HOME", "")
    # A relative XDG_CACHE_HOME is to be ignored, says the XDG specification.
    base = Path(platforms) if Path(platforms).is_absolute() else Path.home() / ".cache"
    return base / "fedsel"
