"""What the server does with reports: validate, average, step, and survive its own crashes."""

from fedsel.server.aggregator import Aggregator, Counts, Outcome
from fedsel.server.checkpoint import CheckpointError, RoundRecord
from fedsel.server.step import ServerState, StepRule, step
from fedsel.wire import Request

__all__ = [
    "Aggregator",
    "CheckpointError",
    "Counts",
    "Outcome",
    "Request",
    "RoundRecord",
    "ServerState",
    "StepRule",
    "step",
]
