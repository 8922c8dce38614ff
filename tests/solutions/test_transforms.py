"""Transforms: what is public is bounded, sealed and the same for all who have the parameters."""

import numpy as np
import pytest

from fedsel import InvalidArgument, Rotated
from fedsel.solutions import Influence
from fedsel.solutions._transforms import (
    LEAST_SINGULAR,
    Coordinates,
    Projection,
    RandomDirections,
    Transform,
)


def test_public_numbers_are_sealed():
    made = (Rotated(5).signs(0, 0), RandomDirections(3, 8).matrix, Projection(6, 0.5).recovery)
    for shared in made:  # with all that have the same public parameters
        assert not shared.flags.writeable
    assert RandomDirections(3, 8).entries == 24
    assert Rotated(5).entries == Coordinates(5).entries == 0


def test_a_coordinate_is_its_own_codeword():
    v = np.array([0.5, -2.0, 3.0])
    for slot in range(3):
        assert Transform.value(Coordinates(3), v, slot) == Coordinates(3).value(v, slot) == v[slot]


def test_the_largest_codebook_has_2_28_entries():
    most = RandomDirections(dim=1 << 14, words=1 << 14)  # nothing of it is drawn
    assert most.entries == 1 << 28
    for dim, words in (((1 << 14) + 1, 1 << 14), (1 << 14, (1 << 14) + 1), (3, 1 << 28)):
        with pytest.raises(
            InvalidArgument, match=rf"^words = .*at most 2\^28/dim = {2**28 // dim}"
        ):
            RandomDirections(dim, words)


@pytest.mark.parametrize("ratio", [0, 0.0, -0.5, 1.0000001, float("nan")])
def test_a_ratio_lies_above_zero(ratio):
    with pytest.raises(InvalidArgument, match=r"^ratio = .*must be in \(0, 1\]"):
        Projection(5, ratio)


@pytest.mark.parametrize("make", [Coordinates, Rotated, RandomDirections, Projection])
@pytest.mark.parametrize("dim", [0, -1, 2.0, "3"])
def test_impossible_dimensions(make, dim):
    with pytest.raises(InvalidArgument, match=r"^dim = "):
        make(dim)


@pytest.mark.parametrize("make", [Rotated, RandomDirections, Projection])
def test_impossible_seeds(make):
    assert make(3, seed=0) == make(3)
    with pytest.raises(InvalidArgument, match=r"^seed = -1"):
        make(3, seed=-1)


def test_what_is_not_said():
    assert (RandomDirections(3).words, Projection(30).size, LEAST_SINGULAR) == (1024, 3, 1 / 32)
    assert Coordinates(3).influence() == Influence(1.0, 1.0)
