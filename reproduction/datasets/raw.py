"""The raw files of the data sets: names, checksums and places."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = ("", ".xz", ".gz")


class DataUnavailable(RuntimeError):
    """A data set is not available: wrong content, no download, or no place to put it."""


class WrongContent(DataUnavailable):
    """A file that is not what its name says, or is cut short."""

    def __init__(self, file: str, expected: str, found: str) -> None:
        self.file, self.expected, self.found = file, expected, found
        super().__init__(f"{file}: wrong content: expected SHA-256 {expected}, found {found}")


@dataclass(frozen=True)
class RawFile:
    """A file by its name and the SHA-256 of its uncompressed content.

    ``gz_sha256`` is the SHA-256 of the published .gz, where that is what its publisher states.
    """

    name: str
    sha256: str
    gz_sha256: str | None = None

    def find(self, folder: Path) -> Path | None:
        """The file in a folder: plain, .xz or .gz."""
        paths = (folder / (self.name + suffix) for suffix in SUFFIXES)
        return next((path for path in paths if is_file(path)), None)

    def check(self, path: Path) -> str:
        """Return the SHA-256 by which the file was recognised; raise if it is another file."""
        data = _bytes(path)
        if self._is_published(path, data):
            return str(self.gz_sha256)
        self._content(path, data)
        return self.sha256

    def read(self, path: Path) -> bytes:
        """The uncompressed content, checked."""
        return self._content(path, _bytes(path))

    def check_content(self, content: bytes) -> None:
        """Raise unless this is the uncompressed content."""
        digest = _sha256(content)
        if digest != self.sha256:
            raise WrongContent(self.name, self.sha256, digest)

    def _content(self, path: Path, data: bytes) -> bytes:
        publishers = self.gz_sha256 if path.suffix == ".gz" else None
        try:
            content = _decompress(path.suffix, data)
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile):
            problem = "a broken or truncated file"
            raise WrongContent(str(path), publishers or self.sha256, problem) from None
        if self._is_published(path, data):
            return content
        digest = _sha256(content)
        if digest == self.sha256:
            return content
        if publishers:
            raise WrongContent(str(path), publishers, _sha256(data))
        raise WrongContent(str(path), self.sha256, digest)

    def _is_published(self, path: Path, data: bytes) -> bool:
        return (
            self.gz_sha256 is not None and path.suffix == ".gz" and _sha256(data) == self.gz_sha256
        )


@dataclass(frozen=True)
class Found:
    """The raw files of a data set, all in one folder."""

    files: tuple[RawFile, ...]
    paths: tuple[Path, ...]
    where: str

    def check(self) -> list[str]:
        """The SHA-256 of each file; raises if one is wrong."""
        return [file.check(path) for file, path in zip(self.files, self.paths, strict=True)]

    def read(self) -> list[bytes]:
        """The uncompressed content of each file, checked."""
        return [file.read(path) for file, path in zip(self.files, self.paths, strict=True)]


def find(variants: Sequence[tuple[RawFile, ...]], folder: Path, where: str) -> Found | None:
    """The first set of files that a folder holds completely."""
    for files in variants:
        paths = [file.find(folder) for file in files]
        complete = tuple(path for path in paths if path is not None)
        if len(complete) == len(files):
            return Found(files, complete, where)
    return None


def is_file(path: Path) -> bool:
    """Whether there is a file; an inaccessible one counts as missing."""
    try:
        return path.is_file()
    except OSError:
        return False


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataUnavailable(f"{path}: cannot be read ({error.strerror})") from error


def _decompress(suffix: str, data: bytes) -> bytes:
    if suffix == ".xz":
        return lzma.decompress(data)
    return gzip.decompress(data) if suffix == ".gz" else data


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
