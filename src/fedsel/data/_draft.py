"""A first draft of a schema from a table: a proposal to edit, because it looked at the records."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsel.data._cells import TABLES, cells
from fedsel.data._tables import DATES, DECORATED, PLAINLY, label_index
from fedsel.errors import InvalidArgument
from fedsel.wire import Category, Date, Number, Schema
from fedsel.wire._columns import OTHER, Cells, numbers_of, plain_cell
from fedsel.wire._dates import Part

MOST_RECORDS = 200_000
"""The most records that a draft looks at."""
_MOSTLY = 0.9
"""The share of filled cells that must be readable as numbers or dates: others count as missing."""
_OFTEN_MISSING = 0.05
_RARE = 0.01
_MOST_LEVELS = 20
_MOST_CLASSES = 20
_MANY_DIFFERENT = 0.5
_FORMATS = ("YYYY-MM-DD", "DD.MM.YYYY", "MM/DD/YYYY", "DD/MM/YYYY", "YYYY/MM/DD")
_TIMES = ("", " hh:mm", " hh:mm:ss")
_NO_LABEL = ('label = "…" names the column to predict; `fedsel schema --label` does that.',)
_NO_CELL = {"n/a", "na", "nan", "null", "none", "nil", "unknown", "?", "-", "--", "."}
"""Words for a missing cell: among numbers and dates, a schema counts them as such."""

WARNING = (
    "This draft was made by looking at {records:,} records: its bounds, levels and classes come\n"
    "from them, and can tell about single people. Replace them by ones that are public, known\n"
    "without these records, as from a code book or the law. Then delete these lines."
)


@final
@dataclass(frozen=True)
class Draft:
    """A schema to edit, what was noticed about its columns, and why some were left out."""

    schema: Schema
    records: int
    notes: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def to_toml(self) -> str:
        """The schema's file, with comments that say what to do."""
        above = [self.warning, *_NO_LABEL * (self.schema.label is None)]
        below = [f"{name!r} is left out: {why}" for name, why in self.left_out.items()]
        top, bottom = (
            "".join(f"# {x}\n" for x in "\n".join(t).splitlines()) for t in (above, below)
        )
        return f"{top}\n{self.schema.to_toml(self.notes).lstrip()}{bottom}"

    @property
    def warning(self) -> str:
        """What the user has to do."""
        return WARNING.format(records=self.records)


def draft_file(
    path: str | os.PathLike[str], label: str | int | None = None, *, header: bool | None = None
) -> Draft:
    """Draft a schema from the first records of a .csv or .parquet file."""
    file = Path(path)
    if file.suffix.lower() not in TABLES or not file.is_file():
        raise InvalidArgument("path", str(path), "a file that exists, .csv or .parquet")
    blocks: list[dict[str, Cells]] = []
    for block in cells(file, header=header):
        blocks.append(block)
        if sum(len(next(iter(b.values()))) for b in blocks) >= MOST_RECORDS:
            break
    table = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    names = list(table)
    return draft(table, None if label is None else names[label_index(names, label)])


def draft(table: Mapping[str, Cells], label: str | None = None) -> Draft:
    """Draft a schema from the columns of a table; ``label`` is the column to predict.

    >>> draft({"age": np.array([31, 64]), "city": np.array(["Oslo"] * 2, object)}).schema.columns
    {'age': Number(low=0.0, high=100.0, missing=None, indicator=False)}
    """
    columns: dict[str, Any] = {}
    notes: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for name, column in table.items():
        if name == label:
            continue
        found, note = _column(column)
        if found is None:
            left_out[name] = note
        else:
            columns[name] = found
            notes[name] = note
    if not columns:
        why = "; ".join(f"{name}: {note}" for name, note in left_out.items())
        raise InvalidArgument("path", [*left_out], f"a table with a column to learn from ({why})")
    of_label = {} if label is None else {"label": label, **_of_label(label, table[label])}
    records = len(next(iter(table.values())))
    return Draft(Schema(columns, **of_label), records, notes, left_out)


def _of_label(name: str, column: Cells) -> dict[str, Any]:
    """The classes of a label that occur more than once, or the bounds of a number."""
    counts = _counts(column)
    numbers = numbers_of(column)
    numeric = np.isfinite(numbers).sum() >= _MOSTLY * sum(counts.values())
    if numeric and len(counts) > _MOST_CLASSES // 2:
        return {"target_range": nice_bounds(numbers)}
    classes = [text for text, count in counts.items() if count > 1]
    if not 2 <= len(classes) <= 10 * _MOST_CLASSES:
        wanted = f"a column of numbers, or of 2 to {10 * _MOST_CLASSES} classes that come twice"
        raise InvalidArgument("label", name, wanted)
    return {"classes": _sorted(classes)}


def _sorted(texts: list[str]) -> list[str]:
    """Numbers first, by their size: the order of frequency would tell more than need be."""
    sizes = dict(zip(texts, numbers_of(np.array(texts, object)).tolist(), strict=True))
    return sorted(texts, key=lambda t: (math.isnan(sizes[t]), math.isnan(sizes[t]) or sizes[t], t))


def _counts(column: Cells) -> Counter[str]:
    """How often each text occurs, the most frequent first; numbers as short as they can be."""
    plain = [cell for cell in map(plain_cell, _listed(column)) if cell is not None]
    counts = Counter(cell if isinstance(cell, str) else f"{cell:.15g}" for cell in plain)
    return Counter(dict(counts.most_common()))


def _listed(column: Cells) -> list[Any]:
    return list((column.astype("datetime64[us]") if column.dtype.kind == "M" else column).tolist())


def _column(column: Cells) -> tuple[Number | Category | Date | None, str]:
    """A column and a note on it, or None and why it is left out."""
    numbers = numbers_of(column)
    readable = np.isfinite(numbers)
    if column.dtype.kind in "fiub":
        filled = int(readable.sum())
    else:
        filled = sum(map(_is_filled, _listed(column)))
    if not filled:
        return None, "it is empty"
    if column.dtype.kind != "M" and readable.sum() >= _MOSTLY * filled:
        return _number(numbers[readable], bool(1 - readable.mean() > _OFTEN_MISSING))
    found = _date(column, filled)
    return _category(column, filled) if found is None else found


def _is_filled(cell: Any) -> bool:
    plain = plain_cell(cell)
    return plain is not None and not (isinstance(plain, str) and plain.lower() in _NO_CELL)


def _number(numbers: NDArray[np.float64], often: bool) -> tuple[Number | None, str]:
    different = np.unique(numbers)
    if len(different) == 1:
        return None, "all its numbers are the same"
    whole = bool((numbers == np.round(numbers)).all())
    span = different[-1] - different[0]
    if whole and len(different) == len(numbers) > 100 and span < 2 * len(numbers):
        return None, "its numbers count the records, as an identifier does"
    note = "missing in many records" if often else ""
    if whole and 2 < len(different) <= 10:
        note = "are these codes? Then list them as levels"
    return Number(*nice_bounds(numbers), indicator=often), note


def _date(column: Cells, filled: int) -> tuple[Date | None, str] | None:
    """A column of dates, or None where it holds others."""
    values = _listed(column)
    if column.dtype.kind != "M" and not all(isinstance(v, str | date | None) for v in values):
        return None
    best: dict[str, list[Any]] = {}
    for pattern in (day + time for day in _FORMATS for time in _TIMES):
        reader = Date(("month",), format=pattern)
        moments = [m for m in map(reader.moment, values) if m is not None]
        if len(moments) >= _MOSTLY * filled:
            best[pattern] = moments
        if pattern == _FORMATS[0] and best:
            break  # ISO, with any time
    if not best:
        return None
    most = max(map(len, best.values()))
    formats = [pattern for pattern, moments in best.items() if len(moments) == most]
    if len(formats) > 1:
        return None, f"its dates can be read in several ways; give format = {' or '.join(formats)}"
    moments = best[formats[0]]
    first, last = min(moments)[0], max(moments)[0]
    step = 10 if last - first >= 20 else 1
    low, high = first // step * step, -(-(last + 1) // step) * step - 1
    often = 1 - len(moments) / len(values) > _OFTEN_MISSING
    parts: list[Part] = ["year" if last - first >= 3 else "days", "month", "weekday"]
    parts += ["hour"] * any(moment[3] for moment in moments)
    bounds = f"{max(1, low):04d}-01-01", f"{min(9999, high):04d}-12-31"
    note = "missing in many records" if often else ""
    return Date(tuple(parts), *bounds, format=formats[0], indicator=often), note


def _category(column: Cells, filled: int) -> tuple[Category | None, str]:
    counts = _counts(column)
    least = max(2, math.ceil(_RARE * filled))
    levels = [t for t, n in counts.most_common(_MOST_LEVELS) if n >= least and t != OTHER]
    texts = [text for text in counts if _is_filled(text)]
    if sum(map(bool, map(DECORATED.fullmatch, texts))) >= _MOSTLY * len(texts):
        return None, f"write its numbers {PLAINLY}"
    if sum(map(bool, map(DATES.fullmatch, texts))) >= _MOSTLY * len(texts):
        return None, "its dates are written in several ways; write them as YYYY-MM-DD"
    different = len(counts) > _MANY_DIFFERENT * filled
    if different and (not levels or len(counts) > _MOST_LEVELS):
        return None, "nearly all its texts are different, as in an identifier or free text"
    if not levels:
        return None, f"each of its {len(counts):,} texts is rare; list those that matter, and other"
    if len(counts) == 1:
        return None, "all its texts are the same"
    rare = len(counts) > len(levels)
    often = 1 - filled / len(column) > _OFTEN_MISSING
    note = "rare texts count as other" if rare else "missing in many records" if often else ""
    return Category((*_sorted(levels), *[OTHER] * rare), indicator=often), note


def nice_bounds(numbers: NDArray[np.float64]) -> tuple[float, float]:
    """Round bounds outwards, so that they do not show the least and the greatest number.

    >>> nice_bounds(np.array([17.0, 93.0])), nice_bounds(np.array([1952.0, 2019.0]))
    ((0.0, 100.0), (1940.0, 2030.0))
    >>> nice_bounds(np.array([0.0, 1.0])), nice_bounds(np.array([-3.2, 41.0, np.nan]))
    ((0.0, 1.0), (-5.0, 50.0))
    """
    low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
    if 0 < 2 * low < high:
        low = 0.0
    if 0 > 2 * high > low:
        high = 0.0
    if low <= 0 <= high:
        return 0.0 - _nice(-low), _nice(high)
    margin = (high - low or abs(high)) / 10
    step = 10.0 ** math.floor(math.log10(10 * margin))
    ends = math.floor((low - margin) / step) * step, math.ceil((high + margin) / step) * step
    return round(ends[0], 12), round(ends[1], 12)


def _nice(x: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50 …"""
    if not x > 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(x))
    return next(float(f"{k * power:.3g}") for k in (1, 2, 5, 10) if x <= k * power * (1 + 1e-12))
