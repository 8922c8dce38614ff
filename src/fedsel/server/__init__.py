"""What the server does with reports: validate, average, step, and survive its own crashes."""

from fedsel.server._admission import Counts, Outcome
from fedsel.server._aggregator import Aggregator
from fedsel.server._checkpoint import CheckpointError, RoundRecord
from fedsel.server._folder import FolderInUse
from fedsel.server._keys import ServerKey
from fedsel.server._shuffler import Shuffler
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
