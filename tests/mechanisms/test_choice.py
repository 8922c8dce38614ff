"""A report that is the choice itself."""

from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument, certify
from fedsel._internal.random import stream
from fedsel.mechanisms import Choice, PerturbedSampling
from fedsel.solutions._solution import plain_scores


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(6)])
@pytest.mark.parametrize(("d", "k"), [(2, 1), (5, 1), (5, 2), (40, 20)])
def test_a_report_loses_what_its_selection_loses(epsilon, d, k):
    selection = PerturbedSampling(epsilon, k)
    choice = Choice(selection)
    assert choice.loss_ratio(d) == selection.loss_ratio(d) == certify(choice, d=d).ratio
    assert choice.blanket(d) == selection.blanket(d)
    one = [Fraction(int(i < k)) for i in range(d)]
    laws = [choice.report_law(vector) for vector in (one, one[::-1])]
    assert sum(laws[0].values()) == 1
    assert max(laws[0][r] / laws[1][r] for r in laws[0]) == choice.loss_ratio(d)


def test_a_draw_is_a_slot_with_symbol_zero():
    choice = Choice(PerturbedSampling(8.0, k=1))
    drawn = [choice.draw(plain_scores(np.eye(4)[2]), stream(0, 0, i)) for i in range(50)]
    assert {int(one.symbol[0]) for one in drawn} == {0}
    assert sum(int(one.slot[0]) == 2 for one in drawn) > 45
    assert choice.bits(4) == 2


def test_the_mean_of_choices_is_the_share_of_each_slot():
    """On coordinates: the unit undoes the lift, up to the constant that all slots have."""
    choice = Choice(PerturbedSampling(1.0, k=1))
    law = choice.report_law([Fraction(0), Fraction(0), Fraction(1)])
    unit = choice.unit(3)
    assert unit * float(law[(2, 0),] - law[(0, 0),]) == pytest.approx(1.0)


def test_only_a_selection_chooses():
    with pytest.raises(InvalidArgument, match="selection = 1"):
        Choice(1)
