"""Model files of estimators: what is saved predicts the same, to the bit, when it is loaded."""

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import fedsel
from fedsel import FedSelClassifier, FedSelRegressor, InvalidArgument, load_model
from fedsel.wire import Model
from tests.clients import model_cases
from tests.wire.support import onnx_outputs

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (600, 5))
SCORE = X @ [1, -1, 0.5, 0, 2.0]
TEST = np.vstack([np.zeros(5), RNG.normal(0, 3, (60, 5))])
TWO, FIVE = np.where(SCORE > 0, "yes", "no"), np.digitize(SCORE, [-2, -0.7, 0.7, 2])
PUBLIC = RNG.uniform(-1, 1, (100, 5))
NAMES = ["age", "größe", "b c", "x=1", "y.z"]
WITHIN = {"feature_range": (-1, 1)}
SHARES = {"yes": 0.9, "no": 0.1}
FLAT = X.copy()
FLAT[:, 2] = 7.0


def frame(rows):
    return pd.DataFrame(rows, columns=NAMES)


def sparse(rows):
    return csr_array(rows * (rows > 0.2))


def same(rows):
    return rows


CASES = {
    "two classes": ({**WITHIN}, X, TWO, same),
    "five classes": ({**WITHIN}, X, FIVE, same),
    "truth values": ({**WITHIN}, X, SCORE > 0, same),
    "whole floats": ({**WITHIN}, X, FIVE.astype(float), same),
    "small integers": ({**WITHIN}, X, FIVE.astype(np.int8), same),
    "objects": ({**WITHIN}, X, TWO.astype(object), same),
    "odd texts": ({**WITHIN}, X, np.where(SCORE > 0, "", " a"), same),
    "texts with numbers": ({**WITHIN}, X, np.where(SCORE > 0, "1", "1.0"), same),
    "bounds that were read": ({}, X, TWO, same),
    "a constant feature": ({}, FLAT, TWO, same),
    "a constant feature by name": ({}, FLAT, TWO, frame),
    "private bounds": ({"feature_range": "private"}, 1000 * X, TWO, same),
    "private bounds by name": ({"feature_range": "private"}, 1000 * X, TWO, frame),
    "wide bounds by name": ({"feature_range": (-1e12, 1e12)}, 1e12 * X, TWO, frame),
    "svm": ({**WITHIN, "model": "svm"}, X, TWO, same),
    "svm of five": ({**WITHIN, "model": "svm"}, X, FIVE, same),
    "prior": ({**WITHIN, "class_prior": SHARES}, X, TWO, same),
    "prior of five": (
        {**WITHIN, "class_prior": {c: 0.1 + c for c in range(5)}, "reg": 0.01},
        X,
        FIVE,
        frame,
    ),
    "norms kept": ({**WITHIN, "unit_norm": False, "class_prior": SHARES}, X, TWO, same),
    "no intercept": ({**WITHIN, "fit_intercept": False}, X, TWO, same),
    "mixing": ({"public_X": PUBLIC}, X, TWO, same),
    "mixing of five": ({"public_X": PUBLIC}, X, FIVE, frame),
    "spread and centre": (
        {"feature_range": (0, 40), "spread": 0.2, "centre": 0.2},
        X + 3,
        TWO,
        same,
    ),
    "sparse": ({**WITHIN}, X, TWO, sparse),
    "sparse with a prior": ({**WITHIN, "class_prior": SHARES}, X, TWO, sparse),
    "single precision": ({**WITHIN}, X.astype(np.float32), TWO, same),
    "regression": ({**WITHIN, "target_range": (-5, 9)}, X, SCORE, same),
    "huber": ({**WITHIN, "loss": "huber"}, X, SCORE, frame),
    "regression without intercept": (
        {**WITHIN, "fit_intercept": False, "target_range": (-5, 9)},
        X,
        SCORE,
        same,
    ),
}


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request):
    """An estimator, and rows to predict."""
    parameters, rows, y, kind = CASES[request.param]
    parameters = {"epsilon": 8.0, "random_state": 1, **parameters}
    public_X = parameters.pop("public_X", None)
    known = FedSelRegressor if y is SCORE else FedSelClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = known(**parameters)
        made.fit(kind(rows), y, public_X=public_X if public_X is None else kind(public_X))
    factor = np.abs(rows).max()
    return made, kind((TEST * factor).astype(rows.dtype))


def test_a_loaded_model_predicts_the_same_to_the_bit(case, tmp_path):
    fitted, rows = case
    fitted.save_model(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    assert type(loaded) is type(fitted)
    assert loaded.predict(rows).tolist() == fitted.predict(rows).tolist()
    for name in ("coef_", "intercept_", "feature_range_"):
        one, other = getattr(loaded, name), getattr(fitted, name)
        assert (one.tolist(), one.shape) == (other.tolist(), other.shape)
    assert loaded.preparation_ == fitted.preparation_
    assert loaded.n_features_in_ == fitted.n_features_in_
    names = getattr(fitted, "feature_names_in_", None)
    assert (names is None) == (not hasattr(loaded, "feature_names_in_"))
    if names is not None:
        assert loaded.feature_names_in_.tolist() == names.tolist()
    if isinstance(fitted, FedSelClassifier):
        margins = fitted.decision_function(rows)
        assert loaded.decision_function(rows).tobytes() == margins.tobytes()
        assert loaded.classes_.tolist() == fitted.classes_.tolist()
        assert [*map(type, loaded.classes_.tolist())] == [*map(type, fitted.classes_.tolist())]
        assert hasattr(loaded, "predict_proba") == hasattr(fitted, "predict_proba")
        if fitted.model == "logistic":
            shares = fitted.predict_proba(rows)
            assert loaded.predict_proba(rows).tobytes() == shares.tobytes()
    else:
        assert loaded.target_range_ == fitted.target_range_
    loaded.save_model(tmp_path / "again.json")  # and once more
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()
    assert (
        pickle.loads(pickle.dumps(loaded)).predict(rows).tolist() == loaded.predict(rows).tolist()
    )


def test_the_graph_says_what_the_estimator_says(case, tmp_path):
    fitted, rows = case
    rows = np.asarray(rows.toarray() if hasattr(rows, "tocsr") else rows, dtype=np.float64)
    names = getattr(fitted, "feature_names_in_", None)
    inputs = {"X": rows} if names is None else dict(zip(names, rows.T[..., None], strict=True))
    fitted.to_onnx(tmp_path / "model.onnx")
    said = onnx_outputs(tmp_path / "model.onnx", inputs)
    table = rows if names is None else frame(rows)
    if isinstance(fitted, FedSelRegressor):
        np.testing.assert_allclose(said["prediction"], fitted.predict(table), rtol=0, atol=1e-6)
        return
    assert said["prediction"].tolist() == fitted.predict(table).tolist()
    if fitted.model == "logistic":
        shares = fitted.predict_proba(table)
        np.testing.assert_allclose(said["probabilities"], shares, rtol=0, atol=1e-6)


def test_the_file_says_the_same_without_an_estimator(case, tmp_path):
    fitted, rows = case
    if hasattr(rows, "tocsr"):
        rows = rows.toarray()
    fitted.save_model(tmp_path / "model.json")
    model = Model.load(tmp_path / "model.json")
    assert model.predict(rows).tolist() == fitted.predict(rows).tolist()
    about = model.about
    assert about["solution"] == "FJ"
    assert about["epsilon"] == pytest.approx(8.0)
    assert about["rounds"] == len(fitted.history_.rounds)
    assert about["seeded"]
    assert about["clients"] == 600
    assert about["fedsel"] == fedsel.__version__
    slopes, constants = model.linear
    if isinstance(fitted, FedSelClassifier):
        assert slopes.tolist() == fitted.coef_.tolist()
        assert constants.tolist() == fitted.intercept_.tolist()


MESSY = {**model_cases.MESSY, "x": (-1, 1)}
MESSY_ROWS = [{**record, "x": 0.5} for record in model_cases.MESSY_ROWS]


@pytest.mark.parametrize(
    ("kind", "of_label", "y"),
    [
        (FedSelClassifier, {"classes": ["yes", "no"], "label": "vote"}, TWO),
        (FedSelClassifier, {"classes": ["true", "false"]}, SCORE > 0),
        (FedSelClassifier, {"classes": ["4", "3", "2", "1", "0", "10"]}, FIVE),
        (FedSelClassifier, {}, FIVE),
        (FedSelRegressor, {"target_range": (-5, 9)}, SCORE),
    ],
)
def test_a_schema_travels_with_the_model(kind, of_label, y, tmp_path):
    table = [{**MESSY_ROWS[i % len(MESSY_ROWS)], "x": float(x)} for i, x in enumerate(X[:, 4])]
    schema = fedsel.Schema(MESSY, **of_label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = kind(epsilon=8.0, random_state=1, schema=schema).fit(table, y)
    fitted.save_model(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    frames = [table, pd.DataFrame(table), MESSY_ROWS]
    for frame in frames:
        assert loaded.predict(frame).tolist() == fitted.predict(frame).tolist()
    assert loaded.coef_.tolist() == fitted.coef_.tolist()
    assert loaded.feature_names_in_.tolist() == list(schema.features)
    assert loaded.schema.columns == schema.columns
    assert loaded.schema.label == schema.label
    assert loaded.score(table, y) == fitted.score(table, y)
    if kind is FedSelClassifier:
        assert loaded.classes_.tolist() == fitted.classes_.tolist()
        assert loaded.predict_proba(table).tobytes() == fitted.predict_proba(table).tobytes()
    with pytest.raises(InvalidArgument, match="column of X = 'age': must be a column of the table"):
        loaded.predict({"a": [1]})


def plain(**parameters):
    made = FedSelClassifier(epsilon=8.0, random_state=1, **{**WITHIN, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made.fit(X, TWO)


def test_the_labels_of_a_table_are_in_the_schema():
    def schema(y):
        return fedsel.sklearn._models.model_of(plain().fit(X, y)).schema

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert schema(SCORE > 0).classes == ("false", "true")
        assert schema(FIVE.astype(float)).classes == ("0", "1", "2", "3", "4")
        assert schema(TWO).classes == ("no", "yes")
        assert schema(np.where(SCORE > 0, "", "a")).classes is None


def test_a_model_without_privacy_says_so():
    assert fedsel.sklearn._models.model_of(plain(solution="NP")).about["epsilon"] is None


def test_a_loaded_model_is_not_trained_on(tmp_path):
    path = tmp_path / "model.json"
    plain().save_model(path)
    loaded = load_model(path)
    with pytest.raises(InvalidArgument, match="partial_fit = 'a loaded model': must be called on"):
        loaded.partial_fit(X, TWO)
    with pytest.raises(NotFittedError):
        clone(loaded).predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = loaded.set_params(feature_range=(-1, 1), epsilon=8.0, random_state=1).fit(X, TWO)
    assert again.coef_.tolist() == plain().coef_.tolist()  # fit begins anew
    again.save_model(path)
    assert json.loads(path.read_bytes())["about"]["waves"] == 1


def test_a_loaded_regression_is_not_trained_on(tmp_path):
    path = tmp_path / "model.json"
    {case[0]: case[1] for case in model_cases.models()}["regression"].save(path)
    with pytest.raises(InvalidArgument, match="partial_fit"):
        load_model(path).partial_fit(X, SCORE)


@pytest.mark.parametrize("case", [*model_cases.models()], ids=lambda case: case[0])
def test_any_model_file_becomes_an_estimator_of_tables(case, tmp_path):
    _, model, records = case
    model.save(tmp_path / "model.json")
    loaded = load_model(tmp_path / "model.json")
    table = pd.DataFrame(records) if isinstance(records[0], dict) else [[1.0, -2.5], [0.0, 3.0]]
    assert loaded.predict(table).tolist() == model.predict(table).tolist()
    if model.regression:
        assert loaded.target_range_ == model.target_range
        return
    assert (
        loaded.decision_function(table).shape == ((len(table), model.rows)[: 1 + (model.rows > 1)])
    )
    assert loaded.classes_.tolist() == list(model.classes)


def test_what_cannot_be_saved_or_loaded_gets_a_sentence(tmp_path):
    with pytest.raises(NotFittedError):
        FedSelClassifier().save_model(tmp_path / "none.json")
    wide = plain(feature_range=(-1e12, 1e12))
    with pytest.raises(InvalidArgument, match=r"feature_range = .* within ±4294967296 in a model"):
        wide.save_model(tmp_path / "wide.json")
    Model(np.ones(3)).save(tmp_path / "weights.json")
    with pytest.raises(InvalidArgument, match="devices brought updates of their own"):
        load_model(tmp_path / "weights.json")
    (tmp_path / "foreign.onnx").write_bytes(b"\x08\x07\x12\x04onnx")
    with pytest.raises(InvalidArgument, match="must be a model file of fedsel"):
        load_model(tmp_path / "foreign.onnx")
