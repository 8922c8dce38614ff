"""The public schema of a table: what a record's columns mean, and how they become features."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.delimited import first_twice
from fedsel._internal.settings import naming, naming_file, read_toml
from fedsel.errors import InvalidArgument, check_count, check_float
from fedsel.mechanisms._base import MAX_DIMENSION
from fedsel.preparation import FeatureScale
from fedsel.preparation._public import PRIVATE
from fedsel.wire._columns import (
    Category,
    Number,
    as_cells,
    each,
    level_texts,
    listed,
    matcher,
    numbers_of,
    table_cells,
)
from fedsel.wire._dates import Date

Column = Number | Category | Date

_KINDS = {"range": Number, "levels": Category, "date": Date}
_COMMON = ("missing", "indicator")
_FILE_KEYS = ("columns", "label", "classes", "target_range")


@final
@dataclass(frozen=True)
class Schema:
    """Columns by their names, and the label: all that encoding a table needs, and all of it public.

    A column is a `Number`, `Category` or `Date`, or the table that describes it in a file, such as
    {"range": [0, 100], "indicator": True}. (low, high) and ["level", …] are short for the first
    two, "private" for numbers without public bounds. A whole number in place of columns stands for
    as many columns of numbers, in the order in which a record has them.
    ``label`` names the column to predict; ``classes`` are its values in order, ``target_range`` its
    bounds if it is a number.

    >>> schema = Schema({"age": (0, 100), "job": ["cook", "smith"]}, classes=["no", "yes"])
    >>> schema.features
    ('age', 'job=cook', 'job=smith')
    >>> schema.encode({"age": [31, None], "job": ["smith", "nurse"]}).tolist()
    [[31.0, 0.0, 1.0], [50.0, 0.0, 0.0]]
    """

    columns: Mapping[str, Column] | int
    label: str | None = None
    classes: tuple[str, ...] | None = None
    target_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.columns, Mapping):
            columns = {_name(n): _column(n, given) for n, given in self.columns.items()}
            if not columns:
                raise InvalidArgument("columns", {}, "at least one column")
            object.__setattr__(self, "columns", columns)
            twice = first_twice(self.features)
            if twice is not None:
                raise InvalidArgument("columns", twice, "such that no two features share a name")
            if self.label in columns:
                raise InvalidArgument("label", self.label, "no column that is a feature")
        else:
            wanted = "a table of columns by name, or their number"
            if not isinstance(self.columns, int) or isinstance(self.columns, bool):
                raise InvalidArgument("columns", self.columns, wanted)
            check_count("columns", self.columns, most=MAX_DIMENSION)
        if self.label is not None:
            _name(self.label, "label")
        if self.classes is not None:
            object.__setattr__(self, "classes", level_texts("classes", self.classes))
            if len(self.classes) < 2:
                raise InvalidArgument("classes", list(self.classes), "at least two")
        if self.target_range is not None:
            self._check_target()

    def _check_target(self) -> None:
        wanted = "[low, high] with low < high"
        if self.classes is not None:
            raise InvalidArgument("target_range", self.target_range, "omitted beside classes")
        try:
            low, high = (check_float("target_range", x, wanted) for x in self.target_range or ())
        except (TypeError, ValueError):
            raise InvalidArgument("target_range", self.target_range, wanted) from None
        if not low < high:
            raise InvalidArgument("target_range", self.target_range, wanted)
        object.__setattr__(self, "target_range", (low, high))

    # --- features -------------------------------------------------------------------------------

    @property
    def named(self) -> bool:
        """Whether columns have names, by which a table is read; else by their order."""
        return not isinstance(self.columns, int)

    @property
    def columns_used(self) -> tuple[str, ...] | None:
        """The names of the columns that it reads, its label last; None where columns have none."""
        if isinstance(self.columns, int):
            return None
        return (*self.columns, *([] if self.label is None else [self.label]))

    def _items(self) -> Iterator[tuple[str, Column]]:
        if isinstance(self.columns, int):
            return ((str(j), Number()) for j in range(self.columns))
        return iter(self.columns.items())

    @cached_property
    def _features(self) -> tuple[tuple[str, tuple[float, float]], ...]:
        return tuple(
            (name + ending, bounds)
            for name, column in self._items()
            for ending, bounds in column.features
        )

    @property
    def features(self) -> tuple[str, ...]:
        """The names of an encoded record's entries: age, job=cook, born.year, age=missing."""
        return tuple(name for name, _ in self._features)

    @property
    def feature_count(self) -> int:
        """The entries of an encoded record."""
        return self.columns if isinstance(self.columns, int) else len(self._features)

    @property
    def rows(self) -> int:
        """The weights' rows of a linear model: one for each of more than two classes, else one."""
        return len(self.classes) if self.classes is not None and len(self.classes) > 2 else 1

    @property
    def dim(self) -> int:
        """The entries of a linear model's update: row after row, each with its intercept last."""
        return self.rows * (self.feature_count + 1)

    @property
    def bounds(self) -> NDArray[np.float64]:
        """Public bounds (d, 2) of the features; (−∞, ∞) where there are none."""
        if isinstance(self.columns, int):
            return np.tile([-math.inf, math.inf], (self.columns, 1))
        return np.array([bounds for _, bounds in self._features])

    @property
    def scale(self) -> FeatureScale:
        """What clients do with encoded records first."""
        bounds = self.bounds
        if np.isfinite(bounds).all():
            return FeatureScale(bounds[:, 0], bounds[:, 1])
        return FeatureScale.unknown(self.feature_count, bounds)

    def encode(self, table: Any, names: Sequence[str] | None = None) -> NDArray[np.float64]:
        """Encode records as features (n, d), whatever their cells hold.

        ``table`` is a data frame (pandas, polars, Arrow …), columns by name, a list of records by
        name, or rows whose columns are called ``names``. A column that the table lacks is an error;
        further columns are ignored. Nothing is learnt from the records.
        """
        if isinstance(self.columns, int):
            rows = as_cells(table, 2)
            if rows.shape[1] != self.columns:
                wanted = f"{self.columns} columns of numbers"
                raise InvalidArgument("table", f"{rows.shape[1]} columns", wanted)
            return Number().encode(rows.reshape(-1)).reshape(rows.shape)
        return np.hstack([column.encode(cells) for column, cells in self._cells(table, names)])

    def cells(self, table: Any, names: Sequence[str] | None = None) -> list[NDArray[Any]]:
        """The cells (n,) of each column as they are; see `encode`."""
        return [cells for _, cells in self._cells(table, names)]

    def _cells(
        self, table: Any, names: Sequence[str] | None
    ) -> Iterator[tuple[Column, NDArray[Any]]]:
        """Each column and its cells (n,)."""
        columns = dict(self._items())
        dates = {n for n, column in columns.items() if isinstance(column, Date)}
        cells = table_cells(table, tuple(columns), names, dates)
        return ((column, cells[name]) for name, column in columns.items())

    def missing(self, table: Any) -> dict[str, NDArray[np.bool_]]:
        """Which cells (n,) of each column count as missing: empty ones, and what cannot be read.

        It is for who holds the records, to see whether a schema suits them: it tells about people.

        >>> Schema({"pay": (0, 100)}).missing({"pay": ["17", "1,200", "N/A"]})
        {'pay': array([False,  True,  True])}
        """
        if isinstance(self.columns, int):
            raise InvalidArgument("columns", self.columns, "names, by which cells are told")
        told = [replace(c, indicator=True).encode(x)[:, -1] for c, x in self._cells(table, None)]
        return {name: cells == 1 for name, cells in zip(self.columns, told, strict=True)}

    # --- labels ---------------------------------------------------------------------------------

    def targets(self, labels: Any) -> NDArray[np.float64]:
        """The class number of each label, or a target on [−1, 1]; NaN for any other label.

        Without classes −1 and 0 are the first of two, 1 is the second.

        >>> Schema(1, classes=["no", "maybe", "yes"]).targets(["yes", "no", "?"]).tolist()
        [2.0, 0.0, nan]
        """
        cells = as_cells(labels, 1)
        if self.target_range is not None:
            low, high = self.target_range
            with np.errstate(all="ignore"):
                scaled = (2 * numbers_of(cells) - low - high) / (high - low)
            return np.clip(np.where(np.isfinite(scaled), scaled, np.nan), -1.0, 1.0)
        known = ("-1", "1", "0") if self.classes is None else self.classes
        codes = np.array(each(matcher(known), cells), dtype=np.float64)
        if self.classes is None:
            codes[codes == 2] = 0.0
        return np.where(codes < 0, np.nan, codes)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes; −1 and 1 where none are named."""
        return ("-1", "1") if self.classes is None else self.classes

    # --- as text --------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The schema in plain values, for JSON; short forms are written out.

        Columns are a list: an object of JavaScript does not keep the order of all names.
        """
        columns: Any = self.columns
        if not isinstance(columns, int):
            columns = [{"name": n, **c.to_dict()} for n, c in columns.items()]
        of_label = {
            "label": self.label,
            "classes": None if self.classes is None else list(self.classes),
            "target_range": None if self.target_range is None else list(self.target_range),
        }
        return {**{k: v for k, v in of_label.items() if v is not None}, "columns": columns}

    def to_toml(self, notes: Mapping[str, str] | None = None) -> str:
        """The schema as a file that people edit: a line for each column, with its note if any."""
        values = self.to_dict()
        columns = values.pop("columns")
        lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
        if isinstance(columns, int):
            return "\n".join([*lines, f"columns = {columns}", ""])
        own = [_toml_line(column, notes or {}) for column in columns]
        return "\n".join([*lines, "", "[columns]", *own, ""])

    @classmethod
    def of(cls, given: Any) -> Self:
        """A schema, the plain values of one, or the path of its TOML file."""
        if isinstance(given, cls):
            return given
        return cls.load(given) if isinstance(given, str | Path) else cls.of_dict(given)

    @classmethod
    def of_dict(cls, values: Any) -> Self:
        """The schema of plain values, as JSON and TOML have them.

        >>> Schema.of_dict({"columns": {"age": [0, 100]}}).columns
        {'age': Number(low=0.0, high=100.0, missing=None, indicator=False)}
        """
        if not isinstance(values, Mapping):
            raise InvalidArgument("schema", values, f"a table with {', '.join(_FILE_KEYS)}")
        _check_keys(values, _FILE_KEYS, "")
        if "columns" not in values:
            raise InvalidArgument("columns", None, "a table of columns by name")
        return cls(**{**values, "columns": _by_name(values["columns"])})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The schema of a TOML file."""
        values = read_toml("schema", path)
        with naming_file(path):
            return cls.of_dict(values)


def _name(name: object, what: str = "columns") -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidArgument(what, name, "a name: printable text")
    return name


def _by_name(columns: Any) -> Any:
    """A list of tables, each with its name, as a table of them."""
    if not isinstance(columns, list):
        return columns
    if not all(isinstance(c, Mapping) and isinstance(c.get("name"), str) for c in columns):
        raise InvalidArgument("columns", columns, "tables that have a name each")
    named = {c["name"]: {k: v for k, v in c.items() if k != "name"} for c in columns}
    if len(named) < len(columns):
        twice = first_twice([c["name"] for c in columns])
        raise InvalidArgument("columns", twice, "a name that only one of them has")
    return named


def _column(name: str, given: Any) -> Column:
    """A column from its object, its short form or its table in a file."""
    if isinstance(given, Number | Category | Date):
        return given
    with naming(lambda key: f"columns.{name}" + (f".{key}" if key else "")):
        return _of_table(given) if isinstance(given, Mapping) else _of_short(given)


def _of_short(given: Any) -> Column:
    if given == PRIVATE:
        return Number()
    if isinstance(given, list | tuple) and len(given) == 2 and not any(_texts(given)):
        return Number(*given)
    if isinstance(given, list | tuple) and given and all(_texts(given)):
        return Category(tuple(given))
    allowed = f'[low, high], ["level", …], "{PRIVATE}", or a table with range, levels or date'
    raise InvalidArgument("", given, allowed)


def _of_table(given: Mapping[str, Any]) -> Column:
    kinds = [key for key in _KINDS if key in given]
    if "date" in kinds:
        kinds = ["date"]
    if len(kinds) != 1:
        raise InvalidArgument("", dict(given), "a table with one of range, levels and date")
    (kind,) = kinds
    known = (kind, *_COMMON, *(("range", "format") if kind == "date" else ()))
    _check_keys(given, known, "")
    rest = {key: value for key, value in given.items() if key not in (kind, "range")}
    if kind == "levels":
        return Category(given["levels"], **rest)
    bounds = given.get("range", PRIVATE)
    if bounds == PRIVATE and kind == "range":
        return Number(**rest)
    if bounds == PRIVATE:
        return Date(given["date"], **rest)
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise InvalidArgument("range", bounds, f'[low, high], or "{PRIVATE}"')
    if kind == "range":
        return Number(*bounds, **rest)
    first, last = map(str, bounds)
    return Date(given["date"], first, last, **rest)


def _texts(values: Sequence[Any]) -> list[bool]:
    return [isinstance(value, str) for value in values]


def _check_keys(values: Mapping[str, Any], known: Sequence[str], prefix: str) -> None:
    for key, value in values.items():
        if key not in known:
            raise InvalidArgument(f"{prefix}{key}", value, f"omitted; known are {listed(known)}")


def _toml(value: Any) -> str:
    """A value in TOML: a mapping becomes an inline table."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


def _toml_line(column: dict[str, Any], notes: Mapping[str, str]) -> str:
    name = column.pop("name")
    only = next(iter(column.values())) if len(column) == 1 and "date" not in column else column
    note = f"  # {notes[name]}" if notes.get(name) else ""
    return f"{json.dumps(name, ensure_ascii=False)} = {_toml(only)}{note}"
