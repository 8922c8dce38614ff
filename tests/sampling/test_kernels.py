"""What the kernels read: every number of a solution's tables, and the signs of its rounds."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedsel import Feedback, InvalidArgument, Solution, solution
from fedsel.mechanisms import Duchi, PerturbedSampling, SignedSampling, TwoStage, UnbiasedJoint
from fedsel.sampling._kernels import ReportKernel, known, signs_of, tables_of
from fedsel.solutions import Coordinates, Rotated
from fedsel.solutions._baselines import PrivUnit, SignDS

PAIR = TwoStage(PerturbedSampling(0.5, k=2), Duchi(1.0), clip=0.7)


def numbers_of(tables):
    """The fields that are numbers, by name."""
    return {name: v for name, v in tables._asdict().items() if isinstance(v, int | float)}


def test_two_stages():
    made = Solution("x", 6, PAIR, 2, feedback=Feedback(True, 0.25))
    tables, law = tables_of(made), PAIR.selection.law(6)
    assert numbers_of(tables) == {
        "kind": 1,
        "basis": 0,
        "dim": 6,
        "slots": 6,
        "bases": 1,
        "rotations": 1,
        "width": 6,
        "factors": 0,
        "picks": 1,
        "ranked": True,
        "flat": False,
        "plain": False,
        "decays_at_server": False,
        "clip": 0.7,
        "momentum": 0.25,
        "scale": 1,
        "root": 6**0.5,
    }
    np.testing.assert_array_equal(tables.ranks.weights, law.weights)
    np.testing.assert_array_equal(tables.ranks.counts, law.counts)
    assert (tables.ranks.bottom, tables.ranks.by_rejection) == (law.bottom, law.by_rejection)
    window = PAIR.value.law.windows[0]
    assert tables.windows.tolist() == [[1, window.G, window.W, window.L, window.H]]
    np.testing.assert_array_equal(tables.units, made.alphabet.units)
    assert tables.sign is tables.baseline is tables.matrix is tables.recovery is None


def test_signs_in_several_rotations():
    made = Solution("x", 6, SignedSampling(2.0, k=3, radius=1.5), transform=Rotated(6, rotations=4))
    tables = tables_of(made)
    assert numbers_of(tables) == {
        "kind": 2,
        "basis": 1,
        "dim": 6,
        "slots": 32,
        "bases": 1,
        "rotations": 4,
        "width": 8,
        "factors": 0,
        "picks": 1,
        "ranked": True,
        "flat": False,
        "plain": False,
        "decays_at_server": True,
        "clip": 1,
        "momentum": 0,
        "scale": 1,
        "root": math.sqrt(8),
    }
    sign, law = tables.sign, made.mechanism.law(32)
    assert (sign.unbiased, sign.radius, sign.clip) == (False, 1.5, 1.0)
    np.testing.assert_array_equal(sign.ranks.weights, law.weights)
    assert tables.ranks is None
    directions = tables_of(replace(made, mechanism=SignedSampling(2.0, k=3)))
    assert directions.sign.radius == 0.0


def test_an_unbiased_sign():
    mechanism = UnbiasedJoint(2.0, k=2, clip=1.7)
    tables = tables_of(Solution("x", 6, mechanism))
    sign, (low, high) = tables.sign, mechanism.weights(6)
    assert (sign.unbiased, sign.low, sign.high, sign.top, sign.clip) == (True, low, high, 2, 1.7)
    assert (tables.kind, tables.ranked, tables.clip) == (2, False, 1.7)


def test_a_projection():
    made = solution("PM-RP", epsilon=2.0, dim=6, ratio=0.5, seed=3)
    tables = tables_of(made)
    assert (tables.kind, tables.basis, tables.slots, tables.flat) == (1, 2, 3, True)
    np.testing.assert_array_equal(tables.matrix, made.transform.matrix)
    np.testing.assert_array_equal(tables.recovery, made.transform.recovery)


@pytest.mark.parametrize("radius", [None, 2.5])
def test_a_direction_of_a_baseline(radius):
    mechanism = PrivUnit(2, 5, radius=radius)
    tables = tables_of(Solution("x", 5, mechanism))
    assert (tables.kind, tables.picks, tables.plain, tables.clip) == (3, 1, True, 1.0)
    assert (tables.scale, tables.decays_at_server) == (mechanism.scale, True)
    numbers = tables.baseline
    assert (numbers.inside, numbers.radius) == (mechanism.inside, radius or 0.0)
    np.testing.assert_array_equal(numbers.quantiles, mechanism.quantiles)
    assert numbers.shares is None


def test_a_set_of_a_baseline():
    mechanism = SignDS(2, 20, k=6, set_size=3)
    numbers = tables_of(Solution("x", 20, mechanism)).baseline
    shares = mechanism.shares(3, mechanism.threshold)
    assert numbers.top == 6
    assert numbers.shares.tolist() == np.cumsum(shares).tolist()
    assert numbers.quantiles is None


def test_updates_as_they_are_add_up():
    rows = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    made = solution("NP", dim=4)
    tables = tables_of(made)
    assert (tables.kind, tables.picks, tables.plain, tables.scale) == (0, 1, True, 1.0)
    kernel = ReportKernel(made, 0)
    kernel.send(0, np.arange(5), [rows])
    np.testing.assert_allclose(kernel.totals.sums, [rows.astype(float).sum(axis=0)], rtol=1e-15)


class OfSomebodyElse(TwoStage):
    pass


class Elsewhere(Coordinates):
    pass


def test_what_the_kernels_do_not_know():
    ours = Solution("x", 6, PAIR)
    theirs = Solution("x", 6, OfSomebodyElse(PAIR.selection, PAIR.value))
    elsewhere = Solution("x", 6, PAIR, transform=Elsewhere(6))
    assert [known(made) for made in (ours, theirs, elsewhere)] == [True, False, False]
    for made in (theirs, elsewhere):
        with pytest.raises(InvalidArgument, match=r"^solution = 'x': must be made of fedsel's own"):
            tables_of(made)


@pytest.mark.parametrize("seed", [0, 7, 2**32, 2**127 + 5, 2**128, 2**160 - 1, 2**165, 2**300 + 9])
def test_the_signs_of_rounds_are_those_of_the_transform(seed):
    rotated = Rotated(6, seed=seed, rotations=2, bases=3)
    made = Solution("x", 6, SignedSampling(2.0, k=3), transform=rotated)
    expected = [
        rotated.in_round(number).signs(basis, rotation)
        for number in (4, 5)
        for basis in range(3)
        for rotation in range(2)
    ]
    np.testing.assert_array_equal(signs_of(made, 4, 2), expected)
    assert signs_of(Solution("x", 6, PAIR), 4, 2) is None
