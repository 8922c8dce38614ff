"""Estimators on tables as they are: encoded by a public schema, or refused by their columns."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from fedsel import FedSelClassifier, FitAccount, InvalidArgument, InvalidData, Schema
from fedsel.errors import PrivacyLeakWarning, RepeatedFitWarning, SeededNoiseWarning
from fedsel.preparation import FeatureScale
from fedsel.sklearn import FedSelRegressor
from fedsel.wire import Category, Date, Number

COLUMNS = {
    "age": Number(0, 100, indicator=True),
    "income": "private",
    "job": Category(["cook", "smith", "other"], missing="other"),
    "since": Date(["year", "month"], "2000-01-01", "2030-12-31"),
}
SCHEMA = Schema(COLUMNS, label="vote", classes=["no", "maybe", "yes"])
pytestmark = [
    pytest.mark.filterwarnings("ignore::fedsel.errors.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::fedsel.errors.RepeatedFitWarning"),
]


def table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "note": ["free text"] * n,
            "age": rng.uniform(10, 90, n).round(1),
            "income": rng.lognormal(10, 1, n),
            "job": rng.choice(["cook", "smith", "nurse"], n),
            "since": rng.choice(["2001-02-03", "2024-12-31", "soon"], n),
        }
    )
    votes = np.array(["no", "maybe", "yes"])[np.digitize(frame["age"], [35, 60])]
    for column in ("age", "income", "job", "since"):
        frame.loc[rng.random(n) < 0.1, column] = None
    return frame, votes


X, Y = table()
TABLES = {
    "pandas": X,
    "polars": pl.from_pandas(X),
    "arrow": pa.Table.from_pandas(X),
    "records": X.to_dict("records"),
    "columns": {name: X[name].to_numpy() for name in X},
}


def classifier(**given):
    return FedSelClassifier(**{"schema": SCHEMA, "epsilon": 8.0, "random_state": 1, **given})


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_what_its_encoded_features_are(name):
    features, judges = SCHEMA.encode(X), table(50, seed=1)
    twin = FedSelClassifier(epsilon=8.0, random_state=1, feature_range=SCHEMA.scale)
    twin.fit(features, Y, eval_set=(SCHEMA.encode(judges[0]), judges[1]), public_X=features[:9])
    model = classifier().fit(TABLES[name], Y, eval_set=judges, public_X=X[:9])
    assert model.coef_.tobytes() == twin.coef_.tobytes()
    assert model.history_.rounds == twin.history_.rounds
    rows = TABLES[name]
    assert (model.predict(rows) == twin.predict(features)).all()
    assert (model.predict_proba(rows) == twin.predict_proba(features)).all()
    assert (model.decision_function(rows) == twin.decision_function(features)).all()
    assert model.score(rows, Y) == twin.score(features, Y)


def test_what_a_fitted_model_says_of_its_features():
    model = classifier().fit(X, Y)
    assert tuple(model.feature_names_in_) == SCHEMA.features
    assert model.n_features_in_ == model.coef_.shape[1] == SCHEMA.feature_count
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    assert model.schema_.classes == ("maybe", "no", "yes")
    assert model.schema_.columns == SCHEMA.columns
    assert "classes_: a schema declared them" in str(model.privacy_)
    by_number = FedSelClassifier(schema=Schema(2)).fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50)
    assert by_number.n_features_in_ == 2
    assert not hasattr(by_number, "feature_names_in_")
    model.set_params(schema=Schema(2, classes=["0", "1"])).fit(np.eye(2)[[0, 1] * 50], [0, 1] * 50)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("form", ["a schema", "plain values", "a file", "a path"])
def test_a_schema_may_be_a_file(form, tmp_path):
    file = tmp_path / "votes.toml"
    file.write_text(SCHEMA.to_toml(), encoding="utf-8")
    forms = {
        "a schema": SCHEMA,
        "plain values": SCHEMA.to_dict(),
        "a file": str(file),
        "a path": file,
    }
    model = classifier(schema=forms[form]).fit(X, Y)
    file.unlink()
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.predict(X) == classifier().fit(X, Y).predict(X)).all()


def test_waves_and_tools_of_scikit_learn():
    model = classifier()
    for seed in (1, 2):
        model.partial_fit(*table(seed=seed), classes=["no", "maybe", "yes"])
    assert model.n_waves_ == 2
    with pytest.raises(InvalidArgument, match="the classes of the schema"):
        classifier().partial_fit(X, Y, classes=["no", "yes"])
    found = GridSearchCV(classifier(), {"epsilon": [4.0, 8.0]}, cv=2).fit(X, Y)
    assert found.best_estimator_.schema == SCHEMA
    scores = cross_val_score(classifier(), X, Y, cv=2, scoring="roc_auc_ovr")
    assert (scores > 0.5).all()
    keep = ColumnTransformer([("all", "passthrough", ["age", "income", "job", "since"])])
    pipe = make_pipeline(keep, classifier()).set_output(transform="pandas")
    pipe[0].set_params(verbose_feature_names_out=False)
    assert pipe.fit(X, Y).predict(X).shape == (len(X),)
    assert clone(model).schema == SCHEMA
    assert "schema" in repr(model)


def test_scores_agree_with_the_order_of_the_classes():
    """scikit-learn takes the second of the sorted labels for the positive one."""
    schema = Schema({"age": (0, 100)}, classes=["yes", "no"])
    young = np.where(X["age"] < 45, "yes", "no")
    model = classifier(schema=schema, epsilon=20.0).fit(X, young)
    assert model.classes_.tolist() == ["no", "yes"]
    assert roc_auc_score(young, model.predict_proba(X)[:, 1]) > 0.8


LABELS = {
    "numbers": (["10", "9"], np.array([9, 10]), [9, 10]),
    "whole numbers with a point": (["0", "1"], np.array([0.0, 1.0]), [0, 1]),
    "truth values": (["true", "false"], np.array([False, True]), [False, True]),
    "truth values as numbers": (["0", "1"], np.array([False, True]), [False, True]),
    "texts of numbers": (["10", "9"], np.array(["10", "9"]), ["10", "9"]),
    "numbers and words": (["1", "2", "none"], np.array(["1", "none"]), ["1", "2", "none"]),
    "a class that does not occur": (["a", "b", "c"], np.array(["a", "c"]), ["a", "b", "c"]),
}


@pytest.mark.parametrize("name", LABELS)
def test_classes_have_the_type_of_the_labels(name):
    classes, values, expected = LABELS[name]
    y = np.resize(values, len(X))
    model = classifier(schema=Schema(COLUMNS, classes=classes)).fit(X, y, eval_set=(X[:9], y[:9]))
    assert model.classes_.tolist() == expected
    assert model.classes_.dtype.kind == (values.dtype.kind if name[:5] != "whole" else "i")
    assert 0 <= model.score(X, y) <= 1


OTHER = np.where(Y == "no", "SECRET", Y)
WRONG = {
    "a label": (lambda: classifier().fit(X, OTHER), "y: a label is none of .*maybe, no, yes"),
    "a label to judge by": (lambda: classifier().fit(X, Y, eval_set=(X, OTHER)), "eval_set: a la"),
    "no label": (lambda: classifier().fit(X, np.where(Y == "no", None, Y)), "y: a label is none"),
    "a text as target": (lambda: regressor().fit(X, OTHER), "y: must be numbers"),
    "an array": (lambda: classifier().fit(X.to_numpy(), Y), "X = 'ndarray': must be a data frame"),
    "a column too few": (
        lambda: classifier().fit(X.drop(columns="job"), Y),
        "column of X = 'job': must be a column of the table, which has note",
    ),
    "labels too few": (lambda: classifier().fit(X, Y[:-1]), "inconsistent numbers"),
    "no labels": (lambda: classifier().fit(X, None), "requires y"),
    "bounds twice": (lambda: classifier(feature_range=(0, 1)).fit(X, Y), "omitted beside schema"),
    "a target for classes": (
        lambda: classifier(schema=Schema(COLUMNS, target_range=(0, 1))).fit(X, Y),
        r"target_range = \[0.0, 1.0\]: must be omitted in the schema of a FedSelClassifier",
    ),
    "classes for a target": (lambda: regressor(schema=SCHEMA).fit(X, X["age"]), "classes = "),
    "targets twice": (lambda: regressor(target_range=(0, 1)).fit(X, np.ones(600)), "beside schema"),
    "no schema": (lambda: classifier(schema=3).fit(X, Y), "schema = 3: must be a table"),
    "no file": (lambda: classifier(schema="nowhere.toml").fit(X, Y), "schema = 'nowhere.toml'"),
    "few public columns": (
        lambda: classifier().fit(X, Y, public_X=X[["age"]]),
        "column of public_X = 'income'",
    ),
    "one public row": (lambda: classifier().fit(X, Y, public_X=X[:1]), "public_X = '1 row'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused_before_anything_is_spent_and_shows_no_cell(name):
    fit, words = WRONG[name]
    with FitAccount() as account, pytest.raises(ValueError, match=words) as caught:
        fit()
    assert account.fits == 0
    assert "SECRET" not in str(caught.value)


def regressor(**given):
    schema = Schema(COLUMNS, target_range=(0, 100))
    return FedSelRegressor(**{"schema": schema, "epsilon": 8.0, "random_state": 1, **given})


def test_a_regression_takes_its_target_from_the_schema():
    target = X["age"].fillna(50).to_numpy()
    model = regressor().fit(X, target, eval_set=(X[:50], target[:50]))
    assert model.target_range_ == (0, 100)
    assert "target_range_: a schema declared" in str(model.privacy_)
    undeclared = FedSelRegressor(schema=Schema(COLUMNS), target_range=(0, 100), epsilon=8.0)
    twin = undeclared.set_params(random_state=1).fit(X, target)
    assert (twin.predict(X) == model.predict(X)).all()
    with pytest.warns(PrivacyLeakWarning, match="the bounds of the target were read"):
        clone(undeclared).set_params(target_range=None).fit(X, target)
    assert model.partial_fit(X, target).n_waves_ == 2


def test_no_warning_comes_where_everything_is_declared():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.simplefilter("ignore", RepeatedFitWarning)
        classifier().fit(X, Y)
        regressor().fit(X, X["age"].fillna(0))


def test_public_means_by_the_names_of_encoded_features():
    model = classifier(public_mean={"age": 45.0, "job=cook": 0.3}).fit(X, Y)
    assert model.n_public_means_ == 2


# --- without a schema ---------------------------------------------------------------------------

NUMBERS = pd.DataFrame({"age": np.linspace(0, 90, 200), "income": np.linspace(-1, 1e5, 200)})
VOTES = np.where(NUMBERS["age"] > 40, 1, 0)
FRAMES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_bounds_by_name(kind):
    frame = FRAMES[kind](NUMBERS)
    bounds = {"income": "private", "age": (0, 100)}
    model = FedSelClassifier(feature_range=bounds, random_state=1).fit(frame, VOTES)
    assert model.feature_range_[:, 0].tolist() == [0, 100]
    assert (model.feature_range_ == _bounds(FeatureScale.unknown(2)))[:, 1].all()
    known = FedSelClassifier(feature_range={"age": (0, 100), "income": (0, 1e5)}, random_state=1)
    twin = FedSelClassifier(feature_range=([0, 0], [100, 1e5]), random_state=1)
    assert known.fit(frame, VOTES).coef_.tobytes() == twin.fit(frame, VOTES).coef_.tobytes()
    rows = FRAMES[kind](NUMBERS[:50])
    helped = FedSelClassifier(feature_range=bounds).fit(frame, VOTES, public_X=rows)
    assert helped.feature_range_[:, 0].tolist() == [0, 100]
    assert helped.feature_range_[0, 1] == -1
    assert helped.feature_range_[1, 1] < 1e5


def _bounds(scale):
    return np.stack([scale.low, scale.high])


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"age": (0, 100)}, "it lacks income"),
        ({"age": (0, 100), "incom": (0, 1)}, "'incom': must be a feature by its name.*income"),
        ({"age": (0, 100), "income": (1, 0)}, r"feature_range\['income'\] = \(1, 0\)"),
        ({"age": (0, 100), "income": "secret"}, r"feature_range\['income'\] = 'secret'"),
        ({"age": (0, 100), "income": (0, np.nan)}, r"feature_range\['income'\]"),
        ({0: (0, 100), 1: (0, 1)}, "must be a feature by its name"),
    ],
)
def test_wrong_bounds_by_name(bounds, words):
    with FitAccount() as account, pytest.raises(InvalidArgument, match=words):
        FedSelClassifier(feature_range=bounds).fit(NUMBERS, VOTES)
    assert account.fits == 0
    with pytest.raises(InvalidArgument, match="features have no names here"):
        FedSelClassifier(feature_range=bounds).fit(NUMBERS.to_numpy(), VOTES)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1, 0), r"must be \(low, high\) with low < high$"),
        (([0, 0], [1, 0]), r"with low < high; feature 1 has \(0, 0\)$"),
        ((0, 1, 2), r"must be a pair \(low, high\): numbers, or 2 numbers each$"),
        (5, r"must be a pair \(low, high\)"),
        ((0, "a"), r"must be \(low, high\), finite numbers, or 2 numbers each$"),
        ((0, np.inf), 'finite numbers.*; "private" learns bounds that nobody knows$'),
        ((0, 10**400), "finite numbers"),
        (([0, 0], [1, 1, 1]), "numbers, or 2 numbers each: X has 2 features$"),
        ("privat", r'must be \(low, high\), "private", {name: \(low, high\)} or None$'),
    ],
)
def test_each_kind_of_wrong_bounds_has_its_own_sentence(bounds, words):
    with (
        FitAccount() as account,
        pytest.raises(InvalidArgument, match=f"^feature_range = .*{words}"),
    ):
        FedSelClassifier(feature_range=bounds).fit(NUMBERS, VOTES)
    assert account.fits == 0


SECRETS = np.full(200, 0.123456)
NO_TABLES = {
    "one dimension": (SECRETS, InvalidData, r"^X: Reshape your data.*it has 1 dimension\(s\)"),
    "complex numbers": (SECRETS[:, None] * 1j, InvalidData, "^X: Complex data not supported"),
    "columns": ({"age": SECRETS}, InvalidArgument, "X = 'dict': must be an array.*schema="),
    "records": ([{"age": x} for x in SECRETS], InvalidArgument, "X = 'list': must be an arr"),
    "a plan": (pl.LazyFrame({"age": SECRETS}), InvalidArgument, r"collect\(\) it first"),
    "a name twice": (
        pd.DataFrame(np.stack([SECRETS] * 2, 1), columns=["age", "age"]),
        InvalidArgument,
        "column of X = 'age': must be the name of one only",
    ),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_of_numbers_is_refused_without_a_cell_of_it(name):
    X, kind, words = NO_TABLES[name]
    model = FedSelClassifier(feature_range=(0, 1))
    known = clone(model).fit(NUMBERS, VOTES)
    for call in (lambda: model.fit(X, VOTES), lambda: known.predict(X)):
        with pytest.raises(kind, match=words) as caught:
            call()
        assert "123456" not in str(caught.value)
        assert "\n" not in str(caught.value)


LABELLED = {
    "None": [None, "SECRET"],
    "None among numbers": [1, None],
    "NaN among texts": [np.nan, "SECRET"],
    "a missing category": pd.Categorical([None, "SECRET"] * 100),
    "numbers among texts": [3, "SECRET"],
}


@pytest.mark.parametrize("name", LABELLED)
@pytest.mark.parametrize("schema", [None, {"columns": 2}, {"columns": 2, "classes": ["0", "1"]}])
def test_a_missing_or_odd_label_is_refused_in_words(name, schema):
    y = pd.Series(np.resize(np.array(LABELLED[name], dtype=object), 200))
    X = NUMBERS if schema is None else NUMBERS.to_numpy()
    bounds = {"feature_range": (0, 1)} if schema is None else {"schema": schema}
    with pytest.raises(InvalidData, match=r"^y: .*: leave .* out, as devices do") as caught:
        FedSelClassifier(**bounds).fit(X, y)
    assert "SECRET" not in str(caught.value)


FAULTS = {
    "a text": {"job": ["SECRET", "cook"] * 100},
    "a date": {"job": pd.to_datetime(["2024-01-01"] * 200)},
    "NaN": {"job": [np.nan, 1.0] * 100},
    "infinity": {"job": [np.inf, 1.0] * 100},
    "None": {"job": [None, True] * 100},
}


@pytest.mark.parametrize("kind", [*FRAMES, "array"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_column_that_needs_a_schema_is_named_and_no_cell_is_shown(fault, kind):
    if (kind, fault) == ("array", "a date"):
        pytest.skip("scikit-learn has words of its own for objects, which check_estimator wants")
    make = FRAMES.get(kind, pd.DataFrame.to_numpy)
    fine, faulty = make(NUMBERS.assign(job=1.0)), make(NUMBERS.assign(**FAULTS[fault]))
    model = FedSelClassifier(feature_range=(-1, 1))
    known = clone(model).fit(fine, VOTES)
    column = "column 2" if kind == "array" else "column 'job'"
    for call in (
        lambda: model.fit(faulty, VOTES),
        lambda: known.predict(faulty),
        lambda: model.fit(fine, VOTES, public_X=faulty),
    ):
        with pytest.raises(InvalidData, match=f"{column} holds.*schema=") as caught:
            call()
        assert "SECRET" not in str(caught.value)


def test_a_regression_of_texts_is_refused():
    for y in (np.array(["SECRET"] * 200), np.array(["SECRET"] * 200, dtype=object)):
        with pytest.raises(InvalidData, match="y: must be numbers"):
            FedSelRegressor(target_range=(0, 1), feature_range=(0, 1)).fit(NUMBERS, y)


def test_sparse_records_stay_as_they_were():
    with pytest.raises(ValueError, match="NaN"):
        FedSelClassifier(feature_range=(-1, 1)).fit(csr_array(np.full((200, 2), np.nan)), VOTES)
