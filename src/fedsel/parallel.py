"""Many calls of one function, several at a time.

On one machine they run in threads of this process: the kernels release the GIL, and the data is
shared. Where another backend of joblib is chosen (`joblib.parallel_config`), such as a cluster of
Dask, they run there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from fedsel.errors import InvalidArgument
from fedsel.extras import needed

Result = TypeVar("Result")

_AHEAD = 16
"""Calls for each thread that are handed over before the first result is taken."""


def in_parallel(
    function: Callable[..., Result], calls: Iterable[tuple[Any, ...]], jobs: int
) -> Iterator[Result]:
    """The results of function(*call) for each of the ``calls``, in their order.

    ``jobs`` are done at a time; -1 stands for as many as there are cores.

    >>> list(in_parallel(pow, [(2, 3), (2, 5), (3, 2)], jobs=2))
    [8, 32, 9]
    """
    with needed("simulation", "work in parallel"):
        import joblib
    if not isinstance(jobs, int) or jobs == 0:
        raise InvalidArgument("jobs", jobs, "a number of threads, or -1 for one on each core")
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    if type(backend) is not joblib.parallel.ThreadingBackend:
        work = (joblib.delayed(function)(*call) for call in calls)
        yield from joblib.Parallel(n_jobs=jobs, return_as="generator")(work)
    elif (threads := joblib.effective_n_jobs(jobs)) == 1:
        yield from (function(*call) for call in calls)
    else:
        # joblib's own threads answer for the same, but who waits for them looks every 10 ms.
        yield from _in_threads(function, iter(calls), threads)


def _in_threads(
    function: Callable[..., Result], calls: Iterator[tuple[Any, ...]], threads: int
) -> Iterator[Result]:
    """In this thread and others: who waits for a result makes a later one meanwhile."""
    pending: deque[tuple[Future[Result], tuple[Any, ...]]] = deque()
    with ThreadPoolExecutor(threads - 1) as pool:
        try:
            while True:
                for call in islice(calls, _AHEAD * threads - len(pending)):
                    pending.append((pool.submit(function, *call), call))
                if not pending:
                    return
                future, call = pending.popleft()
                if future.cancel():  # nobody has begun it
                    yield function(*call)
                    continue
                while not future.done() and _made_one(function, pending):
                    pass
                yield future.result()
        finally:  # an error, or nobody wants the rest
            for future, _ in pending:
                future.cancel()


def _made_one(
    function: Callable[..., Result], pending: deque[tuple[Future[Result], tuple[Any, ...]]]
) -> bool:
    """Make the first call that nobody has begun; False if there is none."""
    for place, (future, call) in enumerate(pending):
        if future.cancel():
            made: Future[Result] = Future()
            try:
                made.set_result(function(*call))
            except Exception as error:  # raised when it is this one's turn
                made.set_exception(error)
            pending[place] = (made, call)
            return True
    return False
