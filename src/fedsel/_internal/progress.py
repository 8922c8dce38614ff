"""A one-line note on standard error for whoever waits longer than two seconds in Python.

Work that is done in that time says nothing. Of nested work the outermost speaks, and the command
line, which draws bars of its own, turns it off: so does ``FEDSEL_PROGRESS=0``, or `show_progress`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 2.0
"""Seconds without a word."""
_EVERY_ON_A_TERMINAL, _EVERY_IN_A_LOG = 0.5, 30.0
_CLEAR_LINE = "\r\x1b[K"


def wanted() -> bool:
    """Whether the environment asks for notes: unless FEDSEL_PROGRESS is 0."""
    return os.environ.get("FEDSEL_PROGRESS", "1") != "0"


_lock = threading.Lock()
_state = {"on": wanted(), "busy": False}


def show_progress(on: bool) -> bool:
    """Turn notes on or off in this process; returns what was before.

    >>> before = show_progress(False)
    >>> show_progress(before)
    False
    """
    with _lock:
        before, _state["on"] = _state["on"], bool(on)
    return before


@contextmanager
def note(activity: str, total: float) -> Iterator[Callable[[float], object]]:
    """Tell how far ``activity`` is; the callable yielded is told the units of work just done.

    >>> with note("counting", total=3) as advance:
    ...     for _ in range(3):
    ...         _ = advance(1)
    """
    with _lock:
        speaks = _state["on"] and not _state["busy"] and total > 0
        _state["busy"] = _state["busy"] or speaks
    if not speaks:
        yield abs
        return
    line = _Line(activity, total, sys.stderr)
    try:
        yield line.advance
    finally:
        line.end()
        with _lock:
            _state["busy"] = False


class _Line:
    """What is shown: one line that is written over on a terminal, seldom a new one in a log."""

    def __init__(self, activity: str, total: float, stream: TextIO) -> None:
        self._activity, self._total, self._stream, self._done = activity, total, stream, 0.0
        self._terminal = stream is not None and not stream.closed and stream.isatty()
        self._began = time.monotonic()
        self._next, self._shown = self._began + PATIENCE, False

    def advance(self, units: float) -> None:
        self._done += units
        now = time.monotonic()
        if now < self._next or self._stream is None:
            return
        self._next = now + (_EVERY_ON_A_TERMINAL if self._terminal else _EVERY_IN_A_LOG)
        self._shown = True
        share = min(1.0, self._done / self._total)
        text = f"fedsel: {self._activity}, {share:.0%}"
        if 0 < share < 1:
            text += f", about {spoken((now - self._began) * (1 - share) / share)} left"
        self._write(f"{_CLEAR_LINE}{text}" if self._terminal else f"{text}\n")

    def end(self) -> None:
        if self._shown and self._terminal:
            self._write(_CLEAR_LINE)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # nobody listens any more; the work goes on
            self._next = float("inf")


def spoken(seconds: float) -> str:
    """A time that is only about so long.

    >>> [spoken(s) for s in (0.2, 42.3, 250, 9000)]
    ['1 s', '42 s', '4 min', '2.5 h']
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
