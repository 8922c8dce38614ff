"""What the server does with reports: validate, average, step, and survive its own crashes."""

from fedsel.server.aggregator import Aggregator
from fedsel.server.checkpoint import CheckpointError, RoundRecord
from fedsel.server.keys import ServerKey
from fedsel.server.lock import FolderInUse
from fedsel.server.outcome import Counts, Outcome
from fedsel.server.shuffler import Shuffler
from fedsel.server.step import ServerState, StepRule, step
from fedsel.wire import Request

__all__ = [
    "Aggregator",
    "CheckpointError",
    "Counts",
    "FolderInUse",
    "Outcome",
    "Request",
    "RoundRecord",
    "ServerKey",
    "ServerState",
    "Shuffler",
    "StepRule",
    "step",
]
