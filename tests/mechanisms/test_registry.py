"""Mechanisms by name: what each is made of, and what is refused."""

from fractions import Fraction

import pytest

from fedsel import InvalidArgument
from fedsel.mechanisms import ONE_SYMBOL, SELECTIONS, VALUES, TwoStage, mechanism


@pytest.mark.parametrize("first", SELECTIONS)
@pytest.mark.parametrize("second", VALUES)
def test_the_stages_share_epsilon_exactly(first, second):
    """μ·ε for a selection that has an ε, the rest for the value; whatever the case of the name."""
    both = mechanism(f"{first}-{second}".swapcase(), epsilon=0.75, k=3, mu=0.3)
    assert isinstance(both, TwoStage)
    assert (both.selection.name, both.value.name) == (first, second)
    own = getattr(both.selection, "epsilon", 0)
    assert Fraction(own) == (Fraction(9, 40) if hasattr(both.selection, "epsilon") else 0)
    if hasattr(both.value, "epsilon"):
        assert Fraction(own) + Fraction(both.value.epsilon) == Fraction(3, 4)
    if hasattr(both.selection, "k"):
        assert both.selection.k == 3


@pytest.mark.parametrize("name", [*SELECTIONS, *VALUES, *ONE_SYMBOL])
def test_one_stage_has_all_of_epsilon(name):
    made = mechanism(name.lower(), epsilon=0.75)
    assert made.name == name
    assert getattr(made, "epsilon", Fraction(3, 4)) == Fraction(3, 4)
    if hasattr(made, "k"):
        assert made.k == (None if name == "J" else 0.1)
        assert mechanism(name, epsilon=0.75, k=2).k == 2
    if hasattr(made, "epsilon"):
        with pytest.raises(
            InvalidArgument, match=rf"^epsilon = None: must be .*: {name} needs an ε$"
        ):
            mechanism(name)


@pytest.mark.parametrize(
    ("name", "given", "wrong"),
    [
        ("PS-PM", {"epsilon": 1.0, "mu": 1.0}, "mu"),
        ("PS-PM", {"epsilon": 1.0, "mu": 1.5}, "mu"),
        ("Uniform-PM", {"epsilon": 1.0, "mu": -0.5}, "mu"),
        ("Uniform-PM", {"epsilon": 1.0, "mu": float("nan")}, "mu"),
        ("PS-PM", {}, "epsilon"),
        ("PS-PM", {"epsilon": -1.0}, "epsilon"),
        (7, {"epsilon": 1.0}, "name"),
        ("PM-PS", {"epsilon": 1.0}, "name"),
        ("PS-PS", {"epsilon": 1.0}, "name"),
        ("PS-", {"epsilon": 1.0}, "name"),
        ("PSPM", {"epsilon": 1.0}, "name"),
        ("PS+PM", {"epsilon": 1.0}, "name"),
        ("PS.PM", {"epsilon": 1.0}, "name"),
        ("AA-PM", {"epsilon": 1.0}, "name"),
        ("ZZ-PM", {"epsilon": 1.0}, "name"),
        ("PS-PM-PM", {"epsilon": 1.0}, "name"),
        ("J-PM", {"epsilon": 1.0}, "name"),
    ],
)
def test_what_is_no_mechanism_is_named(name, given, wrong):
    with pytest.raises(InvalidArgument, match=f"^{wrong} = "):
        mechanism(name, **given)


def test_a_selection_without_an_epsilon_leaves_all_of_it_to_the_value():
    for mu in (0.0, 0.5):
        assert mechanism("Uniform-PM", epsilon=1.0, mu=mu).value.epsilon == 1


def test_a_tenth_is_for_the_selection_unless_said_otherwise():
    both = mechanism("PS-PM", epsilon=2.0)
    assert (both.selection.epsilon, both.value.epsilon) == (Fraction(1, 5), Fraction(9, 5))


def test_a_name_that_is_near_to_nothing_gets_the_whole_list():
    with pytest.raises(InvalidArgument) as error:
        mechanism("☃", epsilon=1.0)
    assert all(name in str(error.value) for name in (*SELECTIONS, *VALUES, *ONE_SYMBOL))
