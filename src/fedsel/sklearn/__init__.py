"""fedsel at home in scikit-learn."""

from fedsel.errors import PrivacyLeakWarning
from fedsel.sklearn.classifier import FedSelClassifier
from fedsel.sklearn.privacy import PrivacyStatement, search_cost

__all__ = ["FedSelClassifier", "PrivacyLeakWarning", "PrivacyStatement", "search_cost"]
