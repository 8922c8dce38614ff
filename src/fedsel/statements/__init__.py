"""Statements of privacy for people: what left, what it cost, what that means, whom to trust.

`inspect_ledgers` reads the ledgers of many devices, `RunStatement` describes a run of a server.
Both are pages, JSON or text; so is the statement of a fit (`fedsel.sklearn.PrivacyStatement`).
"""

from fedsel.statements._ledgers import Device, LedgerReport, inspect_ledgers
from fedsel.statements._meaning import Document, certainty, exactly, in_percent, meaning
from fedsel.statements._runs import RunStatement

__all__ = [
    "Device",
    "Document",
    "LedgerReport",
    "RunStatement",
    "certainty",
    "exactly",
    "in_percent",
    "inspect_ledgers",
    "meaning",
]
