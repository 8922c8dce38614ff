"""The records of a device as its owner has them, and what a task makes of them.

The header alone decides whether records suit a task: their content must not, because the
service sees who takes part. The task's schema encodes every record; one whose label it does not
know is left out, the owner hears how many, and the device answers all the same, if need be with
zeros.
"""

from __future__ import annotations

import csv
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.delimited import delimited_rows, header_fault
from fedsel._internal.models import CLASSIFYING, REGRESSING, LinearModel, Loss, MulticlassModel
from fedsel.errors import InvalidArgument, InvalidData, check_kind, check_vectors
from fedsel.preparation import Plan, Preparation
from fedsel.wire import ModelQuestion, Question, RecordPipeline, Schema
from fedsel.wire._columns import Cells, all_cells, as_cells, is_record_list, listed

_CELLS_AT_A_TIME = 1 << 20
Doubles = NDArray[np.float64]
LinearUpdate = Callable[[NDArray[np.floating]], NDArray[np.floating]]
Answering = Callable[[NDArray[np.floating]], Any]
LeftOut = Callable[[int], object]
"""leave_out(how many records have a label that the task does not know)."""


@final
class LinearRecords:
    """The records of one device, on their public scale, [−1, 1]; without an intercept.

    ``update(round, preparation)`` is the update for `Client.answer`: the records' place in a round
    that prepares, their gradient in all others. Plan and preparation are public, and come from the
    server beside the weights. λ of ``model`` is what the device adds itself: 0 where the server
    does (`Solution.decays_at_server`). y is −1 or +1; a class number 0 … C−1 for a
    `MulticlassModel`, whose update has C rows, one after another; or for a regression ("squared",
    "huber") a number on its public scale, [−1, 1].

    >>> from fedsel.preparation import Preparation
    >>> records = LinearRecords([[0.5, -1.0]], [1], LinearModel(reg=0.0))
    >>> plain = Preparation.plain(2, unit=False)
    >>> records.update(0, plain)(np.zeros(3)).tolist()
    [-0.25, 0.5, -0.5]
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        model: LinearModel | MulticlassModel | None = None,
        plan: Plan | None = None,
    ) -> None:
        self._X = np.clip(check_vectors("X", X, ndim=2), -1.0, 1.0)
        self._model = LinearModel(reg=0.0) if model is None else model
        check_kind("model", self._model, LinearModel, MulticlassModel)
        self._y = _targets(y, len(self._X), self._model)
        if plan is not None:
            check_kind("plan", plan, Plan)
            if plan.features != self._X.shape[1]:
                raise InvalidArgument("plan.features", plan.features, "as many as X has")
        self._plan = plan

    def update(self, number: int, preparation: Preparation) -> LinearUpdate:
        """What to report in a round: a function of the weights, for the client to call."""
        check_kind("preparation", preparation, Preparation)
        plan = self._plan
        if plan is not None and plan.stage(number) != "training":
            return lambda _: plan.vector(number, self._X, preparation)
        return lambda w: self._model.gradient(w, preparation.records(self._X), self._y)


@final
class RawRecords:
    """Records as their owner has them, with a label each.

    ``X`` is a data frame (pandas, polars, Arrow …), columns by name, a list of records by name, or
    rows (n, d) of numbers and texts whose columns are called ``names``; a task that knows its
    columns by their order needs no names. ``y`` has the labels, or names their column; without it
    the task names that column.

    >>> records = RawRecords([[31, "cook"], [47, "smith"]], ["no", "yes"], ["age", "job"])
    >>> len(records), records.names
    (2, ('age', 'job'))
    >>> RawRecords([{"age": 31, "left": "no"}, {"age": 47}], "left").names is None
    True
    """

    def __init__(self, X: Any, y: Any = None, names: Sequence[str] | None = None) -> None:
        self._table: Cells | list[Any]
        if is_record_list(X):
            self._table, names = list(X), None  # which names a record has is its own affair
        elif names is None and (isinstance(X, Mapping) or hasattr(X, "columns")):
            columns = all_cells(X)
            self._table, names = _rows([*columns.values()]), [*columns]
        else:
            self._table = as_cells(X, 2)
        self.names = None if names is None else tuple(map(str, names))
        if isinstance(self._table, np.ndarray):
            width = self._table.shape[1]
            if self.names is not None and not len({*self.names}) == len(self.names) == width:
                wanted = f"{width} different names, one for each column"
                raise InvalidArgument("names", self.names, wanted)
        self._labels = y if y is None or isinstance(y, str) else as_cells(y, 1)
        if not len(self._table):
            raise InvalidData("X: must be at least one record")
        if isinstance(self._labels, np.ndarray) and len(self._labels) != len(self._table):
            raise InvalidData("y: must be one label for each record")

    def __len__(self) -> int:
        return len(self._table)

    @classmethod
    def read(cls, path: str | Path, label: str | None = None) -> Self:
        """Read a .csv file in UTF-8 with names in its first line; ``label`` is one of them."""
        try:
            with Path(path).open(newline="", encoding="utf-8-sig") as file:
                rows = [*delimited_rows(file)]
        except OSError as error:
            wanted = f"a file ({error.strerror or error})"  # of a pipe there is no strerror
            raise InvalidArgument("data", str(path), wanted) from None
        except (UnicodeDecodeError, csv.Error):
            raise InvalidArgument("data", str(path), "a CSV file, saved as UTF-8") from None
        names = [name.strip() for name in rows[0]] if rows else []
        fault = header_fault(names)
        if fault is not None:
            wanted = f"a CSV file with a first line of different names ({fault})"
            raise InvalidArgument("data", str(path), wanted)
        if label is not None and label not in names:
            raise InvalidArgument("label", label, f"a column of {path}: {listed(names)}")
        if len(rows) == 1 or any(len(row) != len(names) for row in rows):
            wanted = f"a CSV file with records of {len(names)} cells each below its first line"
            raise InvalidArgument("data", str(path), wanted)
        return cls(np.array(rows[1:], dtype=object), label, names)

    def suited(self, schema: Schema | None, loss: Loss = "logistic") -> SuitedRecords:
        """Records as a task encodes them: its columns are found by their names alone.

        No record is looked at. A column that the task asks for and the table lacks is an error.
        """
        if schema is None:
            allowed = "an update, a function of the weights: the task has no schema"
            raise InvalidArgument("records", "RawRecords", allowed)
        label = self._label_column(schema)
        if isinstance(self._table, list):
            if not schema.named:
                allowed = "rows: the task knows its columns by their order"
                raise InvalidArgument("records", "records by name", allowed)
            return SuitedRecords(self, schema, loss, label)
        others = [name for name in self.names or () if name != label]
        if isinstance(schema.columns, Mapping):
            if self.names is None:
                allowed = f"the names of the columns: the task asks for {listed(schema.columns)}"
                raise InvalidArgument("names", None, allowed)
            for name in schema.columns:
                if name not in others:
                    allowed = f"in the records, as the task asks for it; they have {listed(others)}"
                    raise InvalidArgument("column", name, allowed)
            unused = tuple(name for name in others if name not in schema.columns)
            return SuitedRecords(self, schema, loss, label, unused)
        width = self._table.shape[1] - (label is not None)
        if width != schema.columns:
            allowed = f"{schema.columns} columns beside the label, as the task has"
            raise InvalidArgument("data", f"{width} columns", allowed)
        return SuitedRecords(self, schema, loss, label)

    def asked(self, question: Question) -> Answering:
        """Which answer to give to a question: a function, in which alone records are used.

        Of several records one is drawn. Columns are found by their names alone.
        """
        if isinstance(self._table, np.ndarray):
            for name in question.names:
                if name not in (self.names or ()):
                    has = listed(self.names or ["no names"])
                    allowed = f"in the records, as the task asks for it; they have {has}"
                    raise InvalidArgument("column", name, allowed)

        def answer(_: NDArray[np.floating]) -> Any:
            place = secrets.randbelow(len(self._table))
            table = self._table[place : place + 1]
            if question.count > 1:
                return int(question.answers(table, self.names)[0])
            return np.nan_to_num(question.numbers(table, self.names))  # the middle for no answer

        return answer

    def _label_column(self, schema: Schema) -> str | None:
        """The name of the column of labels; None where these were given by themselves."""
        if isinstance(self._labels, np.ndarray):
            return None
        label = schema.label if self._labels is None else self._labels
        if label is None:
            raise InvalidArgument(
                "label", None, "the name of the label's column, which the task does not say"
            )
        if isinstance(self._table, np.ndarray) and label not in (self.names or ()):
            allowed = f"a column of the records, which have {listed(self.names or ['no names'])}"
            raise InvalidArgument("label", label, allowed)
        return label

    def encoded(self, schema: Schema, label: str | None, some: slice) -> tuple[Doubles, Doubles]:
        """Features (m, d) and targets (m,) of some records, as a schema has them."""
        table, labels = self._table[some], cast(Any, self._labels)
        if isinstance(labels, np.ndarray):
            labels = labels[some]
        elif isinstance(table, list):
            labels = [record.get(label) for record in table]
        else:
            at = (self.names or ()).index(str(label))
            labels = table[:, at]
            if not schema.named:
                table = np.delete(table, at, axis=1)
        return schema.encode(table, self.names), schema.targets(labels)


@final
@dataclass(frozen=True, eq=False, repr=False)
class SuitedRecords:
    """Records that have the columns of a task, and how the task reads them.

    Nothing is made of the records before an update is computed: how long that takes and how much
    memory it needs tells how many they are.
    """

    records: RawRecords
    schema: Schema
    loss: Loss
    label: str | None
    unused: tuple[str, ...] = ()

    def update(
        self, number: int, pipeline: RecordPipeline, dim: int, leave_out: LeftOut | None = None
    ) -> LinearUpdate:
        """What to report in a round: a function of the weights, in which alone records are used.

        Whether the round's plan makes sense is seen by a made-up record: what is raised here must
        not depend on the records of the device. The update calls ``leave_out`` with the number of
        records that have a label that the task does not know.
        """
        made_up = np.zeros((1, self.schema.feature_count)), np.ones(1)
        if np.shape(self._update_of(*made_up, number, pipeline)(np.zeros(dim))) != (dim,):
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
                leave_out(len(self.records) - seen)
            return mean

        return update

    def measuring(self, pipeline: RecordPipeline, question: ModelQuestion, dim: int) -> Answering:
        """Which answer to give in a round that measures: a function of the weights.

        One record with a label that the task knows is drawn; without any there is no answer.
        """
        rows = self.schema.rows
        made_up = pipeline.records(np.zeros((1, self.schema.feature_count)))
        if dim != made_up.size * rows or question.classes < rows:
            raise InvalidArgument("preparing", "its question", f"about {dim} weights")

        def answer(weights: NDArray[np.floating]) -> int:
            shown, own, seen = np.zeros((1, self.schema.feature_count)), np.array([np.nan]), 0
            for X, y in self.arranged():
                seen += len(y)
                place = secrets.randbelow(seen) if len(y) else len(y)
                if place < len(y):  # each of all records is as likely
                    shown, own = X[place : place + 1], y[place : place + 1]
            margins = pipeline.records(shown).astype(np.float64) @ weights.reshape(rows, -1).T
            return int(question.answers(margins, own)[0])

        return answer

    def arranged(self) -> Iterator[tuple[Doubles, Doubles]]:
        """Features (m, d) and targets (m,) of the records whose label the schema knows.

        A few records at a time: the memory that they need at once depends on d alone.
        """
        step = max(1, _CELLS_AT_A_TIME // self.schema.feature_count)
        for at in range(0, len(self.records), step):
            X, y = self.records.encoded(self.schema, self.label, slice(at, at + step))
            known = np.isfinite(y)
            yield X[known], y[known]

    def _update_of(
        self, X: Doubles, y: Doubles, number: int, pipeline: RecordPipeline
    ) -> LinearUpdate:
        # The regulariser, where there is one, is the server's to apply.
        model = (MulticlassModel if self.schema.rows > 1 else LinearModel)(self.loss, reg=0.0)
        if self.loss in CLASSIFYING and self.schema.rows == 1:
            y = 2 * y - 1
        records = LinearRecords(pipeline.scale.apply(X), y, model, pipeline.plan)
        return records.update(number, pipeline.preparation)


def _rows(columns: list[Cells]) -> Cells:
    """Columns side by side; if their kinds differ, as objects, so that true does not become 1."""
    if len({cells.dtype for cells in columns}) == 1 and columns[0].dtype.kind != "M":
        return np.column_stack(columns)
    rows = np.empty((len(columns[0]) if columns else 0, len(columns)), dtype=object)
    for j, cells in enumerate(columns):
        # In nanoseconds they would become integers.
        rows[:, j] = cells.astype("datetime64[us]") if cells.dtype.kind == "M" else cells
    return rows


def _targets(y: ArrayLike, records: int, model: LinearModel | MulticlassModel) -> NDArray[Any]:
    """Labels, or numbers within their public scale; no message holds any of them."""
    if model.loss in REGRESSING:
        numbers = np.clip(check_vectors("y", y, ndim=1), -1.0, 1.0)
        if len(numbers) != records:
            raise InvalidData("y: must be one number for each record")
        return np.asarray(numbers, dtype=np.float64)
    labels = np.asarray(y)
    if isinstance(model, MulticlassModel):
        one_each = labels.shape == (records,) and labels.dtype.kind in "fiu"
        if not one_each or not ((labels >= 0) & (labels % 1 == 0)).all():
            raise InvalidData("y: must be a class number, 0 or more, one for each record")
        return labels.astype(np.int64)
    if labels.shape != (records,) or not np.isin(labels, (-1, 1)).all():
        raise InvalidData("y: must be −1 or +1, one for each record")
    return labels.astype(np.int8)
