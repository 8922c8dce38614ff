"""Public bounds of features: what is taken for bounds, and where they put a record."""

import numpy as np
import pytest

from fedsel.errors import InvalidArgument
from fedsel.preparation import Preparation
from fedsel.preparation._plan import OCTAVES
from fedsel.preparation._scale import FeatureScale


@pytest.mark.parametrize(
    "bounds",
    [
        (1, 1),
        (2, 1),
        (0, float("nan")),
        (-float("inf"), 0),
        (0, [1, 1]),
        (0, [1, 1, 0]),
        ([0, 0, 2], [1, 1, 2]),
        3,
        (1, 2, 3),
        ("a", "b"),
        "public",
    ],
)
def test_what_is_no_pair_of_bounds(bounds):
    with pytest.raises(InvalidArgument, match=r"^feature_range = "):
        FeatureScale.declared(bounds, 3)


@pytest.mark.parametrize(
    ("low", "high", "x", "placed"),
    [
        (0.0, 4.0, [-1.0, 0.0, 1.0, 9.0], [0.0, 0.0, 0.25, 1.0]),
        (-2.0, 1.0, [-5.0, -1.0, 1.0, 5.0], [-1.0, -0.5, 0.5, 0.5]),
        (2.0, 6.0, [0.0, 2.0, 5.0, 7.0], [-1.0, -1.0, 0.5, 1.0]),  # zero lies outside
        (-0.5, -0.25, [0.0, -0.25, -0.375, -9.0], [1.0, 1.0, 0.0, -1.0]),
    ],
)
def test_a_record_lies_within_one_of_the_middle(low, high, x, placed):
    scale = FeatureScale.of((low, high), 1)
    assert scale.apply(np.array(x)[:, None])[:, 0].tolist() == placed
    assert (scale.centre[0] != 0) == (low > 0 or high < 0)


def test_a_feature_that_cannot_vary_tells_nothing():
    scale = FeatureScale.read(np.array([[3.0, 0.0, 1.0], [3.0, 0.0, 2.0]]))
    assert scale.factor.tolist() == [0.0, 0.0, 2.0]
    assert scale.apply(np.array([[3.0, 0.0, 2.0]])).tolist() == [[0.0, 0.0, 1.0]]
    assert scale.loose == (False, False, True)


def test_bounds_that_may_be_far_too_wide():
    bounds = np.array([[0, 1], [-1, 1], [0, 2], [-1, 0.5], [-2, 1], [0.5, 1]])
    scale = FeatureScale.of(bounds.T, 6)
    assert scale.loose == (False, False, True, True, True, True)
    assert (scale.octaves_loose, FeatureScale.of((0, 1), 2).octaves_loose) == (OCTAVES, 0)


def test_bounds_about_zero_need_no_centre():
    assert not FeatureScale.of((-3, 3), 2).offset
    assert FeatureScale.of((-3, 4), 2).offset
    assert FeatureScale.unknown(2).offset


def test_where_some_bounds_are_known_they_are_kept():
    bounds = np.array([[-3.0, 7.0], [-np.inf, np.inf], [0.0, np.inf]])
    scale = FeatureScale.unknown(3, bounds)
    assert (scale.low.tolist(), scale.high.tolist()) == (
        [-3.0, -(2.0**32), -(2.0**32)],
        [7.0, 2.0**32, 2.0**32],
    )
    assert scale.octaves == FeatureScale.declared("private", 3).octaves == 64
    assert scale.loose == (False, True, True)


@pytest.mark.parametrize("name", ["spread", "centre", "intercept", "unit", "factor"])
def test_a_preparation_is_whole(name):
    values = Preparation.plain(2).to_dict()
    del values[name]
    with pytest.raises(InvalidArgument, match=r"^preparation = 'dict': must be "):
        Preparation.of_dict(values)


def test_what_is_public_is_not_changed():
    prepared = Preparation.plain(2)
    assert not prepared.spread.flags.writeable
    assert not prepared.centre.flags.writeable


def test_a_scale_is_a_declaration_of_bounds():
    scale = FeatureScale.of((0, 4), 2)
    assert FeatureScale.declared(scale, 2) is scale
    with pytest.raises(InvalidArgument, match="bounds of 3 features"):
        FeatureScale.declared(scale, 3)
