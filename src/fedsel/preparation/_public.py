"""Preparation from public rows, in place of the rounds that would learn it.

Public rows have no labels and belong to nobody: they cost no ε and no round.

- *Spread, centre, intercept* (`of_rows`): what a `Plan` learns, without its noise.
- *Geometry* (`shaped`): a report has the same noise in every direction, but records differ most in
  a few. Clients multiply their record by a public matrix, which turns what they report on towards
  those directions where it can be told from noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedsel.errors import InvalidArgument
from fedsel.preparation._plan import ENTRY, MARGIN, OCTAVES, REACH, logarithm, power_of_two
from fedsel.preparation._record import Doubles, Preparation

LARGEST = 2048
"""Entries of a record beyond which it is not multiplied by a matrix: d² numbers, d³ steps."""


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
    records = replace(prepared, mixing=None).records(_dense(X)).astype(np.float64)
    count, size = records.shape
    moments = records.T @ records / count
    eigenvalues, directions = np.linalg.eigh(moments)
    own = _shrunk(eigenvalues, float(((records**2).sum(axis=1) ** 2).mean()), count)
    shares = (own**2 / (own**2 + noise)) ** (count / (count + size))
    return replace(prepared, mixing=(directions * shares) @ directions.T)


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
        raise InvalidArgument("public rows", f"of shape {rows.shape}", "(m, d) with m ≥ 2")
    return rows
