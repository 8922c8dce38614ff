"""Solutions: from a client's update to the server's mean, composed of three values."""

from fedsel.solutions.base import Privacy, Solution
from fedsel.solutions.feedback import Feedback
from fedsel.solutions.influence import Influence
from fedsel.solutions.registry import Entry, entry, names
from fedsel.solutions.rotated import Rotated
from fedsel.solutions.transforms import Coordinates, Projection, RandomDirections, Transform

__all__ = [
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
    "entry",
    "names",
]
