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

    assert exact_law(die, loops=[die]) == {face: Fraction(1, 6) for face in range(6)}
    with pytest.raises(InvalidArgument, match="most_paths = 50"):
        exact_law(die, most_paths=50)


def test_other_draws_have_no_exact_law():
    with pytest.raises(AttributeError, match=r"entropy\.random: an exact law needs draws by"):
        exact_law(lambda entropy: entropy.random() < 0.5)


def test_a_loop_within_a_loop_and_what_stands_before_it():
    def inner(entropy):
        while True:
            x = entropy.below(4)
            if x:
                return int(x)

    def outer(entropy):
        if entropy.below(5) == 0:
            return "none"
        while True:
            coin = entropy.below(2)
            x = inner(entropy)
            if x < 3 or coin == 0:
                return x

    law = exact_law(outer, loops=[inner, outer])
    # 1, 2 and half of the 3 are accepted: 2 : 2 : 1.
    assert law == {"none": Fraction(1, 5)} | {
        x: Fraction(4, 5) * Fraction(w, 5) for x, w in ((1, 2), (2, 2), (3, 1))
    }


def test_wide_draws_branch_only_where_they_are_asked():
    def program(entropy):
        x = entropy.below(10**18)
        if x < 10**17:
            return "low"
        quotient, rest = divmod(x - 10**17, 3 * 10**17)
        return (quotient, (rest + 5) // 10**17 <= 1)

    law = exact_law(program)
    assert law["low"] == Fraction(1, 10)
    assert sum(law.values()) == 1
    assert law[0, True] + law[0, False] == Fraction(3, 10)
    assert law[0, True] == Fraction(2 * 10**17 - 5, 10**18)


def test_branches_of_different_depth():
    def program(entropy):
        return "a" if entropy.below(2) == 0 else "b" + str(entropy.below(3))

    law = exact_law(program)
    assert law == {"a": Fraction(1, 2), **{f"b{i}": Fraction(1, 6) for i in range(3)}}


def test_no_draw_at_all():
    assert exact_law(lambda entropy: 7) == {7: 1}


def test_too_many_paths_are_refused():
    with pytest.raises(InvalidArgument, match="most_paths = 10"):
        exact_law(lambda entropy: int(entropy.below(100)), most_paths=10)
