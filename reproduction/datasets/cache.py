"""The user's cache of raw files and parsed data sets.

Files are written to a work folder inside the cache and then renamed atomically, so two processes
can fetch the same data set at once, and an interrupted one leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.data import Dataset
from reproduction.datasets.raw import DataUnavailable, RawFile, is_file

WORK_PREFIX = ".part-"
STALE_SECONDS = 24 * 3600.0

PARSER_VERSION = 1
"""The version of the parsers. Raise it whenever their numbers, names or bounds change."""


def cache_folder() -> Path:
    """FEDSEL_CACHE, or fedsel in the platform's cache folder (XDG_CACHE_HOME or ~/.cache)."""
    own = os.environ.get("FEDSEL_CACHE")
    if own:
        return Path(own).expanduser()
    platforms = os.environ.get("XDG_CACHE_HOME", "")
    # A relative XDG_CACHE_HOME is to be ignored, says the XDG specification.
    base = Path(platforms) if Path(platforms).is_absolute() else Path.home() / ".cache"
    return base / "fedsel"


@contextmanager
def work_folder() -> Iterator[Path]:
    """A temporary folder inside the cache, always removed afterwards."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        _sweep()
        work = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=cache_folder()))
    except OSError as error:
        raise _not_writable(error) from error
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def store(name: str, content: bytes, work: Path) -> Path:
    """Put a file into the cache atomically."""
    part, path = work / name, cache_folder() / name
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise _not_writable(error) from error
    return path


def save_parsed(dataset: Dataset, files: Sequence[RawFile]) -> None:
    """Store a parsed data set; a cache that cannot be written is ignored."""
    X = dataset.X
    arrays: dict[str, Any]
    if isinstance(X, np.ndarray):
        arrays = {"X": X}
    else:
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
    arrays |= {
        "y": dataset.y,
        "feature_names": np.array(dataset.feature_names),
        "bounds": np.empty(0) if dataset.bounds is None else dataset.bounds,
        "classes": np.array(dataset.classes),
    }
    with suppress(DataUnavailable, OSError), work_folder() as work:
        part, path = work / "parsed.npz", _parsed_path(dataset.name, files)
        np.savez_compressed(part, **arrays)
        part.replace(path)


def load_parsed(name: str, files: Sequence[RawFile]) -> Dataset | None:
    """Load a parsed data set, if this version has parsed these raw files before."""
    path = _parsed_path(name, files)
    if not is_file(path):
        return None
    try:
        # numpy leaves a broken file open if it is given the path.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            return _dataset(name, {key: held[key] for key in held.files})
    except (OSError, EOFError, ValueError, KeyError, zlib.error, zipfile.BadZipFile):
        with suppress(OSError):
            path.unlink()
        return None


def _dataset(name: str, arrays: dict[str, NDArray[Any]]) -> Dataset:
    feature_names = tuple(map(str, arrays["feature_names"]))
    X: Any = arrays.get("X")
    if X is None:
        from scipy.sparse import csr_array

        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        X = csr_array(parts, shape=(len(arrays["y"]), len(feature_names)))
    bounds = arrays["bounds"] if arrays["bounds"].size else None
    negative, positive = map(str, arrays["classes"])
    return Dataset(name, X, arrays["y"], feature_names, bounds, (negative, positive))


def _parsed_path(name: str, files: Sequence[RawFile]) -> Path:
    """The path of a parsed data set, which depends on the raw files and the parser's version."""
    key = ":".join([str(PARSER_VERSION), *(file.sha256 for file in files)])
    return cache_folder() / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npz"


def _sweep() -> None:
    """Remove the work folders of killed processes."""
    for path in cache_folder().glob(WORK_PREFIX + "*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _not_writable(error: OSError) -> DataUnavailable:
    return DataUnavailable(
        f"the cache {cache_folder()} cannot be written ({error.strerror or error}): "
        "set FEDSEL_CACHE to a folder that can"
    )
