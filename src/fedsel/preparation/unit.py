"""Records of norm 1: each client divides its own, so it costs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike


def unit_rows(X: Any, dtype: DTypeLike = np.float64) -> Any:
    """Every row of X (N, d), dense or CSR, divided by its norm, in float32; zeros stay zeros.

    The sign of w·x does not change, so the same linear models remain. Squares are summed in
    ``dtype``: in double precision a sparse record gives what a dense one does.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    wide, sparse = X.astype(dtype, copy=False), hasattr(X, "indptr")
    squares = wide.multiply(wide).sum(axis=1) if sparse else np.einsum("nd,nd->n", wide, wide)
    norms = np.sqrt(np.asarray(squares, dtype=np.float64)).reshape(-1)
    factors = np.where(norms > 0, 1 / np.maximum(norms, 1e-30), 1.0)
    if not sparse:
        return np.ascontiguousarray(X * factors[:, None], dtype=np.float32)
    scaled = X.astype(np.float32)
    scaled.data = (X.data * np.repeat(factors, np.diff(X.indptr))).astype(np.float32)
    return scaled
