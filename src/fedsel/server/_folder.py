"""The folder of a server: locked for one server at a time, its files replaced as a whole."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Any, Self, final

from filelock import FileLock, Timeout

from fedsel._internal.paths import new_file, sync_folder

LOCK_NAME = "server.lock"
"""The lock's file: empty, and left in place."""


class CheckpointError(ValueError):
    """A checkpoint that is damaged, of another version, or was changed by another process."""


class FolderInUse(CheckpointError):
    """Another server holds the folder, in this process or in another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"the folder {str(folder)!r} is in use by another server: close it first")


class _Process:
    """A token that a fork renews, so that a lock knows which process holds it."""

    token = object()

    @classmethod
    def renew(cls) -> None:
        cls.token = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.renew)


@final
class FolderLock:
    """Holds a folder until it is released, nothing refers to it any more, or the process ends.

    The operating system holds the lock (`filelock`), so that none is ever stale. A copy and a
    forked process do not hold it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     with FolderLock(Path(name)) as lock:
    ...         lock.held
    ...     lock.held
    True
    False
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / LOCK_NAME
        self._holder: object = None
        self._lock = FileLock(self._file, mode=0o600, thread_local=False, fallback_to_soft=False)
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise FolderInUse(folder) from None
        self._locked, self._holder = self._file.stat(), _Process.token

    def __deepcopy__(self, memo: object) -> Self:
        twin = copy(self)
        twin._holder, twin._lock = None, FileLock(self._file)
        return twin

    @property
    def held(self) -> bool:
        """Whether this process still holds the folder."""
        return self._holder is _Process.token  # is_locked says the same, and takes longer

    def check(self) -> None:
        """Raise unless the folder is still held, and is still the one that was locked."""
        if not self.held:
            raise CheckpointError(
                f"the folder {str(self.folder)!r} was closed, or belongs to another process"
            )
        if not self._file.exists() or not os.path.samestat(self._locked, self._file.stat()):
            raise CheckpointError(f"the folder {str(self.folder)!r} was replaced while in use")

    def release(self) -> None:
        """Let others use the folder."""
        self._holder = None
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in place of another at once and durably: a crash leaves the one or the other."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")  # see remove_scratch
    try:
        with scratch.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    sync_folder(path.parent)


def remove_scratch(path: Path) -> None:
    """Remove what killed processes left of `replace_file`; only while the folder is locked."""
    for file in path.parent.glob(f".{path.name}.*"):
        if file.suffix[1:].isdecimal():
            file.unlink(missing_ok=True)


def connect_private(file: Path, **options: Any) -> sqlite3.Connection:
    """Open a database that only its owner reads; one thread at a time may use it.

    A file that exists is not opened beside SQLite: POSIX ends all locks of a process on a file when
    it closes any handle of it, and another process would then delete the log under a connection.
    """
    with suppress(FileExistsError):
        new_file(file).close()  # journals get the same mode
    connection: sqlite3.Connection = sqlite3.connect(
        file, isolation_level=None, check_same_thread=False, **options
    )
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do all of a block or nothing, durable at its end."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
