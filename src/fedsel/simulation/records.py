"""Records as the kernels read them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LOSSES = {"logistic": 0, "svm": 1}
"""The losses of linear models as the kernels number them."""


class Records(NamedTuple):
    """Dense rows, or the three arrays of CSR; what is not used is None.

    Client i holds the records order[starts[i]] … order[starts[i+1]−1]; with no ``starts`` each
    client holds the record of its own number.
    """

    dim: int
    dense: NDArray[np.float32] | None
    indptr: NDArray[np.int64] | None
    indices: NDArray[np.int32] | None
    data: NDArray[np.float32] | None
    labels: NDArray[np.int8]
    order: NDArray[np.int64] | None
    starts: NDArray[np.int64] | None


def records_of(
    X: Any,
    y: NDArray[np.int8],
    order: NDArray[np.int64] | None = None,
    starts: NDArray[np.int64] | None = None,
) -> Records:
    """Records X (N, d), dense float32 or CSR; not copied where they are as kernels need them."""
    sparse = hasattr(X, "indptr")
    return Records(
        dim=X.shape[1],
        dense=None if sparse else np.ascontiguousarray(X, dtype=np.float32),
        indptr=np.ascontiguousarray(X.indptr, dtype=np.int64) if sparse else None,
        indices=np.ascontiguousarray(X.indices, dtype=np.int32) if sparse else None,
        data=np.ascontiguousarray(X.data, dtype=np.float32) if sparse else None,
        labels=np.ascontiguousarray(y, dtype=np.int8),
        order=None if order is None else np.ascontiguousarray(order, dtype=np.int64),
        starts=None if starts is None else np.ascontiguousarray(starts, dtype=np.int64),
    )
