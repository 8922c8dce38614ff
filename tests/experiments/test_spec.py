"""Specifications: their cells, the settings of the paper, and wrong parameters."""

import pytest

from fedsel import InvalidArgument
from fedsel.experiments import (
    Spec,
    cache_key,
    override,
)
from tests.experiments.test_running import SMALL


def test_cells_name_every_point_once():
    cells = list(SMALL.cells())
    assert [(c.recipe.solution, c.recipe.epsilon) for c in cells] == [
        ("NP", None),
        ("PS-PM", 1.0),
        ("PS-PM", 2.0),
    ]
    assert len({cache_key(c) for c in cells}) == 3


def test_settings_of_the_paper_and_of_others():
    shared = {"solutions": ("PM",), "epsilons": (1.0,), "models": ("svm",)}
    (cell,) = Spec(dataset="syn-H-0.1-0.6", **shared).cells()
    assert (cell.scale, cell.intercept, cell.recipe.learning_rate) == ("none", False, 0.7)
    (cell,) = Spec(dataset="my.csv", **shared, rates={"svm": 3.0}).cells()
    assert (cell.scale, cell.intercept, cell.recipe.learning_rate) == ("standard", True, 3.0)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"solution": "PM"}, "solution = 'PM': must be a known parameter, such as solutions"),
        ({"solutions": ["XX"]}, "solution = 'XX'"),
        ({"epsilons": [0.0]}, "epsilon = 0.0"),
        ({"models": ["tree"]}, "model = 'tree'"),
        ({"folds": 1}, "folds = 1"),
        ({"batch": 0.0}, "batch = 0.0"),
        ({"mu": 1.5}, "mu = 1.5"),
        ({"learning_rate": -1.0}, "learning_rate = -1.0"),
    ],
)
def test_wrong_parameters_are_told_before_anything_runs(changes, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        override(Spec(), changes)
