"""A folder belongs to one server at a time: a lock that the operating system holds for it.

The system frees it when its process ends, however it ends, so that no lock is ever stale. The
device's ledger needs another kind: many processes share a ledger, each for one transaction.
"""

from __future__ import annotations

import os
import sys
import weakref
from pathlib import Path
from typing import Self, final

from fedsel.server._checkpoint import CheckpointError

LOCK_NAME = "server.lock"
"""Empty, and never deleted: whoever waits on a deleted file would hold a lock of nothing."""
_PLACE = 1 << 30
"""The byte that is locked on Windows: beyond the end, so that copies of the folder can be made."""

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _take(handle: int) -> None:
        os.lseek(handle, _PLACE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        # Not lockf: its locks are lost when any other handle of the file is closed.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FolderInUse(CheckpointError):
    """Another server holds the folder, in this process or in another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"the folder {str(folder)!r} is in use by another server: close it first")


@final
class FolderLock:
    """Holds a folder until it is released, nothing refers to it any more, or the process ends.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     with FolderLock(Path(name)) as lock:
    ...         lock.held
    ...     lock.held
    True
    False
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / LOCK_NAME
        handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _take(handle)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError | PermissionError):
                raise FolderInUse(folder) from None
            raise
        self._handle = handle
        self._release = weakref.finalize(self, os.close, handle)
        _HELD.add(self)

    @property
    def held(self) -> bool:
        """Whether this process still holds the folder; a copy and a forked process do not."""
        return self._release.alive

    def check(self) -> None:
        """Raise unless the folder is still held, and is still the one that was locked."""
        if not self.held:
            raise CheckpointError(
                f"the folder {str(self.folder)!r} is not held: closed, or opened by another process"
            )
        if not self._file.exists() or not os.path.samestat(
            os.fstat(self._handle), self._file.stat()
        ):
            raise CheckpointError(f"the folder {str(self.folder)!r} was replaced by another one")

    def release(self) -> None:
        """Let others have the folder."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_HELD: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """In a forked process: drop our handles, so that the lock is the parent's alone."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)
