"""fedsel: federated learning under local differential privacy.

Every client randomises its own update before it leaves the device. This page is the public API;
what needs more imports (audits, simulated cohorts, device and server) is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedsel._version import __version__
from fedsel.errors import InvalidArgument, InvalidData, PrivacyLeakWarning
from fedsel.mechanisms import (
    BOTTOM,
    Certificate,
    Duchi,
    Exponential,
    Hybrid,
    Identity,
    Mechanism,
    OptimalWindow,
    PerturbedEncoding,
    PerturbedSampling,
    Piecewise,
    PublishedPerturbedEncoding,
    RankLaw,
    Selection,
    SymbolLaw,
    TopK,
    TwoStage,
    Uniform,
    Value,
    Window,
    certify,
    certify_by_enumeration,
)
from fedsel.mechanisms.registry import mechanism
from fedsel.random import Entropy, SystemEntropy
from fedsel.reports import Report, Reports
from fedsel.sampling.device import accumulate_and_report, perturb, report, select
from fedsel.solutions import Solution, solution

if TYPE_CHECKING:
    import fedsel.checks as checks  # noqa: PLR0402
    from fedsel import data, device, server, simulation
    from fedsel.advising import Advice, advise
    from fedsel.auditing import Finding, audit, exact_law
    from fedsel.sampling import simulated as cohort
    from fedsel.sklearn import FedSelClassifier

_LAZY = {
    "Advice": "fedsel.advising",
    "advise": "fedsel.advising",
    "audit": "fedsel.auditing",
    "Finding": "fedsel.auditing",
    "exact_law": "fedsel.auditing",
    "cohort": "fedsel.sampling.simulated",
    "checks": "fedsel.checks",
    "data": "fedsel.data",
    "device": "fedsel.device",
    "simulation": "fedsel.simulation",
    "server": "fedsel.server",
    "FedSelClassifier": "fedsel.sklearn",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'fedsel' has no attribute {name!r}")
    module = import_module(_LAZY[name])
    return module if module.__name__.endswith("." + name) else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


__all__ = [
    "BOTTOM",
    "Advice",
    "Certificate",
    "Duchi",
    "Entropy",
    "Exponential",
    "FedSelClassifier",
    "Finding",
    "Hybrid",
    "Identity",
    "InvalidArgument",
    "InvalidData",
    "Mechanism",
    "OptimalWindow",
    "PerturbedEncoding",
    "PerturbedSampling",
    "Piecewise",
    "PrivacyLeakWarning",
    "PublishedPerturbedEncoding",
    "RankLaw",
    "Report",
    "Reports",
    "Selection",
    "Solution",
    "SymbolLaw",
    "SystemEntropy",
    "TopK",
    "TwoStage",
    "Uniform",
    "Value",
    "Window",
    "__version__",
    "accumulate_and_report",
    "advise",
    "audit",
    "certify",
    "certify_by_enumeration",
    "checks",
    "cohort",
    "data",
    "device",
    "exact_law",
    "mechanism",
    "perturb",
    "report",
    "select",
    "server",
    "simulation",
    "solution",
]
