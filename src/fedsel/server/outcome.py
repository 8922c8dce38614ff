"""What becomes of reports, one by one and counted."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


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
