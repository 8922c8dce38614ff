"""Names of clients, by which a server knows them again."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Hashable, Sequence
from contextlib import suppress

from fedsel.errors import InvalidArgument

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
