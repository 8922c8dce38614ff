"""Moments of reports: those of theory, and how many reports they call for."""

import math

import numpy as np
import pytest

from fedsel import solution
from fedsel.advising import Moments, Updates, moments
from fedsel.advising._sufficiency import GOAL
from fedsel.solutions._rotated import hadamard
from tests.advising.test_outlook import made


def test_unbiased_solutions_have_the_signal_of_the_mean():
    updates = Updates(100, 0.4, 0.25)
    for name in ("PM", "HM", "UJ", "FJ"):
        told = moments(made(name, 100, 1.0, 0.4), updates)
        assert told.signal == pytest.approx(0.1, rel=1e-2), name
    plain = moments(solution("NP", dim=100), updates)
    assert plain.alignment(1) == pytest.approx(0.25)


def test_second_moments_of_pm_are_those_of_theory():
    """(d/c)·Σ_j(Var(t_j) + t_j²), with PM's variance t²/(h−1) + (h+3)/(3(h−1)²)."""
    d, r, h = 100, 3.0, math.exp(0.5)
    told = moments(solution("PM", epsilon=1.0, dim=d), Updates(d, r, 0.2))
    expected = d * (d * (h + 3) / (3 * (h - 1) ** 2) + r**2 * (1 / (h - 1) + 1))
    assert told.second == pytest.approx(expected, rel=0.01)


def test_moments_answer_how_many_reports_are_needed():
    told = Moments(signal=0.1, shared=0.012, second=9.0)
    needed = told.reports_for(GOAL)
    assert told.alignment(needed) >= GOAL > told.alignment(needed - 1)
    assert Moments(signal=0.1, shared=0.05, second=9.0).reports_for(GOAL) is None


def test_rows_are_transformed_as_vectors_are():
    rows = np.random.default_rng(0).standard_normal((3, 16))
    assert (hadamard(rows) == [hadamard(row) for row in rows]).all()
