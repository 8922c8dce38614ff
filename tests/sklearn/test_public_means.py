"""public_mean: published means of features take the place of the rounds that learn the centre."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from fedsel import FedSelClassifier, FedSelRegressor
from fedsel.errors import InvalidArgument, PrivacyLeakWarning
from fedsel.simulation import _account

N, D = 4000, 6
SHARES = np.array([0.5, 0.9, 0.1, 0.8, 0.3, 0.95])
pytestmark = pytest.mark.filterwarnings("ignore::fedsel.errors.TooFewClientsWarning")


def data(n=N, seed=0):
    """Levels of given shares, of which the first tells two classes apart."""
    draw = np.random.default_rng(seed)
    X = (draw.random((n, D)) < SHARES).astype(float)
    return X, np.where(draw.random(n) < 0.9, X[:, 0], 1 - X[:, 0]).astype(int)


X, Y = data()
MEANS = X.mean(axis=0)


def fitted(kind=FedSelClassifier, rows=X, y=Y, fit=None, **parameters):
    given = {"epsilon": 1.0, "feature_range": (0, 1), "random_state": 5, "public_mean": MEANS}
    if kind is FedSelRegressor:
        given["target_range"] = (0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return kind(**{**given, **parameters}).fit(rows, y, **(fit or {}))


def test_no_round_learns_the_centre_and_its_clients_train():
    given, learning = (fitted(public_mean=m, fit={"eval_set": (X, Y)}) for m in (MEANS, None))
    assert (given.recipe_.centre, learning.recipe_.centre) == (0, 0.1)
    np.testing.assert_array_equal(given.preparation_.centre, MEANS)
    losses = [[r.loss for r in m.history_.rounds[:10]] for m in (given, learning)]
    assert [len(set(some)) for some in losses] == [10, 1]  # those that learn it do not train
    assert [r.reports for r in given.history_.rounds] == [
        r.reports for r in learning.history_.rounds
    ]
    assert given.privacy_.total == learning.privacy_.total


def test_the_statement_tells_of_them():
    given, some, none = (str(fitted(public_mean=m).privacy_) for m in (MEANS, {0: 0.5}, None))
    assert "centre of 6 of the features" in given
    assert "anybody whose data is in the public means" in given
    assert "first rounds" not in given
    assert "centre of 1 of the features" in some
    assert "first rounds" in some
    assert "public means" not in none
    assert (fitted().n_public_means_, fitted(public_mean=None).n_public_means_) == (D, 0)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"model": "svm"},
        {"solution": "RJ"},
        {"solution": "RC"},
        {"solution": "PS-PM", "epsilon": 4.0},
        {"unit_norm": False},
        {"epochs": 2},
        {"solution": "NP"},
        {"kind": FedSelRegressor},
        {"y": Y + 2 * X[:, 4].astype(int)},
        {"rows": csr_array(X)},
        {"fit": {"groups": np.arange(N) // 2}},
        {"batch_fraction": 0.2},
        {"centre": 0.0},
    ],
    ids=str,
)
def test_the_centre_is_what_was_given_whoever_trains(parameters):
    model = fitted(**parameters)
    np.testing.assert_array_equal(model.preparation_.centre, MEANS)
    assert np.isfinite(model.coef_).all()
    some = fitted(**{**parameters, "public_mean": {1: 0.85, 5: 0.9}}).preparation_.centre
    np.testing.assert_array_equal(some[[1, 5]], [0.85, 0.9])


def test_margins_are_those_of_the_coefficients():
    model = fitted()
    margins = X @ model.coef_[0] + model.intercept_
    np.testing.assert_array_equal(model.predict(X), (margins >= 0).astype(int))


def test_private_ranges_keep_the_mean_beside_the_spread():
    model = fitted(feature_range="private", epsilon=8.0, rows=20 * X, public_mean=20 * MEANS)
    prepared = model.preparation_
    assert model.recipe_.centre == 0
    assert model.recipe_.spread > 0
    np.testing.assert_array_equal(prepared.origin, 20 * MEANS / 2**32)
    assert not prepared.centre.any()
    assert model.score(20 * X, Y) > 0.8


def test_names_of_a_frame():
    pandas = pytest.importorskip("pandas")
    names = [f"level {j}" for j in range(D)]
    frame = pandas.DataFrame(X, columns=names)
    by_name = fitted(rows=frame, public_mean=dict(zip(names, MEANS, strict=True)))
    mixed_up = fitted(rows=frame, public_mean=frame[names[::-1]].mean())
    np.testing.assert_array_equal(by_name.preparation_.centre, MEANS)
    np.testing.assert_allclose(mixed_up.preparation_.centre, MEANS, rtol=1e-12)
    with pytest.raises(InvalidArgument, match=r"public_mean\['levle 3'\] = 0.5: .*'level 3'"):
        fitted(rows=frame, public_mean={"levle 3": 0.5})
    with pytest.raises(InvalidArgument, match="features have no names here"):
        fitted(public_mean={"level 3": 0.5})


def test_clones_parameters_and_pipelines():
    model = FedSelClassifier(feature_range=(0, 1), public_mean={0: 0.5}, random_state=3)
    again = clone(model)
    assert again.get_params()["public_mean"] == {0: 0.5}
    array = FedSelClassifier(public_mean=MEANS)
    assert clone(array).public_mean is not None
    piped = make_pipeline(FunctionTransformer(), clone(model).set_params(public_mean=MEANS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        piped.fit(X, Y)
    np.testing.assert_array_equal(piped[-1].preparation_.centre, MEANS)


def test_later_waves_keep_them():
    model = FedSelClassifier(epsilon=1.0, feature_range=(0, 1), public_mean=MEANS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        model.partial_fit(X[:2000], Y[:2000]).partial_fit(X[2000:], Y[2000:])
    np.testing.assert_array_equal(model.preparation_.centre, MEANS)
    assert "centre of 6 of the features" in str(model.privacy_)
    assert model.n_waves_ == 2


def test_the_clients_records_do_not_reach_what_is_public():
    one, two = fitted(), fitted(rows=1 - X)
    assert one.preparation_ == two.preparation_
    assert one.recipe_ == two.recipe_


def test_wrong_means_do_not_ruin_a_model():
    """Off by 30 % of each deviation, whatever the sign: 5 points at most of what true ones give."""
    signs = np.random.default_rng(0).choice([-1, 1], D)
    off = np.clip(MEANS + 0.3 * signs * X.std(axis=0), 0, 1)
    scores = [fitted(public_mean=m, epsilon=4.0).score(X, Y) for m in (MEANS, off)]
    assert scores[0] > 0.85
    assert scores[1] > scores[0] - 0.05


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"feature_range": None}, "public_mean = .*unless feature_range"),
        ({"fit_intercept": False}, "public_mean = .*fit_intercept=False"),
        ({"fit": {"public_X": X[:50]}}, "public_mean = .*omitted with public_X"),
        ({"public_mean": MEANS + 1}, r"public_mean\[0\] = .*\[0, 1\].*wider bounds"),
        ({"public_mean": MEANS[:3]}, "6 numbers"),
        ({"public_mean": {0: np.nan}}, r"public_mean\[0\] = nan"),
        ({"public_mean": {}}, "at least one feature"),
        ({"centre": 0.1}, "centre = 0.1: .*public means"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_spent(given, words, monkeypatch):
    monkeypatch.setattr(_account, "RECORDS", _account.RecordAccount())
    spent = []
    monkeypatch.setattr("fedsel.sklearn._base.spend", lambda *_: spent.append(1))
    with pytest.raises(InvalidArgument, match=words):
        fitted(**given)
    assert not spent
