"""What runs on a person's device: the owner's policy, the durable ledger, and the client."""

from fedsel.device.client import Client
from fedsel.device.ledger import Entry, History, Ledger
from fedsel.device.linear import LinearRecords
from fedsel.device.policy import Policy
from fedsel.device.refusal import Fault, LedgerError, Reason, Refused
from fedsel.wire import Request

__all__ = [
    "Client",
    "Entry",
    "Fault",
    "History",
    "Ledger",
    "LedgerError",
    "LinearRecords",
    "Policy",
    "Reason",
    "Refused",
    "Request",
]
