"""A user's own file as a data set: .csv, .parquet, .npz or .svm (.libsvm)."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.settings import naming
from fedsel.data._cells import (
    TABLES,
    Check,
    are_numbers,
    cells,
    headless,
    looks_like_a_record,
)
from fedsel.data._dataset import Dataset, Label, from_arrays
from fedsel.data._tables import (
    DATES,
    DECORATED,
    MAX_LEVELS,
    PLAINLY,
    Column,
    Numbers,
    Texts,
    arranged,
    encode,
    label_index,
    needs_schema,
)
from fedsel.errors import InvalidArgument
from fedsel.wire import Schema

_ENDINGS = (*TABLES, ".npz", ".svm", ".libsvm")


def read(
    path: str | os.PathLike[str],
    label: str | int | None = None,
    *,
    positive: Label | None = None,
    header: bool | None = None,
    schema: Schema | None = None,
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

    A public ``schema`` says what the columns of a table mean, and has two or more classes; it names
    the label where none is given, and records whose label is no class are left out.
    """
    file = Path(path)
    kind = file.suffix.lower()
    if kind not in _ENDINGS:
        raise InvalidArgument("path", str(path), "a file ending in " + ", ".join(_ENDINGS))
    if not file.is_file():
        raise InvalidArgument("path", str(path), "a file that exists")
    if header is not None and kind != ".csv":
        raise InvalidArgument("header", header, f"omitted for {file.suffix}, which has none")
    if schema is not None and kind not in TABLES:
        raise InvalidArgument(
            "schema", "a schema", f"omitted for {file.suffix}, which has no names"
        )
    try:
        if schema is not None:
            return _by_schema(file, schema, label, header)
        if kind not in TABLES:
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
    schema: Schema | None = None,
) -> NDArray[np.float32]:
    """Read rows (m, d) with the features of a data set from a .csv or .parquet file.

    Columns are matched by name, in any order; others, such as a label, are ignored. A text that is
    not a level of the data set becomes zeros. ``name`` is the caller's name for the path,
    ``header`` and ``schema`` as in `read`.
    """
    file = Path(path)
    if file.suffix.lower() not in TABLES or not file.is_file():
        raise InvalidArgument(name, str(path), "a file that exists, .csv or .parquet")
    try:
        with naming({"path": name}):
            if schema is not None:
                return np.concatenate([_encoded(schema, b) for b in cells(file, header=header)])
            return arranged(_columns(file, header=header), like.feature_names)
    except OSError as error:
        raise InvalidArgument(name, str(path), f"readable ({error.strerror or error})") from error


def _columns(path: Path, check: Check = len, *, header: bool | None = None) -> list[Column]:
    """Read the columns of a file. ``check`` gets their names before any record is read."""
    readers: dict[str, _ColumnReader] = {}
    for block in cells(path, check, header=header):
        readers = readers or {name: _ColumnReader(name) for name in block}
        for name, column in block.items():
            readers[name].add(column)
    columns = [reader.column() for reader in readers.values()]
    levels = [column.levels if isinstance(column, Texts) else None for column in columns]
    if header is None and path.suffix.lower() == ".csv":
        names = list(readers)
        if looks_like_a_record(names, levels):
            raise headless(path, names)
    return columns


class _ColumnReader:
    """A column of a file, read block by block: numbers if all cells are, else levels."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._numbers: list[NDArray[Any]] | None = []
        self._codes: list[NDArray[np.int32]] | None = []
        self._levels: dict[str, int] = {}
        self._empty: int | None = None

    def add(self, column: NDArray[Any]) -> None:
        """Read the cells of more records."""
        if column.dtype.kind in "fiub" and self._numbers is not None:  # of a Parquet file
            self._numbers.append(column)
            return
        texts = ["" if cell is None else cell for cell in column.tolist()]
        if not all(isinstance(text, str) for text in texts):
            raise needs_schema(self._name, "numbers or texts")
        if "" in texts and self._empty is None:
            self._empty = self._count + texts.index("")
        self._count += len(texts)
        if self._numbers is not None:
            if are_numbers(texts):
                self._numbers.append(np.array([float(cell or "nan") for cell in texts]))
            else:
                self._numbers = None
        if self._codes is not None:
            levels = self._levels
            codes = [levels.setdefault(cell.strip(), len(levels)) for cell in texts]
            self._codes.append(np.array(codes, np.int32))
            if len(levels) > MAX_LEVELS:
                self._codes = None

    def column(self) -> Column:
        """The whole column; levels are sorted."""
        if self._empty is not None and (self._numbers is not None or self._codes is None):
            raise needs_schema(
                self._name, f"filled in every record (empty in record {self._empty})"
            )
        if self._numbers is not None:
            return Numbers(self._name, np.concatenate(self._numbers))
        levels = sorted(self._levels)
        filled = [*filter(None, levels)]
        if self._codes is not None and all(map(DECORATED.fullmatch, filled)):
            raise InvalidArgument(
                "column", self._name, f"removed, or its numbers written {PLAINLY}"
            )
        if self._codes is None or all(map(DATES.fullmatch, filled)):
            wanted = f"numbers, or texts of at most {MAX_LEVELS} levels that are no dates"
            raise needs_schema(self._name, wanted)
        places = np.empty(len(levels), np.int32)
        places[[self._levels[level] for level in levels]] = np.arange(len(levels))
        return Texts(self._name, places[np.concatenate(self._codes)], tuple(levels))


def _by_schema(path: Path, schema: Schema, label: str | int | None, header: bool | None) -> Dataset:
    """Records by their schema; those whose label is no class are left out, as devices do."""
    if schema.classes is None:
        given, remedy = schema.target_range, "; FedSelRegressor(schema=…) learns a number"
        if given is not None:
            wanted = f"omitted in favour of classes{remedy}"
            raise InvalidArgument("target_range", list(given), wanted)
        raise InvalidArgument("classes", None, f"a list, in a schema for a data set{remedy}")
    for name, ends in zip(schema.features, schema.bounds.tolist(), strict=True):
        if np.isfinite(ends).all() and np.abs(ends).max() > np.finfo(np.float32).max:
            raise InvalidArgument(f"columns.{name}.range", ends, "within ±3.4e38 in a data set")
    at = schema.label if label is None else label
    X: list[NDArray[np.float32]] = []
    y: list[NDArray[np.float64]] = []
    for block in cells(path, lambda names: label_index(names, at), header=header):
        names = list(block)
        label = names[label_index(names, at)]
        if isinstance(schema.columns, Mapping) and label in schema.columns:
            raise InvalidArgument("label", label, "no column that is a feature of the schema")
        codes = schema.targets(block.pop(label))
        X.append(_encoded(schema, block)[~np.isnan(codes)])
        y.append(codes[~np.isnan(codes)])
    if not sum(map(len, y)):
        allowed = "those of the label column, in which no record has one of them"
        raise InvalidArgument("classes", list(schema.classes), allowed)
    bounds = schema.bounds if np.isfinite(schema.bounds).any() else None
    codes = np.concatenate(y).astype(np.int64)
    labels = codes if schema.rows > 1 else (2 * codes - 1).astype(np.int8)
    return Dataset(path.stem, np.concatenate(X), labels, schema.features, bounds, schema.classes)


def _encoded(schema: Schema, block: Mapping[str, Any]) -> NDArray[np.float32]:
    table = block if schema.named else np.column_stack(list(block.values()))
    return schema.encode(table).astype(np.float32)


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
