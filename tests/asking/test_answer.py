"""What an answer holds: shares that fit together, JSON, and a table."""

import json
import math
import warnings
from fractions import Fraction

import pytest

from fedsel import InvalidData, ask
from fedsel.asking import Answer
from fedsel.errors import SeededNoiseWarning
from fedsel.measuring import question_recipe
from tests.asking.people import COUNT, QUESTIONS, TABLE


@pytest.fixture(scope="module")
def answers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        return {name: ask(TABLE, one, 4.0, seed=1) for name, one in QUESTIONS.items()}


def test_what_an_answer_holds(answers):
    assert [answers[name].bits for name in ("count", "mean")] == [1, 4]
    for name, answer in answers.items():
        assert answer.question == QUESTIONS[name]
        assert answer.epsilon == Fraction(4)
        assert answer.clients == answer.everyone == COUNT
        shares = answer.shares.values()
        assert len(shares) == (0 if name == "mean" else answer.question.count)
        if shares:
            assert math.isclose(sum(share.value for share in shares), 1)
        for share in shares:
            assert 0 <= share.low <= share.value <= share.high <= 1
        assert (answer.mean is None) == (name != "mean")
        assert bool(answer.quantiles) == (name == "quantiles")
        assert bool(answer.margins) == (name == "cross table")
    assert list(answers["cross table"].shares)[1] == ("cook", "20 to 40")
    assert list(answers["cross table"].margins["age"]) == [
        *("0 to 20", "20 to 40", "40 to 60", "60 to 80")
    ]
    assert list(answers["quantiles"].quantiles) == [0.25, 0.5, 0.75]
    number = answers["count"].number
    share = answers["count"].shares["yes"]
    assert (number.value, number.error) == (COUNT * share.value, COUNT * share.error)


def test_means_and_quantiles_are_in_the_units_of_the_column(answers):
    ages = TABLE["age"]
    mean, median = answers["mean"].mean, answers["quantiles"].quantiles[0.5]
    assert abs(mean.value - ages.mean()) < 6 * mean.error
    assert 0 < mean.error < 2
    assert median.low <= 36 <= median.high
    assert all(0 <= one.low <= one.high <= 80 for one in answers["quantiles"].quantiles.values())


def test_json(answers):
    for name, answer in answers.items():
        told = json.loads(json.dumps(answer.as_dict(), allow_nan=False))
        assert told["question"] == json.loads(answer.question.encode())
        assert told["sentence"] == str(answer)
        assert (told["epsilon"], told["clients"], told["level"]) == (4.0, COUNT, 0.95)
        present = {"mean", "quantiles", "shares", "margins", "number"} & told.keys()
        assert (
            present
            == {
                "count": {"number", "shares"},
                "histogram": {"shares"},
                "numbers": {"shares"},
                "mean": {"mean"},
                "quantiles": {"quantiles", "shares"},
                "cross table": {"shares", "margins"},
            }[name]
        )
    crossed = answers["cross table"].as_dict()
    assert crossed["shares"][0]["answer"] == ["cook", "0 to 20"]
    assert crossed["margins"]["job"][0].keys() == {"answer", "value", "low", "high", "error"}
    assert answers["quantiles"].as_dict()["quantiles"][1]["quantile"] == 0.5


def test_the_table(answers):
    table = answers["histogram"].table
    assert table.title == "Histogram of job"
    assert table.columns == ("job", "share (%)", "95 % from", "to")
    assert [row[0] for row in table.rows] == ["cook", "smith", "nurse", "clerk"]
    assert table.note == "1,000 clients, ε = 4 per client"
    assert len(answers["cross table"].table.rows) == 16 + 4 + 4
    assert answers["cross table"].table.rows[-1][:2] == ("all", "60 to 80")
    assert [row[0] for row in answers["count"].table.rows] == ["share (%)", "clients"]
    assert all(isinstance(x, int) for x in answers["count"].table.rows[1][1:])
    assert answers["mean"].table.rows[0][0] == "age"
    assert [row[0] for row in answers["quantiles"].table.rows] == ["25 %", "50 %", "75 %"]


def test_a_level_is_said():
    answer = ask(TABLE, QUESTIONS["histogram"], 4.0, level=0.5)
    assert answer.table.columns[2] == "50 % from"
    wide = ask(TABLE, QUESTIONS["histogram"], 4.0, level=0.999)
    share, other = answer.shares["cook"], wide.shares["cook"]
    assert share.high - share.low < (other.high - other.low) / 3


def test_no_report_is_no_answer():
    recipe = question_recipe(QUESTIONS["histogram"], 1.0)
    with pytest.raises(InvalidData, match="histogram of job: there is no report"):
        Answer.of(QUESTIONS["histogram"], recipe, recipe.build().totals())
