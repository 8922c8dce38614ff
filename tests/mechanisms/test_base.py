"""What every mechanism shares: laws over as many dimensions as there are."""

from dataclasses import dataclass

import pytest

from fedsel import InvalidArgument
from fedsel.mechanisms import (
    Exponential,
    PerturbedSampling,
    RankLaw,
    Selection,
)


def test_k_above_d_is_refused_where_d_is_known():
    with pytest.raises(InvalidArgument, match="k = 6: must be at most d = 5"):
        PerturbedSampling(1.0, k=6).law(5)


@pytest.mark.parametrize("d", [0, -3, 2.0, "10", None, True, 2**33])
def test_impossible_d_is_refused_by_name(d):
    with pytest.raises(InvalidArgument, match=r"^d = "):
        Exponential(1.0).law(d)


@dataclass(frozen=True)
class Other(Selection):
    """One of somebody's own, with a law over another number of dimensions."""

    more: int
    name = "other"

    @property
    def claimed(self):
        return 1.0

    def build_law(self, d):
        return RankLaw([2, 1], [1, d - 1 + self.more])


def test_a_law_is_over_as_many_dimensions_as_there_are():
    assert Other(0).law(4).d == 4
    for more in (-1, 1):
        with pytest.raises(ValueError, match=rf"builds a law over {4 + more} ranks for d = 4"):
            Other(more).law(4)
