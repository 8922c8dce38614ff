"""Do many tasks in parallel, keep each result as soon as it is whole.

A task is parameters and nothing else; it is cut into parts (training runs), which go through
`in_parallel` as one stream. Results do not depend on how the parts are spread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fedsel._internal.parallel import in_parallel
from fedsel.experiments.datasets import Source
from fedsel.experiments.store import Store, key_of

Row = dict[str, Any]


class Task(Protocol):
    """What can be worked on: the parts are independent of each other, ``combine`` is cheap."""

    @property
    def kind(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def parts(self) -> int: ...
    @property
    def cost(self) -> float: ...
    def part(self, number: int, source: Source) -> Any:
        """Compute one part: something that JSON can hold."""

    def combine(self, parts: Sequence[Any]) -> Row:
        """The result from all parts in order."""


@dataclass(frozen=True)
class Finished:
    """A task with its result, and whether it was known already."""

    task: Task
    row: Row
    known: bool
    seconds: float


def perform(
    tasks: Sequence[Task],
    store: Store,
    source: Source,
    *,
    jobs: int = 1,
    advance: Callable[[float], object] = abs,
    finished: Callable[[Finished], object] = id,
) -> list[Row]:
    """The results of the tasks in order; only what the store does not hold is computed.

    ``advance`` is told the cost of what is done, ``finished`` each whole result.
    """
    keys = [key_of(task, source.identity) for task in tasks]
    rows: dict[str, Row] = {}
    todo: dict[str, Task] = {}
    for key, task in zip(keys, tasks, strict=True):
        if key in rows or key in todo:
            continue
        row = store.get(key)
        if row is None:
            todo[key] = task
            continue
        rows[key] = row
        advance(task.cost * task.parts)
        finished(Finished(task, row, known=True, seconds=store.seconds(key)))
    units = [(key, task, number) for key, task in todo.items() for number in range(task.parts)]
    calls = ((task, number, source) for _, task, number in units)
    work = in_parallel(_timed, calls, jobs)
    parts: list[Any] = []
    seconds = 0.0
    for (key, task, number), (part, taken) in zip(units, work, strict=True):
        parts.append(part)
        seconds += taken
        advance(task.cost)
        if number == task.parts - 1:
            row = store.add(key, task, task.combine(parts), seconds)
            rows[key] = row
            finished(Finished(task, row, known=False, seconds=seconds))
            parts, seconds = [], 0.0
    return [rows[key] for key in keys]


def total_cost(tasks: Sequence[Task]) -> float:
    """What ``advance`` will have been told in all: each task counts once."""
    once = {key_of(task): task for task in tasks}
    return sum(task.cost * task.parts for task in once.values())


def _timed(task: Task, number: int, source: Source) -> tuple[Any, float]:
    start = time.perf_counter()
    return task.part(number, source), time.perf_counter() - start
