"""Tables as X: encoded by a public schema, or refused with the name of the column at fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_X_y, validate_data

from fedsel._internal.delimited import first_twice
from fedsel._internal.settings import naming
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.wire import Schema
from fedsel.wire._columns import check_collected, is_record_list, listed, numbers_of

_FLOATS = (np.float64, np.float32)
_REMEDY = "declare the columns with schema=…, which `fedsel schema my.csv` drafts for you to edit"


def schema_of(estimator: Any, other: str) -> Schema | None:
    """The schema that a user declares; ``other`` names the kind of label that does not fit."""
    if estimator.schema is None:
        return None
    schema = Schema.of(estimator.schema)
    if estimator.feature_range is not None:
        allowed = "omitted beside schema, which has the bounds"
        raise InvalidArgument("feature_range", estimator.feature_range, allowed)
    if (given := getattr(schema, other)) is not None:
        fitting = {"classes": "target_range", "target_range": "classes"}[other]
        allowed = f"omitted in the schema of a {type(estimator).__name__}: declare {fitting}"
        raise InvalidArgument(other, list(given), allowed)
    return schema


def declared_by(schema: Schema | None) -> tuple[str, ...]:
    """What a schema declares, in words."""
    if schema is None:
        return ()
    of_label = {"classes_": schema.classes, "target_range_": schema.target_range}
    return (
        "feature_names_in_",
        "the bounds and levels of columns",
        *(k for k in of_label if of_label[k]),
    )


def validated(estimator: Any, X: Any, y: Any, *, reset: bool, **more: Any) -> tuple[Any, Any]:
    """Features (n, d) and labels (n,); the first fit gives the estimator the features' names."""
    schema: Schema | None = estimator.schema_
    with _naming_columns(X, schema):
        if schema is None:
            options = {"accept_sparse": "csr", "dtype": _FLOATS, "reset": reset}
            both = validate_data(estimator, X, y, **options, **more)
        else:
            both = check_X_y(_encoded(schema, X, "X"), y, estimator=estimator, **more)
    if more.get("y_numeric") and both[1].dtype.kind not in "fiub":
        raise InvalidData("y: must be numbers")
    if schema is not None and reset:
        estimator.n_features_in_ = schema.feature_count
        vars(estimator).pop("feature_names_in_", None)
        if schema.named:
            estimator.feature_names_in_ = np.array(schema.features, dtype=object)
    return both[0], both[1]


def rows_of(estimator: Any, X: Any, name: str = "X") -> Any:
    """Features of rows without labels, as the estimator was fitted to."""
    schema: Schema | None = estimator.schema_
    if schema is not None:
        return check_array(_encoded(schema, X, name), input_name=name)
    options = {"accept_sparse": "csr", "dtype": _FLOATS}
    with _naming_columns(X, None, name):
        if name == "X":
            return validate_data(estimator, X, reset=False, **options)
        rows = check_array(X, input_name=name, **options)
    if rows.shape[1] != estimator.n_features_in_:
        wanted = f"{estimator.n_features_in_} features, as X"
        raise InvalidArgument(name, f"{rows.shape[1]} features", wanted)
    validate_data(estimator, X, reset=False, skip_check_array=True)  # names of features
    return rows


def _encoded(schema: Schema, X: Any, name: str) -> NDArray[np.float64]:
    with naming(lambda own: name if own == "table" else f"{own} of {name}"):
        return schema.encode(X)


def with_sorted_classes(schema: Schema, y: NDArray[Any]) -> Schema:
    """The schema with its classes as `labels_like` sorts them: scikit-learn's scores rely on it."""
    order = np.argsort(labels_like(schema, y), kind="stable")
    return replace(schema, classes=tuple(schema.class_names[place] for place in order))


def labels_like(schema: Schema, y: NDArray[Any]) -> NDArray[Any]:
    """The classes as the column of labels has them: as numbers or truth values, else as texts.

    >>> labels_like(Schema(1, classes=["0", "1", "10"]), np.array([1.0, 1.0])).tolist()
    [0, 1, 10]
    """
    texts = np.array(schema.class_names)
    numbers = numbers_of(texts.astype(object))
    if y.dtype.kind not in "fiub" or np.isnan(numbers).any():
        return texts
    if y.dtype.kind == "b":
        return numbers.astype(bool)
    return numbers.astype(np.int64) if (numbers == numbers.round()).all() else numbers


def codes_by(schema: Schema, name: str, y: NDArray[Any]) -> NDArray[np.int64]:
    """The class numbers of labels; a label that is no class is an error, which does not show it."""
    codes = schema.targets(y)
    if np.isnan(codes).any():
        known = listed(schema.class_names)
        raise InvalidData(
            f"{name}: a label is none of the schema's classes ({known}): leave such records out, as"
            " devices do, or declare the class"
        )
    return codes.astype(np.int64)


def check_labels(y: NDArray[Any]) -> None:
    """Refuse labels that are no classes; an error does not show them."""
    if y.dtype == object and not any(
        all(isinstance(label, kind) for label in y) for kind in (str, Real)
    ):
        raise InvalidData(
            "y: labels must be all texts or all numbers, and none missing: leave records without a"
            " label out, as devices do"
        )
    check_classification_targets(y)


@contextmanager
def _naming_columns(X: Any, schema: Schema | None, name: str = "X") -> Iterator[None]:
    """Replace an error of scikit-learn about a cell, which it may show, by one about its column.

    Dates become numbers without an error where nobody has declared their unit.
    """
    if schema is None:
        _check_container(X, name)
    framed = _names(X) is not None
    fault = _fault(X[:1]) if framed and schema is None else None
    try:
        if fault is None:
            yield
            return
    except (InvalidArgument, InvalidData):
        raise
    except (TypeError, ValueError) as error:
        if schema is None and (framed or not isinstance(error, TypeError)):
            fault = _fault(X)
        if fault is None and "could not convert" in str(error):
            raise InvalidData("y: must be numbers") from None
        if fault is None and str(error) in ("Input contains NaN", "Input y contains NaN."):
            without = "leave records without a label out, as devices do"
            raise InvalidData(f"y: a label is missing: {without}") from None
        if fault is None:
            raise
    raise InvalidData(f"{name}: {fault}; {_REMEDY}")


def _names(X: Any) -> Any:
    return getattr(X, "column_names", getattr(X, "columns", None))


def _check_container(X: Any, name: str) -> None:
    """Refuse what is no table of numbers, before scikit-learn says so with all its cells."""
    if hasattr(X, "tocsr"):
        return
    if isinstance(X, Mapping) or is_record_list(X):
        allowed = f"an array or a data frame; {_REMEDY}"
        raise InvalidArgument(name, type(X).__name__, allowed)
    check_collected(name, X)
    names = _names(X)
    twice = None if names is None else first_twice(names)
    if twice is not None:
        raise InvalidArgument(f"column of {name}", twice, "the name of one only; two have it")
    if names is None:
        cells = np.asarray(X)
        if cells.ndim < 2 and not hasattr(X, "dtypes"):
            wanted = "Reshape your data to (records, features)"
            raise InvalidData(f"{name}: {wanted}: it has {cells.ndim} dimension(s)")
        if cells.dtype.kind == "c":
            raise InvalidData(f"{name}: Complex data not supported: must be real numbers")


def _fault(X: Any) -> str | None:
    """What is wrong with the first column that is not of finite numbers."""
    names = _names(X)
    if names is not None:
        columns = {repr(str(name)): np.asarray(X[name]) for name in names}
    else:
        cells: NDArray[Any] = np.empty(0) if hasattr(X, "tocsr") else np.asarray(X)
        plain = cells.ndim == 2 and cells.dtype.kind != "c"
        columns = {str(j): column for j, column in enumerate(cells.T)} if plain else {}
    for name, column in columns.items():
        try:
            numbers = None if column.dtype.kind in "Mm" else column.astype(np.float64)
        except (TypeError, ValueError):
            numbers = None
        if numbers is None:
            return f"column {name} holds texts, dates or empty cells, not numbers alone"
        if not np.isfinite(numbers).all():
            return f"column {name} holds NaN, infinity or empty cells"
    return None
