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
