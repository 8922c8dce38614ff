"""fedsel: federated learning under local differential privacy.

Every client randomises its own update before it leaves the device. This page is the public API at
its root; mechanisms, transforms, the simulator and the front ends (`fedsel.sklearn`,
`fedsel.torch`, `fedsel.flower`) have pages of their own. What needs more is loaded on first use.
"""

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedsel.auto import PublicFacts, resolve_auto
from fedsel.errors import InvalidArgument, InvalidData, PrivacyLeakWarning, renamed
from fedsel.mechanisms import Certificate, FlatPicks, SignedSampling, TwoStage, certify, mechanism
from fedsel.mechanisms._reports import Reports, Totals
from fedsel.recipe import Recipe, solution
from fedsel.solutions import (
    Coordinates,
    Feedback,
    Projection,
    RandomDirections,
    Rotated,
    Solution,
)

if TYPE_CHECKING:
    from fedsel.advising import advise
    from fedsel.asking import ask
    from fedsel.auditing import audit, certify_by_enumeration, exact_law
    from fedsel.device import Client, Ledger, Policy
    from fedsel.mechanisms.central import amplify, local_budget
    from fedsel.server import Aggregator
    from fedsel.simulation import FitAccount
    from fedsel.sklearn import FedSelClassifier, FedSelRegressor, load_model
    from fedsel.wire import Schema

_LAZY = {
    "Aggregator": "fedsel.server",
    "Client": "fedsel.device",
    "FedSelClassifier": "fedsel.sklearn",
    "FedSelRegressor": "fedsel.sklearn",
    "FitAccount": "fedsel.simulation",
    "Ledger": "fedsel.device",
    "Policy": "fedsel.device",
    "Schema": "fedsel.wire",
    "advise": "fedsel.advising",
    "amplify": "fedsel.mechanisms.central",
    "ask": "fedsel.asking",
    "audit": "fedsel.auditing",
    "certify_by_enumeration": "fedsel.auditing",
    "exact_law": "fedsel.auditing",
    "load_model": "fedsel.sklearn",
    "local_budget": "fedsel.mechanisms.central",
}


_renamed = renamed(__name__, {"Setting": "PublicFacts", "resolved": "resolve_auto"}, until="0.2")


def __getattr__(name: str) -> Any:
    return getattr(import_module(_LAZY[name]), name) if name in _LAZY else _renamed(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


__all__ = [
    "Aggregator",
    "Certificate",
    "Client",
    "Coordinates",
    "FedSelClassifier",
    "FedSelRegressor",
    "Feedback",
    "FitAccount",
    "FlatPicks",
    "InvalidArgument",
    "InvalidData",
    "Ledger",
    "Policy",
    "PrivacyLeakWarning",
    "Projection",
    "PublicFacts",
    "RandomDirections",
    "Recipe",
    "Reports",
    "Rotated",
    "Schema",
    "SignedSampling",
    "Solution",
    "Totals",
    "TwoStage",
    "__version__",
    "advise",
    "amplify",
    "ask",
    "audit",
    "certify",
    "certify_by_enumeration",
    "exact_law",
    "load_model",
    "local_budget",
    "mechanism",
    "resolve_auto",
    "solution",
]
