"""What is public about features: their bounds (`FeatureScale`), and rows that belong to nobody.

Public rows have no labels. They replace the rounds that would learn a preparation, and cost no ε.

- *Spread, centre, intercept* (`of_rows`): what a `Plan` learns, without its noise.
- *Geometry* (`shaped`): a report has the same noise in every direction, but records differ most in
  a few. Clients multiply their record by a public matrix, which turns what they report on towards
  those directions where it can be told from noise.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.preparation._plan import ENTRY, MARGIN, OCTAVES, REACH, logarithm, power_of_two
from fedsel.preparation._record import Doubles, Preparation

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
    def declared(
        feature_range: Any, features: int, names: Sequence[str] | None = None
    ) -> FeatureScale:
        """The bounds that a user states: a pair as in `of`, or "private" if nobody knows any.

        Either may be given for each feature by its name, where features have ``names``. A scale,
        such as a schema has, is returned as it is.

        >>> FeatureScale.declared("private", 2).octaves
        64
        >>> FeatureScale.declared({"b": (0, 1), "a": "private"}, 2, names=("a", "b")).high.tolist()
        [4294967296.0, 1.0]
        """
        if isinstance(feature_range, Mapping):
            return FeatureScale.named(feature_range, features, names)
        if isinstance(feature_range, FeatureScale):
            if len(feature_range.low) != features:
                allowed = f"bounds of {features} features"
                raise InvalidArgument("feature_range", len(feature_range.low), allowed)
            return feature_range
        if not isinstance(feature_range, str):
            return FeatureScale.of(feature_range, features)
        if feature_range != PRIVATE:
            allowed = f'(low, high), "{PRIVATE}", {{name: (low, high)}} or None'
            raise InvalidArgument("feature_range", feature_range, allowed)
        return FeatureScale.unknown(features)

    @staticmethod
    def named(
        given: Mapping[Any, Any], features: int, names: Sequence[str] | None = None
    ) -> FeatureScale:
        """Bounds from a pair (low, high) or "private" for each feature, by name."""
        if names is None:
            allowed = f"(low, high) with {features} numbers each: features have no names here"
            raise InvalidArgument("feature_range", dict(given), allowed)
        for name in given:
            if name not in names:
                close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.4)
                allowed = f"a feature by its name, such as {', '.join(close or names[:3])}"
                raise InvalidArgument("feature_range", name, allowed)
        missing = [name for name in names if name not in given]
        if missing:
            allowed = f'given for every feature, "{PRIVATE}" where nobody knows bounds; it lacks '
            allowed += ", ".join(missing[:5]) + ", …" * (len(missing) > 5)
            raise InvalidArgument("feature_range", dict(given), allowed)
        bounds = np.empty((features, 2))
        for j, name in enumerate(names):
            try:
                scale = FeatureScale.declared(given[name], 1)
            except InvalidArgument as error:
                error.name = f"feature_range[{name!r}]"
                error.allowed = f'(low, high), finite and low < high, or "{PRIVATE}"'
                raise
            bounds[j] = (scale.low[0], scale.high[0]) if scale.known[0] else (-np.inf, np.inf)
        if np.isfinite(bounds).all():
            return FeatureScale(bounds[:, 0], bounds[:, 1])
        return FeatureScale.unknown(features, bounds)

    @staticmethod
    def of(feature_range: Any, features: int) -> FeatureScale:
        """Bounds from a pair (low, high): two numbers, or two sequences with one per feature."""
        both = f"numbers, or {features} numbers each" if features > 1 else "numbers"
        try:
            low, high = feature_range
        except (TypeError, ValueError):
            allowed = f"a pair (low, high): {both}"
            raise InvalidArgument("feature_range", feature_range, allowed) from None
        ends = [_end_of(feature_range, end, features, both) for end in (low, high)]
        wrong = np.flatnonzero(ends[0] >= ends[1])
        if len(wrong):
            where = f"; feature {wrong[0]} has ({ends[0][wrong[0]]:g}, {ends[1][wrong[0]]:g})"
            allowed = "(low, high) with low < high" + where * (np.ndim(low) + np.ndim(high) > 0)
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
        """The features whose bounds may be far too wide: all bounds but (0, 1) and (−1, 1).

        Where nobody knows some bounds, those that are known are taken as they are.
        """
        tight = (self.high == 1) & ((self.low == 0) | (self.low == -1))
        if self.octaves != OCTAVES:
            tight = self.known
        return tuple((~tight & (self.factor > 0)).tolist())

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which features (d,) have bounds that are known."""
        if self.octaves == OCTAVES:
            return np.ones(len(self.low), bool)
        return np.asarray(self.high != 2.0 ** (self.octaves // 2))

    def completed(self, rows: Any) -> FeatureScale:
        """The scale with bounds of public rows (m, d) where none are known."""
        if self.known.all():
            return self
        read = FeatureScale.read(rows)
        ends = [np.where(self.known, getattr(self, n), getattr(read, n)) for n in ("low", "high")]
        return FeatureScale(*ends)

    @property
    def octaves_loose(self) -> int:
        """How many factors of two the loosest bounds may be too wide; 0 if none are loose."""
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


def _end_of(feature_range: Any, end: Any, features: int, both: str) -> NDArray[np.float64]:
    """One end of public bounds, for each feature."""
    try:
        numbers = np.asarray(end, np.float64)
    except (TypeError, ValueError, OverflowError):
        allowed = f"(low, high), finite {both}"
        raise InvalidArgument("feature_range", feature_range, allowed) from None
    if not np.isfinite(numbers).all():
        allowed = f'(low, high), finite {both}; "{PRIVATE}" learns bounds that nobody knows'
        raise InvalidArgument("feature_range", feature_range, allowed)
    if numbers.ndim > 1 or numbers.size not in (1, features):
        allowed = f"(low, high), {both}: X has {features} features"
        raise InvalidArgument("feature_range", feature_range, allowed)
    return np.broadcast_to(numbers, (features,))


LARGEST = 2048
"""Entries of a record beyond which it is not multiplied by a matrix: d² numbers, d³ steps."""
LENGTH = 4.0
"""The typical norm of a network's inputs, if public rows tell it. With 1 or 2 models learn less at
every ε, with 8 or 12 they are level on MNIST, and worse on ADULT and digits at ε = 4."""


def of_rows(
    X: Any,
    *,
    loose: Sequence[bool] | None = None,
    octaves: int = OCTAVES,
    unit: bool = True,
    centred: bool = True,
    intercept: bool = True,
) -> Preparation:
    """Spread, centre and intercept from public rows X (m, d), on their public scale, [−1, 1].

    The spread of ``loose`` features (all unless given) is MARGIN times the geometric mean of their
    magnitudes, zeros left out, and at most 1; records are clipped REACH times as far out. The
    centre is the mean of what is clipped, and the intercept's entry ENTRY times the root mean
    square of the norms about the centre.

    Proof: docs/proofs/preparation.md, L4.

    >>> prepared = of_rows(np.array([[0.5, -0.01], [-0.5, 0.01], [0.5, 0.0], [0.5, 0.01]]))
    >>> prepared.spread.round(2).tolist(), prepared.centre.round(3).tolist()
    ([2.0, 0.08], [0.125, 0.031])
    """
    rows = _dense(X)
    columns = np.ones(rows.shape[1], bool) if loose is None else np.asarray(loose, bool)
    plain = Preparation.plain(rows.shape[1], intercept=0.0, unit=unit)
    spread = np.where(columns, _spread(rows, octaves), 1.0) * (REACH if columns.any() else 1.0)
    clipped = replace(plain, spread=spread).within(rows)
    centre = clipped.mean(axis=0) if centred else np.zeros(rows.shape[1])
    typical = float(np.sqrt(((clipped - centre) ** 2).sum(axis=1).mean()))
    norm = typical or 1.0
    return Preparation(spread, centre, ENTRY * norm * intercept, unit, factor=1 / norm)


def shaped(prepared: Preparation, X: Any, noise: float) -> Preparation:
    """The preparation with the matrix that public rows X (m, d) give, for reports on norm 1.

    ``noise`` is the variance of an entry of the mean of all reports. Let λ be the eigenvalues of
    the prepared rows' second moments, shrunk to their mean (Ledoit and Wolf 2004). A model with
    weights of about 1 in each direction has a mean report of about λ there, so λ²/(λ² + noise) of
    what is seen in it is signal (Wiener's filter); the matrix multiplies by that share, to the
    power of m/(m + d), which trusts few rows less.

    Without noise, and for records that keep their norm, nothing is changed.
    """
    if not noise or not prepared.unit or prepared.size > LARGEST:
        return prepared
    return replace(prepared, mixing=_filter(prepared.records(_dense(X)), noise))


def for_network(prepared: Preparation, X: Any, noise: float) -> Preparation:
    """The preparation of a network's inputs: bent as by `shaped`, then LENGTH long.

    They keep their norms up to a factor: the first layer of a module can take that up, as it can a
    matrix, but no division by a norm. Without noise they are not bent.
    """
    rows = _dense(X)
    if noise and prepared.size <= LARGEST:
        prepared = replace(prepared, mixing=_filter(prepared.records(rows), noise))
    records = prepared.records(rows).astype(np.float64)
    typical = float(np.sqrt((records**2).sum(axis=1).mean())) or 1.0
    return replace(prepared, factor=prepared.factor * LENGTH / typical)


def _filter(X: Any, noise: float) -> Doubles:
    """The matrix (d, d) of `shaped`, from prepared rows X (m, d)."""
    records = X.astype(np.float64)
    count, size = records.shape
    moments = records.T @ records / count
    eigenvalues, directions = np.linalg.eigh(moments)
    own = _shrunk(eigenvalues, float(((records**2).sum(axis=1) ** 2).mean()), count)
    shares = (own**2 / (own**2 + noise)) ** (count / (count + size))
    matrix: Doubles = (directions * shares) @ directions.T
    return matrix


def _shrunk(eigenvalues: Doubles, fourth: float, rows: int) -> Doubles:
    """Eigenvalues of second moments, moved to their mean as far as so few rows let them stray.

    ``fourth`` is the mean of the fourth power of the rows' norms.
    """
    mean, square = float(eigenvalues.mean()), float(eigenvalues @ eigenvalues)
    apart = square - len(eigenvalues) * mean**2
    share = min(1.0, (fourth - square) / (rows * apart)) if apart > 0 else 1.0
    return np.asarray((1 - share) * np.maximum(eigenvalues, 0.0) + share * mean)


def _spread(rows: Doubles, octaves: int) -> Doubles:
    magnitudes = np.abs(rows)
    there = magnitudes > 0
    logs = np.clip(-logarithm(np.where(there, MARGIN * magnitudes, 1.0)), -octaves, octaves)
    mean = logs.sum(axis=0) / np.maximum(1, there.sum(axis=0))
    return np.minimum(1.0, power_of_two(-mean))


def _dense(X: Any) -> Doubles:
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        raise InvalidArgument("public rows", f"of shape {rows.shape}", "of shape (m, d) with m ≥ 2")
    return rows
