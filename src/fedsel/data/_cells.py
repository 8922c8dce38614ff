"""The cells of a table's file, .csv or .parquet, as they are: some thousand records at a time."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fedsel._internal.delimited import delimited_rows, header_fault
from fedsel.errors import InvalidArgument
from fedsel.wire._columns import Cells, all_cells

Check = Callable[[list[str]], object]
"""Gets the names of the columns before any record is read."""

TABLES = (".csv", ".parquet")
_ROWS = 20_000  # rows of a CSV file that are held as texts at a time


def cells(
    path: Path, check: Check = len, *, header: bool | None = None
) -> Iterator[dict[str, Cells]]:
    """Yield the columns of some thousand records by name: texts, or what a Parquet file has."""
    if path.suffix.lower() != ".csv":
        table = _parquet_table(path)
        check(table.column_names)
        if not table.num_rows:
            raise InvalidArgument("path", str(path), "a table with records")
        yield all_cells(table)
        return
    try:
        names = _header(path, header)
        check(names)
        for block in _blocks(path, len(names), 0 if header is False else 1):
            yield {
                name: np.array(column, object) for name, column in zip(names, block, strict=True)
            }
    except (UnicodeDecodeError, csv.Error) as error:
        foreign = isinstance(error, UnicodeDecodeError)
        reason = "not UTF-8: save it as such" if foreign else str(error)
        raise InvalidArgument("path", str(path), f"a CSV file in UTF-8 ({reason})") from None


def _header(path: Path, header: bool | None) -> list[str]:
    """The names of the columns."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        names = [name.strip() for name in next(delimited_rows(file), [])]
    if header is False and names:
        return [str(number) for number in range(len(names))]
    if header is None and names and looks_like_a_record(names, [None] * len(names)):
        raise headless(path, names)
    fault = header_fault(names)
    if fault is not None:
        wanted = f"a CSV file with a header of distinct names ({fault})"
        raise InvalidArgument("path", str(path), wanted)
    return names


def looks_like_a_record(names: list[str], kinds: Sequence[tuple[str, ...] | None]) -> bool:
    """Whether a first line looks like a record rather than the names of the columns.

    It does if each column of numbers has a number there and, if there are columns of texts, one of
    them repeats its first text. Columns numbered from 0 or 1 are names, as pandas writes them.

    >>> looks_like_a_record(["5.1", "yes"], [None, ("no", "yes")])
    True
    >>> looks_like_a_record(["2020", "land"], [None, ("no", "yes")])
    False
    """
    if any(names == [str(i) for i in range(first, first + len(names))] for first in (0, 1)):
        return False
    texts = [name in levels for name, levels in zip(names, kinds, strict=True) if levels]
    over_numbers = [name for name, levels in zip(names, kinds, strict=True) if levels is None]
    numbers = "" not in over_numbers and are_numbers(over_numbers)
    return numbers and (any(texts) or not texts)


def headless(path: Path, names: list[str]) -> InvalidArgument:
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return InvalidArgument(
        "path",
        str(path),
        f"a CSV file with names in its first line, which is: {shown}. If that is a record, say so "
        "(header=False; on the command line --no-header), and give the label column by its number, "
        "from 0; if these are names, header=True (--header)",
    )


def _blocks(path: Path, width: int, above: int) -> Iterator[list[tuple[str, ...]]]:
    """Yield the columns of a few thousand records at a time."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        records = islice(delimited_rows(file), above, None)
        start = 0
        while rows := list(islice(records, _ROWS)):
            for i, row in enumerate(rows, start):
                if len(row) != width:
                    wanted = f"a table of {width} columns (record {i} has {len(row)} cells)"
                    raise InvalidArgument("path", str(path), wanted)
            yield list(zip(*rows, strict=True))
            start += len(rows)
    if not start:
        raise InvalidArgument("path", str(path), "a CSV file with records below its header")


def are_numbers(texts: Iterable[str]) -> bool:
    """Whether every nonempty cell is a number. 1_2 is not, although Python parses it."""
    filled = [cell for cell in texts if cell]
    try:
        deque(map(float, filled), maxlen=0)
    except ValueError:
        return False
    return not any("_" in cell for cell in filled)


def _parquet_table(path: Path) -> Any:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        needed = "another format, or install pyarrow: pip install 'fedsel[parquet]'"
        raise InvalidArgument("path", str(path), needed) from None
    arrow = import_module("pyarrow")
    try:
        return parquet.read_table(path)
    except arrow.ArrowInvalid as error:
        raise InvalidArgument("path", str(path), f"a Parquet file ({error})") from None
