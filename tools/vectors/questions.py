"""Questions: which answer records give, to questions about people and about a model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from fedsel.errors import InvalidArgument
from fedsel.wire import ModelQuestion, Question, measuring_run
from fedsel.wire._model_question import MOST_QUESTIONS
from tools.vectors.encoding import Case, f64

ABOUT = (
    "Answers of records to questions about people (−1: none), numbers of records for a mean (null: "
    "none), answers of margins and labels to questions about a model (null: no number), what is "
    "no question, and the runs of reports that measure."
)
_MOST_LABELS = 80
_NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 29, 30, 100, 101, -5, 0.3, 0.1, 29.999999999999996, 1e308, -1e308, 5e-324, -0.0),
    *("29", " 30 ", "\t1e1\r\n", "+.5", "5.", "-0", "1e400", "-1e400", "nan", "inf", "1,5", "0x1"),
    *("1_0", "٣", "", " ", "true", "FALSE", True, False, None, "\u00a07", "100.00000000000001"),
)
_TEXTS: tuple[Any, ...] = (
    *("cook", " cook ", "Cook", "smith", "other", "nurse", "", "\t", None, "1", "1.0", "1e0", 1),
    *(1.0, True, "TRUE", "true", False, 0, "0", "missing", "null", 2, "２", "\u00a0cook", 1e999),
)


def cases() -> Iterator[Case]:
    """Every case."""
    yield from map(_of_people, _questions())
    yield from map(_refused, _no_questions())
    yield from map(_of_model, _model_questions())
    yield from map(_refused_of_model, _no_model_questions())
    for run in (bytes(16), bytes(range(0x20, 0x30))):
        numbered = (measuring_run(run, number).hex() for number in range(MOST_QUESTIONS))
        yield {"kind": "runs", "run": run.hex(), "measuring": [*numbered]}


def _number(low: float, high: float, **more: Any) -> Case:
    return {"range": [low, high], **more}


def _levels(*levels: str, **more: Any) -> Case:
    return {"levels": [*levels], **more}


def _question(kind: str, columns: dict[str, Case], **more: Any) -> Case:
    named = [{"name": name, **column} for name, column in columns.items()]
    return {"kind": kind, "columns": named, **more}


def _questions() -> Iterator[Case]:
    jobs = _levels("cook", "smith", "1")
    for kind in ("histogram", "quantiles"):
        for column in (
            _number(0, 100),
            _number(0, 100, missing=30),
            _number(0, 100, indicator=True),
            _number(0, 100, missing=30, indicator=True),
        ):
            yield _question(kind, {"x": column})
    for low, high, bins in (
        *((0, 1, 10), (0, 100, 100), (-1, 1, 3), (0.1, 0.7, 7), (-1e300, 1e300, 4)),
        *((0, 4e-323, 4), (1e6, 1e6 + 1, 9), (-3, 7, 64), (1e-7, 2e-7, 5), (0, 2e15, 6)),
        *((1234566.5, 1234567.5, 2), (-1e20, 1e21, 7), (1e-5, 1e-4, 3), (0, 1e17, 3)),
    ):
        yield _question("histogram", {"x": _number(low, high)}, bins=bins)
    yield _question("quantiles", {"x": _number(0, 100)}, bins=8, quantiles=[0.1, 0.9])
    for column in (
        jobs,
        _levels("cook", "smith", "other"),
        _levels("cook", "smith", "1", missing="1"),
        _levels("cook", "other", missing="cook"),
        _levels("true", "0"),
        _levels("cook", "smith", indicator=True),
    ):
        yield _question("histogram", {"x": column})
    for column in (_number(0, 100), _number(-3, 7.5, missing=1), _number(0, 1, indicator=True)):
        yield _question("mean", {"x": column})
    for where, column in (
        (["cook"], jobs),
        (["smith", " cook"], jobs),
        (["1.0"], jobs),
        ([1], jobs),
        (["other"], _levels("cook", "other")),
        (["cook"], _levels("cook", "other", missing="cook")),
        ([0, 30], _number(0, 100)),
        ([30, 1e9], _number(0, 100)),
        ([-5, 100], _number(0, 100)),
        ([0, 30], _number(0, 100, missing=20)),
        ([0, 30], _number(0, 100, missing=20, indicator=True)),
    ):
        yield _question("count", {"x": column}, where={"x": where})
    both = {"job": jobs, "age": _number(0, 100)}
    yield _question("count", both, where={"age": [0, 30], "job": ["cook"]})
    yield _question("cross table", both)
    yield _question("cross table", both, bins=7)
    yield _question("cross table", {"job": jobs, "of": _levels("cook", "other")})
    missing = {"age": _number(0, 80, indicator=True), "pay": _number(0, 9, missing=3)}
    yield _question("cross table", {**missing, "job": _levels("cook", "other")}, bins=2)
    yield _question("histogram", {"__proto__": _number(0, 100)}, bins=2)


def _of_people(values: Case) -> Case:
    question = Question.of_dict(values)
    kinds = [_NUMBERS if "range" in column else _TEXTS for column in values["columns"]]
    count = max(map(len, kinds))
    # Each column at a pace of its own, so that many combinations meet.
    steps = [1, 5, 7]
    rows = [
        [kind[(steps[j] * i + j) % len(kind)] for j, kind in enumerate(kinds)]
        for i in range(count if len(kinds) == 1 else 2 * count)
    ]
    cells = [[None if x == math.inf else x for x in row] for row in rows]
    table = [dict(zip(question.names, row, strict=True)) for row in cells]
    case = {"kind": "people", "question": values, "names": [*question.names]}
    case["solution"], case["count"] = question.solution, question.count
    if question.count == 1:
        return {**case, "cells": cells, "numbers_f64": f64(question.numbers(table))}
    labels = [*question.labels] if question.count <= _MOST_LABELS else None
    return {**case, "labels": labels, "cells": cells, "answers": question.answers(table).tolist()}


def _no_questions() -> Iterator[Any]:
    number, jobs = {"x": _number(0, 100)}, {"x": _levels("cook", "smith")}
    both = {"x": _number(0, 100), "y": _levels("cook", "smith")}
    yield from (None, [], "histogram", {}, {"kind": "histogram"}, {"columns": []})
    yield _question("sum", number)
    yield _question("median", number)
    yield _question("histogram", {})
    yield {"kind": "histogram", "columns": 3}
    yield _question("histogram", number, more=1)
    yield _question("histogram", both)
    yield _question("mean", both)
    yield _question("cross table", number)
    yield _question("mean", jobs)
    yield _question("quantiles", jobs)
    yield _question("mean", number, bins=4)
    yield _question("histogram", jobs, bins=2)
    yield _question("count", number, where={"x": [0, 1]}, bins=2)
    yield _question("histogram", {"x": {"range": "private"}})
    yield _question("histogram", {"x": {"date": ["year"]}})
    yield _question("mean", {"x": _number(0, 2e300)})
    yield _question("histogram", {"x": _number(-2e300, 0)})
    for bins in (0, 1, 1.5, -2, 65537, "4", True):
        yield _question("histogram", number, bins=bins)
    yield _question("quantiles", number, bins=1025)
    yield _question("cross table", {"x": _number(0, 1), "y": _number(0, 1)}, bins=257)
    yield _question("histogram", {"x": _levels("cook")})
    yield _question("histogram", {"x": _number(1, 1.0000000000000004)}, bins=5)
    yield _question("histogram", {"x": _number(0, 5e-324)}, bins=2)
    for where in (None, {}, [], "cook", {"z": ["cook"]}, {"x": []}, {"x": ["cook", "smith"]}):
        yield _question("count", jobs, where=where)
    for chosen in (["nurse"], [None], [2], {"cook": 1}):
        yield _question("count", jobs, where={"x": chosen})
    for edges in ([1, 0], [1, 1], [0], [0, 1, 2], [100.5, 101], [-5, 0], [-1, 101], ["a", "b"]):
        yield _question("count", number, where={"x": edges})
    yield _question("count", both, where={"x": [0, 1]})
    yield _question("histogram", jobs, where={"x": ["cook"]})
    for quantiles in ([], 0.5, [0.5, 0.5], [0.9, 0.1], [0], [1], ["0.5"], [None]):
        yield _question("quantiles", number, quantiles=quantiles)
    yield _question("histogram", number, quantiles=[0.5])


def _refused(values: Any) -> Case:
    try:
        Question.of_dict(values)
    except InvalidArgument:
        return {"kind": "no_question", "question": values}
    raise AssertionError(values)


def _model_questions() -> Iterator[tuple[Case, int]]:
    """Questions, and how many margins a record has."""
    edges = [-1.5, 0.0, 0.25]
    yield {"kind": "spread", "classes": 2, "edges": edges}, 1
    yield {"kind": "scores", "classes": 2, "edges": edges}, 1
    yield {"kind": "scores", "classes": 2, "edges": edges}, 2
    yield {"kind": "scores", "classes": 2}, 1
    yield {"kind": "scores", "classes": 3, "edges": edges}, 3
    yield {"kind": "predictions", "classes": 3}, 3
    yield {"kind": "predictions", "classes": 2}, 2
    yield {"kind": "confidence", "classes": 4, "edges": [0.0, 0.25, 1.0]}, 4
    yield {"kind": "confidence", "classes": 3}, 3
    yield {"kind": "spread", "classes": 3, "edges": [0.25]}, 3
    yield {"kind": "residuals", "classes": 2, "edges": [0.1, 1.0], "targets": [-0.5, 0.5]}, 1
    yield {"kind": "residuals", "classes": 2, "edges": [0.5]}, 1


_MARGINS = (0.0, -0.0, 0.25, -1.5, 2.0, -3.0, 0.1, 1e300, math.nan, math.inf, -math.inf, 0.5)
_LABELS = (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -0.5, math.nan, math.inf, -0.0, 1.0, 0.3)


def _of_model(asked: tuple[Case, int]) -> Case:
    values, width = asked
    question = ModelQuestion.of_dict(values)
    size = len(_MARGINS)
    rows = [[_MARGINS[(i + j * (i // size + 1)) % size] for j in range(width)] for i in range(40)]
    labels = [_LABELS[(i + i // size) % len(_LABELS)] for i in range(40)]
    return {
        "kind": "model",
        "question": values,
        "count": question.count,
        "axes": [[*axis] for axis in question.axes],
        "margins": [[*map(_finite, row)] for row in rows],
        "labels": [*map(_finite, labels)],
        "answers": question.answers(np.array(rows), np.array(labels)).tolist(),
    }


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _no_model_questions() -> Iterator[Any]:
    yield from (None, [], {}, {"kind": "scores"}, {"classes": 2}, {"kind": "margins", "classes": 2})
    for classes in (0, 1, 65537, "2", None, 2.5):
        yield {"kind": "confidence", "classes": classes, "edges": [0]}
    yield {"kind": "predictions", "classes": 257}
    yield {"kind": "spread", "classes": 2}
    yield {"kind": "residuals", "classes": 2}
    for edges in ([0, 0], [1, 0], [0.0, -0.0], ["0"], [None], 3, None):
        yield {"kind": "scores", "classes": 2, "edges": edges}
    yield {"kind": "residuals", "classes": 2, "edges": [0], "targets": [1, 1]}
    yield {"kind": "scores", "classes": 30000, "edges": [0, 1]}


def _refused_of_model(values: Any) -> Case:
    try:
        ModelQuestion.of_dict(values)
    except (InvalidArgument, KeyError, TypeError, AttributeError):
        return {"kind": "no_model_question", "question": values}
    raise AssertionError(values)
