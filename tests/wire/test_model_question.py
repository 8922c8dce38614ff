"""Questions about a model: which answer a labelled record gives, and how they travel."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsel import InvalidArgument
from fedsel.wire._model_question import (
    MOST_ANSWERS,
    MOST_QUESTIONS,
    NO_ANSWER,
    ModelQuestion,
    measured_question,
    measuring_run,
)

QUESTIONS = (
    ModelQuestion("spread", 2, edges=(-1.0, 0.0, 1.0)),
    ModelQuestion("spread", 3, edges=(0.5, 1.0)),
    ModelQuestion("scores", 2, edges=(0.0,)),
    ModelQuestion("scores", 2, edges=(-0.25, 0.0, 0.25)),
    ModelQuestion("predictions", 3),
    ModelQuestion("confidence", 10, edges=(0.5, 1.0, 2.0)),
    ModelQuestion("residuals", 2, edges=(0.1, 0.2), targets=(-0.5, 0.0, 0.5)),
)
names = pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: f"{q.kind}-{q.count}")
RUN = bytes(range(16))


def one(question, margins, label):
    return int(question.answers(np.atleast_2d(margins), np.array([label]))[0])


def margins_for(question):
    return 1 if question.kind == "residuals" or question.classes == 2 else question.classes


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "label", "answer"),
    [(-1, 0, 0), (-0.25, 0, 1), (-1e-9, 1, 5), (0, 0, 2), (0.25, 1, 7), (9, 1, 7), (9, 0, 3)],
)
def test_a_bin_begins_with_its_edge(score, label, answer):
    assert one(QUESTIONS[3], [score], label) == answer


def test_two_margins_count_by_their_difference():
    one_margin, two = [[0.3], [-0.3]], [[1.0, 1.3], [0.5, 0.2]]
    for question in QUESTIONS[2:4]:
        answers = [question.answers(np.array(m), np.array([1, 0])) for m in (one_margin, two)]
        np.testing.assert_array_equal(*answers)


def test_predictions_are_class_by_predicted_class():
    margins = np.array([[3.0, 1.0, 0.0], [0.0, 1.0, 3.0], [1.0, 1.0, 0.0]])
    assert QUESTIONS[4].answers(margins, np.array([0, 1, 1])).tolist() == [0, 5, 3]


def test_confidence_is_right_or_wrong_by_the_lead():
    question = ModelQuestion("confidence", 3, edges=(0.5, 1.0))
    margins = np.array([[3.0, 1.0, 0.0], [0.0, 2.75, 3.0], [0.0, 0.25, 1.0]])
    assert question.answers(margins, np.array([0, 1, 2])).tolist() == [5, 0, 4]


def test_residuals_are_the_target_by_the_distance_from_a_clipped_prediction():
    question = QUESTIONS[6]
    assert one(question, [0.0], -1.0) == 2
    assert one(question, [7.0], 1.0) == 9
    assert one(question, [0.1], 0.0) == 7


@names
@pytest.mark.parametrize("label", [float("nan"), float("inf"), -float("inf")])
def test_a_label_that_is_none_gives_no_answer(question, label):
    assert one(question, [0.0] * margins_for(question), label) == NO_ANSWER


@pytest.mark.parametrize("label", [-1, 2.5, 0.5, 1e300, 99])
def test_a_label_beyond_the_classes_gives_no_answer(label):
    for question in QUESTIONS[:-1]:
        assert one(question, [0.0] * margins_for(question), label) == NO_ANSWER


@names
@pytest.mark.parametrize("margin", [float("nan"), float("inf"), -float("inf")])
def test_a_margin_that_is_none_gives_no_answer(question, margin):
    margins = np.zeros((2, margins_for(question)))
    margins[0, -1] = margin
    answers = question.answers(margins, np.zeros(2))
    assert answers[0] == NO_ANSWER <= answers[1]


@names
@given(data=st.data())
def test_every_record_gives_one_answer_or_none_and_depends_on_itself_alone(question, data):
    width = margins_for(question)
    numbers = st.one_of(st.floats(), st.integers(-2, 12).map(float))
    rows = data.draw(
        st.lists(
            st.tuples(st.lists(numbers, min_size=width, max_size=width), numbers),
            min_size=1,
            max_size=5,
        )
    )
    margins, labels = np.array([m for m, _ in rows]), np.array([label for _, label in rows])
    answers = question.answers(margins, labels)
    assert answers.dtype == np.int64
    assert ((answers >= NO_ANSWER) & (answers < question.count)).all()
    alone = [one(question, m, label) for m, label in rows]
    assert answers.tolist() == alone


@names
def test_the_table_is_named_row_by_column(question):
    rows, columns = question.axes
    assert (len(rows), len(columns)) == question.shape
    assert question.count == len(rows) * len(columns)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "secrets"},
        {"kind": "scores", "classes": 1, "edges": (0.0,)},
        {"kind": "scores", "edges": (0.0, 0.0)},
        {"kind": "scores", "edges": (1.0, 0.0)},
        {"kind": "scores", "edges": (float("nan"),)},
        {"kind": "scores", "edges": (float("inf"),)},
        {"kind": "scores", "edges": ("a",)},
        {"kind": "residuals", "edges": (0.1,), "targets": (0.5, 0.5)},
        {"kind": "spread"},
        {"kind": "predictions", "classes": 257},
        {"kind": "scores", "classes": True, "edges": (0.0,)},
        {"kind": "scores", "classes": 2, "edges": tuple(range(MOST_ANSWERS))},
    ],
)
def test_a_question_without_sense_is_refused(values):
    with pytest.raises(InvalidArgument, match=r"^measure\."):
        ModelQuestion(**values)


# --- as it travels -------------------------------------------------------------------------------


@names
def test_a_question_survives_json(question):
    assert ModelQuestion.of_dict(json.loads(json.dumps(question.to_dict()))) == question


def test_runs_of_questions_are_told_apart():
    runs = [measuring_run(RUN, number) for number in range(MOST_QUESTIONS)]
    assert len({*runs, RUN}) == MOST_QUESTIONS + 1
    assert {len(run) for run in runs} == {len(RUN)}
    assert [measured_question(RUN, run) for run in runs] == [*range(MOST_QUESTIONS)]
    assert measured_question(RUN, RUN) is None
    assert measured_question(bytes(16), runs[0]) is None
