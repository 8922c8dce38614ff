"""Columns of numbers and of texts, and how they become features: one each, or one per level."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.data._dataset import Dataset, Label, from_arrays
from fedsel.errors import InvalidArgument

MAX_LEVELS = 1000
"""Beyond it a text column is an identifier or a date, not a category."""


@dataclass(frozen=True)
class Numbers:
    """A column of numbers."""

    name: str
    values: NDArray[Any]


@dataclass(frozen=True)
class Texts:
    """A column of texts: ``levels[codes]``, the levels sorted."""

    name: str
    codes: NDArray[np.int32]
    levels: tuple[str, ...]


Column = Numbers | Texts


def encode(
    columns: Sequence[Column], label: str | int | None, positive: Label | None, name: str
) -> Dataset:
    """Numbers as they are, texts one-hot; the label column gives y."""
    at = label_index([column.name for column in columns], label)
    target = columns[at]
    features = [column for i, column in enumerate(columns) if i != at]
    if not features:
        raise InvalidArgument("label", label, "one of several columns: no feature is left")
    names = [n for column in features for n in _names(column)]
    X = np.empty((len(_values(target)), len(names)), np.float32)
    j = 0
    for column in features:
        if isinstance(column, Numbers):
            with np.errstate(over="ignore"):  # becomes infinite, which Dataset refuses
                X[:, j] = column.values
            _check_finite(column.name, X[:, j])
            j += 1
            continue
        X[:, j : j + len(column.levels)] = column.codes[:, None] == np.arange(len(column.levels))
        j += len(column.levels)
    return from_arrays(
        X,
        _values(target),
        name=name,
        feature_names=names,
        bounds=_bounds(features),
        positive=positive,
    )


def _bounds(features: Sequence[Column]) -> list[tuple[float, float]] | None:
    """Levels and truth values are 0 or 1; of numbers nothing is known. None for numbers alone."""
    known, unknown = (0.0, 1.0), (-math.inf, math.inf)
    bounds = [known if _truths(c) else unknown for c in features for _ in _names(c)]
    return bounds if known in bounds else None


def _truths(column: Column) -> bool:
    """Whether the features of a column are 0 or 1 by its type."""
    return isinstance(column, Texts) or column.values.dtype == np.bool_


def arranged(columns: Sequence[Column], features: Sequence[str]) -> NDArray[np.float32]:
    """Rows (m, d) of the features that `encode` has named: numbers, or texts and their levels.

    >>> age, job = Numbers("age", np.array([3.0, 4.0])), Texts("job", np.array([0, 1]), ("a", "b"))
    >>> arranged([job, age], ["age", "job=b", "job=c"]).tolist()
    [[3.0, 0.0, 0.0], [4.0, 1.0, 0.0]]
    """
    numbers = {c.name: c.values for c in columns if isinstance(c, Numbers)}
    texts = {c.name: c for c in columns if isinstance(c, Texts)}
    rows = np.zeros((len(_values(columns[0])), len(features)), np.float32)
    for j, name in enumerate(features):
        if name in numbers:
            with np.errstate(over="ignore"):
                rows[:, j] = numbers[name]
            _check_finite(name, rows[:, j])
            continue
        owner = next((c for c in texts.values() if name.startswith(f"{c.name}=")), None)
        if owner is None:
            raise InvalidArgument("column", name, "there, and of the same kind, in public rows")
        level = name.removeprefix(f"{owner.name}=")
        rows[:, j] = np.array([known == level for known in owner.levels])[owner.codes]
    return rows


def label_index(names: Sequence[str], label: str | int | None) -> int:
    """The position of the label column, given by name or by number (from 0; −1 is the last).

    >>> label_index(["age", "income"], "income"), label_index(["age", "income"], "-1")
    (1, 1)
    """
    if label in names:
        return list(names).index(str(label))
    try:
        number = int(str(label))
        if -len(names) <= number < len(names):
            return number % len(names)
    except ValueError:
        pass
    close = [] if label is None else difflib.get_close_matches(str(label), names, n=3, cutoff=0.4)
    close = close or list(names[:8])
    allowed = f"the name or number of a column, such as {', '.join(close)}"
    raise InvalidArgument("label", label, allowed)


def not_filled(name: str, row: int) -> InvalidArgument:
    return InvalidArgument("column", name, f"filled in every record (empty in record {row})")


def too_many_levels(name: str) -> InvalidArgument:
    return InvalidArgument(
        "column", name, f"numbers, or texts of at most {MAX_LEVELS} levels (remove the column)"
    )


def _names(column: Column) -> list[str]:
    if isinstance(column, Numbers):
        return [column.name]
    return [f"{column.name}={level}" for level in column.levels]


def _values(column: Column) -> NDArray[Any]:
    if isinstance(column, Numbers):
        return column.values
    return np.array(column.levels)[column.codes]


def _check_finite(name: str, values: NDArray[np.float32]) -> None:
    """As Dataset does, but with the name that the user knows."""
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidArgument(
            "column", name, f"finite as float32 (NaN or infinite in record {row})"
        )
