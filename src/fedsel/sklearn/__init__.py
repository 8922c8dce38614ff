"""Estimators for scikit-learn.

Needs the extra: ``pip install 'fedsel[sklearn]'``.
"""

from fedsel._internal.extras import needed

with needed("sklearn", "fedsel.sklearn"):
    import sklearn as _sklearn  # noqa: F401

from fedsel.errors import (
    PrivacyLeakWarning,
    RepeatedFitWarning,
    SeededNoiseWarning,
    TooFewClientsWarning,
)
from fedsel.sklearn._classifier import FedSelClassifier
from fedsel.sklearn._models import load_model
from fedsel.sklearn._parameters import search_cost
from fedsel.sklearn._regressor import FedSelRegressor
from fedsel.statements._fits import PrivacyStatement

__all__ = [
    "FedSelClassifier",
    "FedSelRegressor",
    "PrivacyLeakWarning",
    "PrivacyStatement",
    "RepeatedFitWarning",
    "SeededNoiseWarning",
    "TooFewClientsWarning",
    "load_model",
    "search_cost",
]
