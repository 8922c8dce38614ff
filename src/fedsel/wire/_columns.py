"""Columns of a table, and how a cell of each becomes numbers: public rules that learn nothing.

Every client applies the same rules, to the bit (``clients/js/src/models/columns.js``). Whatever a
cell holds, it becomes finite numbers within public bounds: what cannot be read counts as missing.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from numbers import Real
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.delimited import first_twice
from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument, InvalidData, check_float, check_kind
from fedsel.preparation._public import PRIVATE

Cells = NDArray[Any]
Bounds = tuple[float, float]

MISSING = "missing"
OTHER = "other"
BLANK: Final = " \t\r\n\f\v"
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_SHOWN = 8
_TRUTH = {"true": 1.0, "false": 0.0}
_DATES = ("Date", "Datetime")
_NESTED = ("Duration", "Time", "List", "Array", "Struct", "Binary")
_INTEGERS = tuple(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
_EVERYTHING: Bounds = (-math.inf, math.inf)
_REACH = float(1 << 32)
"""Numbers without public bounds are clipped here, as `FeatureScale.unknown` has it."""


@final
@dataclass(frozen=True)
class Number:
    """A column of numbers within public bounds; without bounds the first rounds learn a range.

    A missing cell counts as ``missing``, by default the middle of the bounds; with an ``indicator``
    a feature of its own says that it was missing.

    >>> Number(0, 10, indicator=True).encode(np.array(["4", "", "12"], dtype=object)).tolist()
    [[4.0, 0.0], [5.0, 1.0], [10.0, 0.0]]
    """

    low: float | None = None
    high: float | None = None
    missing: float | None = None
    indicator: bool = False

    def __post_init__(self) -> None:
        if (self.low, self.high) != (None, None):
            wanted = f'[low, high] with low < high, or "{PRIVATE}"'
            for name in ("low", "high"):
                object.__setattr__(self, name, check_float("range", getattr(self, name), wanted))
            if not self.low < self.high:  # type: ignore[operator]
                raise InvalidArgument("range", [self.low, self.high], wanted)
        if self.missing is not None:
            low, high = self.limits
            value = check_float("missing", self.missing)
            if not low <= value <= high:
                raise InvalidArgument("missing", self.missing, f"within {low:g} … {high:g}")
            object.__setattr__(self, "missing", value)
        check_kind("indicator", self.indicator, bool)

    @property
    def limits(self) -> Bounds:
        """The bounds that every encoded number lies within."""
        if self.low is None or self.high is None:
            return -_REACH, _REACH
        return self.low, self.high

    @property
    def features(self) -> tuple[tuple[str, Bounds], ...]:
        """Each feature's ending of its name, and its public bounds; (−∞, ∞) where none are."""
        value = _EVERYTHING if self.low is None else self.limits
        return (("", value), *indicator_feature(self.indicator))

    def encode(self, cells: Cells) -> NDArray[np.float64]:
        """The features (n, 1 or 2) of n cells."""
        numbers = numbers_of(cells)
        low, high = self.limits
        middle = (low + high) / 2 if self.missing is None else self.missing
        absent = ~np.isfinite(numbers)
        value = np.clip(np.where(absent, middle, numbers), low, high) + 0.0  # no negative zero
        return np.column_stack([value, absent] if self.indicator else [value]).astype(np.float64)

    def to_dict(self) -> dict[str, Any]:
        """The column as a schema's file has it."""
        bounds = PRIVATE if self.low is None else [self.low, self.high]
        return {"range": bounds, **given_fields(self, "missing", "indicator")}


@final
@dataclass(frozen=True)
class Category:
    """A column of texts with public ``levels``, each of which becomes a feature of 0 and 1.

    Any other text counts as the level "other" if there is one, else it sets no feature, which a
    model with an intercept can use as well. A missing cell counts as the level ``missing``, or like
    any other text. Numbers and their texts are the same: 1.0 is the level "1".

    >>> Category(["cook", "smith"]).encode(np.array(["smith", "nurse"], dtype=object)).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """

    levels: tuple[str, ...]
    missing: str | None = None
    indicator: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", level_texts("levels", self.levels))
        if self.missing is not None and self.missing not in self.levels:
            raise InvalidArgument("missing", self.missing, "one of the levels")
        check_kind("indicator", self.indicator, bool)

    @property
    def features(self) -> tuple[tuple[str, Bounds], ...]:
        """As `Number.features`."""
        return (*((f"={x}", (0.0, 1.0)) for x in self.levels), *indicator_feature(self.indicator))

    def encode(self, cells: Cells) -> NDArray[np.float64]:
        """The features (n, levels or one more) of n cells."""
        codes = self._read(cells)
        features: NDArray[Any] = self._counted_as(codes)[:, None] == np.arange(len(self.levels))
        if self.indicator:
            features = np.column_stack([features, codes == ABSENT])
        return features.astype(np.float64)

    def codes(self, cells: Cells) -> NDArray[np.int64]:
        """The number of the level that each cell counts as; −1 for none.

        >>> Category(["cook", "other"]).codes(np.array(["nurse", "cook"], dtype=object)).tolist()
        [1, 0]
        """
        return self._counted_as(self._read(cells))

    def _read(self, cells: Cells) -> NDArray[np.int64]:
        return np.array(each(matcher(self.levels), cells), dtype=np.int64)

    def _counted_as(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        other = self.levels.index(OTHER) if OTHER in self.levels else -1
        absent = other if self.missing is None else self.levels.index(self.missing)
        return np.where(codes == UNKNOWN, other, np.where(codes == ABSENT, absent, codes))

    def to_dict(self) -> dict[str, Any]:
        """As `Number.to_dict`."""
        return {"levels": list(self.levels), **given_fields(self, "missing", "indicator")}


UNKNOWN, ABSENT = -1, -2
"""Codes of a text that is no level, and of a missing cell."""


def matcher(levels: tuple[str, ...]) -> Callable[[Any], int]:
    """A function from a cell to the number of its level, `UNKNOWN` or `ABSENT`."""
    texts = {text: code for code, text in reversed([*enumerate(levels)])}
    numbers = {n: code for text, code in texts.items() if (n := _number(text)) is not None}

    def code(cell: Any) -> int:
        plain = plain_cell(cell)
        if plain is None:
            return ABSENT
        if isinstance(plain, str) and plain in texts:
            return texts[plain]
        number = _number(plain)
        return UNKNOWN if number is None else numbers.get(number, UNKNOWN)

    return code


def level_texts(name: str, levels: Any) -> tuple[str, ...]:
    """Different texts, or whole numbers as texts; an argument called ``name``."""
    wanted = "a list of different texts"
    if not isinstance(levels, list | tuple) or not levels:
        raise InvalidArgument(name, levels, wanted)
    plain = [str(x) if isinstance(x, int) and not isinstance(x, bool) else x for x in levels]
    texts = [plain_cell(x) for x in plain]
    if not all(isinstance(x, str) and x for x in texts) or len(set(texts)) != len(texts):
        raise InvalidArgument(name, levels, wanted)
    return tuple(map(str, texts))


def numbers_of(cells: Cells) -> NDArray[np.float64]:
    """Cells as numbers, NaN where they are none."""
    if cells.dtype.kind in "fiub":
        return cells.astype(np.float64)

    def number(cell: Any) -> float:
        found = _number(plain_cell(cell))
        return math.nan if found is None else found

    return np.array(each(number, cells), dtype=np.float64)


def each(rule: Callable[[Any], Any], cells: Cells) -> list[Any]:
    """Apply a rule to all cells, once to equal ones."""
    if cells.dtype.kind == "M":
        cells = cells.astype("datetime64[us]")  # those of a finer unit become integers
    known: dict[Any, Any] = {}
    results = []
    for cell in cells.tolist():
        key = (type(cell), cell)  # True is not 1
        try:
            if key not in known:
                known[key] = rule(cell)
            results.append(known[key])
        except TypeError:  # it cannot be a key
            results.append(rule(cell))
    return results


def plain_cell(cell: Any) -> float | str | None:
    """A cell as a finite number or a text; None where it is missing."""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, Real | Decimal):
        try:
            number = float(cell)
        except (OverflowError, ValueError):
            return None
        return number if math.isfinite(number) else None
    if isinstance(cell, str):
        text = cell.strip(BLANK)
        lower = text.lower()
        return (lower if lower in _TRUTH else text) or None
    if cell is None or str(cell) in ("NaT", "<NA>"):  # pandas' words for missing
        return None
    return str(cell)


def _number(plain: float | str | None) -> float | None:
    if not isinstance(plain, str):
        return plain
    if plain in _TRUTH:
        return _TRUTH[plain]
    number = float(plain) if _NUMBER.fullmatch(plain) else math.inf
    return number if math.isfinite(number) else None


def indicator_feature(wanted: bool) -> tuple[tuple[str, Bounds], ...]:
    """The feature that says that a cell is missing, if wanted."""
    return ((f"={MISSING}", (0.0, 1.0)),) if wanted else ()


def given_fields(column: Any, *names: str) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    defaults = {f.name: f.default for f in fields(column)}
    return {n: getattr(column, n) for n in names if getattr(column, n) != defaults[n]}


def table_cells(
    table: Any,
    wanted: Sequence[str],
    names: Sequence[str] | None = None,
    dates: Container[str] | None = None,
) -> dict[str, Cells]:
    """The cells (n,) of each wanted column of a table; see `Schema.encode`.

    A typed column of a data frame must suit what it is declared as, a date if it is in ``dates``.
    """
    if isinstance(table, Mapping):
        cells = {n: as_cells(table[n], 1) for n in _there(wanted, table)}
        for name, column in cells.items():
            if dates is not None and column.dtype.kind == "M":
                _check_type(name, "Datetime", name in dates)
        return _equally_long(cells)
    if is_record_list(table):
        # What a record lacks is missing in it: which keys it has is its own affair.
        return {n: _objects([record.get(n) for record in table]) for n in wanted}
    if names is None and not isinstance(table, np.ndarray | list | tuple):
        frame = _frame(table)
        columns = {n: frame[n] for n in _there(wanted, frame.columns)}
        for name, series in columns.items():
            if dates is not None:
                _check_type(name, str(series.dtype).partition("(")[0], name in dates)
        return {n: _frame_cells(series) for n, series in columns.items()}
    if names is None:
        allowed = f"a data frame or a mapping: the schema asks for {listed(wanted)} by name"
        raise InvalidArgument("table", type(table).__name__, allowed)
    rows, place = as_cells(table, 2), {name: j for j, name in enumerate(names)}
    return {n: rows[:, place[n]] for n in _there(wanted, place)}


def all_cells(table: Any) -> dict[str, Cells]:
    """All columns of a mapping or a data frame."""
    if isinstance(table, Mapping):
        return table_cells(table, tuple(table))
    frame = _frame(table)
    return {str(n): _frame_cells(frame[n]) for n in frame.columns}


def is_record_list(table: Any) -> bool:
    """Whether a table is a list of records by name."""
    return isinstance(table, list | tuple) and bool(table) and isinstance(table[0], Mapping)


def _frame(table: Any) -> Any:
    """A data frame of any library, as narwhals reads it."""
    with needed("tables", "a data frame"):
        import narwhals as nw
    check_collected("table", table)
    twice = first_twice(getattr(table, "column_names", getattr(table, "columns", ())))
    if twice is not None:
        raise InvalidArgument("column", twice, "the name of one column only; two have it")
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError:
        allowed = "a data frame, a mapping of columns, a list of records, or rows with names"
        raise InvalidArgument("table", type(table).__name__, allowed) from None


def check_collected(name: str, table: Any) -> None:
    """Refuse a plan of a table, whose cells nobody has computed yet."""
    if hasattr(table, "collect"):
        raise InvalidArgument(name, type(table).__name__, "a data frame: collect() it first")


def _check_type(name: str, kind: str, declared_date: bool) -> None:
    """Refuse a column whose every cell would count as missing, by its type alone."""
    if kind in _DATES and not declared_date:
        allowed = f'declared by its parts, such as {{"date": ["month"]}}: its type is {kind}'
    elif kind in _NESTED:
        allowed = f"of numbers, texts or dates: its type is {kind}"
    elif declared_date and kind in _INTEGERS:
        allowed = f"of dates or texts, as the schema says: its type is {kind}"
    else:
        return
    raise InvalidArgument("column", name, allowed)


def _frame_cells(series: Any) -> Cells:
    kind = series.dtype
    if str(kind) in ("Categorical", "Enum"):
        return _objects(series.to_list())  # Arrow's own arrays lose what is missing
    if getattr(kind, "time_zone", None) is not None:
        series = series.dt.replace_time_zone(None)  # what a clock there shows, as in a text
    cells: Cells = series.to_numpy()
    return _objects(series.to_list()) if cells.dtype.kind not in "fiubOM" else cells


def _there(wanted: Sequence[str], names: Any) -> Sequence[str]:
    for name in wanted:
        if name not in names:
            close = difflib.get_close_matches(name, [str(n) for n in names], n=1)
            hint = f" (do you mean {close[0]}?)" if close else ""
            allowed = f"a column of the table, which has {listed(names)}{hint}"
            raise InvalidArgument("column", name, allowed)
    return wanted


def _equally_long(cells: dict[str, Cells]) -> dict[str, Cells]:
    if len({len(column) for column in cells.values()}) > 1:
        raise InvalidData("table: every column must have as many cells as the others")
    return cells


def _objects(values: list[Any]) -> Cells:
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return cells


def as_cells(values: Any, ndim: int) -> Cells:
    """Cells as they are; an error shows none of them."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidData("table: must not be masked")
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiubOM":  # numbers among texts must not become texts
            array = np.asarray(values, dtype=object)
    except Exception:
        raise InvalidData("table: must be an array") from None
    if array.ndim != ndim:
        hint = "; one record by name goes into a list" if (array.ndim, ndim) == (0, 1) else ""
        raise InvalidData(f"table: must be an array with {ndim} dimension(s){hint}")
    return array


def listed(names: Any) -> str:
    """The first names, as a sentence shows them."""
    first = [str(name) for name in names]
    return ", ".join(first[:_SHOWN]) + (", …" if len(first) > _SHOWN else "")
