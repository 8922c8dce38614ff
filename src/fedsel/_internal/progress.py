"""Long work: many calls of one function at a time, and how far work has come, on standard error.

On one machine the calls run in threads: the kernels release the GIL, and threads share the data.
Another backend of joblib (`joblib.parallel_config`), such as a Dask cluster, takes them instead.

Work in Python shows a bar after two seconds (`note`), some lines in a log, and of nested work only
the outermost shows any, which may be the bar of a command. ``FEDSEL_PROGRESS=0`` and
`show_progress` turn it off. Rich is imported by the first console.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeVar, final

from fedsel._internal.display import about, printable
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Result = TypeVar("Result")

_AHEAD = 16
"""Calls queued for each thread: enough that no worker waits for the consumer."""


def in_parallel(
    function: Callable[..., Result],
    calls: Iterable[tuple[Any, ...]],
    jobs: int,
    *,
    ahead: int = _AHEAD,
) -> Iterator[Result]:
    """The results of function(*call) for each of the ``calls``, in their order.

    ``jobs`` calls run at a time; -1 stands for one on each core. Each thread has up to ``ahead``
    calls in its queue.

    >>> list(in_parallel(pow, [(2, 3), (2, 5), (3, 2)], jobs=2))
    [8, 32, 9]
    """
    backend, threads = _backend(jobs)
    if backend is not None:
        work = (backend.delayed(function)(*call) for call in calls)
        yield from backend.Parallel(n_jobs=jobs, return_as="generator")(work)
    elif threads == 1:
        yield from (function(*call) for call in calls)
    else:
        # joblib's threads would do the same, but their consumer polls every 10 ms.
        yield from _in_threads(function, iter(calls), threads, ahead * threads)


def workers_of(jobs: int) -> int:
    """How many calls `in_parallel` makes at a time.

    >>> workers_of(2)
    2
    """
    return _backend(jobs)[1]


def _backend(jobs: int) -> tuple[Any, int]:
    """joblib if one of its other backends is chosen, else None; and the number of workers."""
    if not isinstance(jobs, int) or jobs == 0:
        raise InvalidArgument("jobs", jobs, "a number of threads, or -1 for one on each core")
    joblib = sys.modules.get("joblib")  # choosing a backend imports it
    if joblib is None:
        return None, jobs if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + jobs)
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    own = type(backend) is joblib.parallel.ThreadingBackend
    return None if own else joblib, joblib.effective_n_jobs(jobs)


def _in_threads(
    function: Callable[..., Result], calls: Iterator[tuple[Any, ...]], threads: int, most: int
) -> Iterator[Result]:
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            while True:
                pending.extend(
                    pool.submit(function, *call) for call in islice(calls, most - len(pending))
                )
                if not pending:
                    return
                yield pending.popleft().result()
        finally:  # an error, or the consumer has stopped
            for future in pending:
                future.cancel()


PATIENCE = 2.0
"""Seconds before long work shows how far it is."""
_EVERY_ON_A_TERMINAL = 0.1
"""Seconds between two moves of a bar: work of many small units does not wait for it."""
_EVERY_IN_A_LOG = 30.0
"""Seconds between two lines, once the first has been written."""


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
def _turn() -> Iterator[bool]:
    """Yield whether this work may speak: of nested work only the outermost does."""
    with _lock:
        mine, _state["busy"] = not _state["busy"], True
    try:
        yield mine
    finally:
        if mine:
            with _lock:
                _state["busy"] = False


@contextmanager
def note(activity: str, total: float) -> Iterator[Callable[[float], object]]:
    """Show how far ``activity`` is; call what it yields with the units of work just done.

    >>> with note("counting", total=3) as advance:
    ...     for _ in range(3):
    ...         _ = advance(1)
    """
    with _turn() as mine:
        if not (mine and _state["on"] and total > 0):
            yield abs
            return
        waiting = _Waiting(activity, total)
        try:
            yield waiting.advance
        finally:
            waiting.end()


class _Waiting:
    """Counts the work that is done, and opens a bar when it has taken long."""

    def __init__(self, activity: str, total: float) -> None:
        self._activity, self._total, self._done = activity, total, 0.0
        self._began, self._next = time.monotonic(), PATIENCE
        self._bar: Bar | None = None

    def advance(self, units: float) -> None:
        self._done += units
        elapsed = time.monotonic() - self._began
        if elapsed < self._next:
            return
        self._next = elapsed + _EVERY_ON_A_TERMINAL
        with suppress(OSError, ValueError):  # standard error is closed; the work goes on
            if self._bar is None:
                self._bar = Bar(self._total, f"fedsel: {self._activity}", elapsed=elapsed)
                self._bar.__enter__()
            self._bar.update(completed=self._done)

    def end(self) -> None:
        if self._bar is not None:
            with suppress(OSError, ValueError):
                self._bar.__exit__()


def plain_console(**options: Any) -> Console:
    """A console that shows text as it is, without markup, emoji and control characters."""
    from rich.console import Console

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            """A string as text; tables render their cells, titles and headings here."""
            return super().render_str(printable(text, lines=True), **options)

    return Plain(markup=False, emoji=False, **options)


def progress_console() -> Console:
    """The console for progress: standard error, as text also in a notebook."""
    return plain_console(stderr=True, force_jupyter=False)


@final
class Bar:
    """A progress bar: the current step, the share that is done, the time left.

    The work may have begun some time before, ``elapsed`` seconds ago.
    """

    def __init__(self, total: float, now: str = "begins", *, elapsed: float = 0.0) -> None:
        from rich import progress as columns

        self._console = progress_console()
        # The current step has the room that the other columns leave on a narrow terminal.
        room = max(12, min(34, self._console.width - 42))
        self._progress = columns.Progress(
            columns.TextColumn(f"{{task.fields[now]:<{room}.{room}}}", markup=False),
            columns.BarColumn(),
            columns.TaskProgressColumn(),
            columns.TimeElapsedColumn(),
            columns.TextColumn("left"),
            columns.TimeRemainingColumn(elapsed_when_finished=False),
            console=self._console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=total, now=printable(now))
        task = self._progress.tasks[0]
        task.start_time = (task.start_time or 0.0) - elapsed
        self._began = time.monotonic() - elapsed
        self._next = self._began + PATIENCE

    def __enter__(self) -> Self:
        self._speaking = _turn()
        self._speaking.__enter__()
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._speaking.__exit__(None, None, None)
        if self._console.is_terminal:  # some versions of rich end a log with an empty line
            self._progress.stop()

    def update(
        self, now: str | None = None, *, advance: float = 0.0, completed: float | None = None
    ) -> None:
        """Show the current step, and how much of the total is done."""
        changes: dict[str, Any] = {} if now is None else {"now": printable(now)}
        self._progress.update(self._task, advance=advance or None, completed=completed, **changes)
        if not self._console.is_terminal and time.monotonic() >= self._next:
            self.keep(self._line())

    def _line(self) -> str:
        """What a log says."""
        task = self._progress.tasks[0]
        share, left = task.percentage / 100, ""
        if 0 < share < 1:
            left = f", {about((time.monotonic() - self._began) * (1 - share) / share)} left"
        return f"{task.fields['now']} ({task.percentage:.0f} %{left})"

    def keep(self, line: str) -> None:
        """Print a line that stays, such as a finished result."""
        self._console.print(printable(line), highlight=False, markup=False)
        self._next = time.monotonic() + _EVERY_IN_A_LOG


@contextmanager
def patience(text: str) -> Iterator[None]:
    """Show what is going on once it has taken two seconds: a spinner, or in a log a line."""
    from rich.text import Text

    console, line = progress_console(), Text(printable(text))
    status = console.status(line)
    lock, ended = threading.Lock(), threading.Event()

    def show() -> None:
        with lock:
            if ended.is_set():  # while this was about to begin
                return
            if console.is_terminal:
                status.start()
            else:
                console.print(line)

    timer = threading.Timer(PATIENCE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            ended.set()
            status.stop()
