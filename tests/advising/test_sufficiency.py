"""When clients are enough: how often a model decides like the best one, among any classes."""

import math

import numpy as np
import pytest

from fedsel.advising._sufficiency import GOAL, agreement_of, decisions, goal_for


@pytest.mark.slow
@pytest.mark.parametrize("classes", [3, 5, 20, 100])
@pytest.mark.parametrize("alignment", [0.05, 0.3, 0.7, 0.95])
def test_decisions_are_those_of_margins_that_are_drawn(classes, alignment):
    """Six standard deviations: a false alarm in 1e-9."""
    rng, count = np.random.default_rng(classes), 40_000
    best, own = rng.normal(size=(2, count, classes))
    margins = alignment * best + math.sqrt(1 - alignment**2) * own
    seen = float(np.mean(margins.argmax(axis=1) == best.argmax(axis=1)))
    expected = decisions(alignment, classes)
    assert abs(seen - expected) < 6.1 * math.sqrt(expected * (1 - expected) / count)


def test_decisions_between_a_guess_and_certainty():
    for classes in (2, 3, 10, 50):
        assert decisions(0.0, classes) == pytest.approx(1 / classes, rel=1e-4)
        assert decisions(1.0, classes) > 0.9
        told = [decisions(c, classes) for c in np.linspace(0, 1, 11)]
        assert told == sorted(told)


def test_the_goal_is_half_again_a_guess():
    assert goal_for(2) == GOAL == 0.5
    assert decisions(GOAL, 2) == pytest.approx(2 / 3)
    for classes in (3, 4, 10, 100, 1000):
        assert decisions(goal_for(classes), classes) == pytest.approx(1.5 / classes, rel=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 7, 20])
def test_the_agreement_is_that_of_classes_at_one_distance(classes):
    """Class means on a simplex, as far apart as two are whose mean gradient is 0.2 of one."""
    distance = 2 * agreement_of(2)  # ±0.2 for records of norm 1
    means = np.eye(classes) * distance / math.sqrt(2)
    means -= means.mean(axis=0)
    slopes = np.full((classes, classes), 1 / classes) - np.eye(classes)  # p − e_y, by true class
    mean = slopes.T @ means / classes
    one = np.linalg.norm(slopes[0])
    assert np.linalg.norm(mean) / one == pytest.approx(agreement_of(classes))
