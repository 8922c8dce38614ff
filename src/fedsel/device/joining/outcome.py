"""How taking part in a run ends, and what became of a device's reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, final

from fedsel.device.entries import History


class Ending(Enum):
    """Why a device takes part no longer. None of these depends on its data."""

    FINISHED = "the run is over"
    DONE = "the run asks this device for no further report"
    SPENT = "the budget of this device does not suffice for another report"
    REFUSED = "this device refuses what it is asked"
    UNINVITED = "the service does not let this device take part"
    CONFLICT = "the service has another report from the holder of this invitation"
    UNREACHABLE = "the service does not answer"
    NOT_UNDERSTOOD = "the service does not answer as a service of fedsel would"

    @property
    def regular(self) -> bool:
        """Whether all went as it should."""
        return self in (Ending.FINISHED, Ending.DONE, Ending.SPENT)


class Ended(Exception):
    """Taking part is over; ``detail`` says more to the owner."""

    def __init__(self, ending: Ending, detail: str = "") -> None:
        super().__init__(ending, detail)
        self.ending, self.detail = ending, detail

    def __str__(self) -> str:
        return f"{self.ending.value}: {self.detail}" if self.detail else self.ending.value


@final
@dataclass(frozen=True)
class Outcome:
    """What taking part has led to.

    ``accepted`` reports were taken, or had been taken before a restart; ``late`` ones came after
    their round was over: they are paid for all the same. ``left_out`` records had a label or a
    value that the task has no use for. ``history`` is the whole ledger, earlier runs included.
    """

    ending: Ending
    detail: str
    run: bytes | None
    accepted: int
    late: int
    left_out: int
    history: History

    @property
    def regular(self) -> bool:
        """Whether all went as it should: the run is over, or the budget is spent."""
        return self.ending.regular

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the ledger has a form of its own."""
        return {
            "ending": self.ending.name.lower(),
            "message": str(Ended(self.ending, self.detail)),
            "run": None if self.run is None else self.run.hex(),
            "accepted": self.accepted,
            "late": self.late,
            "records_left_out": self.left_out,
        }
