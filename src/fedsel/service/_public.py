"""The files of a task that are public beforehand: rows without labels, a start of training."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.data._cells import TABLES, cells
from fedsel.errors import InvalidArgument
from fedsel.preparation import FeatureScale
from fedsel.preparation._given import check_rows
from fedsel.wire import Model, Schema
from fedsel.wire._columns import listed

Doubles = NDArray[np.float64]
_ROWS = "public_rows"
_START = "start"


def read_rows(path: Path, schema: Schema) -> Doubles:
    """The public rows of a file, encoded as devices encode their records.

    A table has the columns of the schema; others, such as a label, are ignored where the schema has
    names. An .npz file has an array X of encoded records.
    """
    kind = path.suffix.lower()
    if kind not in (*TABLES, ".npz"):
        raise InvalidArgument(_ROWS, str(path), "a file ending in .csv, .parquet or .npz")
    try:
        rows = _array(path) if kind == ".npz" else _table(path, schema)
    except OSError as error:
        allowed = f"a file that can be read ({error.strerror or error})"
        raise InvalidArgument(_ROWS, str(path), allowed) from None
    except InvalidArgument as error:
        if error.name == "path":
            raise InvalidArgument(_ROWS, error.value, error.allowed) from None
        raise
    return check_rows(rows, schema.feature_count)


def _array(path: Path) -> Any:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            return held["X"]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise InvalidArgument(_ROWS, str(path), "an .npz file with an array X") from None


def _table(path: Path, schema: Schema) -> Doubles:
    parts = []
    for block in cells(path, header=True if path.suffix.lower() == ".csv" else None):
        if schema.named:
            lacking = [name for name in schema.columns if name not in block]  # type: ignore[union-attr]
            if lacking:
                allowed = f"with all columns of the task; it has {listed(block)}"
                raise InvalidArgument(_ROWS, f"{path.name} without {lacking[0]}", allowed)
            parts.append(schema.encode(block))
        elif len(block) != schema.feature_count:
            allowed = f"with {schema.feature_count} columns, the features, and no label"
            raise InvalidArgument(_ROWS, f"{path.name} with {len(block)} columns", allowed)
        else:
            parts.append(schema.encode(np.column_stack(list(block.values()))))
    return np.concatenate(parts)


def read_start(path: Path) -> Doubles | Model:
    """The weights (.npy) or the model (JSON) that training starts with."""
    if path.suffix.lower() == ".json":
        try:
            return Model.load(path)
        except InvalidArgument as error:
            raise InvalidArgument(_START, str(path), f"a model file ({error})") from None
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError) as error:
        allowed = f"an array in .npy, or a model in .json ({error})"
        raise InvalidArgument(_START, str(path), allowed) from None


def check_start(model: Model, schema: Schema | None, bounds: FeatureScale | None) -> None:
    """Refuse a model of other records, of other labels, or with other bounds."""
    own, pipeline = model.schema, model.pipeline
    if schema is None or bounds is None:
        raise InvalidArgument(_START, "a model", "weights in .npy: the task has no schema")
    if own is None or pipeline is None:
        allowed = "a model of records; weights alone go into an .npy file"
        raise InvalidArgument(_START, "a model without a schema", allowed)
    if own.columns != schema.columns:
        allowed = f"a model of the task's columns, with their bounds and levels: {_named(schema)}"
        raise InvalidArgument(_START, f"a model of {_named(own)}", allowed)
    labels = range(2 if schema.classes is None else len(schema.classes))
    agree = own.target_range == schema.target_range
    if agree and not model.regression:
        agree = schema.targets(list(model.classes or ())).tolist() == [*labels]
    if not agree:
        actual = own.target_range or [*(model.classes or ())]
        allowed = f"a model of {list(schema.target_range or schema.class_names)}, as the task has"
        raise InvalidArgument(_START, f"a model of {actual}", allowed)
    if pipeline.preparation.size != schema.feature_count + 1:
        raise InvalidArgument(_START, "a model without intercept", "a model that has one")
    known = bounds.known
    for name in ("low", "high"):
        if (getattr(pipeline.scale, name) != getattr(bounds, name))[known].any():
            allowed = "a model whose features have the bounds of the task"
            raise InvalidArgument(_START, "a model with other bounds", allowed)


def _named(schema: Schema) -> str:
    columns = schema.columns
    return f"{columns} columns" if isinstance(columns, int) else listed(columns)
