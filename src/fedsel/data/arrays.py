"""A data set from what the caller already holds: arrays, sparse matrices, data frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.extras import needed
from fedsel.data.dataset import Dataset
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from fedsel.data.dataset import Matrix

Label = str | int | float | bool


def from_arrays(
    X: Any,
    y: Any,
    *,
    name: str = "arrays",
    feature_names: Sequence[str] | None = None,
    bounds: ArrayLike | None = None,
    positive: Label | None = None,
) -> Dataset:
    """A data set of X (N, d) and y (N,), which holds two values.

    X is an array, a scipy.sparse matrix or a data frame of numbers; float32 in C order is not
    copied. ``positive`` is the label that becomes +1; without it, the greater one (1 of 0 and 1,
    "yes" of "no" and "yes").

    >>> data = from_arrays([[1, 2], [3, 4]], ["no", "yes"])
    >>> data.y.tolist(), data.classes
    ([-1, 1], ('no', 'yes'))
    """
    matrix = _matrix(X)
    labels, classes = signs(y, positive)
    if len(labels) != matrix.shape[0]:
        raise InvalidArgument("y", f"{len(labels)} labels", f"one per record: {matrix.shape[0]}")
    if feature_names is None:
        feature_names = getattr(X, "columns", None)
    if feature_names is None:
        feature_names = [f"x{j}" for j in range(matrix.shape[1])]
    return Dataset(name, matrix, labels, tuple(map(str, feature_names)), _bounds(bounds), classes)


def signs(y: Any, positive: Label | None = None) -> tuple[NDArray[np.int8], tuple[str, str]]:
    """Labels of two values as −1 and +1, and the names of the two.

    >>> signs([3, 5, 5])
    (array([-1,  1,  1], dtype=int8), ('3', '5'))
    >>> signs([3, 5, 5], positive=3)[1]
    ('5', '3')
    """
    values = plain_values("y", y)
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) != 2:
        shown = ", ".join(map(_text, classes[:4])) + (", …" if len(classes) > 4 else "")
        raise InvalidArgument("y", f"{len(classes)} classes ({shown})", "two classes")
    names = (_text(classes[0]), _text(classes[1]))
    high = 1
    if positive is not None:
        matches = [i for i, value in enumerate(classes) if _same(value, positive)]
        if not matches:
            raise InvalidArgument("positive", positive, f"one of the labels {' and '.join(names)}")
        high = matches[0]
    return np.where(codes == high, 1, -1).astype(np.int8), (names[1 - high], names[high])


def plain_values(name: str, values: Any) -> NDArray[Any]:
    """One value per record, none missing: numbers or texts, not Python objects."""
    array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if array.ndim != 1 or not array.size:
        raise InvalidArgument(name, f"array of shape {array.shape}", "one value per record")
    if array.dtype.kind == "O":
        try:
            texts = all(isinstance(value, str) for value in array)
            array = array.astype(np.str_ if texts else np.float64)
        except (TypeError, ValueError):
            actual = "missing values, or texts and numbers together"
            raise InvalidArgument(name, actual, "numbers only or texts only") from None
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidArgument(name, f"NaN or infinite in record {row}", "a value in every record")
    return array


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _same(value: Any, wanted: Label) -> bool:
    """Equal as numbers or as texts: "1" on a command line means the label 1.0."""
    try:
        return float(value) == float(wanted)
    except (TypeError, ValueError):
        return str(value) == str(wanted)


def _matrix(X: Any) -> Matrix:
    return _sparse(X) if hasattr(X, "tocsr") else _dense(X)


def _sparse(X: Any) -> Matrix:
    with needed("simulation", "sparse data"):
        from scipy.sparse import csr_array

    # A matrix that is CSR already shares its arrays with the result: sort a copy, never theirs.
    matrix = csr_array(X.tocsr())
    if matrix.dtype.kind not in "fiub":
        raise InvalidArgument("X", f"sparse matrix of {matrix.dtype}", "of real numbers")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    with np.errstate(over="ignore"):  # becomes infinite, which Dataset refuses
        result: Matrix = matrix.astype(np.float32, copy=False)
    return result


def _dense(X: Any) -> NDArray[np.float32]:
    try:
        array = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X)
        if array.dtype.kind == "O":  # a frame of mixed columns: numbers, or refused
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("X", type(X).__name__, "a table of numbers only") from None
    if array.dtype.kind not in "fiub":
        raise InvalidArgument("X", f"array of {array.dtype}", "a table of numbers only")
    if array.ndim != 2:
        raise InvalidArgument("X", f"array of {array.ndim} dimension(s)", "of shape (N, d)")
    with np.errstate(over="ignore"):  # becomes infinite, which Dataset refuses
        return np.ascontiguousarray(array, np.float32)


def _bounds(bounds: ArrayLike | None) -> NDArray[np.float64] | None:
    if bounds is None:
        return None
    try:
        return np.array(bounds, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("bounds", type(bounds).__name__, "pairs of numbers") from None
