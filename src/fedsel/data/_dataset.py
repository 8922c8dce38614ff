"""A data set of numbers, labels ±1 and public bounds of features, from arrays, frames or CSR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.preparation._public import PRIVATE, FeatureScale
from fedsel.preparation._record import unit_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Matrix: TypeAlias = NDArray[np.float32] | csr_array[np.float32, tuple[int, int]]

Label = str | int | float | bool
SCALINGS: tuple[str, ...] = ("none", "unit", "symmetric", "private", "standard")
"""The scales to which a data set can be transformed."""

INTERCEPT = "intercept"
STANDARD_CLIP = 3.0
DENSE_LIMIT = 2**31
"""The most bytes of a sparse matrix that is made dense."""

_BLOCK = 2**20  # entries read at a time, so that a memory-mapped X stays on disk


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """N records of d features with labels of ±1, or of more than two classes.

    ``X``: (N, d) float32, C-contiguous, or a ``scipy.sparse.csr_array``; ``y``: (N,) int8 of ±1,
    or the numbers 0 … C−1 of more than two classes;
    ``bounds``: (d, 2), the public lower and upper bound of each feature, (−∞, ∞) where it has none,
    or None if no feature has any; ``classes``: what −1 and +1, or the numbers, stand for.

    >>> data = Dataset("two", np.array([[0], [8]], np.float32), np.array([-1, 1], np.int8), ("x",),
    ...                bounds=np.array([[0.0, 10.0]]))
    >>> data
    Dataset('two', n=2, d=1, dense)
    >>> data.scaled("symmetric").with_intercept().X.tolist()
    [[-1.0, 1.0], [0.6000000238418579, 1.0]]
    """

    name: str
    X: Matrix
    y: NDArray[Any]
    feature_names: tuple[str, ...]
    bounds: NDArray[np.float64] | None = None
    classes: tuple[str, ...] = ("-1", "+1")

    def __post_init__(self) -> None:
        _check_matrix(self.X)
        _check_labels(self.y, self.n, len(self.classes))
        if len(self.feature_names) != self.d:
            actual = f"{len(self.feature_names)} names"
            raise InvalidArgument("feature_names", actual, f"one per feature: {self.d}")
        if self.bounds is not None:
            _check_bounds(self.bounds, self.d)

    @property
    def n(self) -> int:
        """The number of records."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    @property
    def bounded(self) -> bool:
        """Whether every feature has public bounds."""
        return self.bounds is not None and bool(np.isfinite(self.bounds).all())

    @property
    def sparse(self) -> bool:
        """Whether X is a CSR array."""
        return not isinstance(self.X, np.ndarray)

    def __repr__(self) -> str:
        kind = "sparse" if self.sparse else "dense"
        return f"Dataset({self.name!r}, n={self.n}, d={self.d}, {kind})"

    def scaled(self, how: str) -> Dataset:
        """The same records on another scale, clipped to it.

        - "none": unchanged.
        - "unit", "symmetric": from the public bounds to [0, 1] or to [−1, 1].
        - "private": to [−1, 1], from public bounds or else from bounds so wide that they hold
          anything, for rounds that learn the rest (`FeatureScale.unknown`).
        - "standard": (x − mean)/sd of each feature, clipped to ±3; 0 for a constant feature. Mean
          and sd are read from the records, which is not private.

        A sparse X stays sparse if zero stays zero.
        """
        if how not in SCALINGS:
            raise InvalidArgument("how", how, "one of " + ", ".join(SCALINGS))
        if how == "none":
            return self
        if how == "standard":
            if INTERCEPT in self.feature_names:
                raise InvalidArgument("how", how, "applied before with_intercept()")
            centre, factor = _standardise(self.X)
            return self._affine(centre, factor, -STANDARD_CLIP, STANDARD_CLIP)
        return self._affine(*self.public_scaling(how), 0.0 if how == "unit" else -1.0, 1.0)

    def public_scaling(self, how: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Centre and factor (d,) of (x − centre)·factor for a scale that depends on no record."""
        if how == PRIVATE:
            wide = FeatureScale.unknown(self.d, self.bounds)
            return wide.centre, wide.factor
        if self.bounds is None or not self.bounded:
            allowed = f"private, standard or none: not all features of {self.name} have public"
            raise InvalidArgument("how", how, f"{allowed} bounds")
        low, high = self.bounds[:, 0], self.bounds[:, 1]
        if how == "unit":
            return low, 1 / (high - low)
        return (low + high) / 2, 2 / (high - low)

    def with_unit_records(self) -> Dataset:
        """Divide every record by its norm (`unit_rows`)."""
        scaled = unit_rows(self.X, np.float32)
        return replace(self, X=scaled, bounds=np.tile([-1.0, 1.0], (self.d, 1)))

    def with_intercept(self) -> Dataset:
        """Add a feature "intercept" with the constant 1. Scale the data first."""
        if INTERCEPT in self.feature_names:
            raise InvalidArgument(
                "feature_names", INTERCEPT, "absent: with_intercept() was called before"
            )
        ones = np.ones((self.n, 1), np.float32)
        if isinstance(self.X, np.ndarray):
            X: Matrix = np.hstack([self.X, ones])
        else:
            from scipy import sparse

            X = sparse.csr_array(sparse.hstack([self.X, sparse.csr_array(ones)], format="csr"))
        bounds = None if self.bounds is None else np.vstack([self.bounds, [[0.0, 1.0]]])
        return replace(self, X=X, bounds=bounds, feature_names=(*self.feature_names, INTERCEPT))

    def _affine(
        self, centre: NDArray[np.float64], factor: NDArray[np.float64], low: float, high: float
    ) -> Dataset:
        """(X − centre)·factor, clipped to [low, high]."""
        bounds = np.tile([low, high], (self.d, 1))
        if not isinstance(self.X, np.ndarray) and not centre.any():
            X = self.X.copy()
            X.data = np.clip(X.data * factor[X.indices], low, high).astype(np.float32)
            return replace(self, X=X, bounds=bounds)
        _check_dense_size(self.X)
        out = np.empty(self.X.shape, np.float32)
        for rows, block in _blocks(self.X):
            out[rows] = np.clip((block.astype(np.float64) - centre) * factor, low, high)
        return replace(self, X=out, bounds=bounds)


def from_arrays(
    X: Any,
    y: Any,
    *,
    name: str = "arrays",
    feature_names: Sequence[str] | None = None,
    bounds: ArrayLike | None = None,
    positive: Label | None = None,
) -> Dataset:
    """Build a data set from X (N, d) and y (N,) with two distinct labels.

    X is an array, a scipy.sparse matrix or a data frame of numbers; float32 in C order is not
    copied. ``positive`` is the label that becomes +1, by default the greater one (1 of 0 and 1,
    "yes" of "no" and "yes").

    >>> data = from_arrays([[1, 2], [3, 4]], ["no", "yes"])
    >>> data.y.tolist(), data.classes
    ([-1, 1], ('no', 'yes'))
    """
    matrix = _sparse(X) if hasattr(X, "tocsr") else _dense(X)
    labels, classes = signs(y, positive)
    if len(labels) != matrix.shape[0]:
        raise InvalidArgument("y", f"{len(labels)} labels", f"one per record: {matrix.shape[0]}")
    if feature_names is None:
        feature_names = getattr(X, "columns", None)
    if feature_names is None:
        feature_names = [f"x{j}" for j in range(matrix.shape[1])]
    try:
        limits = None if bounds is None else np.array(bounds, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("bounds", type(bounds).__name__, "pairs of numbers") from None
    return Dataset(name, matrix, labels, tuple(map(str, feature_names)), limits, classes)


def signs(y: Any, positive: Label | None = None) -> tuple[NDArray[np.int8], tuple[str, str]]:
    """Map two labels to −1 and +1, and return their names.

    >>> signs([3, 5, 5])
    (array([-1,  1,  1], dtype=int8), ('3', '5'))
    >>> signs([3, 5, 5], positive=3)[1]
    ('5', '3')
    """
    values = plain_values("y", y)
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) != 2:
        shown = ", ".join(map(_text, classes[:4])) + (", …" if len(classes) > 4 else "")
        allowed = "two classes, or those of a schema, which may be more and leaves others out"
        raise InvalidArgument("y", f"{len(classes)} classes ({shown})", allowed)
    names = (_text(classes[0]), _text(classes[1]))
    high = 1
    if positive is not None:
        matches = [i for i, value in enumerate(classes) if _same(value, positive)]
        if not matches:
            raise InvalidArgument("positive", positive, f"one of the labels {' and '.join(names)}")
        high = matches[0]
    return np.where(codes == high, 1, -1).astype(np.int8), (names[1 - high], names[high])


def plain_values(name: str, values: Any) -> NDArray[Any]:
    """Return one value per record, as numbers or texts, and refuse missing values."""
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
    """Compare as numbers or as texts: "1" on a command line means the label 1.0."""
    try:
        return float(value) == float(wanted)
    except (TypeError, ValueError):
        return str(value) == str(wanted)


def _sparse(X: Any) -> Matrix:
    with needed("simulation", "sparse data"):
        from scipy.sparse import csr_array

    # A CSR matrix shares its arrays with the result, so sort a copy.
    matrix = csr_array(X.tocsr())
    if matrix.dtype.kind not in "fiub":
        raise InvalidArgument("X", f"sparse matrix of {matrix.dtype}", "a matrix of real numbers")
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


def _blocks(X: Matrix) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield X in dense blocks of rows, each small enough to be copied."""
    n, d = X.shape
    step = max(1, _BLOCK // d)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        block = X[rows]
        yield rows, block if isinstance(block, np.ndarray) else block.toarray()


def _check_dense_size(X: Matrix) -> None:
    """Refuse to make a huge sparse matrix dense."""
    needed = 4 * X.shape[0] * X.shape[1]
    if not isinstance(X, np.ndarray) and needed > DENSE_LIMIT:
        raise InvalidArgument(
            "how",
            f"a scaling that makes {X.shape[0]} × {X.shape[1]} sparse entries dense",
            "one that keeps zero at zero ('none', or 'unit' with lower bounds of 0)",
        )


def _standardise(X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and 1/sd of each feature; 0 instead of 1/sd for a constant feature."""
    _check_dense_size(X)
    n, d = X.shape
    total, low, high = np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    for _, block in _blocks(X):
        total += block.sum(axis=0, dtype=np.float64)
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
    mean = total / n
    squares = np.zeros(d)
    for _, block in _blocks(X):
        squares += np.square(block.astype(np.float64) - mean).sum(axis=0)
    varies = low < high
    return mean, np.where(varies, 1 / np.sqrt(np.where(varies, squares / n, 1.0)), 0.0)


def _check_matrix(X: Matrix) -> None:
    if isinstance(X, np.ndarray):
        if X.dtype != np.float32 or X.ndim != 2 or not X.flags.c_contiguous:
            actual = f"{X.dtype} array of {X.ndim} dimension(s)"
            raise InvalidArgument("X", actual, "float32, 2-D and C-contiguous, or a csr_array")
    else:
        _check_sparse(X)
    if 0 in X.shape:
        raise InvalidArgument("X", f"shape {X.shape}", "at least one record and one feature")
    if not isinstance(X, np.ndarray):
        if not np.isfinite(X.data).all():
            entry = int(np.flatnonzero(~np.isfinite(X.data))[0])
            row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
            raise _not_finite(row, int(X.indices[entry]))
        return
    for rows, block in _blocks(X):
        finite = np.isfinite(block)
        if not finite.all():
            row, column = map(int, np.argwhere(~finite)[0])
            raise _not_finite(rows.start + row, column)


def _check_sparse(X: object) -> None:
    """Refuse indices that are out of range or repeated, because loops over CSR trust them."""
    from scipy.sparse import csr_array

    if not isinstance(X, csr_array) or X.dtype != np.float32 or X.ndim != 2:
        raise InvalidArgument("X", type(X).__name__, "an array or a csr_array of float32, 2-D")
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise InvalidArgument("X", f"csr_array: {error}", "a valid csr_array") from None
    if not X.has_canonical_format:
        actual = "csr_array with unsorted or repeated indices"
        raise InvalidArgument("X", actual, "canonical (X.sum_duplicates())")


def _not_finite(row: int, column: int) -> InvalidArgument:
    return InvalidArgument(
        "X", f"NaN or infinite at row {row}, column {column}", "finite everywhere (as float32)"
    )


def _check_labels(y: NDArray[Any], n: int, classes: int) -> None:
    if classes > 2:
        numbers = isinstance(y, np.ndarray) and y.dtype.kind == "i" and y.shape == (n,)
        if not numbers or not ((y >= 0) & (y < classes)).all():
            allowed = f"an array of {n} whole numbers in 0 … {classes - 1}"
            raise InvalidArgument("y", type(y).__name__, allowed)
        return
    if not isinstance(y, np.ndarray) or y.dtype != np.int8 or y.shape != (n,):
        kind = f"{y.dtype} array of shape {y.shape}" if isinstance(y, np.ndarray) else type(y)
        raise InvalidArgument("y", str(kind), f"an int8 array of shape ({n},)")
    if not (np.abs(y) == 1).all():
        raise InvalidArgument("y", f"{int(y[np.abs(y) != 1][0])} among the labels", "−1 or +1")


def _check_bounds(bounds: NDArray[np.float64], d: int) -> None:
    if not isinstance(bounds, np.ndarray) or bounds.shape != (d, 2):
        actual = getattr(bounds, "shape", type(bounds).__name__)
        raise InvalidArgument("bounds", actual, f"an array of shape ({d}, 2), or None")
    unknown = (bounds == [-np.inf, np.inf]).all(axis=1)
    wrong = ~(np.isfinite(bounds).all(axis=1) & (bounds[:, 0] < bounds[:, 1]) | unknown)
    if wrong.any():
        j = int(np.flatnonzero(wrong)[0])
        actual = f"{bounds[j].tolist()} for feature {j}"
        allowed = "finite, the lower below the upper, or (-inf, inf) for none"
        raise InvalidArgument("bounds", actual, allowed)
