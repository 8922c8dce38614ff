"""Public bounds of features, and the scale on which clients compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.preparation._plan import OCTAVES

PRIVATE = "private"
"""The word for bounds that nobody knows, which the first rounds learn."""
_ANY_OCTAVES = 32
_ANY = float(1 << _ANY_OCTAVES)


@dataclass(frozen=True, eq=False)
class FeatureScale:
    """What each client does with a record x: clip to [low, high], then (x − centre)·factor.

    The result lies in [−1, 1]. Where zero lies within the bounds it stays zero, and a sparse record
    stays sparse. Of bounds that nobody knows, the first rounds learn how many ``octaves`` too wide
    they are.

    >>> scale = FeatureScale.of((0, 4), 2)
    >>> scale.apply(np.array([[1.0, 9.0]]))
    array([[0.25, 1.  ]], dtype=float32)
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    octaves: int = OCTAVES

    @staticmethod
    def unknown(features: int, bounds: NDArray[np.float64] | None = None) -> FeatureScale:
        """Bounds so wide that anything lies within them: four billion.

        Where some of the ``bounds`` (d, 2) are finite, these are known.

        >>> FeatureScale.unknown(2, np.array([[0, 1], [-np.inf, np.inf]])).high.tolist()
        [1.0, 4294967296.0]
        """
        low, high = np.full(features, -_ANY), np.full(features, _ANY)
        if bounds is not None:
            known = np.isfinite(bounds).all(axis=1)
            low, high = np.where(known, bounds[:, 0], low), np.where(known, bounds[:, 1], high)
        return FeatureScale(low, high, 2 * _ANY_OCTAVES)

    @staticmethod
    def declared(feature_range: Any, features: int) -> FeatureScale:
        """The bounds that a user states: a pair as in `of`, or "private", that nobody knows any.

        A scale, such as a schema has, is returned as it is.

        >>> FeatureScale.declared("private", 2).octaves
        64
        """
        if isinstance(feature_range, FeatureScale):
            if len(feature_range.low) != features:
                allowed = f"bounds of {features} features"
                raise InvalidArgument("feature_range", len(feature_range.low), allowed)
            return feature_range
        if not isinstance(feature_range, str):
            return FeatureScale.of(feature_range, features)
        if feature_range != PRIVATE:
            allowed = f'(low, high), "{PRIVATE}" or None'
            raise InvalidArgument("feature_range", feature_range, allowed)
        return FeatureScale.unknown(features)

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
        return FeatureScale(ends[0], ends[1])

    @staticmethod
    def read(X: Any) -> FeatureScale:
        """The bounds of the records themselves: not private."""
        ends = [X.min(axis=0), X.max(axis=0)]
        if hasattr(X, "tocsr"):
            ends = [end.toarray().reshape(-1) for end in ends]
        low, high = (np.asarray(end, np.float64) for end in ends)
        return FeatureScale(low, high)

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

    @property
    def offset(self) -> bool:
        """Whether some bounds are not symmetric about zero, or nobody knows them."""
        return self.offset_of(np.ones(len(self.low), bool))

    def offset_of(self, columns: NDArray[np.bool_]) -> bool:
        """Whether one of these columns (d,) has such bounds."""
        skewed = (self.low != -self.high) | (self.octaves != OCTAVES)
        return bool(skewed[columns].any())

    @property
    def loose(self) -> tuple[bool, ...]:
        """The features whose bounds may be far too wide: all but those of (0, 1) and (−1, 1).

        Where nobody knows some bounds, those that are known are taken as they are.
        """
        tight = (self.high == 1) & ((self.low == 0) | (self.low == -1))
        if self.octaves != OCTAVES:
            tight = self.high != 2.0 ** (self.octaves // 2)
        return tuple((~tight & (self.factor > 0)).tolist())

    @property
    def octaves_loose(self) -> int:
        """By how many factors of two the loosest bounds may be too wide; 0 where none is loose."""
        return self.octaves if any(self.loose) else 0

    def apply(self, X: Any) -> Any:
        """Records (n, d) on the scale that all know: float32, dense or CSR."""
        if not hasattr(X, "tocsr"):
            scaled = (np.clip(X, self.low, self.high) - self.centre) * self.factor
            return np.asarray(scaled, dtype=np.float32)
        from scipy import sparse

        if self.centre.any():
            raise InvalidArgument(
                "feature_range", "bounds that exclude zero", "bounds around zero for sparse X"
            )
        rows = sparse.csr_array(X, dtype=np.float64, copy=True)
        rows.sum_duplicates()
        column = rows.indices
        rows.data = np.clip(rows.data, self.low[column], self.high[column]) * self.factor[column]
        return rows.astype(np.float32)
