"""What is drawn is what is written down: `draw` has exactly the `report_law`, leaf by leaf."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, TwoStage, exact_law
from fedsel.mechanisms import (
    Duchi,
    Exponential,
    PerturbedEncoding,
    PerturbedSampling,
    SignedSampling,
    UnbiasedJoint,
)
from fedsel.mechanisms._drawing import draw_dimension
from fedsel.mechanisms._one_symbol import MINUS, PLUS, UNIT
from fedsel.mechanisms._selection import Share
from fedsel.mechanisms._two_stage import FlatPicks, FullGradient
from fedsel.solutions._rotated import Rotated
from fedsel.solutions._solution import plain_scores

VECTORS = [
    [0.5, 0.0, -0.25],
    [0.0, 0.0, 0.0],
    [-1.0, 1.0, 1.0],
    [3.0, -0.125, -2.0],
    [-0.0625, -0.03125, 0.0],
]
MECHANISMS = [
    *(SignedSampling(1.0, k=k, radius=radius) for k in (1, 2, 3) for radius in (None, 2.0)),
    *(UnbiasedJoint(1.0, k=k, clip=clip) for k in (1, 2) for clip in (0.5, 1.0, 4.0)),
    *(TwoStage(first, Duchi(1.0)) for first in (Exponential(1.0), PerturbedEncoding(1.0, k=2))),
    TwoStage(PerturbedSampling(1.0, k=2), Duchi(1.0), clip=0.5),
    FlatPicks(Duchi(1.0), picks=2, clip=2.0),
]


def drawn(mechanism, vector):
    """The law of the draws, by enumeration."""
    scores = plain_scores(np.array(vector))

    def program(entropy):
        report = mechanism.draw(scores, entropy)
        return tuple(report.slot.tolist()), tuple(report.symbol.tolist())

    law: dict[tuple, Fraction] = {}
    for (slots, symbols), p in exact_law(program, loops=[draw_dimension]).items():
        pairs = tuple(pair for pair in zip(slots, symbols, strict=True) if pair[0] >= 0)
        law[pairs] = law.get(pairs, 0) + p
    return law


def unordered(law):
    """Several picks come in any order."""
    found: dict[tuple, Fraction] = {}
    for pairs, p in law.items():
        if p:
            found[tuple(sorted(pairs))] = found.get(tuple(sorted(pairs)), 0) + p
    return found


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_what_is_drawn_has_exactly_the_law(mechanism, vector):
    law = mechanism.report_law([Fraction(v) for v in vector])
    assert sum(law.values()) == 1
    assert min(law.values()) >= 0
    assert unordered(drawn(mechanism, vector)) == unordered(law)


@pytest.mark.parametrize("clip", [0.25, 3.0])
def test_a_clip_is_the_unit_of_the_update(clip):
    """Told of an update and a clip that are both larger, a device says the same."""
    vector = [Fraction(1, 2), Fraction(-1, 8), Fraction(0)]
    larger = [v * Fraction(clip) for v in vector]
    for made in (UnbiasedJoint, lambda e, **clip: TwoStage(PerturbedSampling(e), Duchi(e), **clip)):
        assert made(1.0, clip=clip).report_law(larger) == made(1.0).report_law(vector)
        assert made(1.0, clip=clip).unit(3) == pytest.approx(clip * made(1.0).unit(3), rel=1e-12)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_the_noise_of_unbiased_reports_is_what_is_said_of_nothing(size):
    made = UnbiasedJoint(1.5, k=1)
    silent = made.report_law([Fraction(0)] * size)[()]
    assert made.noise_power(size) == pytest.approx(float(1 - silent), rel=1e-12)
    assert made.unit(size, Rotated(16)) == pytest.approx(made.unit(size) / (size / 16), rel=1e-12)


class Says:
    """Entropy that gives one number."""

    def __init__(self, number):
        self.number = number

    def below(self, n):
        assert 0 <= self.number < n
        return self.number


@pytest.mark.parametrize("epsilon", [1.0, 1e-15])
def test_the_first_and_the_last_number_of_every_stretch(epsilon):
    """UJ at the ends of the stretches that its atoms and ⊥ have."""
    made, d = UnbiasedJoint(epsilon, k=1), 2
    low, high = made.weights(d)
    assert (high > low) == (epsilon == 1.0)
    scores = plain_scores(np.array([-0.25, 0.5]))
    atoms = [(0, PLUS), (1, PLUS), (0, MINUS), (1, MINUS)]
    ends = {}
    for place, atom in enumerate(atoms):
        ends[place * low * UNIT] = ends[(place + 1) * low * UNIT - 1] = atom
    begin = 4 * low * UNIT
    if high > low:  # an entry of ¼ and one of ½, and then ⊥
        ends[begin] = ends[begin + (high - low) * (UNIT // 4) - 1] = (0, MINUS)
        ends[begin + (high - low) * (UNIT // 4)] = (1, PLUS)
        begin += (high - low) * (3 * UNIT // 4)
        ends[begin - 1] = (1, PLUS)
    ends[begin] = ends[made.total(d) - 1] = (-1, 0)
    for number, (slot, sign) in ends.items():
        report = made.draw(scores, Says(number))
        assert (report.slot.tolist(), report.symbol.tolist()) == ([slot], [sign])


def test_where_epsilon_raises_nothing_the_rest_is_told_by_nobody():
    """H = L: what is above the atoms is ⊥, whatever the vector."""
    made, d = UnbiasedJoint(1e-15, k=1), 4
    low, high = made.weights(d)
    assert low == high
    scores = plain_scores(np.array([0.5, 0.25, -0.125, 1.0]))
    for number in (2 * d * low * UNIT, made.total(d) - 1):
        assert made.draw(scores, Says(number)).slot.tolist() == [-1]


def test_one_symbol_takes_as_many_bits_as_there_are_reports():
    assert [SignedSampling(1.0).bits(size) for size in (1, 4, 5)] == [1, 3, 4]
    assert [UnbiasedJoint(1.0).bits(size) for size in (1, 4, 5)] == [2, 4, 4]


def test_a_direction_is_told_in_units_of_one_or_of_the_radius():
    for codebook in (None, Rotated(4)):
        unit = SignedSampling(1.0, k=2).unit(8, codebook)
        assert unit == SignedSampling(1.0, k=2, radius=1.0).unit(8, codebook) > 0
        assert SignedSampling(1.0, k=2, radius=2.5).unit(8, codebook) == pytest.approx(2.5 * unit)
        assert SignedSampling(1e-18, k=1).unit(4, codebook) == 0  # nothing is raised
    assert SignedSampling(1.0, k=1).law(1 << 31).d == 1 << 32
    with pytest.raises(InvalidArgument, match=r"^d = "):
        SignedSampling(1.0, k=1).law((1 << 31) + 1)


def test_a_mean_of_directions_has_the_norm_of_the_radius():
    for made, norm in ((SignedSampling(1.0), 1.0), (SignedSampling(1.0, radius=2.5), 2.5)):
        assert made.mean_norm(0.5, 8, 4) == norm


def test_shares_are_equal_if_their_numbers_are():
    assert Share(0.5) == Share(0.5) == 0.5
    for other in (Share(0.25), Share(0.75), 0.25, 1.0):
        assert Share(0.5) != other
        assert other != Share(0.5)
    assert Share(1.0) != 1  # all of them is not one
    assert 1 not in [Share(1.0)]


def test_the_whole_gradient_in_the_clear_is_what_it_is():
    assert (FullGradient().unit(5), FullGradient().noise_power(5)) == (1.0, 0.0)
    assert math.isinf(FullGradient().claimed)


@pytest.mark.parametrize("cell", [-1, 2])
def test_a_cell_lies_on_the_grid(cell):
    assert Duchi(1.0).cells == 1
    with pytest.raises(InvalidArgument, match=f"^cell = {cell}: "):
        Duchi(1.0).weights(cell)


@pytest.mark.parametrize("values", [[3.0, -0.0, 0.0], [-2.0, 2.0, 2.0], [0.0, -0.0, 0.0]], ids=str)
@pytest.mark.parametrize(
    "make", [SignedSampling, lambda e, k: TwoStage(PerturbedSampling(e, k), Duchi(1.0))]
)
def test_what_is_drawn_by_rank_has_exactly_the_law(make, values):
    """Where e^ε is large and k small; zeros of either sign are alike."""
    mechanism, vector = make(9.0, k=1), values + [0.0] * 20
    law = getattr(mechanism, "selection", mechanism).law(len(vector))
    assert not law.by_rejection
    expected = mechanism.report_law([Fraction(v) for v in vector])
    assert unordered(drawn(mechanism, vector)) == unordered(expected)
