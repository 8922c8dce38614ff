"""``load``: a data set by name, from the user's folder, the cache or a download."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fedsel import InvalidArgument, data
from fedsel.data import Dataset
from reproduction.datasets import cache, raw
from reproduction.datasets.catalogue import RealData, resolve
from reproduction.datasets.raw import DataUnavailable, Found, WrongContent

Folder = str | os.PathLike[str]
Notify = Callable[[str], None]


def load(
    name: str,
    directory: Folder | None = None,
    seed: int = 0,
    *,
    labels: str | None = None,
    notify: Notify | None = None,
) -> Dataset:
    """A data set of the paper: syn-L, syn-H, bank, adult or kdd, in any case.

    Synthetic ones take c1 and c2 from their name (``syn-L-0.01-0.9``) and are drawn from ``seed``;
    ``labels`` is "sparse" or "dense". The raw files of the others are looked for in ``directory``,
    the folder FEDSEL_DATA and the cache, and are downloaded if they are in none; each is checked
    by SHA-256. ``notify`` is called with a line before every download.

    >>> load("syn-L-0.1-0.6", seed=7)
    Dataset('syn-L-0.1-0.6', n=60000, d=100, dense)
    """
    entry = resolve(name)
    if entry is None:
        return data.load(name, seed, labels=labels)
    if labels is not None:
        raise InvalidArgument("labels", labels, f"left out: {entry.name} has labels of its own")
    local_files = _find_given(entry, directory)
    if local_files:
        # Also where its parsed form is known: a wrong file must not go unnoticed.
        local_files.check()
    parsed = cache.load_parsed(entry.name, entry.variants[0])
    if parsed is None:
        raw_files, contents = _read(entry, local_files, notify)
        parsed = entry.parse(raw_files.files, contents)
        cache.save_parsed(parsed, entry.variants[0])
    return parsed


@dataclass(frozen=True)
class Published:
    """The source of an experiment's data: the data sets of the paper by name."""

    directory: Path | None = None
    notify: Notify | None = field(default=None, compare=False)

    @property
    def identity(self) -> str:
        """The version of the parsers, on which results depend."""
        return f"parsers {cache.PARSER_VERSION}"

    @property
    def public(self) -> None:
        """No public rows."""

    @property
    def means(self) -> tuple[()]:
        """No public means."""
        return ()

    def data(self, name: str, data_seed: int) -> Dataset:
        """The data set, drawn from the seed if it is synthetic."""
        return load(name, self.directory, data_seed, notify=self.notify)


def fetch(name: str, directory: Folder | None = None, *, notify: Notify | None = None) -> Found:
    """The checked raw files of a data set, downloaded if necessary."""
    entry = _real(name)
    return _read(entry, _find_given(entry, directory), notify)[0]


def find(name: str, directory: Folder | None = None) -> Found | None:
    """The raw files of a data set where they lie, unchecked; None if they are not here."""
    entry = _real(name)
    return _find_given(entry, directory) or _find_cached(entry)


def _real(name: str) -> RealData:
    entry = resolve(name)
    if entry is None:
        raise DataUnavailable(f"{name}: is generated from its seed and has no file")
    return entry


def _read(
    entry: RealData, local_files: Found | None, notify: Notify | None
) -> tuple[Found, list[bytes]]:
    if local_files:
        return local_files, local_files.read()
    while cached := _find_cached(entry):
        try:
            return cached, cached.read()
        except WrongContent as error:
            try:
                Path(error.file).unlink()
            except OSError:  # a cache that cannot be changed
                break
    from reproduction.datasets.download import download

    return download(entry, notify)


def _find_given(entry: RealData, directory: Folder | None) -> Found | None:
    for where, folder in _given_folders(directory):
        raw_files = raw.find(entry.variants, folder, where)
        if raw_files:
            return raw_files
    return None


def _find_cached(entry: RealData) -> Found | None:
    return raw.find(entry.variants, cache.cache_folder(), "cache")


def _given_folders(directory: Folder | None) -> Iterator[tuple[str, Path]]:
    """The folders that the user names, which must exist."""
    for where, value in (("directory", directory), ("FEDSEL_DATA", os.environ.get("FEDSEL_DATA"))):
        if value is None or (where == "FEDSEL_DATA" and not value):
            continue
        folder = Path(value).expanduser()
        if not folder.is_dir():
            raise InvalidArgument(where, str(value), "a folder that exists")
        yield where, folder
