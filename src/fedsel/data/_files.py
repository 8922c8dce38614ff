"""A user's own file as a data set: .csv, .parquet, .npz or .svm (.libsvm)."""

from __future__ import annotations

import csv
import os
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from fedsel.data._dataset import Dataset, Label, from_arrays
from fedsel.data._tables import (
    MAX_LEVELS,
    Column,
    Numbers,
    Texts,
    arranged,
    encode,
    label_index,
    not_filled,
    too_many_levels,
)
from fedsel.errors import InvalidArgument

_DELIMITERS = ",;\t|"
_TABLES = (".csv", ".parquet")
_ENDINGS = (*_TABLES, ".npz", ".svm", ".libsvm")
_ROWS = 20_000  # rows of a CSV file that are held as texts at a time


def read(
    path: str | os.PathLike[str],
    label: str | int | None = None,
    *,
    positive: Label | None = None,
    header: bool | None = None,
) -> Dataset:
    """Read a data set from a file, by its ending.

    - .csv and .parquet: ``label`` is the name or number of the label column. Columns
      of numbers are features, columns of texts are one-hot with sorted levels.
    - .npz: arrays X and y; ``label`` may name another than y; feature_names and bounds if
      they are there.
    - .svm, .libsvm: lines of ``label index:value …``; stays sparse.

    The label has two values. ``positive`` is the one that becomes +1, by default the greater one
    (1 of 0 and 1, "yes" of "no" and "yes"). The result's ``classes`` names both.

    ``header`` says whether the first line of a .csv file names its columns; with False they are
    numbered from 0. None expects names, and refuses a first line that looks like a record.
    """
    file = Path(path)
    kind = file.suffix.lower()
    if kind not in _ENDINGS:
        raise InvalidArgument("path", str(path), "a file ending in " + ", ".join(_ENDINGS))
    if not file.is_file():
        raise InvalidArgument("path", str(path), "a file that exists")
    if header is not None and kind != ".csv":
        raise InvalidArgument("header", header, f"omitted for {file.suffix}, which has none")
    try:
        if kind not in _TABLES:
            return (_read_npz if kind == ".npz" else _read_svmlight)(file, label, positive)
        columns = _columns(file, lambda names: label_index(names, label), header=header)
        return encode(columns, label, positive, file.stem)
    except OSError as error:
        raise InvalidArgument("path", str(path), f"readable ({error.strerror or error})") from error


def read_rows(
    path: str | os.PathLike[str],
    like: Dataset,
    name: str = "path",
    *,
    header: bool | None = None,
) -> NDArray[np.float32]:
    """Read rows (m, d) with the features of a data set from a .csv or .parquet file.

    Columns are matched by name, in any order; others, such as a label, are ignored. A text that is
    not a level of the data set becomes zeros. ``name`` is the caller's name for the path,
    ``header`` as in `read`.
    """
    file = Path(path)
    if file.suffix.lower() not in _TABLES or not file.is_file():
        raise InvalidArgument(name, str(path), "a file that exists, .csv or .parquet")
    try:
        return arranged(_columns(file, header=header), like.feature_names)
    except OSError as error:
        raise InvalidArgument(name, str(path), f"readable ({error.strerror or error})") from error
    except InvalidArgument as error:
        error.name = name if error.name == "path" else error.name
        raise


def _columns(
    path: Path, check: Callable[[list[str]], object] = len, *, header: bool | None = None
) -> list[Column]:
    """Read the columns of a file. ``check`` gets their names before any record is read."""
    if path.suffix.lower() == ".csv":
        return _csv_columns(path, check, header)
    return _parquet_columns(path, check)


def _csv_columns(
    path: Path, check: Callable[[list[str]], object], header: bool | None
) -> list[Column]:
    try:
        names, delimiter = _header(path, header)
        check(names)
        readers = [_ColumnReader(name) for name in names]
        for start, block in _blocks(path, len(names), delimiter, 0 if header is False else 1):
            for reader, cells in zip(readers, block, strict=True):
                reader.add(cells, start)
        columns = [reader.column() for reader in readers]
    except (UnicodeDecodeError, csv.Error) as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise InvalidArgument("path", str(path), f"a CSV file in UTF-8 ({reason})") from None
    levels = [column.levels if isinstance(column, Texts) else None for column in columns]
    if header is None and _looks_like_a_record(names, levels):
        raise _headless(path, names)
    return columns


class _ColumnReader:
    """A column of a CSV file, read block by block: numbers if all cells are, else levels."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._numbers: list[NDArray[np.float64]] | None = []
        self._codes: list[NDArray[np.int32]] | None = []
        self._levels: dict[str, int] = {}
        self._empty: int | None = None

    def add(self, cells: tuple[str, ...], start: int) -> None:
        """Read cells of the records from number ``start`` on."""
        if "" in cells and self._empty is None:
            self._empty = start + cells.index("")
        if self._numbers is not None:
            if _are_numbers(cells):
                self._numbers.append(np.array([float(cell or "nan") for cell in cells]))
            else:
                self._numbers = None
        if self._codes is not None:
            levels = self._levels
            codes = [levels.setdefault(cell.strip(), len(levels)) for cell in cells]
            self._codes.append(np.array(codes, np.int32))
            if len(levels) > MAX_LEVELS:
                self._codes = None

    def column(self) -> Column:
        """The whole column; levels are sorted."""
        if self._empty is not None and (self._numbers is not None or self._codes is None):
            raise not_filled(self._name, self._empty)
        if self._numbers is not None:
            return Numbers(self._name, np.concatenate(self._numbers))
        if self._codes is None:
            raise too_many_levels(self._name)
        levels = sorted(self._levels)
        places = np.empty(len(levels), np.int32)
        places[[self._levels[level] for level in levels]] = np.arange(len(levels))
        return Texts(self._name, places[np.concatenate(self._codes)], tuple(levels))


def _reader(file: TextIO, delimiter: str) -> Iterator[list[str]]:
    return csv.reader(file, delimiter=delimiter, skipinitialspace=True)


def _header(path: Path, header: bool | None) -> tuple[list[str], str]:
    """The names of the columns, and the character between cells."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        first = file.readline()
        delimiter = max(_DELIMITERS, key=first.count)
        file.seek(0)
        names = [name.strip() for name in next(_reader(file, delimiter), [])]
    if header is False and names:
        return [str(number) for number in range(len(names))], delimiter
    if header is None and names and _looks_like_a_record(names, [None] * len(names)):
        raise _headless(path, names)
    if not names or "" in names or len(set(names)) != len(names):
        raise InvalidArgument("path", str(path), "a CSV file with a header of distinct names")
    return names, delimiter


def _looks_like_a_record(names: list[str], kinds: Sequence[tuple[str, ...] | None]) -> bool:
    """Whether a first line looks like a record rather than the names of the columns.

    It does if each column of numbers has a number there and, if there are columns of texts, one of
    them repeats its first text. Columns numbered from 0 or 1 are names, as pandas writes them.

    >>> _looks_like_a_record(["5.1", "yes"], [None, ("no", "yes")])
    True
    >>> _looks_like_a_record(["2020", "land"], [None, ("no", "yes")])
    False
    """
    if any(names == [str(i) for i in range(first, first + len(names))] for first in (0, 1)):
        return False
    texts = [name in levels for name, levels in zip(names, kinds, strict=True) if levels]
    over_numbers = [name for name, levels in zip(names, kinds, strict=True) if levels is None]
    numbers = "" not in over_numbers and _are_numbers(tuple(over_numbers))
    return numbers and (any(texts) or not texts)


def _headless(path: Path, names: list[str]) -> InvalidArgument:
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return InvalidArgument(
        "path",
        str(path),
        f"a CSV file with names in its first line, which is: {shown}. If that is a record, say so "
        "(header=False; on the command line --no-header), and give the label column by its number, "
        "from 0; if these are names, header=True (--header)",
    )


def _blocks(
    path: Path, width: int, delimiter: str, above: int
) -> Iterator[tuple[int, list[tuple[str, ...]]]]:
    """Yield (number of the first record, columns) for a few thousand records at a time."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        records = (row for row in islice(_reader(file, delimiter), above, None) if row)
        start = 0
        while rows := list(islice(records, _ROWS)):
            for i, row in enumerate(rows, start):
                if len(row) != width:
                    wanted = f"a table of {width} columns (record {i} has {len(row)} cells)"
                    raise InvalidArgument("path", str(path), wanted)
            yield start, list(zip(*rows, strict=True))
            start += len(rows)
    if not start:
        raise InvalidArgument("path", str(path), "a CSV file with records below its header")


def _are_numbers(cells: tuple[str, ...]) -> bool:
    """Whether every nonempty cell is a number. 1_2 is not, although Python parses it."""
    filled = [cell for cell in cells if cell]
    try:
        deque(map(float, filled), maxlen=0)
    except ValueError:
        return False
    return not any("_" in cell for cell in filled)


def _parquet_columns(path: Path, check: Callable[[list[str]], object]) -> list[Column]:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        needed = "another format, or install pyarrow: pip install 'fedsel[parquet]'"
        raise InvalidArgument("path", str(path), needed) from None
    arrow = import_module("pyarrow")
    try:
        table = parquet.read_table(path)
    except arrow.ArrowInvalid as error:
        raise InvalidArgument("path", str(path), f"a Parquet file ({error})") from None
    check(table.column_names)
    return [_arrow_column(name, table[name]) for name in table.column_names]


def _arrow_column(name: str, values: Any) -> Column:
    if values.null_count:
        row = next(i for i, missing in enumerate(values.is_null()) if missing.as_py())
        raise not_filled(name, row)
    types = import_module("pyarrow").types
    kind = values.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return Numbers(name, values.to_numpy())
    texts = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(texts) or types.is_large_string(texts)):
        raise InvalidArgument("column", name, f"numbers or texts, not {kind}")
    cells = np.array(values.to_pylist())
    levels, codes = np.unique(cells, return_inverse=True)
    if len(levels) > MAX_LEVELS:
        raise too_many_levels(name)
    return Texts(name, codes.astype(np.int32), tuple(map(str, levels)))


def _read_npz(path: Path, label: str | int | None, positive: Label | None) -> Dataset:
    target = "y" if label is None else str(label)
    extras = {"feature_names", "bounds"}
    try:
        # numpy leaves a broken file open if it is given the path.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except (ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise InvalidArgument("path", str(path), "an .npz file of plain arrays") from None
    others = [name for name in arrays if name not in {target, *extras}]
    features = "X" if "X" in others else others[0] if len(others) == 1 else None
    if target not in arrays or features is None:
        wanted = f"arrays X and {target}; it holds {', '.join(arrays) or 'none'}"
        raise InvalidArgument("path", str(path), wanted)
    return from_arrays(
        arrays[features],
        arrays[target],
        name=path.stem,
        feature_names=arrays.get("feature_names"),
        bounds=arrays.get("bounds"),
        positive=positive,
    )


def _read_svmlight(path: Path, label: str | int | None, positive: Label | None) -> Dataset:
    if label not in (None, 0, "0"):
        raise InvalidArgument("label", label, f"omitted for {path.suffix}: it is the first number")
    try:
        datasets = import_module("sklearn.datasets")
    except ModuleNotFoundError:
        needed = "another format, or install scikit-learn: pip install 'fedsel[sklearn]'"
        raise InvalidArgument("path", str(path), needed) from None
    try:
        X, y = datasets.load_svmlight_file(str(path), dtype=np.float32)
    except ValueError as error:
        wanted = f"lines of 'label index:value …' ({error})"
        raise InvalidArgument("path", str(path), wanted) from None
    return from_arrays(X, y, name=path.stem, positive=positive)
