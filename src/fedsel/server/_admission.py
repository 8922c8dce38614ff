"""What becomes of reports, one by one and counted."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Hashable, Sequence
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from fedsel.errors import InvalidArgument


class Outcome(Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
    LATE = "late"


class Counts(NamedTuple):
    """What became of many reports."""

    accepted: int = 0
    rejected: int = 0
    duplicate: int = 0
    late: int = 0


A_NAME = "hashable and equal to itself, so that a client is known again by its name"


def check_names(names: Sequence[Hashable | None]) -> None:
    """Refuse names by which a client could not be found again, before anything is done."""
    with suppress(Exception):  # at the speed of C, as long as nothing is wrong
        deque(map(hash, names), maxlen=0)
        if not any(map(operator.ne, names, names)):
            return
    for name in names:
        if not is_name(name):
            raise InvalidArgument("clients", name, A_NAME)


def is_name(name: object) -> bool:
    """Whether a client could be found again by this."""
    try:
        hash(name)
        return bool(name == name)  # noqa: PLR0124 - NaN is not
    except Exception:
        return False
