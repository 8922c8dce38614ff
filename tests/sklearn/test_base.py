"""What all estimators share: groups, waves, history, frames and pickles."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fedsel import InvalidArgument
from tests.sklearn.test_classifier import binary, classifier, several

# Tests repeat themselves, and their clients are nobody: tests/sklearn/test_release.py and
# tests/sklearn/test_repeated_fits.py are on these warnings.
pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsel.errors.SeededNoiseWarning", "ignore::fedsel.errors.RepeatedFitWarning"
)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names(frame):
    X, y = binary()
    columns = {f"column {j}": X[:, j] for j in range(6)}
    series = pd.Series(y) if frame is pd.DataFrame else pl.Series(y)
    fitted = classifier().fit(frame(columns), series)
    assert fitted.feature_names_in_.tolist() == list(columns)
    np.testing.assert_array_equal(fitted.coef_, classifier().fit(X, y).coef_)
    assert set(fitted.predict(frame(columns))) <= {"no", "yes"}


def test_groups_of_any_kind():
    X, y = binary()
    owners = np.arange(600) // 3
    expected = classifier().fit(X, y, groups=owners).coef_
    # In the order of the numbers, as the clients' own order is.
    for groups in (owners.tolist(), pd.Series(owners), [f"{g:03}" for g in owners]):
        np.testing.assert_array_equal(classifier().fit(X, y, groups=groups).coef_, expected)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier().fit(X, y, groups=owners[:-1])
    assert classifier().fit(X, y, groups=owners).privacy_.client == "a group of records"


def test_groups_through_a_search():
    """scikit-learn routes the owners to the fit, and keeps them together in the folds."""
    import sklearn
    from sklearn.model_selection import GroupKFold

    X, y = binary()
    owners = np.arange(600) // 3
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            classifier().set_fit_request(groups=True, eval_set=False),
            {"k": [1, 2]},
            cv=GroupKFold(3),
        )
        search.fit(X, y, groups=owners)
    assert search.best_estimator_.n_clients_ == 200


def test_random_state():
    X, y = binary()
    assert (classifier().fit(X, y).coef_ == classifier().fit(X, y).coef_).all()
    assert (classifier().fit(X, y).coef_ != classifier(random_state=4).fit(X, y).coef_).any()
    generator = np.random.RandomState(0)
    assert classifier(random_state=generator).fit(X, y).seed_ < 2**31


def test_waves_of_clients():
    X, y = binary(900)
    whole = classifier().fit(X[:300], y[:300])
    waves = classifier().partial_fit(X[:300], y[:300], classes=["yes", "no"])
    np.testing.assert_array_equal(whole.coef_, waves.coef_)
    before = waves.coef_.copy()
    waves.partial_fit(X[300:600], y[300:600])
    assert waves.n_waves_ == 2
    assert (waves.coef_ != before).any()
    numbers = [r.round for r in waves.history_.rounds]
    assert numbers == list(range(1, len(numbers) + 1))
    # The same records again are new clients, with new draws.
    twice = classifier(learning_rate=1.0).partial_fit(X[:300], y[:300])
    first = twice.coef_.copy()
    second = twice.partial_fit(X[:300], y[:300]).coef_ - first
    assert (second != first).any()
    with pytest.raises(InvalidArgument, match="the classes of the first wave"):
        waves.partial_fit(X, y, classes=["yes", "no", "perhaps"])
    with pytest.raises(InvalidArgument, match="a label beyond the classes"):
        waves.partial_fit(X[:2], ["yes", "perhaps"])
    assert waves.n_waves_ == 2  # what was refused left no trace
    assert waves.fit(X[:300], y[:300]).n_waves_ == 1
    np.testing.assert_array_equal(whole.coef_, waves.coef_)


def test_the_privacy_of_a_fit():
    X, y = binary()
    told = classifier(epsilon=3.0, epochs=2, mu=0.1).fit(X, y).privacy_
    assert told.per_report == pytest.approx(1.5, abs=1e-9)
    assert told.total == pytest.approx(3.0, abs=1e-9)
    assert told.total <= 3.0
    assert (told.reports, told.within_budget) == (2, True)
    text = str(told)
    assert "ε = 1.5 a report, 3 in total (2 reports" in text
    for phrase in ("Covered:", "Not covered:", "takes part", "several clients", "simulation"):
        assert phrase in text
    assert "bounds of the features" not in text
    plain = classifier(solution="NP").fit(X, y).privacy_
    assert math.isinf(plain.total)
    assert str(plain).startswith("NOT PRIVATE")


def test_pipelines_clones_and_pickles():
    X, y = binary()
    pipe = make_pipeline(FunctionTransformer(np.tanh), classifier(feature_range=(-1, 1)))
    assert pipe.fit(X, y).predict(X).shape == (600,)
    fitted = classifier(epsilon=5.0).fit(X, y)
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copied.predict(X)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    assert again.privacy_ == fitted.privacy_
    again.partial_fit(X, y)


@pytest.mark.parametrize("labels", [2, 3])
def test_history_and_plots(labels):
    X, y = several()
    X, y = X[y < labels], y[y < labels]
    fitted = classifier(feature_range=(0, 8), solution="NP").fit(X, y, eval_set=(X, y))
    last = fitted.history_.rounds[-1]
    assert last.accuracy == pytest.approx(fitted.score(X, y))
    assert last.reports == fitted.batch_
    axes = fitted.plot_history()
    assert axes.get_ylabel() == "accuracy on eval_set (%)"
    assert len(axes.lines[0].get_xdata()) == len(fitted.history_.rounds)
    silent = classifier(feature_range=(0, 8)).fit(X, y)
    assert math.isnan(silent.history_.accuracy)
    assert "kB" in silent.plot_history(axes=fitted.plot_history()).get_ylabel()


def test_verbose_tells_what_is_done(capsys):
    X, y = binary()
    classifier(verbose=1).fit(X, y)
    told = capsys.readouterr().out
    assert "600 clients in 100 rounds of 6" in told
    assert "Not covered:" in told
    classifier().fit(X, y)
    assert capsys.readouterr().out == ""
