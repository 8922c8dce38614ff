"""public_X: rows that everybody may know take the place of rounds, bounds and warnings."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import FedSelClassifier, PrivacyLeakWarning
from fedsel.errors import InvalidArgument
from fedsel.sklearn import FedSelRegressor, SeededNoiseWarning

N, D = 4000, 6


def data(n=N, seed=0):
    """Two classes in [0, 1]^d, which one direction of the wide ones tells apart."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, n)
    X = np.clip(draw.normal(0.3, 0.02, (n, D)), 0, 1)
    X[:, 0] = np.clip(0.3 + 0.2 * (2 * y - 1) + draw.normal(0, 0.1, n), 0, 1)
    return X, y


X, Y = data()
PUBLIC = data(300, seed=1)[0]


def fitted(public_X=PUBLIC, seed=5, rows=X, **parameters):
    model = FedSelClassifier(
        **{"epsilon": 1.0, "feature_range": (0, 1), "random_state": seed, **parameters}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return model.fit(rows, Y, public_X=public_X)


def test_public_rows_take_the_place_of_rounds():
    without, model = fitted(None), fitted()
    assert without.recipe_.centre > 0
    assert model.recipe_.centre == model.recipe_.spread == 0
    np.testing.assert_allclose(model.preparation_.centre, PUBLIC.mean(axis=0), rtol=1e-5)
    assert model.preparation_.mixing is not None
    assert without.preparation_.mixing is None
    assert (without.n_public_, model.n_public_) == (0, 300)


def test_margins_are_those_of_the_coefficients():
    model = fitted()
    margins = X @ model.coef_[0] + model.intercept_
    np.testing.assert_array_equal(model.predict(X), (margins >= 0).astype(int))


def test_a_fit_depends_on_its_seed_and_its_rows_alone():
    one, two = fitted(), fitted()
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert not np.array_equal(one.coef_, fitted(seed=6).coef_)
    assert not np.array_equal(one.coef_, fitted(data(300, seed=2)[0]).coef_)
    # Without them, nothing else is drawn or done than before they could be given.
    model = FedSelClassifier(epsilon=1.0, feature_range=(0, 1), random_state=5)
    with pytest.warns(SeededNoiseWarning):
        plain = model.fit(X, Y)
    np.testing.assert_array_equal(plain.coef_, fitted(None).coef_)


def test_the_clients_records_do_not_reach_what_public_rows_tell():
    others = np.clip(1 - X, 0, 1)
    one, two = fitted(feature_range=None), fitted(feature_range=None, rows=others)
    assert one.preparation_ == two.preparation_
    np.testing.assert_array_equal(one.feature_range_, two.feature_range_)


@pytest.mark.parametrize("feature_range", [None, "private"])
def test_public_rows_give_the_bounds_without_a_warning(feature_range):
    model = FedSelClassifier(epsilon=1.0, feature_range=feature_range)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X + 0.001, Y, public_X=PUBLIC)
    np.testing.assert_array_equal(model.feature_range_, [PUBLIC.min(axis=0), PUBLIC.max(axis=0)])
    assert not any("bounds of the features" in fact for fact in model.privacy_.not_covered)
    kept = model.preparation_
    model.partial_fit(X[:1000] + 0.002, Y[:1000])
    assert model.preparation_ is kept
    np.testing.assert_array_equal(model.feature_range_, [PUBLIC.min(axis=0), PUBLIC.max(axis=0)])


def test_the_statement_says_that_they_were_used_and_cost_nothing():
    without, model = fitted(None).privacy_, fitted().privacy_
    assert "300 public rows, which cost no ε" in str(model)
    assert "public rows" not in str(without)
    assert model.total == without.total
    assert any("in the public rows" in fact for fact in model.not_covered)


def test_sparse_rows_say_what_dense_ones_say():
    dense, sparse = fitted(), fitted(csr_array(PUBLIC), rows=csr_array(X))
    np.testing.assert_allclose(sparse.preparation_.mixing, dense.preparation_.mixing, rtol=1e-6)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-3)


@pytest.mark.parametrize(
    ("parameters", "centre", "mixing"),
    [
        ({"fit_intercept": False}, False, True),
        ({"solution": "NP", "unit_norm": True}, True, False),
        ({"solution": "PM"}, False, False),
        ({"model": "svm"}, True, True),
    ],
)
def test_what_is_used_of_them(parameters, centre, mixing):
    """No centre without an intercept, no geometry without noise, neither where norms are kept."""
    model = fitted(**parameters)
    assert model.preparation_.centre.any() == centre
    assert (model.preparation_.mixing is not None) == mixing
    if parameters.get("fit_intercept") is False:
        assert model.intercept_ == 0


def test_more_than_two_classes():
    thirds = Y + (X[:, 1] > 0.3)
    model = FedSelClassifier(epsilon=4.0, feature_range=(0, 1)).fit(X, thirds, public_X=PUBLIC)
    assert model.coef_.shape == (3, D)
    assert model.preparation_.mixing.shape == (D + 1, D + 1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (PUBLIC[:, :4], "public_X.*4 features.*6 features"),
        (PUBLIC[:1], "public_X.*1 row.*at least 2"),
        (np.where(PUBLIC > 0.5, np.nan, PUBLIC), "public_X: column 0 holds NaN"),
        (PUBLIC[0], "."),
    ],
)
def test_wrong_rows_are_refused_by_name(rows, message):
    with pytest.raises(ValueError, match=message):
        fitted(rows)


def test_rounds_that_learn_what_is_known_are_refused():
    for name in ("centre", "spread"):
        with pytest.raises(InvalidArgument, match=f"{name}.*public rows"):
            fitted(**{name: 0.1})


@pytest.mark.slow
def test_they_help_where_there_is_much_noise():
    """ADULT-like: 40 narrow features beside one that matters. Fixed seeds, so never by chance."""
    draw = np.random.default_rng(9)
    y = draw.integers(0, 2, 12_000)
    wide = 0.5 + 0.25 * (2 * y - 1)[:, None] + draw.normal(0, 0.1, (12_000, 1))
    rows = np.clip(np.hstack([wide, draw.normal(0.5, 0.05, (12_000, 40))]), 0, 1)
    hits = {}
    for public in (None, rows[:500]):
        model = FedSelClassifier(epsilon=0.5, feature_range=(0, 1), random_state=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            model.fit(rows[500:10_000], y[500:10_000], public_X=public)
        hits[public is not None] = model.score(rows[10_000:], y[10_000:])
    assert hits[True] > hits[False] + 0.05
    assert hits[True] > 0.9


# --- numbers in place of classes ----------------------------------------------------------------


def numbers(n=N, seed=0):
    """Records far within their bounds and off their middle, and numbers that are linear in them."""
    draw = np.random.default_rng(seed)
    X = draw.normal([40, 3, 0.5, 20, 7, 1], [4, 0.5, 0.1, 3, 0.7, 0.2], (n, D))
    slopes = np.array([0.5, 4, -20, 0.6, 2, -9])
    return X, (X - X.mean(axis=0)) @ slopes + draw.normal(0, 0.5, n)


def regressed(public_X, seed=5, **parameters):
    rows, y = numbers()
    known = {"epsilon": 2.0, "feature_range": (0, 100), "target_range": (-15, 15)}
    model = FedSelRegressor(**{**known, "random_state": seed, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return model.fit(rows, y, public_X=public_X)


@pytest.mark.slow
def test_public_rows_help_a_regression():
    """Ten seeds give an R² of 0.95 to 0.99 with the rows, of 0.03 to 0.82 without."""
    rows, y = numbers(seed=1)
    with_rows, without = regressed(numbers(300, seed=2)[0], seed=0), regressed(None, seed=0)
    assert with_rows.recipe_.centre == with_rows.recipe_.spread == 0
    assert (with_rows.n_public_, without.n_public_) == (300, 0)
    assert with_rows.score(rows, y) > without.score(rows, y) + 0.4
    assert "300 public rows, which cost no ε" in str(with_rows.privacy_)
    predicted = np.clip(rows @ with_rows.coef_ + with_rows.intercept_, -15, 15)
    inside = (rows / 100 < with_rows.preparation_.spread).all(axis=1)
    assert inside.mean() > 0.5
    np.testing.assert_allclose(with_rows.predict(rows)[inside], predicted[inside], atol=1e-3)


def test_public_rows_give_the_bounds_of_a_regression_without_a_warning():
    rows, y = numbers()
    model = FedSelRegressor(epsilon=2.0, target_range=(-15, 15))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        model.fit(rows, y, public_X=numbers(300, seed=2)[0])
    with pytest.raises(InvalidArgument, match=r"public_X.*4 features.*6 features"):
        model.fit(rows, y, public_X=rows[:, :4])
    with pytest.raises(InvalidArgument, match=r"centre.*public rows"):
        regressed(rows[:50], centre=0.1)
