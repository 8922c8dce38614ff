"""Solutions turn clients' updates into the server's mean: feedback, transform and mechanism."""

from fedsel.solutions._blocks import Blocks, best_blocks
from fedsel.solutions._entries import Entry
from fedsel.solutions._privacy import Influence, Privacy
from fedsel.solutions._registry import entries, entry, names, register, unregister
from fedsel.solutions._rotated import Rotated
from fedsel.solutions._solution import Feedback, Solution
from fedsel.solutions._transforms import Coordinates, Projection, RandomDirections, Transform

__all__ = [
    "Blocks",
    "Coordinates",
    "Entry",
    "Feedback",
    "Influence",
    "Privacy",
    "Projection",
    "RandomDirections",
    "Rotated",
    "Solution",
    "Transform",
    "best_blocks",
    "entries",
    "entry",
    "names",
    "register",
    "unregister",
]
