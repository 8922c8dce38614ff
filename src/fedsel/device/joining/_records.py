"""The records of a device as its owner has them, and what a task makes of them.

The header alone decides whether records suit a task: their content must not, because the
service sees who takes part. A record whose label or value the task has no use for is left out, the
owner hears how many, and the device answers all the same, if need be with zeros.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel
from fedsel.device._updates import LinearRecords, LinearUpdate
from fedsel.errors import InvalidArgument, InvalidData
from fedsel.wire import Announcement, RecordPipeline

_DELIMITERS = ",;\t|"
_SHOWN = 8
_CELLS_AT_A_TIME = 1 << 20
Cells = NDArray[Any]
LeftOut = Callable[[int], object]
"""leave_out(how many records the task has no use for)."""


@final
class RawRecords:
    """Records X (n, d), numbers or texts, with a label each; ``names`` name the columns.

    Names are needed where a task knows its features by name; a table (pandas, polars) brings its
    own. Labels are what the task calls them.

    >>> records = RawRecords([[31, "cook"], [47, "smith"]], ["no", "yes"], ["age", "job"])
    >>> len(records), records.names
    (2, ('age', 'job'))
    """

    def __init__(self, X: Any, y: Any, names: Sequence[str] | None = None) -> None:
        if names is None and hasattr(X, "columns"):
            names = [str(name) for name in X.columns]
        self._cells = _array("X", X, 2)
        self._labels = _array("y", y, 1)
        if len(self._labels) != len(self._cells):
            raise InvalidData("y: must be one label for each record")
        self.names = None if names is None else tuple(map(str, names))
        width = self._cells.shape[1]
        if self.names is not None and not len(set(self.names)) == len(self.names) == width:
            wanted = f"{width} different names, one for each column"
            raise InvalidArgument("names", self.names, wanted)

    def __len__(self) -> int:
        return len(self._labels)

    @classmethod
    def read(cls, path: str | Path, label: str) -> Self:
        """From a .csv file in UTF-8 with names in its first line; ``label`` is one of them."""
        try:
            with Path(path).open(newline="", encoding="utf-8-sig") as file:
                first = file.readline()
                delimiter = max(_DELIMITERS, key=first.count)
                file.seek(0)
                rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
        except OSError as error:
            raise InvalidArgument("data", str(path), f"a file ({error.strerror})") from None
        except (UnicodeDecodeError, csv.Error):
            raise InvalidArgument("data", str(path), "a CSV file in UTF-8") from None
        names = [name.strip() for name in rows[0]] if rows else []
        if not names or "" in names or len(set(names)) != len(names):
            wanted = "a CSV file with a first line of different names"
            raise InvalidArgument("data", str(path), wanted)
        if label not in names:
            raise InvalidArgument("label", label, f"a column of {path}: {_listed(names)}")
        if len(rows) == 1 or any(len(row) != len(names) for row in rows):
            wanted = f"a CSV file with records of {len(names)} cells each below its first line"
            raise InvalidArgument("data", str(path), wanted)
        cells = np.array(rows[1:], dtype=object)
        own = names.index(label)
        others = [name for name in names if name != label]
        if not others:
            raise InvalidArgument("data", str(path), f"a CSV file with columns beside {label}")
        return cls(np.delete(cells, own, axis=1), cells[:, own], others)

    def suited(self, task: Announcement) -> SuitedRecords:
        """How a task finds its features among the columns, by their names alone.

        No record is looked at. A column that the task asks for and the table lacks is an error.
        """
        wanted = task.features
        if wanted is None:
            allowed = "an update, a function of the weights: the task has no features"
            raise InvalidArgument("records", "records", allowed)
        if not isinstance(wanted, tuple):
            if self._cells.shape[1] != wanted:
                allowed = f"{wanted} columns beside the label, as the task has"
                raise InvalidArgument("data", f"{self._cells.shape[1]} columns", allowed)
            return SuitedRecords(self._cells, self._labels, task, {j: j for j in range(wanted)}, {})
        if self.names is None:
            raise InvalidArgument(
                "names", None, f"the names of the columns: the task asks for {_listed(wanted)}"
            )
        place = {name: j for j, name in enumerate(self.names)}
        numbers: dict[int, int] = {}
        levels: dict[int, dict[str, int]] = {}
        for feature, name in enumerate(wanted):
            owner = name if name in place else _owner(name, place)
            if owner is None:
                allowed = f"in the records, as the task asks for it; they have {_listed(place)}"
                raise InvalidArgument("column", name, allowed)
            if owner == name:
                numbers[feature] = place[owner]
            else:
                known = levels.setdefault(place[owner], {})
                known[name.removeprefix(f"{owner}=")] = feature
        used = {*numbers.values(), *levels}
        unused = tuple(name for name, j in place.items() if j not in used)
        return SuitedRecords(self._cells, self._labels, task, numbers, levels, unused)


@final
@dataclass(frozen=True, eq=False, repr=False)
class SuitedRecords:
    """Records, and where a task finds its features: columns of numbers, and levels of texts.

    ``numbers`` has the column of a feature, ``levels`` the features of a column by their levels.
    Nothing is made of the records before an update is computed: how long that takes and how much
    memory it needs tells how many they are.
    """

    cells: Cells
    labels: Cells
    task: Announcement
    numbers: dict[int, int]
    levels: dict[int, dict[str, int]]
    unused: tuple[str, ...] = ()

    @property
    def features(self) -> int:
        """The entries of a record as the task wants it."""
        return len(self.numbers) + sum(map(len, self.levels.values()))

    def update(
        self, number: int, pipeline: RecordPipeline, dim: int, leave_out: LeftOut | None = None
    ) -> LinearUpdate:
        """What to report in a round: a function of the weights, in which alone records are used.

        Whether the round's plan makes sense is seen by a made-up record: what is raised here must
        not depend on the records of the device. The update calls ``leave_out``
        with the number of records that have a label or a value that the task does not know.
        """
        made_up = self._update_of(np.zeros((1, self.features)), np.ones(1), number, pipeline)
        if np.shape(made_up(np.zeros(dim))) != (dim,):
            raise InvalidArgument("preparing", "its records", f"of {dim} entries")

        def update(weights: NDArray[np.floating]) -> NDArray[np.floating]:
            mean: NDArray[np.floating] = np.zeros(dim)
            seen = 0
            for X, y in self.arranged():
                if len(y):
                    part = self._update_of(X, y, number, pipeline)(weights)
                    seen += len(y)
                    # The first as it is: few records give the bits that they always gave.
                    first = seen == len(y)
                    mean = part if first else mean + (part - mean) * (len(y) / seen)
            if leave_out is not None:
                leave_out(len(self.labels) - seen)
            return mean

        return update

    def arranged(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Raw features (m, d) in the task's order and labels (m,), of the records it can use.

        A few records at a time: the memory that they need at once depends on d alone.
        """
        step = max(1, _CELLS_AT_A_TIME // self.features)
        features, columns = np.array([*self.numbers.items()], dtype=np.intp).reshape(-1, 2).T
        for at in range(0, len(self.labels), step):
            cells = self.cells[at : at + step]
            X = np.zeros((len(cells), self.features))
            X[:, features] = _numbers(cells[:, columns])
            self._mark_levels(cells, X)
            y = self._targets(self.labels[at : at + step])
            usable = np.isfinite(X).all(axis=1) & np.isfinite(y)
            yield X[usable], y[usable]

    def _mark_levels(self, cells: Cells, X: NDArray[np.float64]) -> None:
        """Set the feature of each record's level to 1; the others are 0."""
        for column, features in self.levels.items():
            for i, cell in enumerate(cells[:, column]):
                feature = features.get(str(cell).strip())
                if feature is not None:
                    X[i, feature] = 1.0

    def _targets(self, labels: Cells) -> NDArray[np.float64]:
        """−1 or +1, or a number on its public scale; NaN where the task has no use for it."""
        task = self.task
        if task.regression and task.target_range is not None:
            low, high = task.target_range
            with np.errstate(all="ignore"):
                scaled = (2 * _numbers(labels) - low - high) / (high - low)
            return np.clip(scaled, -1.0, 1.0)
        known = (("-1", "0"), ("1",)) if task.labels is None else [(x,) for x in task.labels]
        numbers = _numbers(labels)
        texts = [str(cell).strip() for cell in labels]
        y = np.full(len(labels), np.nan)
        for sign, names in zip((-1.0, 1.0), known, strict=True):
            for name in names:
                same = np.array([text == name for text in texts])
                y[same | (numbers == _number(name))] = sign  # 1.0 is what the task calls 1
        return y

    def _update_of(self, X: Cells, y: Cells, number: int, pipeline: RecordPipeline) -> LinearUpdate:
        # The regulariser, where there is one, is the server's to apply.
        model = LinearModel(self.task.loss or "logistic", reg=0.0)
        records = LinearRecords(pipeline.scale.apply(X), y, model, pipeline.plan)
        return records.update(number, pipeline.preparation)


def _owner(name: str, columns: dict[str, int]) -> str | None:
    """The column of texts whose level a feature is: job of job=cook."""
    owners = [column for column in columns if name.startswith(f"{column}=")]
    return max(owners, key=len, default=None)


def _array(name: str, values: Any, ndim: int) -> Cells:
    """Cells as they are; an error shows none of them."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidData(f"{name}: must not be masked")
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US":  # numbers among texts must not become texts of their own kind
            array = np.asarray(values, dtype=object)
    except Exception:
        raise InvalidData(f"{name}: must be an array") from None
    if array.ndim != ndim or not array.size:
        raise InvalidData(f"{name}: must be a non-empty array with {ndim} dimension(s)")
    return array


def _numbers(cells: Cells) -> NDArray[np.float64]:
    """Cells as numbers, NaN where they are none."""
    if cells.dtype.kind in "fiub":
        return cells.astype(np.float64)
    flat = [_number(cell) for cell in cells.reshape(-1).tolist()]
    return np.array(flat, dtype=np.float64).reshape(cells.shape)


def _number(cell: object) -> float:
    if isinstance(cell, str) and "_" in cell:  # Python reads 1_2
        return math.nan
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _listed(names: Any) -> str:
    first = list(names)[:_SHOWN]
    return ", ".join(first) + (", …" if len(names) > _SHOWN else "")
