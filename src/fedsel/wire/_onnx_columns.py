"""Cells of records in an ONNX graph: numbers as they are, texts read as the schema reads them.

The only operator of ONNX that looks into a text matches a regular expression. So each level of a
category is an expression, and each bit of a date's year, month, day and hour is one.
"""

from __future__ import annotations

import itertools
import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.wire._columns import BLANK, OTHER, Category, Number, matcher, numbers_of
from fedsel.wire._dates import PERIODS, Date, circle, days_of

Name = str
"""What a value of the graph is called: numbers (n, width) in double precision, unless said."""

_BLANKS: Final = "[" + "".join(rf"\x{ord(c):02x}" for c in BLANK) + "]*"
_TRUTH: Final = {"true": "[Tt][Rr][Uu][Ee]", "false": "[Ff][Aa][Ll][Ss][Ee]"}
_SOME: Final = "[0-9]{1,99}"
_NUMBER: Final = (
    rf"[+-]?(?:{_SOME}(?:\.(?:{_SOME})?)?|\.{_SOME})(?:[Ee][+-]?0{{0,99}}[0-9]{{1,2}})?"
)
"""Texts of numbers that fit a double: the runtime stops with an error at others."""


@final
class Graph:
    """A graph while it is written; ``columns`` are the names that others have given."""

    def __init__(self, columns: Iterable[str]) -> None:
        with needed("onnx", "a model as ONNX"):
            import onnx
        self._onnx: Any = onnx
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        taken, prefixes = [*columns], ("/" * n for n in itertools.count(1))
        self._prefix = next(p for p in prefixes if not any(c.startswith(p) for c in taken))

    def input(self, name: str, kind: type, width: int = 1) -> Name:
        """An input of the graph: columns of numbers (float) or of texts (str)."""
        self.inputs.append(self._info(name, kind, width))
        return name

    def output(self, name: str, value: Name, kind: type, *shape: int) -> None:
        """Let the graph give a value of each record."""
        self._node("Identity", [value], name)
        self.outputs.append(self._info(name, kind, *shape))

    def _info(self, name: str, kind: type, *shape: int) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._code(kind), ["n", *shape])

    def _code(self, kind: type) -> int:
        dtype = np.dtype(object if kind is str else kind)
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(dtype))

    def add(self, operator: str, *values: Name | NDArray[Any], **attributes: Any) -> Name:
        """The result of an operator; arrays become constants."""
        names = [v if isinstance(v, str) else self._constant(v) for v in values]
        made = f"{self._prefix}{operator}{len(self.nodes)}"
        self._node(operator, names, made, **attributes)
        return made

    def _node(self, operator: str, names: list[Name], made: Name, **attributes: Any) -> None:
        # Named, because some runtimes take names for their own nodes from it.
        node = self._onnx.helper.make_node(operator, names, [made], name=made, **attributes)
        self.nodes.append(node)

    def _constant(self, values: NDArray[Any]) -> Name:
        name = f"{self._prefix}{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(values, name))
        return name

    def cast(self, value: Name, kind: type) -> Name:
        """The same values as numbers of another kind."""
        return self.add("Cast", value, to=self._code(kind))

    def clip(self, value: Name, low: Any, high: Any) -> Name:
        """Numbers within bounds."""
        return self.add("Min", self.add("Max", value, np.asarray(low)), np.asarray(high))

    def rows(self, table: NDArray[Any], places: Name) -> Name:
        """The rows (n, width) of a table at places (n, 1)."""
        return self.add("Squeeze", self.add("Gather", table, places), np.array([1]))

    def matches(self, texts: Name, pattern: str) -> Name:
        """Whether texts match an expression, blanks around it aside: truth values (n, 1)."""
        return self.add("RegexFullMatch", texts, pattern=f"{_BLANKS}(?:{pattern}){_BLANKS}")


def features_of(graph: Graph, name: str, column: Number | Category | Date) -> Name:
    """The features of a column, which becomes an input of the graph."""
    if isinstance(column, Number):
        return numbers(graph, graph.input(name, float), column)
    texts = graph.input(name, str)
    if isinstance(column, Category):
        return _category(graph, texts, column)
    literals = "".join(_TOKEN.split(column.format)[::2]) if column.format != Date.format else ""
    if column.format.strip(BLANK) != column.format or re.search("[0-9]", literals):
        wanted = "without digits, and without blanks at its ends, in a model for ONNX"
        raise InvalidArgument(f"columns.{name}.format", column.format, wanted)
    return _date(graph, texts, column)


def numbers(graph: Graph, values: Name, column: Number) -> Name:
    """The features of numbers; what is not finite is missing."""
    missing = graph.add("Or", graph.add("IsNaN", values), graph.add("IsInf", values))
    return _unless(missing, graph, column, graph.clip(values, *column.limits))


def _unless(missing: Name, graph: Graph, column: Number | Category | Date, features: Name) -> Name:
    """What was read of a cell, or the features of a missing one."""
    if column.indicator:
        features = graph.add("Pad", features, np.array([0, 0, 0, 1]))
    return graph.add("Where", missing, column.encode(np.array([None])), features)


# --- categories -----------------------------------------------------------------------------------


def _category(graph: Graph, texts: Name, column: Category) -> Name:
    levels, one, across = column.levels, np.ones((1, 1)), np.array([1])
    hits = [graph.matches(texts, _TRUTH.get(level, _literal(level))) for level in levels]
    known = graph.cast(graph.add("Concat", *hits, axis=1), float)
    values, code = numbers_of(np.array(levels, dtype=object)).tolist(), matcher(levels)
    owned = np.array([[x if code(x) == j else np.nan for j, x in enumerate(values)]])
    if np.isfinite(owned).any():  # a text that is no level may be the number of one: 1.0 is "1"
        equal = graph.cast(graph.add("Equal", _number_of(graph, texts), owned), float)
        unread = graph.add("Sub", one, graph.add("ReduceMax", known, across))
        known = graph.add("Add", known, graph.add("Mul", equal, unread))
    unknown = graph.add("Sub", one, graph.add("ReduceSum", known, across))
    other = np.array([[float(level == OTHER) for level in levels]])
    known = graph.add("Add", known, graph.add("Mul", unknown, other))
    return _unless(graph.matches(texts, ""), graph, column, known)


def _number_of(graph: Graph, texts: Name) -> Name:
    """The number that a text is; NaN where it is none."""
    one, zero, none = (np.array([[word]], dtype=object) for word in ("1", "0", "nan"))
    plain = graph.add("Where", graph.matches(texts, _NUMBER), texts, none)
    for word, number in (("true", one), ("false", zero)):
        plain = graph.add("Where", graph.matches(texts, _TRUTH[word]), number, plain)
    return graph.cast(plain, float)


def _literal(text: str) -> str:
    """An expression that matches a text alone."""
    return "".join(c if c.isalnum() or not c.isascii() else rf"\x{ord(c):02x}" for c in text)


# --- dates ----------------------------------------------------------------------------------------

_TOKEN: Final = re.compile("(YYYY|MM|DD|hh|mm|ss)")
_FIELDS: Final = {"MM": range(1, 13), "DD": range(1, 32), "hh": range(24)}
_ISO_TIME: Final = "[T ]hh:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_MONTHS: Final = [(year, month) for year in (2023, 2024) for month in range(13)]
"""The months of a year and of a leap year, which count from 1: what comes first is no month."""
_LAST: Final = np.array([[monthrange(*x)[1] if x[1] else 0] for x in _MONTHS])
_BEFORE: Final = np.array([[days_of(*x, 1) - days_of(x[0], 1, 1) if x[1] else 0] for x in _MONTHS])
_Digits = Mapping[int, str]
"""Expressions by their number of digits; "" where no number has as few."""


def _date(graph: Graph, texts: Name, column: Date) -> Name:
    bits, worth = [], []
    for field, digits, weight in _bits(column.format):
        bits.append(graph.matches(texts, _expression(column.format, field, digits)))
        worth.append([float(weight * (field == name)) for name in ("YYYY", *_FIELDS)])
    sums = graph.add(
        "MatMul", graph.cast(graph.add("Concat", *bits, axis=1), float), np.array(worth)
    )
    moments = graph.cast(sums, np.int64)
    year, month, day, hour = (graph.add("Gather", moments, np.array([j]), axis=1) for j in range(4))
    by4, by100, by400 = (
        graph.cast(graph.add("Equal", graph.add("Mod", year, _of(n)), _of(0)), np.int64)
        for n in (4, 100, 400)
    )
    leap = graph.add("Add", graph.add("Sub", by4, by100), by400)
    place = graph.add("Add", month, graph.add("Mul", leap, _of(13)))
    days = _days(graph, year, graph.add("Add", graph.rows(_BEFORE, place), day))
    found = {"month": month, "day": day, "hour": hour}
    found["weekday"] = graph.add("Mod", graph.add("Add", days, _of(3)), _of(7))
    found["year"], found["days"] = year, graph.add("Sub", days, _of(column.first_day))
    bounds, parts = dict(column.features), []
    for part in column.parts:
        if part in PERIODS:
            first = int(part in ("month", "day"))
            points = [circle(part, n - first) for n in range(PERIODS[part] + first)]
            parts.append(graph.rows(np.array(points), found[part]))
        else:
            parts.append(graph.clip(graph.cast(found[part], float), *bounds[f".{part}"]))
    early = graph.add("Less", graph.add("Min", year, month), _of(1))  # where nothing matches
    late = graph.add("Greater", day, graph.rows(_LAST, place))
    features = graph.add("Concat", *parts, axis=1)
    return _unless(graph.add("Or", early, late), graph, column, features)


def _days(graph: Graph, year: Name, day: Name) -> Name:
    """Days since 1970-01-01 of the so-many-th day of a year."""
    before = graph.add("Sub", year, _of(1))
    total = graph.add("Add", day, graph.add("Mul", before, _of(365)))
    for operator, years in (("Add", 4), ("Sub", 100), ("Add", 400)):
        total = graph.add(operator, total, graph.add("Div", before, _of(years)))
    return graph.add("Add", total, _of(days_of(1, 1, 1) - 1))


def _of(number: int) -> NDArray[np.int64]:
    return np.array([[number]])


def _bits(form: str) -> Iterator[tuple[str, _Digits, int]]:
    """Fields of a date, the expression of a part of its number, and what that part adds."""
    for place, bit in itertools.product(range(4), range(4)):
        digit = "".join(str(n) for n in range(10) if n >> bit & 1)
        digits = f"[0-9]{{{place}}}[{digit}][0-9]{{{3 - place}}}"
        yield "YYYY", {4: digits}, (1 << bit) * 10 ** (3 - place)
    for field, numbers in _FIELDS.items():
        if field in form or form == Date.format:  # not every format has hours
            for bit in range(numbers[-1].bit_length()):
                yield field, _numerals([n for n in numbers if n >> bit & 1]), 1 << bit


def _numerals(numbers: Iterable[int]) -> _Digits:
    """The numbers of one and of two digits."""
    texts = {k: [f"{n:0{k}d}" for n in numbers if n < 10**k] for k in (1, 2)}
    return {k: f"(?:{'|'.join(some)})" if some else "" for k, some in texts.items()}


def _expression(form: str, field: str, digits: _Digits) -> str:
    """The dates of a format whose ``field`` has some ``digits``."""
    some = {name: _numerals(valid) for name, valid in _FIELDS.items()} | {field: digits}

    def of(part: str, length: int) -> str:
        return some[part][length] if part in some else f"[0-9]{{{length}}}"

    def fixed(text: str) -> str:
        return _TOKEN.sub(lambda found: of(found[0], len(found[0])), text)

    if form == Date.format:
        return f"{fixed(form)}(?:{fixed(_ISO_TIME)}){'' if field == 'hh' else '?'}"
    expression, run = "", list[str]()
    pieces = [*_TOKEN.split(form), ""]
    for literal, part in zip(pieces[::2], pieces[1::2], strict=True):
        if literal:
            expression, run = expression + _adjacent(run, of) + _literal(literal), []
        run.append(part)
    return expression + _adjacent([*filter(None, run)], of)


def _adjacent(parts: Sequence[str], of: Callable[[str, int], str]) -> str:
    """Parts with nothing in between: the first ones have their second digit before others do."""
    short = sum(len(part) == 2 for part in parts)
    variants = []
    for long in range(short, -1, -1):
        lengths = iter([2] * long + [1] * (short - long))
        texts = [of(part, 4 if len(part) == 4 else next(lengths)) for part in parts]
        variants += ["".join(texts)] if all(texts) else []
    return f"(?:{'|'.join(variants)})"
