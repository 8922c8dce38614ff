"""How a device says no: fixed sentences that depend on public things alone."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """Why a request was refused: from the request, the policy and past reports, never the data."""

    MALFORMED = "the request cannot be understood"
    VERSION = "the request is of an unknown version"
    WEIGHTS = "the weights do not have the announced shape, type and range"
    NOT_ALLOWED = "the policy of this device does not allow such a task"
    PURPOSE = "the policy of this device does not allow the purpose or the recipient of the request"
    TOO_MUCH = "the report would cost more than the policy of this device allows for one report"
    EXHAUSTED = "the budget of this device does not suffice for the report"
    TOO_OFTEN = "this device has reported as often as its policy allows for now"
    OUT_OF_ORDER = "the round is older than one that this device has answered"
    CONFLICT = "the request contradicts an earlier one of the same run"
    LEDGER = "the ledger of this device cannot be used"
    INTERNAL = "the device could not answer"


class Refused(Exception):
    """A request that a device does not answer. Nothing was spent, and nothing left the device.

    >>> Refused(Reason.EXHAUSTED).reason.name
    'EXHAUSTED'
    """

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return self.reason.value

    def afresh(self) -> Refused:
        """The same refusal without traceback and context."""
        return Refused(self.reason)


class Fault(Enum):
    """What can be wrong with a ledger: said to the owner of the device."""

    MISSING = "there is no ledger: create it once, with Client(…, create=True)"
    OCCUPIED = "the folder holds other files but no ledger, or a witness but not its ledger"
    FOREIGN = "this is not a ledger of fedsel, or one of another version"
    DAMAGED = "the ledger is damaged"
    DISAGREES = "ledger and witness disagree: one was put back from a copy or belongs elsewhere"
    BUSY = "another process holds the ledger"
    UNFINISHED = "a transaction was cut off: the next answer of its client puts the ledger right"
    UNREADABLE = "the ledger cannot be read: no permission, or the disk is failing"
    UNWRITABLE = "the ledger cannot be written: read-only, or the disk is full or failing"
    LIFETIME = "the lifetime of the policy is above the lifetime of the ledger"


class LedgerError(Refused):
    """The ledger cannot be used, so nothing is sent. Never mended or reset silently.

    ``remedy`` tells the owner what to do, where the fault alone does not.
    """

    def __init__(self, fault: Fault, remedy: str = "") -> None:
        super().__init__(Reason.LEDGER)
        self.fault, self.remedy = fault, remedy
        self.args = (fault, remedy)

    def __str__(self) -> str:
        return f"{self.fault.value}: {self.remedy}" if self.remedy else self.fault.value

    def afresh(self) -> Refused:
        return LedgerError(self.fault, self.remedy)
