"""Answers in sentences: the numbers that can be told, with ε and the clients."""

import re
from fractions import Fraction

import pytest

from fedsel import ask
from fedsel.asking import Answer
from fedsel.asking._words import decimals_for, in_words
from fedsel.measuring import Estimate
from fedsel.wire import Question
from tests.asking.people import QUESTIONS, TABLE

JOBS = QUESTIONS["histogram"]
SHARE = Estimate(0.312, 0.298, 0.326, 0.007)


def made(question, **fields):
    given = {"clients": 5000, "everyone": 5000, "bits": 3, **fields}
    return Answer(question, Fraction(1), **given)


def test_sentences():
    shares = {job: Estimate(0.1, 0, 0.2, 0.05) for job in ("cook", "smith", "nurse", "clerk")}
    said = made(JOBS, shares={**shares, "nurse": SHARE})
    assert str(said) == (
        "Of 5,000 clients the most, 31.2 % (29.8 to 32.6 %), have job = nurse; ε = 1 per client."
    )
    count = Question("count", {"job": ["cook", "smith"]}, where={"job": "cook"})
    no = Estimate(0.688, 0.674, 0.702, 0.007)
    assert str(made(count, shares={"no": no, "yes": SHARE})) == (
        "Of 5,000 clients 31.2 % (29.8 to 32.6 %), about 1,560, have job = cook; ε = 1 per client."
    )
    mean = made(QUESTIONS["mean"], mean=Estimate(38.2411, 37.5, 38.98, 0.4), clients=2500)
    assert str(mean) == (
        "The mean of age is 38.24 (37.50 to 38.98) over 5,000 clients; ε = 1 per client, 2,500 of"
        " whom answered."
    )
    found = {0.25: Estimate(20, 18, 22, 1), 0.5: Estimate(38.2, 36, 40, 1)}
    assert str(made(QUESTIONS["quantiles"], quantiles=found)) == (
        "Of 5,000 clients 25 % have age below 20.0 (18.0 to 22.0), 50 % below 38.2 (36.0 to 40.0);"
        " ε = 1 per client."
    )
    crossed = made(QUESTIONS["cross table"], shares={("cook", "0 to 20"): SHARE})
    assert "have job = cook, age 0 to 20;" in str(crossed)


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_kind_of_question_has_a_sentence(name):
    said = str(ask(TABLE, QUESTIONS[name], 0.9))
    assert re.search(r"1,000 clients.*; ε = 0\.9 per client\.$", said)
    assert said.count(".\n") == 0


@pytest.mark.parametrize(
    ("estimate", "unit", "factor", "text"),
    [
        (SHARE, " %", 100, "31.2 % (29.8 to 32.6 %)"),
        (Estimate(0.5, 0.2, 0.8, 0.1), " %", 100, "50.0 % (20.0 to 80.0 %)"),
        (Estimate(0.5, 0.4999, 0.5001, 1e-4), " %", 100, "50.000 % (49.990 to 50.010 %)"),
        (Estimate(1.0, 1.0, 1.0, 0.0), " %", 100, "100.00 % (100.00 to 100.00 %)"),
        (Estimate(52_300.4, 51_000, 53_600, 600), "", 1, "52,300 (51,000 to 53,600)"),
        (Estimate(-0.0123, -0.02, -0.001, 0.005), "", 1, "−0.0123 (−0.0200 to −0.0010)"),
    ],
)
def test_as_many_digits_as_are_known(estimate, unit, factor, text):
    assert in_words(estimate, unit, factor) == text


def test_digits_of_widths():
    assert [decimals_for(width) for width in (1e9, 20, 19, 2, 1e-3, 1e-30)] == [0, 0, 1, 1, 5, 6]


def test_names_cannot_speak_to_the_terminal():
    question = Question("histogram", {"a b": ["\x1b[31mred", "blue"]})
    share = {"\x1b[31mred": SHARE, "blue": Estimate(0, 0, 0, 0)}
    assert "\x1b" not in str(made(question, shares=share))
