"""What the server does with reports: validate, average, step, and survive its own crashes."""

from fedsel.server.aggregator import Aggregator, Counts, Outcome
from fedsel.server.checkpoint import CheckpointError, RoundRecord
from fedsel.wire import Request, Task

__all__ = [
    "Aggregator",
    "CheckpointError",
    "Counts",
    "Outcome",
    "Request",
    "RoundRecord",
    "Task",
]
