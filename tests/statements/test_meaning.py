"""What ε means: the certainty that it allows, exactly and in words."""

import math
from fractions import Fraction

import pytest

from fedsel import solution
from fedsel._internal.exact import exp_upper
from fedsel.statements import certainty, exactly, in_percent, meaning


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (0, "50 %"),
        (0.1, "52 %"),
        (1, "73 %"),
        (2, "88 %"),
        (2.2, "90.0 %"),
        (4, "98.2 %"),
        (Fraction(8), "99.97 %"),
        (16, "99.99999 %"),
        (20, "99.9999998 %"),
        (20.5, "practically 100 %"),
        (500, "practically 100 %"),
        (math.inf, "practically 100 %"),
    ],
)
def test_certainty_in_words(epsilon, text):
    assert in_percent(epsilon) == text
    assert text in meaning(epsilon)


def test_certainty_never_reaches_one_before_a_float_does():
    values = [certainty(epsilon) for epsilon in (0, 0.5, 1, 2, 4, 8, 16, 32)]
    assert values == sorted(values)
    assert values[0] == 0.5
    assert all(value < 1 for value in values)
    assert certainty(500) == 1.0
    for tenths in range(201):
        assert not in_percent(tenths / 10).startswith("100")


def test_certainty_is_bayes_rule_for_the_worst_report():
    """By the exact law of a report: the best guess between any two contents, from an even prior."""
    made = solution("PM", epsilon=2.0, dim=1)
    ratio = made.privacy.ratio  # the largest of two probabilities of one report
    worst = float(ratio / (ratio + 1))
    assert worst == pytest.approx(certainty(made.privacy.per_report), abs=1e-12)
    assert ratio <= exp_upper(2)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(8), "8"),
        (Fraction(1, 10), "0.1 = 1/10 exactly"),
        (Fraction(1, 3), "0.333333333333 = 1/3 exactly"),
        (Fraction(10**30 + 1, 10**30), f"1 = {10**30 + 1}/{10**30} exactly"),
    ],
)
def test_numbers_are_said_exactly(amount, text):
    assert exactly(amount) == text
