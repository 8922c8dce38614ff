"""Public bounds of features, and the scale on which clients compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.preparation.unit import unit_rows


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """What each client does with a record x: clip to [low, high], then (x − centre)·factor.

    The result lies in [−1, 1], so that no entry of a logistic gradient exceeds 1. Where zero lies
    within the bounds it stays zero, and a sparse record stays sparse.

    >>> scale = FeatureScale.of((0, 4), 2)
    >>> scale.apply(np.array([[1.0, 9.0]]), intercept=True)
    array([[0.25, 1.  , 1.  ]], dtype=float32)
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @staticmethod
    def of(feature_range: Any, features: int) -> FeatureScale:
        """From a pair (low, high): two numbers, or two sequences of one number a feature."""
        allowed = f"(low, high) with low < high: numbers, or {features} numbers each"
        try:
            low, high = feature_range
            ends = [np.broadcast_to(np.asarray(e, np.float64), (features,)) for e in (low, high)]
        except (TypeError, ValueError):
            raise InvalidArgument("feature_range", feature_range, allowed) from None
        if not np.isfinite(ends).all() or not (ends[0] < ends[1]).all():
            raise InvalidArgument("feature_range", feature_range, allowed)
        return FeatureScale(*ends)

    @staticmethod
    def read(X: Any) -> FeatureScale:
        """The bounds of the records themselves: not private."""
        if hasattr(X, "tocsr"):
            from sklearn.utils.sparsefuncs import min_max_axis

            low, high = min_max_axis(X, axis=0)
        else:
            low, high = X.min(axis=0), X.max(axis=0)
        return FeatureScale(np.asarray(low, np.float64), np.asarray(high, np.float64))

    @property
    def centre(self) -> NDArray[np.float64]:
        """The middle of the bounds where zero lies outside of them, else zero."""
        outside = (self.low > 0) | (self.high < 0)
        return np.where(outside, (self.low + self.high) / 2, 0.0)

    @property
    def factor(self) -> NDArray[np.float64]:
        """1 over the largest distance from the centre; 0 for a feature that cannot vary."""
        reach = np.maximum(self.high - self.centre, self.centre - self.low)
        return np.where(reach > 0, 1 / np.where(reach > 0, reach, 1.0), 0.0)

    def apply(self, X: Any, *, intercept: bool, unit: bool = False) -> Any:
        """Records (n, d) as clients use them: float32, dense or CSR, with a last column of ones.

        ``unit`` divides each record, its 1 included, by its norm.

        >>> FeatureScale.of((0, 4), 1).apply(np.array([[3.0]]), intercept=True, unit=True)
        array([[0.6, 0.8]], dtype=float32)
        """
        scaled = self._scaled(X, intercept)
        return unit_rows(scaled) if unit else scaled

    def _scaled(self, X: Any, intercept: bool) -> Any:
        if not hasattr(X, "tocsr"):
            dense = np.ones((X.shape[0], X.shape[1] + intercept), dtype=np.float32)
            dense[:, : X.shape[1]] = (np.clip(X, self.low, self.high) - self.centre) * self.factor
            return dense
        from scipy import sparse

        if self.centre.any():
            raise InvalidArgument(
                "feature_range", "bounds that exclude zero", "bounds around zero for sparse X"
            )
        scaled = sparse.csr_array(X, dtype=np.float64, copy=True)
        scaled.sum_duplicates()
        column = scaled.indices
        scaled.data = (
            np.clip(scaled.data, self.low[column], self.high[column]) * self.factor[column]
        )
        if intercept:
            ones = sparse.csr_array(np.ones((X.shape[0], 1)))
            scaled = sparse.csr_array(sparse.hstack([scaled, ones], format="csr"))
        return scaled.astype(np.float32)
