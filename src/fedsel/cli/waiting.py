"""What a person sees who waits: a bar or a spinner on a terminal, a line now and then in a log.

All of it goes to standard error, so that results can be piped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, final

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fedsel._internal.display import printable
from fedsel.cli.common import PlainConsole

PATIENCE = 2.0
"""Seconds without a word."""
_EVERY_IN_A_LOG = 30.0
"""Seconds between two lines, once the first has been written."""


def progress_console() -> Console:
    """The console of what is going on, apart from that of the results."""
    return PlainConsole(stderr=True)


@final
class Bar:
    """How far some work is: what is being done, the share, the time left."""

    def __init__(self, total: float, now: str = "begins") -> None:
        self._console = progress_console()
        # What is being done has the room that the rest leaves on a narrow terminal.
        room = max(12, min(34, self._console.width - 42))
        self._progress = Progress(
            TextColumn(f"{{task.fields[now]:<{room}.{room}}}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=total, now=printable(now))
        self._next = time.monotonic() + PATIENCE

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:  # some versions of rich end a log with an empty line
            self._progress.stop()

    def update(
        self, now: str | None = None, *, advance: float = 0.0, completed: float | None = None
    ) -> None:
        """Say what is going on now, and how much of the total was done."""
        changes: dict[str, Any] = {} if now is None else {"now": printable(now)}
        self._progress.update(self._task, advance=advance or None, completed=completed, **changes)
        if not self._console.is_terminal and time.monotonic() >= self._next:
            task = self._progress.tasks[0]
            self.keep(f"{task.fields['now']} ({task.percentage:.0f} %)")

    def keep(self, line: str) -> None:
        """Write a line that stays: something is finished."""
        self._console.print(printable(line), highlight=False, markup=False)
        self._next = time.monotonic() + _EVERY_IN_A_LOG


@contextmanager
def patience(text: str) -> Iterator[Callable[[str], None]]:
    """Say what is going on, once it has taken more than two seconds.

    The callable yielded is told each further step. A terminal shows a spinner; in a log each step
    is a line.
    """
    console = progress_console()
    latest, stage = Text(printable(text)), "waiting"
    status = console.status(latest)
    lock = threading.Lock()

    def show() -> None:
        nonlocal stage
        with lock:
            if stage == "over":  # ended while this was about to begin
                return
            stage = "shown"
            if console.is_terminal:
                status.start()
            else:
                console.print(latest)

    def notify(line: str) -> None:
        nonlocal latest
        with lock:
            latest = Text(printable(line))
            status.update(latest)
            if stage == "shown" and not console.is_terminal:
                console.print(latest)

    timer = threading.Timer(PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield notify
    finally:
        timer.cancel()
        with lock:
            stage = "over"
            status.stop()
