"""fedsel at home in scikit-learn."""

from fedsel.errors import PrivacyLeakWarning
from fedsel.estimators.classifier import FedSelClassifier
from fedsel.estimators.privacy import PrivacyStatement, search_cost

__all__ = ["FedSelClassifier", "PrivacyLeakWarning", "PrivacyStatement", "search_cost"]
