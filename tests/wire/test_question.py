"""Questions: which public answer a record gives, whatever it holds; one question, one text."""

import json
import math
from datetime import date
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel import InvalidArgument, InvalidData, Schema
from fedsel.wire import Category, Number, Question
from fedsel.wire._question import MOST_ANSWERS, NO_ANSWER

AGE = Number(0, 80)
JOB = Category(("cook", "smith", "7"))
QUESTIONS = [
    Question("histogram", {"age": AGE}, bins=8),
    Question("histogram", {"age": Number(0, 80, missing=40)}),
    Question("histogram", {"age": Number(0, 80, indicator=True)}, bins=2),
    Question("histogram", {"job": JOB}),
    Question("histogram", {"job": Category(("cook", "other"))}),
    Question("histogram", {"job": Category(("cook", "none"), missing="none")}),
    Question("count", {"job": JOB}, where={"job": "cook"}),
    Question("count", {"job": JOB, "age": AGE}, where={"age": (10, 20), "job": ["smith", "cook"]}),
    Question("mean", {"age": AGE}),
    Question("mean", {"age": Number(-5, 5, missing=1)}),
    Question("quantiles", {"age": AGE}, quantiles=(0.1, 0.5)),
    Question("cross table", {"job": JOB, "age": AGE}),
]
CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.decimals(),
    st.text(max_size=4),
    st.sampled_from(
        ["cook", " smith ", "7", 7, 7.0, "7.0", "other", "missing", "nan", "1e3", "1,5"]
    ),
    st.dates(),
    st.lists(st.integers(), max_size=2),
)


def cells(values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


# --- answers -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_every_cell_gives_an_answer_or_none(rows):
    """Nothing is raised, whatever a cell holds; and a record's answer depends on it alone."""
    table = {"job": cells([job for job, _ in rows]), "age": cells([age for _, age in rows])}
    for question in QUESTIONS:
        if question.count == 1:
            numbers = question.numbers(table)
            known = numbers[~np.isnan(numbers)]
            assert ((known >= -1) & (known <= 1)).all()
            continue
        answers = question.answers(table)
        assert answers.dtype == np.int64
        assert ((answers >= NO_ANSWER) & (answers < question.count)).all()
        alone = [
            question.answers({name: column[[i]] for name, column in table.items()})[0]
            for i in range(len(rows))
        ]
        assert answers.tolist() == alone


@given(st.floats(-10, 90), st.integers(2, 40))
def test_a_number_lies_in_its_part(number, bins):
    question = Question("histogram", {"age": AGE}, bins=bins)
    (answer,) = question.answers({"age": [number]})
    edges = question.edges("age")
    inside = min(80, max(0, number))
    assert edges[answer] <= inside
    assert inside < edges[answer + 1] or answer == bins - 1
    (scaled,) = Question("mean", {"age": AGE}).numbers({"age": [number]})
    assert math.isclose(
        Question("mean", {"age": AGE}).number(scaled), min(80, max(0, number)), abs_tol=1e-9
    )


@pytest.mark.parametrize(
    ("low", "high", "bins"), [(0, 100, 100), (0, 1, 10), (0, 1, 100), (-1, 2, 30), (0.1, 0.7, 6)]
)
def test_an_edge_begins_its_part(low, high, bins):
    """29 lies in "29 to 30", although 29/100·100 is less than 29 in floating point."""
    question = Question("histogram", {"x": (low, high)}, bins=bins)
    edges = question.edges("x")
    assert question.answers({"x": edges}).tolist() == [*range(bins), bins - 1]
    below = np.nextafter(edges[1:-1], -np.inf)
    assert question.answers({"x": below}).tolist() == [*range(bins - 1)]
    texts = [label.split(" to ")[0] for label in question.labels]
    if low in (0, -1):  # people type what they read
        assert question.answers({"x": texts}).tolist() == [*range(bins)]


ODD = [None, math.nan, math.inf, -math.inf, "", " ", "?", "1,000", True, date(2020, 1, 1)]


def test_what_is_no_number():
    none = Question("histogram", {"age": AGE}, bins=8).answers({"age": cells(ODD)})
    assert none.tolist() == [NO_ANSWER] * 8 + [0, NO_ANSWER]  # true is 1, as in a model's feature
    own = Question("histogram", {"age": Number(0, 80, indicator=True)}, bins=8)
    assert own.labels[-1] == "missing"
    assert own.answers({"age": cells(ODD)}).tolist() == [8] * 8 + [0, 8]
    given = Question("histogram", {"age": Number(0, 80, missing=79)}, bins=8)
    assert given.answers({"age": cells(ODD)}).tolist() == [7] * 8 + [0, 7]
    numbers = Question("mean", {"age": AGE}).numbers({"age": cells(ODD)})
    assert np.isnan(numbers).tolist() == [True] * 8 + [False, True]


def test_what_is_no_level():
    odd = cells(["cook", " cook\t", "COOK", None, math.nan, 7, 7.0, "7", Decimal(7), True, "nurse"])
    plain = Question("histogram", {"job": JOB}).answers({"job": odd})
    assert plain.tolist() == [0, 0, -1, -1, -1, 2, 2, 2, 2, -1, -1]
    other = Question("histogram", {"job": Category(("cook", "other"))}).answers({"job": odd})
    assert other.tolist() == [0, 0, *[1] * 9]
    missing = Category(("cook", "none"), missing="none")
    assert Question("histogram", {"job": missing}).answers({"job": odd})[3:5].tolist() == [1, 1]
    truth = Question("histogram", {"x": Category(("true", "false"))})
    assert truth.answers({"x": [True, False, "TRUE", np.True_]}).tolist() == [0, 1, 0, 0]


def test_the_last_column_counts_fastest():
    question = Question("cross table", {"job": JOB, "age": AGE}, bins=2)
    assert question.count == 6
    assert question.labels[:3] == ("cook × 0 to 40", "cook × 40 to 80", "smith × 0 to 40")
    table = [{"job": "smith", "age": 50}, {"job": "cook"}, {"age": 3}, {"job": 7, "age": 0}]
    assert question.answers(table).tolist() == [3, -1, -1, 4]


def test_what_is_counted():
    table = {
        "job": cells(["cook", "smith", "7", "nurse", None]),
        "age": cells([15, 20, 10, 15, 15]),
    }
    both = Question("count", {"job": JOB, "age": AGE}, where={"job": "cook", "age": (10, 20)})
    assert both.answers(table).tolist() == [1, 0, 0, -1, -1]
    ends = Question("count", {"age": AGE}, where={"age": (10, 20)})
    assert ends.answers(table).tolist() == [1, 0, 1, 1, 1]
    assert ends.answers({"age": [9.999, 19.999, None]}).tolist() == [0, 1, -1]
    assert Question("count", {"x": Category(("true", "false"))}, {"x": True}).where == {
        "x": ("true",)
    }


def test_rows_with_names_and_missing_columns():
    question = Question("histogram", {"age": AGE}, bins=2)
    assert question.answers(np.array([[1, 50], [2, 3]]), ["x", "age"]).tolist() == [1, 0]
    with pytest.raises(InvalidArgument, match="column = 'age': must be a column of the table"):
        question.answers({"ages": [1]})


def test_records_that_give_no_answer():
    for question in QUESTIONS:
        known = question.numbers if question.count == 1 else question.answers
        question.check_answered(known({"job": ["cook"], "age": [15]}))
    with pytest.raises(InvalidData, match=r"^job: 2 of 3 records give no answer: name every level"):
        QUESTIONS[3].check_answered(QUESTIONS[3].answers({"job": ["cook", "x", None]}))
    with pytest.raises(InvalidData, match=r"^age: 1 of 2 records gives no answer: say in the sch"):
        QUESTIONS[8].check_answered(QUESTIONS[8].numbers({"age": [1, None]}))


# --- one question, one text ----------------------------------------------------------------------


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_through_json_and_back(question):
    text = question.encode()
    again = Question.of_dict(json.loads(text))
    assert again == question
    assert again.encode() == text
    assert again.labels == question.labels


def test_one_question_has_one_text():
    texts = [question.encode() for question in QUESTIONS]
    assert len(set(texts)) == len(texts)
    same = [
        Question("histogram", {"age": (0, 80)}),
        Question("histogram", {"age": [0.0, 80.0]}, bins=10),
        Question("histogram", Schema({"age": AGE}, label="rich", classes=["no", "yes"])),
    ]
    assert len({question.encode() for question in same}) == 1
    columns = {"job": JOB, "age": AGE}
    counted = [
        Question("count", columns, where={"job": ["smith", "cook"], "age": [10, 20]}),
        Question("count", columns, where={"age": (10.0, 20.0), "job": ("cook", "smith", "cook")}),
    ]
    assert counted[0] == counted[1]
    assert counted[0].encode() == counted[1].encode()
    assert Question("quantiles", {"age": AGE}).encode() == (
        Question("quantiles", {"age": AGE}, bins=16, quantiles=(0.25, 0.5, 0.75)).encode()
    )


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (QUESTIONS[0], "histogram of age"),
        (QUESTIONS[7], "count of job = cook or smith and age from 10 to 20"),
        (QUESTIONS[11], "cross table of job × age"),
    ],
    ids=str,
)
def test_in_words(question, said):
    assert str(question) == said


def test_edges_have_as_many_digits_as_tell_them_apart():
    def parts(low, high, bins):
        return Question("histogram", {"x": (low, high)}, bins=bins).labels

    assert parts(0, 1, 4)[:2] == ("0 to 0.25", "0.25 to 0.5")
    assert parts(1_000_000, 1_000_001, 4)[0] == "1000000 to 1000000.2"
    assert parts(0, 3_000_000, 2) == ("0 to 1500000", "1500000 to 3000000")
    assert len(set(parts(-1e-9, 1e-9, 1000))) == 1000
    with pytest.raises(InvalidArgument, match="bins = 10: must be fewer"):
        parts(1e16, 1e16 + 4, 10)


# --- what is refused -----------------------------------------------------------------------------

WRONG = [
    (("sum", {"age": AGE}), {}, "question = 'sum': must be one of count, histogram"),
    (("histogram", {"age": "private"}), {}, "column = 'age': must be one with public bounds"),
    (("histogram", {"born": {"date": ["month"]}}), {}, "column = 'born': .* not of dates"),
    (("histogram", {"age": (-1e308, 1e308)}), {}, r"bounds = \[-1e\+308, 1e\+308\]"),
    (("histogram", {"age": AGE, "job": JOB}), {}, "columns = 'age, job': must be one column"),
    (("cross table", {"age": AGE}), {}, "columns = 'age': must be two or more"),
    (("histogram", {"job": ["cook"]}), {}, "levels = 1: must be an integer in 2 … 65536"),
    (("mean", {"job": JOB}), {}, "column = 'job': must be one of numbers for a mean"),
    (("quantiles", {"job": JOB}), {}, "column = 'job': must be one of numbers for quantiles"),
    (("histogram", {"age": AGE}), {"bins": 1}, "bins = 1: must be an integer in 2 … 65536"),
    (("histogram", {"age": AGE}), {"bins": 10**9}, "bins = 1000000000"),
    (("histogram", {"age": AGE}), {"bins": True}, "bins = True"),
    (("quantiles", {"age": AGE}), {"bins": 1025}, "bins = 1025: must be an integer in 2 … 1024"),
    (("histogram", {"job": JOB}), {"bins": 4}, "bins = 4: must be omitted for columns of levels"),
    (("mean", {"age": AGE}), {"bins": 4}, "bins = 4: must be omitted for a mean"),
    (("cross table", {"a": AGE, "b": AGE, "c": AGE}), {"bins": 41}, "levels = 68921"),
    (("mean", {"age": AGE}), {"where": {"age": (0, 9)}}, "where = .*: must be omitted for a mean"),
    (("count", {"age": AGE}), {}, "where = None: must be what is counted"),
    (("count", {"age": AGE}), {"where": "cook"}, "where = 'cook': must be what is counted"),
    (("count", {"age": AGE}), {"where": {"job": "x"}}, "where = 'job': must be about one of its"),
    (("count", {"job": JOB}), {"where": {"job": "nurse"}}, "where = 'nurse': must be a level of"),
    (
        ("count", {"job": JOB}),
        {"where": {"job": JOB.levels}},
        "must be some of the levels",
    ),
    (("count", {"job": JOB}), {"where": {"job": []}}, r"where = \[\]: must be some of the levels"),
    (("count", {"job": JOB, "age": AGE}), {"where": {"job": "cook"}}, "columns = 'age': must be o"),
    (("count", {"age": AGE}), {"where": {"age": (20, 10)}}, r"where = \[20, 10\]: .*low < high"),
    (("count", {"age": AGE}), {"where": {"age": (0, 81)}}, "a part of the range of age"),
    (("count", {"age": AGE}), {"where": {"age": (80.5, 90)}}, "a part of the range of age"),
    (("count", {"age": AGE}), {"where": {"age": (math.nan, 9)}}, "where = nan"),
    (("quantiles", {"age": AGE}), {"quantiles": (0.5, 0.2)}, "quantiles = .*: must be ascending"),
    (("quantiles", {"age": AGE}), {"quantiles": (0.5, 0.5)}, "quantiles = .*: must be ascending"),
    (("quantiles", {"age": AGE}), {"quantiles": (0, 0.5)}, "quantiles = .*: must be ascending"),
    (("quantiles", {"age": AGE}), {"quantiles": 0.5}, "quantiles = 0.5: must be ascending"),
    (("quantiles", {"age": AGE}), {"quantiles": (math.nan,)}, "quantiles = nan"),
    (("histogram", {"age": AGE}), {"quantiles": (0.5,)}, "omitted for a histogram"),
]


@pytest.mark.parametrize(("given", "more", "complaint"), WRONG, ids=lambda x: str(x)[:40])
def test_wrong_questions(given, more, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        Question(*given, **more)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ("histogram", "question = 'histogram': must be a table"),
        ({"columns": {"age": [0, 9]}}, "question.kind = None: must be set"),
        ({"kind": "mean"}, "question.columns = None: must be set"),
        ({"kind": "mean", "columns": {"age": [0, 9]}, "bin": 3}, "question.bin = 3"),
        ({"kind": "mean", "columns": 3}, "columns = 3: must be columns by name"),
        ({"kind": "quantiles", "columns": {"age": [0, 9]}, "quantiles": 5}, "quantiles = 5"),
    ],
)
def test_wrong_tables_of_a_question(values, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        Question.of_dict(values)


def test_the_largest_question():
    question = Question("histogram", {"x": (0, 1)}, bins=MOST_ANSWERS)
    assert question.count == len(set(question.labels)) == MOST_ANSWERS
    assert question.answers({"x": [1.0, 0.0]}).tolist() == [MOST_ANSWERS - 1, 0]
