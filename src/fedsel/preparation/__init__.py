"""Private preparation: the clients of the first rounds report where and how wide the records lie.

The server publishes what it learns, and all later clients prepare their records with it. Such a
round differs from others only in what a client reports on: its record in place of a gradient. It is
the same solution, the same certificate and the same one report of a client and epoch.

Where there are public rows, they tell it instead (`public`), and no round is spent. Published means
of features (`means`) tell the centre.
"""

from fedsel.preparation._means import PublicMeans
from fedsel.preparation._plan import Plan, PlanState, advanced
from fedsel.preparation._public import of_rows, shaped
from fedsel.preparation._record import Preparation
from fedsel.preparation._scale import FeatureScale

__all__ = [
    "FeatureScale",
    "Plan",
    "PlanState",
    "Preparation",
    "PublicMeans",
    "advanced",
    "of_rows",
    "shaped",
]
