"""What every client does with a record before it trains: public, and the same for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fedsel.errors import (
    InvalidArgument,
    check_count,
    check_finite,
    check_positive,
    check_vectors,
)

Doubles = NDArray[np.float64]
_ROWS_AT_A_TIME = 1 << 20  # entries
WIDEST = 2.0
"""The widest spread: twice the public scale, which clips nothing."""
_FURTHER = ("mixing", "origin")
"""Fields that are published only where they are used."""


@final
@dataclass(frozen=True, eq=False)
class Preparation:
    """Turns a record x (d,) on its public scale, [−1, 1], into what a client trains on:

        z = (clip((x − origin)/spread, −1, 1) − centre, intercept),
            divided by its norm if ``unit``, else multiplied by ``factor``

    ``spread`` (d,) in (0, 2], ``centre`` (d,) and ``origin`` (d,) are public; without an origin it
    is zero, and an ``intercept`` of 0 is none. With ``mixing``, a public matrix (size, size), z is
    multiplied by it before it is divided. A linear model of z is one of x: dividing by the norm
    changes no sign of a margin.

    >>> plain = Preparation.plain(2, intercept=1.0, unit=False)
    >>> Preparation(np.array([0.5, 1.0]), np.array([1.0, 0.0]), 1.0, False).records([[0.5, -0.25]])
    array([[ 0.  , -0.25,  1.  ]], dtype=float32)
    """

    spread: Doubles
    centre: Doubles
    intercept: float
    unit: bool
    factor: float = 1.0
    mixing: Doubles | None = None
    origin: Doubles | None = None

    def __post_init__(self) -> None:
        for name in ("spread", "centre", "origin"):
            if getattr(self, name) is None:
                continue
            vector = check_vectors(name, getattr(self, name), ndim=1).astype(np.float64)
            vector.flags.writeable = False
            object.__setattr__(self, name, vector)
            if vector.shape != self.spread.shape:
                raise InvalidArgument(name, vector.shape, f"of shape {self.spread.shape}")
        if not ((self.spread > 0) & (self.spread <= WIDEST)).all():
            raise InvalidArgument("spread", "an entry out of range", f"in (0, {WIDEST:g}]")
        if check_finite("intercept", self.intercept) < 0:
            raise InvalidArgument("intercept", self.intercept, "a finite number ≥ 0; 0 is none")
        check_positive("factor", self.factor)
        if self.mixing is not None:
            matrix = check_vectors("mixing", self.mixing, ndim=2).astype(np.float64)
            if matrix.shape != (self.size, self.size):
                raise InvalidArgument("mixing", matrix.shape, f"of shape {(self.size, self.size)}")
            matrix.flags.writeable = False
            object.__setattr__(self, "mixing", matrix)

    @classmethod
    def plain(
        cls, features: int, *, intercept: float = 1.0, unit: bool = True, factor: float = 1.0
    ) -> Self:
        """The preparation before anything is learnt: records as they are, with an intercept."""
        count = check_count("features", features)
        return cls(np.ones(count), np.zeros(count), intercept, unit, factor)

    @property
    def features(self) -> int:
        """The entries of a record without its intercept."""
        return len(self.spread)

    @property
    def size(self) -> int:
        """The entries of a prepared record."""
        return self.features + (self.intercept > 0)

    @property
    def typical_norm(self) -> float:
        """The norm of a typical prepared record before it is divided; 1 where records keep theirs.

        1/factor estimates the norm of a typical record about the centre.
        """
        return float(np.hypot(self.intercept, 1 / self.factor)) if self.unit else 1.0

    def norms(self, X: Any) -> Doubles:
        """The divisors (n,) of prepared records X (n, d); 1 where records keep their norm."""
        if not self.unit:
            return np.ones(X.shape[0])
        rows = replace(self, unit=False, factor=1.0).records(X).astype(np.float64)
        squares = rows.multiply(rows).sum(axis=1) if hasattr(rows, "indptr") else (rows**2).sum(1)
        norms = np.sqrt(np.asarray(squares, dtype=np.float64)).reshape(-1)
        return np.where(norms > 0, norms, 1.0)

    @property
    def keeps_zeros(self) -> bool:
        """Whether a sparse record stays sparse."""
        return self.mixing is None and self.origin is None and not self.centre.any()

    def records(self, X: Any) -> Any:
        """Records X (n, d), dense or CSR, as clients train on them: (n, size), float32.

        A record does not depend on those beside it; with ``mixing`` up to the last bits, which the
        order of sums decides. What is sparse becomes dense where a centre is subtracted or entries
        are mixed.
        """
        sparse = hasattr(X, "indptr")
        rows: Any = X if sparse else np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != self.features:
            raise InvalidArgument("X", f"of shape {rows.shape}", f"of shape (n, {self.features})")
        if sparse and self.keeps_zeros:
            return self._sparse(rows)
        prepared = np.empty((rows.shape[0], self.size), dtype=np.float32)
        step = max(1, _ROWS_AT_A_TIME // self.size)
        for at in range(0, rows.shape[0], step):
            part = rows[at : at + step]
            prepared[at : at + step] = self._dense(part.toarray() if sparse else part)
        return prepared

    def widened(self, times: float) -> Preparation:
        """The same preparation, except that records are clipped ``times`` as far out.

        >>> narrow = Preparation(np.array([0.5]), np.array([0.25]), 0.5, False)
        >>> narrow.records([[0.25], [0.75]]).tolist()
        [[0.25, 0.5], [0.75, 0.5]]
        >>> narrow.widened(2.0).records([[0.25], [0.75]]).tolist()
        [[0.25, 0.5], [1.25, 0.5]]
        """
        return replace(
            self,
            spread=self.spread * times,
            centre=self.centre / times,
            intercept=self.intercept / times,
            factor=self.factor * times,
        )

    def within(self, X: NDArray[Any]) -> Doubles:
        """clip((x − origin)/spread, −1, 1): a record without the centre."""
        return np.clip(self.about(X) / self.spread, -1.0, 1.0)

    def about(self, X: NDArray[Any]) -> Doubles:
        """x − origin, in double precision."""
        rows = np.asarray(X, dtype=np.float64)
        return rows if self.origin is None else rows - self.origin

    def _dense(self, X: NDArray[Any]) -> NDArray[np.float32]:
        wide = np.full((len(X), self.size), self.intercept)
        wide[:, : self.features] = self.within(X) - self.centre
        if self.mixing is not None:
            wide = wide @ self.mixing.T
        return unit_rows(wide) if self.unit else (self.factor * wide).astype(np.float32)

    def _sparse(self, X: Any) -> Any:
        from scipy import sparse

        rows = sparse.csr_array(X, dtype=np.float64, copy=True)
        rows.data = np.clip(rows.data / self.spread[rows.indices], -1.0, 1.0)
        if self.intercept > 0:
            constant = sparse.csr_array(np.full((rows.shape[0], 1), self.intercept))
            rows = sparse.csr_array(sparse.hstack([rows, constant], format="csr"))
        return unit_rows(rows) if self.unit else (self.factor * rows).astype(np.float32)

    def linear(self, weights: ArrayLike) -> tuple[Doubles, Doubles]:
        """Coefficients (m, d) and constants (m,) of x for weights (m, size) of z.

        w·z is coefficients·x + constant where |x − origin| ≤ spread; with ``unit`` it has its sign.

        >>> prepared = Preparation(np.array([0.5]), np.array([0.25]), 2.0, True)
        >>> [part.tolist() for part in prepared.linear([[3.0, 1.0]])]
        [[[6.0]], [1.25]]
        """
        rows = np.asarray(weights, dtype=np.float64) * (1.0 if self.unit else self.factor)
        if self.mixing is not None:
            rows = rows @ self.mixing
        slopes = rows[:, : self.features]
        constant = rows[:, -1] * self.intercept if self.intercept > 0 else np.zeros(len(rows))
        constant = constant - slopes @ self.centre
        slopes = slopes / self.spread
        return slopes, constant if self.origin is None else constant - slopes @ self.origin

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, as a server publishes them."""
        further = {name: getattr(self, name) for name in _FURTHER}
        return {
            "spread": self.spread.tolist(),
            "centre": self.centre.tolist(),
            "intercept": float(self.intercept),
            "unit": bool(self.unit),
            "factor": float(self.factor),
            **{name: part.tolist() for name, part in further.items() if part is not None},
        }

    @classmethod
    def of_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; anything that is no preparation is refused.

        >>> plain = Preparation.plain(2)
        >>> Preparation.of_dict(plain.to_dict()) == plain
        True
        """
        known = {"spread", "centre", "intercept", "unit", "factor"}
        if not isinstance(values, dict) or set(values) - {*_FURTHER} != known:
            raise InvalidArgument(
                "preparation", type(values).__name__, f"a table with {', '.join(sorted(known))}"
            )
        if not isinstance(values["unit"], bool):
            raise InvalidArgument("unit", values["unit"], "true or false")
        spread, centre = (np.asarray(values[name]) for name in ("spread", "centre"))
        further: dict[str, Any] = {n: np.asarray(values[n]) for n in _FURTHER if n in values}
        numbers = (values["intercept"], values["unit"], values["factor"])
        return cls(spread, centre, *numbers, **further)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Preparation) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


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
