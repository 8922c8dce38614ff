"""scikit-learn's own checks of an estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsel import FedSelClassifier
from fedsel.sklearn import FedSelRegressor

ESTIMATORS = [
    FedSelClassifier(),
    FedSelClassifier(solution="NP"),
    FedSelClassifier(solution="PM-RP", model="svm", epochs=2, fit_intercept=False),
    FedSelRegressor(),
    FedSelRegressor(solution="NP", loss="huber"),
]

# A client of weight 0 reports all the same, and one of weight 2 reports once: who takes part is
# public, and what a weight does to a report is drawn.
EXPECTED_FAILURES = {
    f"check_sample_weight_equivalence_on_{kind}_data": "weights are private and clients report once"
    for kind in ("dense", "sparse")
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsel.PrivacyLeakWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
