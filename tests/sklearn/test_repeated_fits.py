"""A client that takes part in several fits pays several times, whoever fits."""

import pickle
import re
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.feature_selection import RFE, SequentialFeatureSelector
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from fedsel import FedSelClassifier, FitAccount, PrivacyLeakWarning
from fedsel.errors import LifetimeExceeded, RepeatedFitWarning, SeededNoiseWarning
from fedsel.sklearn import search_cost

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (150, 4))
Y = np.digitize(X[:, 0], [-0.3, 0.3])
TWO = (Y > 0).astype(int)


def classifier(**parameters):
    given = {"epsilon": 2.0, "feature_range": (-4, 4), "batch_fraction": 0.2}
    return FedSelClassifier(**{**given, **parameters})


def nested(estimator):
    return GridSearchCV(estimator, param(estimator, "reg", [0.0, 0.1]), cv=3)


def param(estimator, name, values):
    alone = isinstance(estimator, FedSelClassifier)
    return {name if alone else f"fedselclassifier__{name}": values}


# What fits, how many fits the record takes part in that takes part in most, and all fits.
TOOLS = {
    "cross_val_score": (lambda e: cross_val_score(e, X, TWO, cv=3), 2, 3),
    "cross_validate": (lambda e: cross_validate(e, X, TWO, cv=4), 3, 4),
    "cross_val_predict": (lambda e: cross_val_predict(e, X, TWO, cv=3), 2, 3),
    "permutation_test_score": (
        lambda e: permutation_test_score(e, X, TWO, cv=2, n_permutations=5),
        6,
        12,
    ),
    "learning_curve": (
        lambda e: learning_curve(e, X, TWO, cv=2, train_sizes=[30, 60], shuffle=False),
        2,
        4,
    ),
    "validation_curve": (
        lambda e: validation_curve(
            e, X, TWO, param_name=next(iter(param(e, "reg", 0))), param_range=[0.0, 0.1], cv=3
        ),
        4,
        6,
    ),
    "CalibratedClassifierCV": (lambda e: CalibratedClassifierCV(e, cv=3).fit(X, TWO), 2, 3),
    "TunedThresholdClassifierCV": (
        lambda e: TunedThresholdClassifierCV(e, cv=3).fit(X, TWO),
        3,
        4,
    ),
    "StackingClassifier": (
        lambda e: StackingClassifier([("one", e)], cv=3).fit(X, TWO),
        3,
        4,
    ),
    "VotingClassifier": (
        lambda e: VotingClassifier([("one", e), ("two", clone(e))]).fit(X, TWO),
        2,
        2,
    ),
    "BaggingClassifier": (
        lambda e: BaggingClassifier(e, 5, bootstrap=False, random_state=0).fit(X, TWO),
        5,
        5,
    ),
    "OneVsRestClassifier": (lambda e: OneVsRestClassifier(e).fit(X, Y), 3, 3),
    "OneVsOneClassifier": (lambda e: OneVsOneClassifier(e).fit(X, Y), 2, 3),
    "GridSearchCV": (lambda e: nested(e).fit(X, TWO), 5, 7),
    "nested search": (lambda e: cross_val_score(nested(e), X, TWO, cv=3), 10, 21),
}


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_is_counted_exactly(tool):
    fit, most, every = TOOLS[tool]
    with FitAccount() as account, pytest.warns(PrivacyLeakWarning) as caught:
        fit(classifier())
    said = [str(w.message) for w in caught if w.category is RepeatedFitWarning]
    assert "were fitted in this process before" in said[0]
    assert (account.fits, account.spent) == (every, 2.0 * every)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedFitWarning)
        after = classifier().fit(X, TWO)
    assert after.spent_ == pytest.approx(2.0 * (most + 1))
    assert after.privacy_.total == pytest.approx(2.0)


CHANGING = {
    "RFE": (lambda e: RFE(e, n_features_to_select=1).fit(X, TWO), 4),
    "SequentialFeatureSelector": (
        lambda e: SequentialFeatureSelector(e, n_features_to_select=1, cv=2).fit(X, TWO),
        8,
    ),
    "ClassifierChain": (lambda e: ClassifierChain(e).fit(X, np.c_[TWO, 1 - TWO]), 2),
    "a scaler in cross_val_score": (
        lambda e: cross_val_score(make_pipeline(StandardScaler(), e), X, TWO, cv=4),
        4,
    ),
    "a scaler in GridSearchCV": (
        lambda e: nested(make_pipeline(StandardScaler(), e)).fit(X, TWO),
        7,
    ),
}
"""What changes the records on their way, and its fits."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
@pytest.mark.parametrize("tool", CHANGING)
def test_an_account_counts_records_that_look_new_each_time(tool):
    fit, fits = CHANGING[tool]
    with FitAccount() as account:
        fit(classifier())
    assert (account.fits, account.spent) == (fits, 2.0 * fits)


@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
def test_a_lifetime_stops_a_search():
    """scikit-learn scores a failed fit as NaN: no further fit spends anything."""
    with FitAccount(lifetime=5.0) as account:
        with pytest.warns(FitFailedWarning, match="LifetimeExceeded"):
            scores = cross_val_score(classifier(), X, TWO, cv=4)
        assert (account.fits, account.spent) == (2, 4.0)
        with pytest.raises(LifetimeExceeded, match="this fit costs ε = 2"):
            classifier().fit(X, TWO)
        smaller = classifier(epsilon=1.0).fit(X, TWO)
    assert np.isnan(scores).tolist() == [False, False, True, True]
    assert (account.spent, smaller.spent_) == pytest.approx((5.0, 5.0))


@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
def test_a_search_costs_what_search_cost_says():
    search = GridSearchCV(classifier(), {"epsilon": [2.0, 2.0], "k": [1, 2]}, cv=3).fit(X, TWO)
    best = search.best_estimator_
    assert (best.privacy_.total, best.spent_) == pytest.approx((2.0, 2.0 * (4 * 2 + 1)))
    assert best.spent_ == pytest.approx(search_cost(2.0, candidates=4, splits=3))


@pytest.mark.filterwarnings("default::fedsel.errors.RepeatedFitWarning")
def test_a_search_of_many_fits_is_a_few_warnings():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", RepeatedFitWarning)
        GridSearchCV(classifier(), {"reg": np.linspace(0, 0.1, 10)}, cv=4).fit(X, TWO)
    said = [str(w.message) for w in caught]
    counts = [int(re.search(r"now in (\d+) fits", t)[1]) for t in said if "were fitted" in t]
    assert counts == sorted(counts)
    assert set(counts) == {2, 4, 8, 16}  # of 31
    assert len(said) < 12


def test_an_ensemble_that_seeds_its_members_is_told_so():
    """Bagging gives each member a seed of 31 bits, whatever the estimator's own parameter says."""
    bagging = BaggingClassifier(classifier(weight_bound=1.0), 2, max_samples=0.5, bootstrap=False)
    with pytest.warns(SeededNoiseWarning), pytest.warns(RepeatedFitWarning):
        bagging.fit(X, TWO)
    assert all(member.privacy_.seeded for member in bagging.estimators_)


def test_what_is_one_fit_is_no_search():
    """A pipeline, waves of new clients, or clients beside others: nobody comes again."""
    make_pipeline(FunctionTransformer(np.tanh), classifier()).fit(X, TWO)
    model = classifier().partial_fit(X[:50], TWO[:50]).partial_fit(X[50:], TWO[50:])
    assert model.spent_ == pytest.approx(2.0)
    assert clone(model).fit(X + 5, TWO).spent_ == pytest.approx(2.0)


@pytest.mark.parametrize("again", ["fit", "partial_fit"])
def test_the_second_fit_on_the_same_clients(again):
    model = classifier(epsilon=0.5).fit(X, TWO)
    assert model.spent_ == pytest.approx(0.5)
    with pytest.warns(RepeatedFitWarning, match=r"70 of 70 .*spent ε = 2\.5 so far, not 2") as told:
        getattr(model.set_params(epsilon=2.0), again)(X[:70], TWO[:70])
    assert told[0].filename == __file__
    assert issubclass(RepeatedFitWarning, PrivacyLeakWarning)
    assert model.spent_ == pytest.approx(2.5)
    with pytest.warns(RepeatedFitWarning, match=r"80 of 80 .*spent ε = 1 so far, not 0\.5"):
        classifier(epsilon=0.5).fit(X[70:], 1 - TWO[70:])  # other labels are no other clients


@pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning")
def test_a_fit_without_privacy_counts():
    classifier(solution="NP").fit(X, TWO)
    classifier(solution="NP").fit(X, TWO)
    assert classifier().fit(X[:10], TWO[:10]).spent_ == np.inf


def test_what_is_refused_costs_nothing():
    with pytest.raises(ValueError, match="eval_set"):
        classifier().fit(X, TWO, eval_set=X)
    assert classifier().fit(X, TWO).spent_ == pytest.approx(2.0)


def test_who_came_again_is_not_in_a_pickle():
    """Whether a record was in an earlier fit is private, and no ε covers it."""
    model = classifier().fit(X, TWO)
    again = pickle.loads(pickle.dumps(model))
    assert model.spent_ == pytest.approx(2.0)
    assert not hasattr(again, "spent_")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.slow
def test_fits_in_other_processes_are_announced_here():
    """Their own warnings stay there; here is said that they are not counted."""
    with pytest.warns(RepeatedFitWarning, match="is pickled, as n_jobs=2 does"):
        cross_val_score(classifier(), X, TWO, cv=2, n_jobs=2)
    # In threads of this process they are counted.
    threads, account = joblib.parallel_config("threading"), FitAccount()
    with threads, account, pytest.warns(RepeatedFitWarning) as caught:
        cross_val_score(classifier(), X, TWO, cv=3, n_jobs=2)
    assert not any("pickled" in str(w.message) for w in caught)
    assert account.spent == 6.0
    assert classifier().fit(X[:1].repeat(4, 0), [0, 1, 0, 1]).spent_ == pytest.approx(6.0)


@pytest.mark.slow
def test_an_open_account_lets_no_fit_go_where_it_cannot_count():
    with FitAccount() as account:
        with pytest.raises(pickle.PicklingError) as refused:
            cross_val_score(classifier(), X, TWO, cv=2, n_jobs=2)
        assert "fits in another process cannot be counted" in str(refused.value.__cause__)
        model = classifier().fit(X, TWO)
        pickle.dumps(model)  # a fitted one may be kept
        assert clone(model).get_params() == model.get_params()
    assert account.fits == 1


def test_a_plot_of_many_fits_says_its_sum_and_silences_nothing_else():
    with pytest.warns(PrivacyLeakWarning) as caught:
        classifier(feature_range=None).plot_privacy_accuracy(
            X, TWO, X, TWO, epsilons=(1, 3), solutions=("NP", "RJ"), repeats=2
        )
    said = [str(w.message) for w in caught]
    assert "fitted 6 times: together this costs them ε = 8 and 2 fits without privacy" in said[0]
    assert caught[0].filename == __file__
    assert sum("took part" in text for text in said) == 0
    assert sum("read from the records" in text for text in said) == 6
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        classifier(feature_range=None).plot_privacy_accuracy(X, TWO, X, TWO, epsilons=(1, 2))
    assert sum("read from the records" in str(w.message) for w in caught) == 1
