"""Invitations of a task, made while its service runs or before it has begun."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fedsel.errors import InvalidArgument, check_positive
from fedsel.service.admission import Admission, Kind
from fedsel.service.collector import opened
from fedsel.service.storage import open_store
from fedsel.service.task import Task

MOST_DAYS = 36_500


def invitations(
    task: Task, store: str | Path, count: int, kind: Kind = "device", days: float | None = None
) -> Iterator[str]:
    """So many new tokens; the run begins with the first of them, if it has not begun yet."""
    if days is not None and check_positive("days", days) > MOST_DAYS:
        raise InvalidArgument("days", days, f"at most {MOST_DAYS}")
    door = admission(task, store)
    return (door.invite(kind, days) for _ in range(count))


def admission(task: Task, store: str | Path) -> Admission:
    """Who makes and recognises the invitations of a task."""
    # The running service has the folder, but others may read the key beside it.
    kept = open_store(store, alone=False)
    try:
        if not kept.choose(task.name):
            kept.close()
            kept = open_store(store)
        run = opened(task, kept).run
        return Admission(kept.key(), run, task.invitations)
    finally:
        kept.close()
