"""What a server and a device say to each other: tasks, requests, reports, and their bytes."""

from fedsel.wire.report import Batch, Pair, ReportFormat
from fedsel.wire.request import InvalidMessage, Request, UnknownVersion
from fedsel.wire.task import Task, decimal

__all__ = [
    "Batch",
    "InvalidMessage",
    "Pair",
    "ReportFormat",
    "Request",
    "Task",
    "UnknownVersion",
    "decimal",
]
