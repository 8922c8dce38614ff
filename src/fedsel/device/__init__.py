"""What runs on a person's device: the owner's policy, the durable ledger, and the client."""

from fedsel.device.client import Client
from fedsel.device.entries import Entry, History, Lifetime
from fedsel.device.joining import Ending, Outcome, RawRecords, Visit, join
from fedsel.device.ledger import Ledger
from fedsel.device.linear import LinearRecords
from fedsel.device.policy import Policy
from fedsel.device.refusal import Fault, LedgerError, Reason, Refused
from fedsel.wire import Intent, Request

__all__ = [
    "Client",
    "Ending",
    "Entry",
    "Fault",
    "History",
    "Intent",
    "Ledger",
    "LedgerError",
    "Lifetime",
    "LinearRecords",
    "Outcome",
    "Policy",
    "RawRecords",
    "Reason",
    "Refused",
    "Request",
    "Visit",
    "join",
]
