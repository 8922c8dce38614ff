"""Statements of privacy for people: what left, what it cost, what that means, whom to trust.

One for the ledgers of many devices (`inspect_ledgers`), one for a run of a server (`RunStatement`),
and the page that these and the front ends share.
"""

from fedsel.statements._document import Document
from fedsel.statements.ledgers import Device, LedgerReport, inspect_ledgers
from fedsel.statements.meaning import certainty, exactly, in_percent, meaning
from fedsel.statements.runs import RunStatement

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
