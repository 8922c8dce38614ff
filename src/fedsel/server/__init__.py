"""What the server does with reports: validate, average, step, and survive its own crashes."""

from fedsel.errors import renamed
from fedsel.server._aggregator import Aggregator
from fedsel.server._checkpoint import Counts, RoundRecord
from fedsel.server._folder import CheckpointError, FolderInUse
from fedsel.server._keys import ServerKey
from fedsel.server._shuffler import Shuffler
from fedsel.server._step import ServerState, StepRule, step
from fedsel.wire import Request, Verdict

__all__ = [
    "Aggregator",
    "CheckpointError",
    "Counts",
    "FolderInUse",
    "Request",
    "RoundRecord",
    "ServerKey",
    "ServerState",
    "Shuffler",
    "StepRule",
    "Verdict",
    "step",
]
__getattr__ = renamed(__name__, {"Outcome": "Verdict"}, until="0.2")
