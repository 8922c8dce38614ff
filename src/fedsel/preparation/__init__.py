"""Private preparation: clients of the first rounds report where records lie and how widely.

The server publishes what it learns, and all later clients prepare their records with it. Such a
round differs from others only in what a client reports on: its record in place of a gradient. It is
the same solution, the same certificate and the same one report of a client and epoch.

Public rows give all of it without a round (`of_rows`, `shaped`), published means of features give
the centre (`PublicMeans`).
"""

from fedsel.preparation._given import GivenPreparation
from fedsel.preparation._means import PublicMeans
from fedsel.preparation._plan import Plan, PlanState, advanced
from fedsel.preparation._public import FeatureScale, for_network, of_rows, shaped
from fedsel.preparation._record import Preparation

__all__ = [
    "FeatureScale",
    "GivenPreparation",
    "Plan",
    "PlanState",
    "Preparation",
    "PublicMeans",
    "advanced",
    "for_network",
    "of_rows",
    "shaped",
]
