"""What the page of a run draws of answers: intervals, in order, with names that cannot harm it."""

from types import SimpleNamespace

import pytest

from fedsel.asking import Answer
from fedsel.measuring._planning import question_recipe
from fedsel.sampling.answers import report_answers, report_numbers
from fedsel.service._said import figures_of_answers
from fedsel.wire import Question

HOSTILE = "<script>alert(1)</script>"


def snapshot(question, values):
    recipe = question_recipe(question, 4.0)
    solution = recipe.build()
    totals = solution.totals()
    report = report_numbers if question.count == 1 else report_answers
    totals.add(report(solution, values))
    answer = Answer.of(question, recipe, totals)
    nothing = SimpleNamespace(measurements={})
    return SimpleNamespace(state=nothing, answers={0: answer}, task=SimpleNamespace(schema=None))


def test_bars_have_a_line_for_each_answer_and_escape_their_names():
    question = Question("histogram", {"job": ["cook", HOSTILE]})
    ((title, drawing, text),) = figures_of_answers(snapshot(question, [0] * 70 + [1] * 30))
    assert title == "Histogram of job"
    assert drawing.count('class="interval"') == 2
    assert "<script>" not in drawing
    assert "100 clients" in text


def test_many_answers_are_cut_to_the_most_common():
    question = Question("histogram", {"age": (0, 100)}, bins=100)
    ((_, drawing, text),) = figures_of_answers(snapshot(question, [7] * 3000))
    assert drawing.count('class="interval"') == 40
    assert "The 40 most common answers are shown." in text
    assert "7 to 8" in drawing


@pytest.mark.parametrize("bounds", [(0, 100), (-1, 1)])
def test_a_mean_is_one_line(bounds):
    question = Question("mean", {"age": bounds})
    ((_, drawing, _),) = figures_of_answers(snapshot(question, [0.1] * 500))
    assert drawing.count('class="interval"') == 1


def test_without_answers_nothing_is_drawn():
    nothing = SimpleNamespace(measurements={})
    assert figures_of_answers(SimpleNamespace(state=nothing, answers={}, task=None)) == []
