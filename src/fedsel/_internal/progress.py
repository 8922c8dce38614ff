"""Progress of long work in Python: after two seconds a bar appears (`fedsel._internal.bar`).

Work that is done in that time shows nothing, and of nested work only the outermost is shown.
Commands draw bars of their own and turn it off; so do ``FEDSEL_PROGRESS=0`` and `show_progress`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedsel._internal.bar import Bar

PATIENCE = 2.0
"""Seconds without a word."""


def wanted() -> bool:
    """Whether the environment asks for progress: unless FEDSEL_PROGRESS is 0."""
    return os.environ.get("FEDSEL_PROGRESS", "1") != "0"


_lock = threading.Lock()
_state = {"on": wanted(), "busy": False}


def show_progress(on: bool) -> bool:
    """Turn progress on or off in this process; returns the previous setting.

    >>> before = show_progress(False)
    >>> show_progress(before)
    False
    """
    with _lock:
        before, _state["on"] = _state["on"], bool(on)
    return before


@contextmanager
def note(activity: str, total: float) -> Iterator[Callable[[float], object]]:
    """Show how far ``activity`` is; call what it yields with the units of work just done.

    >>> with note("counting", total=3) as advance:
    ...     for _ in range(3):
    ...         _ = advance(1)
    """
    with _lock:
        shows = _state["on"] and not _state["busy"] and total > 0
        _state["busy"] = _state["busy"] or shows
    if not shows:
        yield abs
        return
    waiting = _Waiting(activity, total)
    try:
        yield waiting.advance
    finally:
        waiting.end()
        with _lock:
            _state["busy"] = False


class _Waiting:
    """Counts the work that is done, and opens a bar when it has taken long."""

    def __init__(self, activity: str, total: float) -> None:
        self._activity, self._total, self._done = activity, total, 0.0
        self._began = time.monotonic()
        self._bar: Bar | None = None

    def advance(self, units: float) -> None:
        self._done += units
        elapsed = time.monotonic() - self._began
        if elapsed < PATIENCE:
            return
        with suppress(OSError, ValueError):  # standard error is closed; the work goes on
            if self._bar is None:
                from fedsel._internal.bar import Bar

                self._bar = Bar(self._total, f"fedsel: {self._activity}", elapsed=elapsed)
                self._bar.__enter__()
            self._bar.update(completed=self._done)

    def end(self) -> None:
        if self._bar is not None:
            with suppress(OSError, ValueError):
                self._bar.__exit__()
