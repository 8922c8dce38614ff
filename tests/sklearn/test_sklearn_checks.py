"""scikit-learn's own checks of an estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsel import FedSelClassifier

ESTIMATORS = [
    FedSelClassifier(),
    FedSelClassifier(solution="NP"),
    FedSelClassifier(solution="PM-RP", model="svm", epochs=2, fit_intercept=False),
]

# No check is expected to fail.
EXPECTED_FAILURES: dict[str, str] = {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsel.PrivacyLeakWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
