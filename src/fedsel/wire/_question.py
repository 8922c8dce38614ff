"""A question about people: what a service asks, and which of its public answers a record gives.

Device, browser and simulator find the answer by the same rules (``clients/js/src/models``):

- The cell of a column is read as `Schema` reads it. A category answers with its level, a number
  with one of ``bins`` equally wide parts of its range; numbers outside of the range count in the
  first or the last part.
- What cannot be read answers with what the column says of missing cells: a category with its level
  ``missing`` or with "other", a number with ``missing``, or with an answer of its own where the
  column has an indicator. Otherwise the record gives no answer.
- Of several columns the answers are combined, the last one counting fastest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, Literal, Self, final, get_args

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.settings import check_keys
from fedsel.errors import InvalidArgument, InvalidData, check_count, check_float
from fedsel.solutions._blocks import MOST_ANSWERS
from fedsel.wire._columns import MISSING, Category, Cells, Number, listed
from fedsel.wire._schema import Schema

Kind = Literal["count", "histogram", "mean", "quantiles", "cross table"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BINS = {"histogram": 10, "quantiles": 32, "cross table": 4, "count": 10}
"""The parts of a number's range, unless the question says how many."""
QUANTILES = (0.25, 0.5, 0.75)
NO_ANSWER = -1
_ONE_COLUMN = ("histogram", "mean", "quantiles")
_KEYS = ("kind", "columns", "where", "bins", "quantiles")


@final
@dataclass(frozen=True)
class Question:
    """What is asked about records with these ``columns`` (a `Schema`, or the columns of one).

    - "count": how many records are as ``where`` says: columns by name, each with a level, several
      levels, or a range [low, high);
    - "histogram": the share of each level, or of each of ``bins`` parts of a number's range;
    - "mean" of a number;
    - "quantiles" of a number, by its histogram: ``quantiles`` says which;
    - "cross table": the share of each combination of two or more columns.

    >>> question = Question("histogram", {"age": (0, 80)}, bins=4)
    >>> question.labels, question.answers({"age": [3, 79, 1000]}).tolist()
    (('0 to 20', '20 to 40', '40 to 60', '60 to 80'), [0, 3, 3])
    >>> Question("count", {"job": ["cook", "smith"]}, where={"job": "smith"}).labels
    ('no', 'yes')
    """

    kind: Kind
    columns: Schema
    where: Mapping[str, tuple[str, ...] | tuple[float, float]] | None = None
    bins: int | None = None
    quantiles: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        if self.kind not in KINDS:
            raise InvalidArgument("question", self.kind, f"one of {', '.join(KINDS)}")
        put(self, "columns", _schema(self.columns))
        for name, column in self._own.items():
            if not isinstance(column, Number | Category):
                raise InvalidArgument("column", name, "one of numbers or levels, not of dates")
        if self.kind in _ONE_COLUMN and len(self._own) != 1:
            allowed = f"one column for a {self.kind}" if self.kind != "quantiles" else "one column"
            raise InvalidArgument("columns", listed(self._own), f"{allowed}, or a cross table")
        if self.kind == "cross table" and len(self._own) < 2:
            raise InvalidArgument("columns", listed(self._own), "two or more for a cross table")
        self._check_numbers()
        self._check_where()
        self._check_quantiles()
        if self.kind != "mean":
            check_count("levels", self.count, least=2, most=MOST_ANSWERS)

    def _check_numbers(self) -> None:
        if self.bins is not None:
            if self.kind in ("count", "mean"):
                raise InvalidArgument("bins", self.bins, f"omitted for a {self.kind}")
            check_count("bins", self.bins, least=2, most=MOST_ANSWERS)
        for name, column in self._own.items():
            number = isinstance(column, Number)
            if number and column.low is None:
                raise InvalidArgument("column", name, "one with public bounds, [low, high]")
            if not number and self.kind in ("mean", "quantiles"):
                raise InvalidArgument("column", name, f"one of numbers for {self.kind}")

    def _check_where(self) -> None:
        if self.kind != "count":
            if self.where is not None:
                raise InvalidArgument("where", self.where, f"omitted for a {self.kind}")
            return
        if not self.where:
            raise InvalidArgument("where", self.where, "what is counted: a column and its levels")
        own, chosen = self._own, {}
        for name, given in self.where.items():
            if name not in own:
                raise InvalidArgument("where", name, f"about one of its columns: {listed(own)}")
            chosen[name] = _chosen(name, own[name], given)
        if set(chosen) != set(own):
            unused = next(name for name in own if name not in chosen)
            raise InvalidArgument("columns", unused, "one that where is about")
        object.__setattr__(self, "where", chosen)

    def _check_quantiles(self) -> None:
        if self.kind != "quantiles":
            if self.quantiles is not None:
                raise InvalidArgument("quantiles", self.quantiles, f"omitted for a {self.kind}")
            return
        given = QUANTILES if self.quantiles is None else self.quantiles
        checked = tuple(check_float("quantiles", q) for q in given)
        if not checked or not all(0 < q < 1 for q in checked) or sorted(set(checked)) != [*checked]:
            raise InvalidArgument("quantiles", list(given), "ascending, each in (0, 1)")
        object.__setattr__(self, "quantiles", checked)

    # --- answers --------------------------------------------------------------------------------

    @property
    def _own(self) -> dict[str, Any]:
        columns = self.columns.columns
        if isinstance(columns, int):
            raise InvalidArgument("columns", columns, "columns by name")
        return dict(columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the owner's table that it is about."""
        return tuple(self._own)

    @property
    def solution(self) -> str:
        """The solution that answers it: BR, or OW for a mean."""
        return "OW" if self.kind == "mean" else "BR"

    @property
    def count(self) -> int:
        """M, the number of its answers; 1 for a mean, which is a number."""
        if self.kind == "mean":
            return 1
        return 2 if self.kind == "count" else math.prod(map(len, self.parts.values()))

    @cached_property
    def parts(self) -> dict[str, tuple[str, ...]]:
        """The answers of each column, as people read them."""
        return {name: self._labels_of(column) for name, column in self._own.items()}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All answers, in the order of their numbers."""
        if self.kind == "count":
            return "no", "yes"
        return tuple(" × ".join(parts) for parts in product(*self.parts.values()))

    def _bins_of(self) -> int:
        return BINS.get(self.kind, 1) if self.bins is None else self.bins

    def edges(self, name: str) -> NDArray[np.float64]:
        """The bins + 1 edges of a number's parts."""
        column = self._own[name]
        return np.linspace(column.low, column.high, self._bins_of() + 1)

    def _labels_of(self, column: Any) -> tuple[str, ...]:
        if isinstance(column, Category):
            return column.levels
        edges = [f"{edge:g}" for edge in np.linspace(column.low, column.high, self._bins_of() + 1)]
        parts = tuple(f"{a} to {b}" for a, b in pairwise(edges))
        return (*parts, MISSING) if column.indicator else parts

    def answers(self, table: Any, names: Sequence[str] | None = None) -> NDArray[np.int64]:
        """The answer (n,) that each record of a table gives; −1 for none. Not for a mean."""
        cells = dict(zip(self._own, self.columns.cells(table, names), strict=True))
        codes = {name: self._codes(name, column) for name, column in cells.items()}
        if self.kind == "count":
            return self._counted(codes, cells)
        combined = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
        known = np.ones(len(combined), dtype=bool)
        for name, own in codes.items():
            combined = combined * len(self.parts[name]) + own
            known &= own >= 0
        return np.where(known, combined, NO_ANSWER)

    def numbers(self, table: Any, names: Sequence[str] | None = None) -> NDArray[np.float64]:
        """For a mean: the number (n,) of each record on [−1, 1]; NaN for none."""
        (column,), (cells,) = self._own.values(), self.columns.cells(table, names)
        value = _value(column, cells)
        return np.asarray((2 * value - column.low - column.high) / (column.high - column.low))

    def number(self, scaled: float) -> float:
        """A number on [−1, 1] in the units of the column."""
        (column,) = self._own.values()
        return float((scaled * (column.high - column.low) + column.low + column.high) / 2)

    def _codes(self, name: str, cells: Cells) -> NDArray[np.int64]:
        column = self._own[name]
        if isinstance(column, Category):
            return column.codes(cells)
        value, bins = _value(column, cells), self._bins_of()
        with np.errstate(invalid="ignore"):
            place = np.floor((value - column.low) / (column.high - column.low) * bins)
        absent = bins if column.indicator else NO_ANSWER
        return np.where(np.isnan(value), absent, np.clip(place, 0, bins - 1)).astype(np.int64)

    def _counted(self, codes: Mapping[str, Any], cells: Mapping[str, Cells]) -> NDArray[np.int64]:
        length = len(next(iter(codes.values())))
        fits, known = np.ones(length, dtype=bool), np.ones(length, dtype=bool)
        for name, chosen in (self.where or {}).items():
            column = self._own[name]
            if isinstance(column, Category):
                wanted = [column.levels.index(str(level)) for level in chosen]
                fits &= np.isin(codes[name], wanted)
                known &= codes[name] >= 0
            else:
                value = _value(column, cells[name])
                low, high = map(float, chosen)
                fits &= (low <= value) & (value < high)
                known &= ~np.isnan(value)
        return np.where(known, fits.astype(np.int64), NO_ANSWER)

    def check_answered(self, answers: NDArray[Any]) -> None:
        """Refuse records that give no answer, and say what would give them one."""
        none = answers == NO_ANSWER if answers.dtype.kind == "i" else np.isnan(answers)
        missing = int(np.count_nonzero(none))
        if missing:
            raise InvalidData(
                f"{', '.join(self.names)}: {missing} of {len(answers)} records give no answer. Name"
                ' every level, or add the level "other"; for cells that are missing set the'
                " column's missing"
            )

    # --- as text --------------------------------------------------------------------------------

    def __str__(self) -> str:
        names = " × ".join(self.names)
        if self.kind == "count":
            chosen = " and ".join(f"{n} {_said(v)}" for n, v in (self.where or {}).items())
            return f"count of {chosen}"
        return f"{self.kind} of {names}"

    def to_dict(self) -> dict[str, Any]:
        """The question in plain values, for JSON."""
        values: dict[str, Any] = {"kind": self.kind, "columns": self.columns.to_dict()["columns"]}
        if self.where is not None:
            values["where"] = {name: list(chosen) for name, chosen in self.where.items()}
        if self.bins is not None:
            values["bins"] = self.bins
        if self.quantiles is not None:
            values["quantiles"] = list(self.quantiles)
        return values

    def encode(self) -> bytes:
        """The question as JSON: one question, one text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, sort_keys=True).encode()

    @classmethod
    def of_dict(cls, values: Any) -> Self:
        """The question of plain values, as JSON and TOML have them.

        >>> Question.of_dict({"kind": "mean", "columns": {"age": [0, 100]}}).kind
        'mean'
        """
        if not isinstance(values, Mapping):
            raise InvalidArgument("question", values, f"a table with {', '.join(_KEYS)}")
        check_keys(values, _KEYS, required=("kind", "columns"), within="question.")
        where, quantiles = values.get("where"), values.get("quantiles")
        return cls(
            values["kind"],
            Schema.of_dict({"columns": values["columns"]}),
            where,
            values.get("bins"),
            None if quantiles is None else tuple(quantiles),
        )


def _schema(given: Any) -> Schema:
    if isinstance(given, Schema):
        return Schema(given.columns)
    return Schema.of_dict({"columns": given})


def _value(column: Number, cells: Cells) -> NDArray[np.float64]:
    """A number within its bounds; NaN where it is missing and nothing stands for that."""
    encoded = column.encode(cells)[:, 0]
    if column.missing is not None and not column.indicator:
        return encoded
    absent = Number(column.low, column.high, indicator=True).encode(cells)[:, 1] == 1
    return np.where(absent, np.nan, encoded)


def _chosen(name: str, column: Any, given: Any) -> tuple[Any, ...]:
    """The levels, or the range, that ``where`` chooses of a column."""
    if isinstance(column, Category):
        texts = tuple(map(str, given)) if isinstance(given, list | tuple) else (str(given),)
        for text in texts:
            if text not in column.levels:
                allowed = f"a level of {name}: {listed(column.levels)}"
                raise InvalidArgument("where", text, allowed)
        if not texts or len(set(texts)) == len(column.levels):
            raise InvalidArgument("where", list(texts), f"some of the levels of {name}, not all")
        return texts
    wanted = f"[low, high] with low < high, a part of the range of {name}"
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InvalidArgument("where", given, wanted)
    low, high = (check_float("where", x) for x in given)
    if not low < high or high <= column.low or low > column.high:
        raise InvalidArgument("where", list(given), wanted)
    return low, high


def _said(chosen: tuple[Any, ...]) -> str:
    if all(isinstance(x, float) for x in chosen):
        return f"from {chosen[0]:g} to {chosen[1]:g}"
    return "= " + " or ".join(map(str, chosen))
