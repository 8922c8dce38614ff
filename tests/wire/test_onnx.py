"""Models as ONNX: ONNX Runtime says what the model says, of the columns of any record."""

import itertools
import sys

import numpy as np
import pytest

from fedsel import InvalidArgument, Schema
from fedsel._internal.extras import MissingExtra
from fedsel.preparation import FeatureScale, Preparation
from fedsel.wire import Category, Date, Model, Number, RecordPipeline
from tests.clients import model_cases
from tests.wire.support import onnx_inputs, onnx_outputs

CLOSE = {"rtol": 0, "atol": 1e-6}
MODELS = [*model_cases.models()]
COLUMNS = {
    "margin": Number(-3, 50),
    "/Max1": Number(),
    "n": Number(0, 1, missing=1, indicator=True),
    "A b.c": Category(["1", "true", "é)", "other"], missing="1", indicator=True),
    "seen": Date(["days", "hour", "year"], "1999-01-01", "2030-12-31", missing="2020-02-29"),
}
CELLS = {
    "margin": [0.0, -1e308, np.nan, np.inf, 49.9],
    "/Max1": [1e12, -5.5, -np.inf, 5e-324, np.nan],
    "n": [np.nan, 0.5, 2.0, -0.0, 1.0],
    "A b.c": ["1.0", " é)", "", "TRUE\n", "x"],
    "seen": ["2024-02-29T23:59", "", "1900-01-01", "2030-12-31", "2023-02-29"],
}


def check(model, records, path):
    """All outputs of the graph are what the model says."""
    model.to_onnx(path)
    compare(onnx_outputs(path, onnx_inputs(model.schema, records)), model, records)


def compare(said, model, records):
    np.testing.assert_allclose(said["margins"], model.margins(records), **CLOSE)
    predicted = model.predict(records)
    if model.regression:
        np.testing.assert_allclose(said["prediction"], predicted, **CLOSE)
    else:
        assert said["prediction"].tolist() == predicted.tolist()
        assert type(said["prediction"].tolist()[0]) is type(predicted.tolist()[0])
    assert ("probabilities" in said) == (model.loss == "logistic")
    if "probabilities" in said:
        np.testing.assert_allclose(said["probabilities"], model.predict_proba(records), **CLOSE)


@pytest.mark.parametrize(("model", "records"), [m[1:] for m in MODELS], ids=[m[0] for m in MODELS])
def test_the_shared_models(model, records, tmp_path):
    check(model, records, tmp_path / "model.onnx")
    # ONNX's own evaluator, in Python, reads the graph by the specification alone.
    reference = pytest.importorskip("onnx.reference").ReferenceEvaluator(
        str(tmp_path / "model.onnx")
    )
    outputs = reference.run(None, onnx_inputs(model.schema, records))
    compare(dict(zip(reference.output_names, outputs, strict=True)), model, records)


KINDS = [
    *itertools.product(["logistic", "svm"], [2, 3, 40], [True, False], [True, False]),
    *itertools.product(["squared", "huber"], [0], [True, False], [False]),
]


@pytest.mark.parametrize(("loss", "count", "unit", "prior"), KINDS)
@pytest.mark.parametrize("columns", [COLUMNS, 7], ids=["named", "unnamed"])
def test_random_models_and_hostile_cells(loss, count, unit, prior, columns, tmp_path):
    rng = np.random.default_rng([count, unit, prior, loss == "svm"])
    classes = tuple(range(count)) if count else None
    named = tuple(map(str, classes)) if classes else None
    schema = Schema(columns, classes=named, target_range=None if classes else (-1e3, 7))
    d = schema.feature_count
    low = np.where(rng.random(d) < 0.3, 0.5, -rng.exponential(10, d))
    scale = FeatureScale(low, low + rng.exponential(9, d) * (rng.random(d) < 0.9))
    preparation = Preparation(
        rng.uniform(0.01, 2, d),
        rng.uniform(-1, 1, d),
        float(rng.choice([0.0, 0.7])),
        unit,
        float(rng.uniform(0.2, 4)),
        origin=rng.uniform(-0.5, 0.5, d) if rng.random() < 0.5 else None,
    )
    if rng.random() < 0.5:
        mixing = rng.normal(size=(preparation.size, preparation.size))
        preparation = Preparation(**{**vars(preparation), "mixing": mixing})
    rows = count if count > 2 else 1
    weights = rng.normal(size=rows * preparation.size)
    shares = np.log(rng.dirichlet(np.ones(count))) if prior else None
    pipeline = RecordPipeline(scale, preparation)
    model = Model(weights, schema, loss, classes, pipeline, shares)
    if schema.named:
        rows = [*itertools.product(*CELLS.values())][::13]
        records = [dict(zip(CELLS, row, strict=True)) for row in rows]
    else:
        cells = [*CELLS["margin"], *CELLS["/Max1"], *CELLS["n"], *rng.normal(size=20)]
        records = rng.choice(cells, (200, 7))
    check(model, records, tmp_path / "model.onnx")


def test_a_record_that_is_all_zero_has_no_norm(tmp_path):
    schema = Schema(2, classes=["a", "b"])
    bare = Preparation.plain(2, intercept=0.0)
    pipeline = RecordPipeline(FeatureScale.of((-1, 1), 2), bare)
    for prior, least in ((None, 1e-44), (np.log([0.9, 0.1]), 1e-4)):
        model = Model(np.array([1.0, -2.0]), schema, "logistic", ("a", "b"), pipeline, prior)
        check(model, [[0.0, 0.0], [least, 0.0], [least, -least]], tmp_path / "model.onnx")


def test_the_graph_says_what_it_takes_and_gives_and_who_made_it(tmp_path):
    onnx = pytest.importorskip("onnx")
    _, model, _ = MODELS[0]
    model.to_onnx(tmp_path / "model.onnx")
    made = onnx.load(tmp_path / "model.onnx")
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*made.graph.input, *made.graph.output)
    }
    assert shapes == {
        **{name: ["n", 1] for name in model.schema.columns},
        "prediction": ["n"],
        "probabilities": ["n", 2],
        "margins": ["n", 1],
    }
    assert len({node.name for node in made.graph.node}) == len(made.graph.node)
    assert (made.producer_name, made.ir_version) == ("fedsel", 9)
    assert '"epsilon": 2.0' in made.metadata_props[0].value


def test_what_cannot_be_a_graph_gets_one_sentence(tmp_path):
    place = tmp_path / "model.onnx"
    pipeline = RecordPipeline(FeatureScale.of((0, 1), 1), Preparation.plain(1))

    def refused(columns, classes=("a", "b")):
        named = tuple(map(str, classes))
        model = Model(np.ones(2), Schema(columns, classes=named), "svm", classes, pipeline)
        with pytest.raises(InvalidArgument) as error:
            model.to_onnx(place)
        return str(error.value)

    assert refused({"margins": (0, 1)}) == (
        "columns = 'margins': must be another name: an output of the graph has it"
    )
    assert "must be of 64 bits in a model for ONNX" in refused(1, (0, 1 << 64))
    with pytest.raises(InvalidArgument, match="devices brought updates of their own"):
        Model(np.ones(2)).to_onnx(place)
    assert not place.exists()


def test_a_foreign_graph_is_no_model_and_neither_is_our_own(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph), tmp_path / "foreign.onnx")
    MODELS[0][1].to_onnx(tmp_path / "own.onnx")
    for name in ("foreign.onnx", "own.onnx"):
        with pytest.raises(InvalidArgument) as error:
            Model.load(tmp_path / name)
        assert str(error.value) == (
            f"model in {name} = 'no JSON': must be a model file of fedsel: JSON with "
            '"format": "fedsel-model"'
        )


def test_without_onnx_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"onnx is missing, pip install 'fedsel\[onnx\]'"):
        MODELS[0][1].to_onnx(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()
