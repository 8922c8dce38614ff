"""A model file: what is written is read again, and predictions follow from its JSON alone."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsel import InvalidArgument, Schema
from fedsel.preparation import Preparation
from fedsel.wire import Model, RecordPipeline
from fedsel.wire import _model as module
from tests.clients import model_cases

CASES = json.loads(model_cases.FILE.read_text("utf-8"))
MODELS = [*model_cases.models()]
every_model = pytest.mark.parametrize(
    ("model", "records"), [m[1:] for m in MODELS], ids=[m[0] for m in MODELS]
)
PLAIN = MODELS[0][1]


def slow(values, features):
    """Margins of encoded features, number by number, from the JSON of a model."""
    pipeline, f32 = values["pipeline"], lambda x: float(np.float32(x))
    prepared, d = pipeline["preparation"], pipeline["features"]

    def each(part, j, zero=0.0):
        part = zero if part is None else part
        return part[j] if isinstance(part, list) else part

    z = []
    for j, x in enumerate(features):
        low, high = each(pipeline["low"], j), each(pipeline["high"], j)
        middle = (low + high) / 2 if low > 0 or high < 0 else 0.0
        reach = max(high - middle, middle - low)
        scaled = f32((min(max(x, low), high) - middle) * (1 / reach if reach else 0.0))
        about = (scaled - each(prepared.get("origin"), j)) / each(prepared["spread"], j)
        z.append(min(max(about, -1.0), 1.0) - each(prepared["centre"], j))
    assert len(z) == d
    if prepared["intercept"]:
        z.append(prepared["intercept"])
    if prepared.get("mixing"):
        z = [math.fsum(a * b for a, b in zip(row, z, strict=True)) for row in prepared["mixing"]]
    norm = math.sqrt(math.fsum(a * a for a in z)) or 1.0
    z = [f32(a / norm if prepared["unit"] else a * prepared["factor"]) for a in z]
    weights, rows = values["weights"], len(values["weights"]) // len(z)
    parts = [weights[r * len(z) : (r + 1) * len(z)] for r in range(rows)]
    margins = [math.fsum(a * b for a, b in zip(part, z, strict=True)) for part in parts]
    logs = values["log_prior"]
    if logs is None:
        return margins
    mean = math.fsum(logs) / len(logs)
    offsets = [logs[1] - logs[0]] if len(logs) == 2 else [x - mean for x in logs]
    typical = math.hypot(prepared["intercept"], 1 / prepared["factor"])
    by = typical / norm if prepared["unit"] else 1.0
    return [m - offset * by for m, offset in zip(margins, offsets, strict=True)]


@every_model
def test_margins_follow_from_the_file_number_by_number(model, records):
    values = json.loads(model.encode())
    expected = [slow(values, row) for row in model.schema.encode(records).tolist()]
    np.testing.assert_allclose(model.margins(records), expected, rtol=0, atol=1e-5)
    assert np.abs(model.margins(records)).max() > 0.1


@every_model
def test_the_page_says_how_to_predict_by_hand(model, records):
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")
    text = re.search(r"```python\n(import json, math\n.*?)\n\nwith open", page, re.S)[1]
    exec(text, scope := {})
    values, features = json.loads(model.encode()), model.schema.encode(records).tolist()
    shares = [scope["predict_proba"](values, x) for x in features]
    if model.loss == "logistic":
        np.testing.assert_allclose(shares, model.predict_proba(records), rtol=0, atol=1e-6)
    else:  # margins have the same differences
        logs = np.log(shares)
        wide = model.margins(records)
        wide = np.column_stack([0 * wide, wide]) if model.rows == 1 else wide
        apart = logs - logs[:, :1], wide - wide[:, :1]
        np.testing.assert_allclose(*apart, rtol=0, atol=1e-5)


@every_model
def test_what_is_written_is_read_again_to_the_bit(model, records, tmp_path):
    model.save(tmp_path / "model.json")
    again = Model.load(tmp_path / "model.json")
    assert again.encode() == model.encode()
    assert again.margins(records).tobytes() == model.margins(records).tobytes()
    assert again.predict(records).tolist() == model.predict(records).tolist()
    assert (again.classes, again.schema) == (model.classes, model.schema)
    assert b"".join(again.parts()) == model.encode()


def test_the_shared_cases_are_what_python_says():
    """`python -m tests.clients.model_cases` writes them anew."""
    fresh = json.loads(model_cases.text())
    assert [c["what"] for c in CASES] == [c["what"] for c in fresh]
    for kept, made in zip(CASES, fresh, strict=True):
        for key in ("margins", "probabilities"):
            if made[key] is not None:
                np.testing.assert_allclose(kept.pop(key), made.pop(key), rtol=0, atol=1e-9)
        predictions = [kept.pop("predictions"), made.pop("predictions")]
        if made["model"]["classes"] is None:
            np.testing.assert_allclose(*predictions, rtol=0, atol=1e-9)
        else:
            assert predictions[0] == predictions[1]
        linear = [np.hstack(x["model"].pop("linear")["coefficients"]) for x in (kept, made)]
        np.testing.assert_allclose(*linear, rtol=1e-12)
        assert kept == made


@every_model
def test_margins_decide(model, records):
    margins, predicted = model.margins(records), model.predict(records)
    if model.regression:
        low, high = model.schema.target_range
        scaled = (2 * predicted - low - high) / (high - low)
        np.testing.assert_allclose(scaled, np.clip(margins[:, 0], -1, 1), atol=1e-12)
        with pytest.raises(InvalidArgument, match=r"^loss = '.*': must be \"logistic\""):
            model.predict_proba(records)
        return
    wide = np.column_stack([0 * margins, margins]) if model.rows == 1 else margins
    codes = [model.classes.index(label) for label in predicted.tolist()]
    assert (wide.max(axis=1) == wide[np.arange(len(wide)), codes]).all()
    assert type(predicted.tolist()[0]) is type(model.classes[0])
    if model.loss == "logistic":
        shares = model.predict_proba(records)
        assert shares.shape == (len(records), len(model.classes))
        np.testing.assert_allclose(shares, np.exp(wide) / np.exp(wide).sum(axis=1)[:, None])


@every_model
def test_the_linear_part_has_the_sign_of_the_margin(model, records):
    """Within bounds and spread; and is the margin where records keep their norm."""
    prepared = model.pipeline.preparation
    inside = replace(prepared, spread=np.full(prepared.features, 2.0), origin=None)
    model = replace(model, pipeline=replace(model.pipeline, preparation=inside))
    slopes, constants = model.linear
    X = np.clip(model.schema.encode(records), model.pipeline.scale.low, model.pipeline.scale.high)
    straight = X @ slopes.T + constants
    margins = model.margins(records)
    if not prepared.unit:
        np.testing.assert_allclose(straight, margins, atol=1e-5)
    elif prepared.mixing is None:
        by = inside.norms(model.pipeline.scale.apply(X))
        np.testing.assert_allclose(straight, margins * by[:, None], atol=1e-5)
    np.testing.assert_array_equal(np.sign(straight.round(4)), np.sign(margins.round(4)))


def test_sparse_records_give_what_dense_ones_do():
    X = np.array([[0.0, 1.5], [0.0, 0.0], [-3.0, 0.25]])
    model = MODELS[-1][1]
    prepared = Preparation.plain(2)
    model = replace(model, pipeline=replace(model.pipeline, preparation=prepared))
    assert model.margins_of(csr_array(X)).tolist() == model.margins_of(X).tolist()


def test_weights_alone_are_a_model_without_predictions():
    model = Model(np.array([1.0, -0.5]), about={"rounds": 3})
    again = Model.decode(model.encode())
    assert again.weights.tolist() == [1.0, -0.5]
    assert json.loads(model.encode())["linear"] is None
    for ask in (again.margins, again.predict, again.margins_of):
        with pytest.raises(InvalidArgument, match="devices brought updates of their own"):
            ask([[1.0]])


def test_long_parts_are_written_in_pieces(monkeypatch):
    monkeypatch.setattr(module, "_AT_A_TIME", 2)
    for _, model, _ in MODELS:
        pieces = [*model.parts()]
        assert json.loads(b"".join(pieces)) == json.loads(json.dumps(json.loads(model.encode())))
        assert len(pieces) > len(model.weights) / 2
    assert [*module._json_parts({"a": [], "b": {}, "c": np.array([])})][-1] == b"}"
    made = b"".join(module._json_parts({"a": [], "b": {}, "c": [None, {"d": [[1], []]}]}))
    assert made == b'{"a":[],"b":{},"c":[null,{"d":[[1],[]]}]}'


def changed(**values):
    return json.dumps({**json.loads(PLAIN.encode()), **values}).encode()


def pipeline(**values):
    known = json.loads(PLAIN.encode())["pipeline"]
    return changed(pipeline={**known, **values})


WRONG = [
    (b"", "model = 'no JSON': must be a model file of fedsel"),
    (b"\x08\x07\x12\x04onnx", "model = 'no JSON': must be a model file of fedsel"),
    (b"[" * 10**5, "model = 'no JSON'"),
    (b"[]", "model = 'other JSON': must be a model file"),
    (b'{"format": "other"}', "model = 'other JSON'"),
    (changed(version=2), "version = 2: must be 1; another fedsel wrote this model"),
    (changed(version=None), "version = None: must be 1"),
    (changed(extra=1), "extra = 1: must be omitted in a model"),
    (changed(weights=[1.0]), "weights = '1 numbers': must be 1 × 4 numbers"),
    (changed(weights=[1.0, 2.0, 3.0, math.nan]), "model = 'no JSON'"),
    (changed(weights=[1.0, 2.0, 3.0, "4"]), "weights = 'list': must be a list of numbers"),
    (changed(weights=[1.0, 2.0, 3.0, True]), "weights = 'list': must be a list of numbers"),
    (changed(weights=[1, 2, 3, 10**400]), "model = 'its parts': must be as fedsel writes them"),
    (changed(weights=None), "weights = 'NoneType': must be a list of numbers"),
    (changed(weights=[1, 2, 3, 4]).replace(b"[1, 2", b"[1e999, 2"), "weights: every entry must"),
    (changed(loss="hinge"), "loss = 'hinge': must be one of"),
    (changed(loss="squared"), "classes = ('no', 'yes'): must be null with squared"),
    (changed(classes=["no"]), "classes = ('no',): must be two or more"),
    (changed(classes=["no", 1]), "all of one type"),
    (changed(classes=["no", "no"]), "classes = ('no', 'no'): must be different"),
    (changed(classes=["yes", "no"]), "must be ['no', 'yes'], as the schema has them"),
    (changed(classes="no"), "as the schema has them"),
    (changed(classes=[["no"], ["yes"]]), "all of one type"),
    (changed(classes=5), "model = 'its parts'"),
    (changed(log_prior=[0.0]), "log_prior = '1 numbers': must be 2 numbers"),
    (changed(log_prior=[]), "log_prior: must be a non-empty"),
    (changed(schema=None), "loss = 'logistic': must be null without a schema"),
    (changed(schema={"columns": {"a": [2, 1]}}), "columns.a.range = [2.0, 1.0]"),
    (changed(schema={"columns": 2}), "features = 3: must be an integer in 1 … 2"),
    (changed(schema={"columns": 4}), "pipeline.features = 3: must be 4, as the schema has them"),
    (changed(schema={"columns": 10**12}), "columns = 1000000000000: must be an integer"),
    (changed(pipeline=None), "pipeline = None: must be given beside a schema"),
    (changed(pipeline={}), "model = 'its parts'"),
    (changed(pipeline=[1]), "model = 'its parts'"),
    (pipeline(low=[1, 2]), "model = 'its parts'"),
    (pipeline(low=[1, 2, 3], high=0), "low = 'a number': must be at most high"),
    (pipeline(features=10**9), "features = 1000000000: must be an integer in"),
    (pipeline(preparation=None), "model = 'its parts'"),
    (changed(about=[]), "about = []: must be a table"),
    (changed(about=3), "about = 3: must be a table of JSON values"),
]


@pytest.mark.parametrize(("data", "message"), WRONG)
def test_a_wrong_file_is_refused_by_one_sentence(data, message, tmp_path):
    with pytest.raises(InvalidArgument) as error:
        Model.decode(data)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    (tmp_path / "my.json").write_bytes(data)
    with pytest.raises(InvalidArgument, match=r"in my.json"):
        Model.load(tmp_path / "my.json")


def test_a_file_that_is_not_there_or_too_large(tmp_path, monkeypatch):
    with pytest.raises(InvalidArgument, match=r"must be a file \(No such file"):
        Model.load(tmp_path / "none.json")
    PLAIN.save(tmp_path / "model.json")
    monkeypatch.setattr(module, "MOST_MODEL_BYTES", 100)
    with pytest.raises(
        InvalidArgument, match=r"model in model.json = '101 bytes': must be at most"
    ):
        Model.load(tmp_path / "model.json")


def test_every_key_is_needed():
    for key in json.loads(PLAIN.encode()):
        values = json.loads(PLAIN.encode())
        del values[key]
        with pytest.raises(InvalidArgument):
            Model.decode(json.dumps(values).encode())


def test_a_model_fits_together():
    two = Schema(1, classes=["a", "b"])
    plain = RecordPipeline(Schema({"x": (0, 1)}).scale, Preparation.plain(1))
    with pytest.raises(InvalidArgument, match="target_range = None: must be in the schema"):
        Model(np.ones(2), Schema(1), "squared", None, plain)
    with pytest.raises(InvalidArgument, match=r"target_range = .*omitted in the schema"):
        Model(np.ones(2), Schema(1, target_range=(0, 1)), "svm", ("a", "b"), plain)
    with pytest.raises(InvalidArgument, match="all of one type"):
        Model(np.ones(2), two, "svm", None, plain)
    with pytest.raises(InvalidArgument, match="about = "):
        Model(np.ones(2), about={"x": math.nan})
    with pytest.raises(InvalidArgument, match=r"classes = .*different"):
        Model(np.ones(2), Schema(1), "svm", (math.nan, 1.0), plain)
