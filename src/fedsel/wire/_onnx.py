"""A model as an ONNX graph: the whole way from the columns of records to predictions.

It computes what `Model` computes, in double precision, and rounds to single precision where that
does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedsel import __version__
from fedsel.errors import InvalidArgument
from fedsel.wire._columns import Number
from fedsel.wire._onnx_columns import Graph, Name, features_of, numbers

if TYPE_CHECKING:
    from fedsel.wire._model import Doubles, Model
    from fedsel.wire._pipeline import RecordPipeline
    from fedsel.wire._schema import Schema

OPSET: Final = 20
"""The first one that matches texts; ONNX Runtime has it since 1.17."""
ROWS: Final = "X"
"""The input for columns without names."""
_OUTPUTS: Final = ("prediction", "probabilities", "margins")
_ACROSS: Final = np.array([1])


def graph_of(model: Model, schema: Schema, pipeline: RecordPipeline, offsets: Doubles) -> bytes:
    """The file of a graph; `Model.to_onnx` says what it takes and gives.

    ``offsets`` (rows,) are subtracted from the margins of a typical record.
    """
    columns = schema.columns if isinstance(schema.columns, Mapping) else {}
    for name in _OUTPUTS:
        if name in columns:
            raise InvalidArgument("columns", name, "another name: an output of the graph has it")
    graph = Graph(columns)
    records, divisors = _prepared(graph, _encoded(graph, schema), pipeline)
    margins = graph.add("MatMul", records, model.weights.reshape(model.rows, -1).T)
    if offsets.any():
        typical = offsets[None] * pipeline.preparation.typical_norm
        margins = graph.add("Sub", margins, graph.add("Div", typical, divisors))
    graph.output("margins", margins, float, model.rows)
    _predict(graph, model, margins)
    return _file(graph, model)


def _encoded(graph: Graph, schema: Schema) -> Name:
    """The features that `Schema.encode` gives."""
    if isinstance(schema.columns, int):
        return numbers(graph, graph.input(ROWS, float, schema.columns), Number())
    features = [features_of(graph, *item) for item in schema.columns.items()]
    return graph.add("Concat", *features, axis=1)


def _prepared(graph: Graph, encoded: Name, pipeline: RecordPipeline) -> tuple[Name, Name | Doubles]:
    """The records (n, size) of a pipeline, and their divisors: (n, 1), or 1 for all."""
    scale, prepared = pipeline.scale, pipeline.preparation
    within = graph.clip(encoded, scale.low, scale.high)
    scaled = graph.add("Mul", graph.add("Sub", within, scale.centre), scale.factor)
    scaled = _single(graph, scaled)
    if prepared.origin is not None:
        scaled = graph.add("Sub", scaled, prepared.origin)
    within = graph.clip(graph.add("Div", scaled, prepared.spread), -1.0, 1.0)
    record = graph.add("Sub", within, prepared.centre)
    if prepared.intercept > 0:
        record = graph.add("Pad", record, np.array([0, 0, 0, 1]), np.array(prepared.intercept))
    factor = 1.0 if prepared.unit else prepared.factor
    if prepared.mixing is None:
        record = graph.add("Mul", record, np.array(factor))
    else:  # the runtime would round a factor of its own to single precision
        record = graph.add("MatMul", record, factor * prepared.mixing.T)
    if not prepared.unit:
        return _single(graph, record), np.ones((1, 1))
    length = graph.add("Max", _norms(graph, record), np.array(1e-30))  # as `unit_rows` has it
    unit = _single(graph, graph.add("Mul", record, graph.add("Reciprocal", length)))
    norms = _norms(graph, _single(graph, record))
    there = graph.add("Greater", norms, np.zeros((1, 1)))
    return unit, graph.add("Where", there, norms, np.ones((1, 1)))


def _norms(graph: Graph, records: Name) -> Name:
    """The norms (n, 1) of records."""
    return graph.add("Sqrt", graph.add("ReduceSum", graph.add("Mul", records, records), _ACROSS))


def _single(graph: Graph, value: Name) -> Name:
    """Numbers rounded to single precision."""
    return graph.cast(graph.cast(value, np.float32), float)


def _predict(graph: Graph, model: Model, margins: Name) -> None:
    if model.classes is None:
        low, high = model.target_range
        scaled = graph.add("Mul", graph.clip(margins, -1.0, 1.0), np.array((high - low) / 2))
        number = graph.add("Add", scaled, np.array((low + high) / 2))
        graph.output("prediction", graph.add("Squeeze", number, _ACROSS), float)
        return
    kind = type(model.classes[0])
    try:
        labels: Any = np.array(model.classes, dtype=object if kind is str else kind)
    except OverflowError:
        raise InvalidArgument(
            "classes", [*model.classes], "of 64 bits in a model for ONNX"
        ) from None
    wide = margins
    if model.rows == 1:
        wide = graph.add("Pad", margins, np.array([0, 1, 0, 0]))
        second = graph.add("GreaterOrEqual", margins, np.zeros((1, 1)))
        codes = graph.add("Squeeze", graph.cast(second, np.int64), _ACROSS)
    else:
        codes = graph.add("ArgMax", margins, axis=1, keepdims=0)
    graph.output("prediction", graph.add("Gather", labels, codes), kind)
    if model.loss == "logistic":
        shares = graph.add("Softmax", wide, axis=1)
        graph.output("probabilities", shares, float, len(model.classes))


def _file(graph: Graph, model: Model) -> bytes:
    from onnx import helper

    parts = (graph.nodes, "fedsel", graph.inputs, graph.outputs, graph.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    made = helper.make_model(
        helper.make_graph(*parts),
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),  # what the oldest runtimes read, too
        producer_name="fedsel",
        producer_version=__version__,
    )
    helper.set_model_props(made, {"about": json.dumps({**model.about}, ensure_ascii=False)})
    return bytes(made.SerializeToString())
