"""Exact laws of small programs."""

from fractions import Fraction

import pytest

from fedsel import InvalidArgument, exact_law


def test_a_die_by_rejection_is_exact():
    def die(entropy):
        while True:
            face = entropy.below(8)
            if face < 6:
                return face

    assert exact_law(die, attempt=1) == {face: Fraction(1, 6) for face in range(6)}
    with pytest.raises(InvalidArgument, match="most_draws = 5"):
        exact_law(die, most_draws=5)


def test_branches_of_different_depth():
    def program(entropy):
        return "a" if entropy.below(2) == 0 else "b" + str(entropy.below(3))

    law = exact_law(program)
    assert law == {"a": Fraction(1, 2), **{f"b{i}": Fraction(1, 6) for i in range(3)}}


def test_no_draw_at_all():
    assert exact_law(lambda entropy: 7) == {7: 1}


def test_too_many_paths_are_refused():
    with pytest.raises(InvalidArgument, match="most_paths = 10"):
        exact_law(lambda entropy: entropy.below(100), most_paths=10)
