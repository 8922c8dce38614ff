"""Many calls of one function, several at a time.

On one machine the calls run in threads: the kernels release the GIL, and threads share the data.
Another backend of joblib (`joblib.parallel_config`), such as a Dask cluster, takes them instead.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from fedsel.errors import InvalidArgument

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
    """The consumer runs pending calls itself instead of idling."""
    pending: deque[tuple[Future[Result], tuple[Any, ...]]] = deque()
    with ThreadPoolExecutor(threads - 1) as pool:
        try:
            while True:
                for call in islice(calls, most - len(pending)):
                    pending.append((pool.submit(function, *call), call))
                if not pending:
                    return
                future, call = pending.popleft()
                if future.cancel():  # no thread has begun it
                    yield function(*call)
                    continue
                while not future.done() and _made_one(function, pending):
                    pass
                yield future.result()
        finally:  # an error, or the consumer has stopped
            for future, _ in pending:
                future.cancel()


def _made_one(
    function: Callable[..., Result], pending: deque[tuple[Future[Result], tuple[Any, ...]]]
) -> bool:
    """Run the first call that no thread has begun; False if there is none."""
    for place, (future, call) in enumerate(pending):
        if future.cancel():
            made: Future[Result] = Future()
            try:
                made.set_result(function(*call))
            except Exception as error:  # raised when its result is taken
                made.set_exception(error)
            pending[place] = (made, call)
            return True
    return False
