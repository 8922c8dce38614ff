"""What the tests of wire, device and server ask for: whole recipes, and models run as ONNX."""

import numpy as np
import pytest

from fedsel import Recipe
from fedsel.wire import Number
from fedsel.wire._columns import numbers_of

NUMBERS = {"mu": 0.1, "rho": None, "learning_rate": 1.0, "averaging": 0.0, "bases": None}
NUMBERS |= {"spread": 0.0, "centre": 0.0}


def complete(solution, **changes):
    """A recipe with a number for everything, but for what the test is about."""
    return Recipe(solution, **{**NUMBERS, **changes})


def onnx_inputs(schema, records):
    """Records by name, or rows, as the graph of `Model.to_onnx` takes them."""
    if not schema.named:
        rows = [numbers_of(np.array(row, dtype=object)) for row in records]
        return {"X": np.array(rows).reshape(len(records), -1)}
    made = {}
    for name, column in schema.columns.items():
        cells = [record.get(name) for record in records]
        if isinstance(column, Number):
            made[name] = numbers_of(np.array(cells, dtype=object))[:, None]
        else:
            made[name] = np.array([["" if x is None else str(x)] for x in cells], dtype=object)
    return made


def onnx_outputs(path, inputs):
    """What ONNX Runtime says: its outputs by name. The graph must be one that ONNX knows."""
    onnx = pytest.importorskip("onnx", reason="pip install 'fedsel[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    onnx.checker.check_model(path, full_check=True)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))
