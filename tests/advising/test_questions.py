"""Advice on questions: the error to expect, the clients that would do, and a shuffler's part."""

import json
import math

import pytest

import fedsel
from fedsel import InvalidArgument
from fedsel.advising import QuestionAdvice, advise_question
from fedsel.measuring import clients_for, half_width, least_clients, question_recipe
from fedsel.wire import Question

TWENTY = Question("histogram", {"age": (0, 100)}, bins=20)


def test_advice_is_what_the_plan_says():
    advice = advise_question("histogram", levels=20, clients=5000, epsilon=1.0)
    made = question_recipe(TWENTY, 1.0).build()
    assert math.isclose(advice.half_width, half_width(made, 5000))
    assert math.isclose(advice.error, math.sqrt(made.transform.error(1.0) / 5000))
    assert (advice.bits, advice.least) == (made.bits, least_clients(made))
    assert advice.needed == {0.01: clients_for(made, 0.01), 0.05: clients_for(made, 0.05)}
    assert advice == advise_question(TWENTY, clients=5000, epsilon=1.0)
    assert advice.enough
    first, second, third = advice.sentences
    assert first.startswith("The share of one of 20 answers from 5,000 clients at ε = 1 is off by")
    assert second == "A report has 8 bits: one of 253 blocks, each of 6 of 23 answers."
    assert "for ± 5 percentage points" in third


def test_more_clients_and_a_larger_epsilon_are_more_exact():
    widths = [
        advise_question("count", clients=n, epsilon=e).half_width
        for n, e in ((1000, 1.0), (4000, 1.0), (4000, 2.0))
    ]
    assert widths == sorted(widths, reverse=True)
    assert math.isclose(widths[0] / widths[1], 2, rel_tol=0.05)


def test_kinds_of_questions():
    mean = advise_question("mean", clients=1000, epsilon=1.0)
    assert mean.answers == 1
    assert "% of the range" in mean.sentences[0]
    assert mean.sentences[1] == "A report has 1 bit: one of 2 values."
    count = advise_question("count", clients=1000, epsilon=1.0)
    assert (count.answers, count.report) == (2, "one answer")
    quantiles = advise_question("quantiles", clients=1000, epsilon=1.0)
    assert quantiles.answers == 16
    fewer = advise_question("quantiles", levels=4, clients=1000, epsilon=1.0)
    assert fewer.below_median < quantiles.below_median / 2
    assert "with fewer bins better" in quantiles.sentences[-1]
    assert advise_question("cross table", levels=9, clients=1000, epsilon=1.0).answers == 9


def test_too_few_clients_are_told_how_many_would_do():
    advice = advise_question("histogram", levels=20, clients=100, epsilon=1.0)
    assert not advice.enough
    assert advice.sentences[-1] == (
        f"So few clients can say nothing: {advice.least} or more would do, or a larger ε."
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["histogram", "mean"])
def test_a_central_goal(kind):
    levels = {"histogram": 20}.get(kind)
    advice = advise_question(kind, levels=levels, clients=5000, central=1.0, delta=1e-6)
    assert advice.epsilon > 4
    assert advice.guarantee.epsilon <= 1.0
    question = TWENTY if kind == "histogram" else Question("mean", {"age": (0, 1)})
    made = question_recipe(question, advice.epsilon).build()
    proved = fedsel.amplify(made, reports=5000, delta=1e-6)
    assert proved.epsilon <= 1.0
    assert isinstance(advice.without, QuestionAdvice)
    assert advice.without.epsilon == 1.0
    assert advice.half_width < advice.without.half_width / 4
    assert "This takes a shuffler. Proved: central ε = 1" in advice.sentences[-2]
    assert json.loads(json.dumps(advice.as_dict()))["without"]["epsilon"] == 1.0


def test_json():
    told = json.loads(json.dumps(advise_question("count", clients=9, epsilon=1).as_dict()))
    assert told["needed"].keys() == {"0.01", "0.05"}
    assert told["enough"] is False
    assert told["sentences"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"question": "sum"}, "question = 'sum': must be one of count, histogram"),
        ({"levels": None}, "levels = None: must be an integer in 2 … 65536"),
        ({"levels": 1}, "levels = 1: must be an integer in 2 … 65536"),
        ({"levels": 10**9}, "levels = 1000000000"),
        ({"question": "mean"}, "levels = 20: must be omitted for a mean"),
        ({"question": "count"}, "levels = 20: must be omitted for a count"),
        ({"question": TWENTY}, "levels = 20: must be omitted beside a Question"),
        ({"clients": 0}, "clients = 0: must be an integer ≥ 1"),
        ({"epsilon": math.nan}, "epsilon = nan: must be a number > 0"),
        ({"epsilon": None}, "epsilon = None: must be a number > 0, unless a central ε is given"),
        ({"central": 1.0}, r"central = 1\.0: must be omitted if the local ε is given"),
        ({"delta": 1e-6}, "delta = 1e-06: must be omitted without a central ε"),
        ({"epsilon": None, "central": -1}, "central = -1: must be a finite number > 0"),
        ({"epsilon": None, "central": 1, "delta": 2}, "delta = 2: must be in"),
        ({"level": 0}, "level = 0: must be in"),
    ],
)
def test_wrong_arguments(given, complaint):
    usual = {"question": "histogram", "levels": 20, "clients": 5000, "epsilon": 1.0}
    with pytest.raises(InvalidArgument, match=complaint):
        advise_question(**{**usual, **given})
