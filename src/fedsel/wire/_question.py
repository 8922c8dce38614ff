"""A question about people: what a service asks, and which of its public answers a record gives.

Device, browser and simulator find the answer by the same rules (``clients/js/src/models``):

- The cell of a column is read as `Schema` reads it. A category answers with its level, a number
  with one of ``bins`` equally wide parts of its range. Part i begins with its edge, in doubles
  (low·(bins − i) + high·i)/bins, and ends before the next; numbers outside of the range count in
  the first or the last part.
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
from fedsel.wire._columns import MISSING, Category, Cells, Number, listed, matcher
from fedsel.wire._schema import Schema

Kind = Literal["count", "histogram", "mean", "quantiles", "cross table"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BINS = {"histogram": 10, "quantiles": 16, "cross table": 4}
"""The parts of a number's range, unless the question says how many. Quantiles need the shares of
many bins together, whose errors add up: at a small ε fewer bins are more accurate."""
MOST_BINS = {"quantiles": 1024}
"""The most of them, where it is not `MOST_ANSWERS`: every edge is a test of its own."""
QUANTILES = (0.25, 0.5, 0.75)
FARTHEST = 1e300
"""The largest bound of a number: the products that give its edges must be finite."""
NO_ANSWER = -1
_ONE_COLUMN = ("histogram", "mean", "quantiles")
_KEYS = ("kind", "columns", "where", "bins", "quantiles")
_DIGITS = range(6, 18)
"""How many digits of an edge are shown: the fewest that tell all edges apart."""


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
        for name, column in self._own.items():
            number = isinstance(column, Number)
            if number and column.low is None:
                raise InvalidArgument("column", name, "one with public bounds, [low, high]")
            if number and max(-column.low, column.high) > FARTHEST:
                bounds = [column.low, column.high]
                raise InvalidArgument("bounds", bounds, f"within ±{FARTHEST:g}")
            if not number and self.kind in ("mean", "quantiles"):
                what = "a mean" if self.kind == "mean" else self.kind
                raise InvalidArgument("column", name, f"one of numbers for {what}, not of levels")
        has_numbers = any(isinstance(column, Number) for column in self._own.values())
        if self.kind in BINS and has_numbers:
            bins = BINS[self.kind] if self.bins is None else self.bins
            most = MOST_BINS.get(self.kind, MOST_ANSWERS)
            checked = check_count("bins", bins, least=2, most=most)
            object.__setattr__(self, "bins", checked)  # one question, one text
        elif self.bins is not None:
            without = f"a {self.kind}" if self.kind not in BINS else "columns of levels"
            raise InvalidArgument("bins", self.bins, f"omitted for {without}")

    def _check_where(self) -> None:
        if self.kind != "count":
            if self.where is not None:
                raise InvalidArgument("where", self.where, f"omitted for a {self.kind}")
            return
        if not isinstance(self.where, Mapping) or not self.where:
            allowed = 'what is counted: columns by name, such as {"job": "cook"}'
            raise InvalidArgument("where", self.where, allowed)
        for name in self.where:
            if name not in self._own:
                allowed = f"about one of its columns: {listed(self._own)}"
                raise InvalidArgument("where", name, allowed)
        chosen = {}
        for name, column in self._own.items():
            if name not in self.where:
                raise InvalidArgument("columns", name, "one that where is about")
            chosen[name] = _chosen(name, column, self.where[name])
        object.__setattr__(self, "where", chosen)

    def _check_quantiles(self) -> None:
        if self.kind != "quantiles":
            if self.quantiles is not None:
                raise InvalidArgument("quantiles", self.quantiles, f"omitted for a {self.kind}")
            return
        given = QUANTILES if self.quantiles is None else self.quantiles
        wanted = "ascending numbers, each in (0, 1)"
        if not isinstance(given, list | tuple) or not given:
            raise InvalidArgument("quantiles", given, wanted)
        checked = tuple(check_float("quantiles", q, wanted) for q in given)
        if not all(0 < q < 1 for q in checked) or sorted(set(checked)) != [*checked]:
            raise InvalidArgument("quantiles", [*given], wanted)
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
        return {name: self._labels_of(name) for name in self._own}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All answers, in the order of their numbers."""
        if self.kind == "count":
            return "no", "yes"
        return tuple(" × ".join(parts) for parts in product(*self.parts.values()))

    def edges(self, name: str) -> NDArray[np.float64]:
        """The bins + 1 edges of a number's parts."""
        column, bins = self._own[name], self.bins or 1
        steps = np.arange(bins + 1.0)
        # Products first: so 29 is an edge of 100 parts of [0, 100], and 0.3 one of ten of [0, 1].
        return np.asarray((column.low * (bins - steps) + column.high * steps) / bins)

    def _labels_of(self, name: str) -> tuple[str, ...]:
        column = self._own[name]
        if isinstance(column, Category):
            return column.levels
        parts = tuple(f"{a} to {b}" for a, b in pairwise(_told_apart(self.edges(name))))
        return (*parts, MISSING) if column.indicator else parts

    def answers(self, table: Any, names: Sequence[str] | None = None) -> NDArray[np.int64]:
        """The answer (n,) that each record of a table gives; −1 for none. Not for a mean."""
        cells = dict(zip(self._own, self.columns.cells(table, names), strict=True))
        if self.kind == "count":
            return self._counted(cells)
        codes = {name: self._codes(name, column) for name, column in cells.items()}
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
        value, bins = _value(column, cells), self.bins or 1
        place = np.searchsorted(self.edges(name), value, side="right") - 1
        absent = bins if column.indicator else NO_ANSWER
        return np.where(np.isnan(value), absent, np.clip(place, 0, bins - 1)).astype(np.int64)

    def _counted(self, cells: Mapping[str, Cells]) -> NDArray[np.int64]:
        length = len(next(iter(cells.values())))
        fits, known = np.ones(length, dtype=bool), np.ones(length, dtype=bool)
        for name, chosen in (self.where or {}).items():
            column = self._own[name]
            if isinstance(column, Category):
                codes = column.codes(cells[name])
                fits &= np.isin(codes, [column.levels.index(level) for level in chosen])
                known &= codes >= 0
            else:
                value = _value(column, cells[name])
                low, high = map(float, chosen)
                fits &= (low <= value) & (value < high)
                known &= ~np.isnan(value)
        return np.where(known, fits.astype(np.int64), NO_ANSWER)

    def check_answered(self, answers: NDArray[Any]) -> None:
        """Refuse records that give no answer, and say what would give them one.

        >>> question = Question("histogram", {"job": ["cook", "smith"]})
        >>> question.check_answered(question.answers({"job": ["cook", "nurse"]}))
        Traceback (most recent call last):
        fedsel.errors.InvalidData: job: 1 of 2 records gives no answer: name every level, ...
        """
        none = answers == NO_ANSWER if answers.dtype.kind == "i" else np.isnan(answers)
        missing = int(np.count_nonzero(none))
        if not missing:
            return
        columns = self._own.values()
        remedies = []
        if any(isinstance(column, Category) for column in columns):
            remedies.append('name every level, or add the level "other"')
        if any(isinstance(column, Number) for column in columns):
            remedies.append("say in the schema what a missing number counts as (its missing)")
        give = "gives" if missing == 1 else "give"
        raise InvalidData(
            f"{', '.join(self.names)}: {missing:,} of {len(answers):,} records {give} no answer:"
            f" {'; '.join(remedies)}"
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
        columns = Schema.of_dict({"columns": values["columns"]})
        return cls(values["kind"], columns, *(values.get(key) for key in _KEYS[2:]))


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
        read = matcher(column.levels)
        wished = given if isinstance(given, list | tuple) else [given]
        codes = {read(level): level for level in wished}
        for code, level in codes.items():
            if code < 0:
                allowed = f"a level of {name}: {listed(column.levels)}"
                raise InvalidArgument("where", level, allowed)
        if not 0 < len(codes) < len(column.levels):
            raise InvalidArgument("where", [*wished], f"some of the levels of {name}, not all")
        return tuple(column.levels[code] for code in sorted(codes))
    wanted = f"[low, high] with low < high, a part of the range of {name}"
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InvalidArgument("where", given, wanted)
    low, high = (check_float("where", x) for x in given)
    outside = high <= column.low or low > column.high
    if not low < high or outside or (low <= column.low and high > column.high):
        raise InvalidArgument("where", list(given), wanted)
    return low, high


def _told_apart(edges: NDArray[np.float64]) -> list[str]:
    """The edges of bins as texts, with as many digits as they need to differ.

    >>> _told_apart(np.array([0, 2.5, 5])), _told_apart(np.array([1e6, 1e6 + 1]))
    (['0', '2.5', '5'], ['1000000', '1000001'])
    """
    for digits in _DIGITS:
        texts = [
            str(int(edge)) if edge.is_integer() and abs(edge) < 1e15 else f"{edge:.{digits}g}"
            for edge in edges.tolist()
        ]
        if len(set(texts)) == len(texts):
            return texts
    raise InvalidArgument(
        "bins", len(edges) - 1, "fewer: there are no so many numbers in the range"
    )


def _said(chosen: tuple[Any, ...]) -> str:
    if all(isinstance(x, float) for x in chosen):
        return f"from {chosen[0]:g} to {chosen[1]:g}"
    return "= " + " or ".join(map(str, chosen))
