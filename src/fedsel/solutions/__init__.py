"""Solutions: from a client's gradient to the server's mean, by the paper's abbreviations."""

from fedsel.solutions.base import Privacy, Solution
from fedsel.solutions.baselines import Cap, DimensionSets, Reference
from fedsel.solutions.coded import Coded
from fedsel.solutions.full import Full
from fedsel.solutions.picks import Picks
from fedsel.solutions.projected import Projected
from fedsel.solutions.registry import names, solution

__all__ = [
    "Cap",
    "Coded",
    "DimensionSets",
    "Full",
    "Picks",
    "Privacy",
    "Projected",
    "Reference",
    "Solution",
    "names",
    "solution",
]
