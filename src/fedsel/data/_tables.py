"""Encode columns as features: one for a column of numbers, one per level for a column of texts."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.data._dataset import Dataset, Label, from_arrays
from fedsel.errors import InvalidArgument

MAX_LEVELS = 1000
"""A text column with more levels is an identifier, not a category."""

DATES = re.compile(r"\d{4}-\d\d?-\d\d?\b.*|\d\d?([./-])\d\d?\1\d{4}\b.*", re.ASCII)
"""What looks like a date, which is no level of a category."""
_AROUND = r"[ \u00a0\u202f%‰€$£¥₹]*"
_THOUSANDS = r"\d{1,3}([.,'\u2019\u00a0\u202f ]\d{3})+"
DECORATED = re.compile(rf"{_AROUND}[+-]?(\d+|{_THOUSANDS})([.,]\d+)?{_AROUND}", re.ASCII)
"""Numbers, also with a decimal comma, with thousands apart, with percent or a currency."""
PLAINLY = "plainly, as 1234.5: no comma, space, percent or currency"


@dataclass(frozen=True)
class Numbers:
    """A column of numbers, which becomes one feature."""

    name: str
    values: NDArray[Any]

    @property
    def features(self) -> list[str]:
        return [self.name]

    @property
    def bounds(self) -> tuple[float, float]:
        """The public bounds: 0 and 1 for truth values, none for other numbers."""
        return (0.0, 1.0) if self.values.dtype == np.bool_ else (-math.inf, math.inf)

    def matrix(self) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            column = self.values.astype(np.float32)
        if not np.isfinite(column).all():
            row = int(np.flatnonzero(~np.isfinite(column))[0])
            raise needs_schema(self.name, f"finite as float32 (NaN or infinite in record {row})")
        return column[:, None]


@dataclass(frozen=True)
class Texts:
    """A column of texts, ``levels[codes]`` with sorted levels, each of which becomes a feature."""

    name: str
    codes: NDArray[np.int32]
    levels: tuple[str, ...]
    bounds = (0.0, 1.0)

    @property
    def values(self) -> NDArray[Any]:
        return np.array(self.levels)[self.codes]

    @property
    def features(self) -> list[str]:
        return [f"{self.name}={level}" for level in self.levels]

    def matrix(self) -> NDArray[np.bool_]:
        return np.equal(self.codes[:, None], np.arange(len(self.levels)))


Column = Numbers | Texts


def encode(
    columns: Sequence[Column], label: str | int | None, positive: Label | None, name: str
) -> Dataset:
    """Encode columns as a data set: numbers unchanged, texts one-hot, the label column as y."""
    at = label_index([column.name for column in columns], label)
    target, features = columns[at], [*columns[:at], *columns[at + 1 :]]
    if not features:
        raise InvalidArgument("label", label, "one of several columns, so that features are left")
    names = [feature for column in features for feature in column.features]
    bounds = [column.bounds for column in features for _ in column.features]
    y = target.values
    X, j = np.empty((len(y), len(names)), np.float32), 0
    for column in features:
        X[:, j : j + len(column.features)] = column.matrix()
        j += len(column.features)
    return from_arrays(
        X,
        y,
        name=name,
        feature_names=names,
        bounds=bounds if (0.0, 1.0) in bounds else None,
        positive=positive,
    )


def arranged(columns: Sequence[Column], features: Sequence[str]) -> NDArray[np.float32]:
    """Arrange columns as rows (m, d) of the features that `encode` has named.

    >>> age, job = Numbers("age", np.array([3.0, 4.0])), Texts("job", np.array([0, 1]), ("a", "b"))
    >>> arranged([job, age], ["age", "job=b", "job=c"]).tolist()
    [[3.0, 0.0, 0.0], [4.0, 1.0, 0.0]]
    """
    texts = [column for column in columns if isinstance(column, Texts)]
    numbers = [column for column in columns if isinstance(column, Numbers)]
    known: list[Column] = [*texts, *numbers]
    owners = {feature: column for column in known for feature in column.features}
    rows = np.zeros((len(columns[0].values), len(features)), np.float32)
    for j, name in enumerate(features):
        if owner := owners.get(name):
            rows[:, j] = owner.matrix()[:, owner.features.index(name)]
        elif not any(name.startswith(f"{column.name}=") for column in texts):
            raise InvalidArgument(
                "column", name, "in the public rows, too, with the same kind of values"
            )
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


def needs_schema(name: str, wanted: str) -> InvalidArgument:
    """The error of a column that only a schema can make features of."""
    remedy = "or say in a schema what it means (--schema; `fedsel schema` drafts one to edit)"
    return InvalidArgument("column", name, f"{wanted}; remove the column, {remedy}")
