"""What runs on a person's device: the owner's policy, the durable ledger, and the client."""

from fedsel._internal.models import LinearModel
from fedsel.device._budget import Limit, Standing
from fedsel.device._client import Client
from fedsel.device._connection import Ended, Ending
from fedsel.device._entries import Confirmation, Entry, History, Limits
from fedsel.device._ledger import Ledger
from fedsel.device._policy import Policy, Reason, Refused
from fedsel.device._records import LinearRecords, RawRecords
from fedsel.device._session import Offer, Outcome, Session, join
from fedsel.device._storage import Fault, LedgerError
from fedsel.errors import renamed
from fedsel.wire import Intent, Request

__all__ = [
    "Client",
    "Confirmation",
    "Ended",
    "Ending",
    "Entry",
    "Fault",
    "History",
    "Intent",
    "Ledger",
    "LedgerError",
    "Limit",
    "Limits",
    "LinearModel",
    "LinearRecords",
    "Offer",
    "Outcome",
    "Policy",
    "RawRecords",
    "Reason",
    "Refused",
    "Request",
    "Session",
    "Standing",
    "join",
]
__getattr__ = renamed(__name__, {"Visit": "Session"}, until="0.2")
