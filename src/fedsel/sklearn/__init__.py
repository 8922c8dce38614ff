"""fedsel at home in scikit-learn.

Needs the extra: ``pip install 'fedsel[sklearn]'``.
"""

import sys

from fedsel._internal.extras import needed

with needed("sklearn", "fedsel.sklearn"):
    import sklearn as _sklearn  # noqa: F401

from fedsel.errors import (
    PrivacyLeakWarning,
    RepeatedFitWarning,
    SeededNoiseWarning,
    TooFewClientsWarning,
)
from fedsel.sklearn import _classifier, _regressor
from fedsel.sklearn._classifier import FedSelClassifier
from fedsel.sklearn._parameters import search_cost
from fedsel.sklearn._regressor import FedSelRegressor
from fedsel.statements import _fits
from fedsel.statements._fits import PrivacyStatement

# Pickles of models of earlier versions name these modules.
for _old, _new in {"classifier": _classifier, "regressor": _regressor, "privacy": _fits}.items():
    sys.modules[f"{__name__}.{_old}"] = _new

__all__ = [
    "FedSelClassifier",
    "FedSelRegressor",
    "PrivacyLeakWarning",
    "PrivacyStatement",
    "RepeatedFitWarning",
    "SeededNoiseWarning",
    "TooFewClientsWarning",
    "search_cost",
]
