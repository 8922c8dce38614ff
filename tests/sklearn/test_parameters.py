"""Parameters of estimators: wrong ones are named, and a search has its price."""

import numpy as np
import pytest

from fedsel import FedSelClassifier, InvalidArgument, PrivacyLeakWarning
from fedsel.sklearn import search_cost
from tests.sklearn.test_classifier import binary, classifier

# Tests repeat themselves, and their clients are nobody: tests/sklearn/test_release.py and
# tests/sklearn/test_repeated_fits.py are on these warnings.
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)


def test_bounds_read_from_the_data_are_a_leak():
    X, y = binary()
    with pytest.warns(PrivacyLeakWarning, match="read from the records") as caught:
        fitted = FedSelClassifier(random_state=0).fit(X, y)
    assert caught[0].filename == __file__
    assert "bounds of the features" in str(fitted.privacy_)
    np.testing.assert_array_equal(fitted.feature_range_, [X.min(axis=0), X.max(axis=0)])
    # Later waves clip to the bounds of the first, and nothing is read again.
    fitted.partial_fit(X, y)
    classifier().fit(X, y)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("PS-PM-C", "loses ε = 2.2"),
        ("PE-published-PM", "loses"),
        ("PS", "is not"),
        ("PrivUnit", "has no certificate"),
    ],
)
def test_solutions_over_their_budget_are_a_leak(name, told):
    X, y = binary()
    with pytest.warns(PrivacyLeakWarning, match=told):
        fitted = classifier(solution=name, mu=0.1).fit(X, y)
    assert not fitted.privacy_.within_budget


def test_what_a_search_costs():
    assert search_cost(2.0, candidates=4, splits=3) == 2.0 * (4 * 2 + 1)
    assert search_cost(2.0, candidates=4, splits=3, refit=False) == 16.0


def test_what_the_auto_parameters_become():
    X, y = binary()
    fitted = classifier(epsilon=0.5, solution="PS-PM").fit(X, y)
    assert fitted.learning_rate_ > 0
    assert fitted.batch_ == 6
    assert "nothing of ε′ is left for the selection" in fitted.privacy_.note  # six a round
    # The learning rate looks at nobody's labels or features.
    for name in ("PS-PM", "RJ"):
        rates = [
            classifier(epsilon=0.5, solution=name).fit(records, y).learning_rate_
            for records in (X, X[::-1] / 2)
        ]
        assert rates[0] == rates[1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.0),
        ("epsilon", np.nan),
        ("epsilon", "2"),
        ("solution", "PS-PN"),
        ("solution", None),
        ("model", "tree"),
        ("epochs", 0),
        ("batch_fraction", 0.0),
        ("batch_fraction", 1.5),
        ("batch_fraction", np.nan),
        ("learning_rate", -1.0),
        ("learning_rate", np.inf),
        ("learning_rate", "fast"),
        ("averaging", -1.0),
        ("averaging", np.nan),
        ("unit_norm", "yes"),
        ("rho", 0.0),
        ("rho", np.inf),
        ("words", 0),
        ("mu", 1.0),
        ("k", 0),
        ("clip", 0.0),
        ("momentum", np.nan),
        ("reg", -1.0),
        ("feature_range", (1, 0)),
        ("feature_range", (0, np.inf)),
        ("feature_range", 3),
        ("feature_range", ([0, 0], [1, 1])),
        ("random_state", -1),
    ],
)
def test_wrong_parameters_are_named(name, value):
    X, y = binary(2000)
    more = {"solution": "RC"} if name == "words" else {}
    made = classifier(**{"batch_fraction": 0.5, name: value, **more})
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        made.fit(X, y)
