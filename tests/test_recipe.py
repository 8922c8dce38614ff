"""The recipe: what it takes, what it refuses by name, and what it hands on as it is."""

import math
from fractions import Fraction

import pytest

from fedsel import InvalidArgument, Recipe, solution
from fedsel.mechanisms._selection import Share
from fedsel.solutions._rotated import MOST_BASES


def recipe(name="RJ", **changed):
    return Recipe(name, **{"epsilon": 1.0, "dim": 8, **changed})


MOST = {
    "dim": 1 << 32,
    "epochs": (1 << 32) - 1,
    "words": (1 << 32) - 1,
    "seed": (1 << 64) - 1,
    "bases": MOST_BASES,
    "ratio": 1.0,
    "k": 8,
}


@pytest.mark.parametrize("name", MOST)
def test_the_largest_number_is_taken_and_the_next_is_not(name):
    assert getattr(recipe(**{name: MOST[name]}), name) == MOST[name]
    larger = math.nextafter(1.0, 2.0) if name == "ratio" else MOST[name] + 1
    with pytest.raises(InvalidArgument, match=rf"^{name} = .*: must be "):
        recipe(**{name: larger})


LEAST = {"dim": 1, "epochs": 1, "words": 1, "bases": 1, "seed": 0, "averaging": 0.0, "reg": 0.0}


@pytest.mark.parametrize("name", LEAST)
def test_the_least_number_is_taken_and_nothing_below(name):
    least = LEAST[name]
    assert getattr(recipe(**{name: least}, k=1), name) == least
    for lower in (least - 1, -0.25):
        with pytest.raises(InvalidArgument, match=rf"^{name} = .*: must be "):
            recipe(**{name: lower}, k=1)


@pytest.mark.parametrize("bad", [0, 0.0, -1.0, math.nan, math.inf, "1", True])
@pytest.mark.parametrize("name", ["learning_rate", "rho", "clip", "ratio"])
def test_what_must_be_positive(name, bad):
    with pytest.raises(InvalidArgument, match=rf"^{name} = .*: must be "):
        recipe(**{name: bad})


@pytest.mark.parametrize("bad", [math.nan, -math.inf, "1", None])
@pytest.mark.parametrize("name", ["momentum", "reg", "averaging", "clip", "learning_rate", "ratio"])
def test_what_must_be_a_finite_number(name, bad):
    with pytest.raises(InvalidArgument, match=rf"^{name} = .*: must be "):
        recipe(**{name: bad})


@pytest.mark.parametrize("name", ["mu", "theta", "spread", "centre"])
def test_shares_lie_in_zero_to_one(name):
    assert getattr(recipe(**{name: 0}), name) == 0
    assert getattr(recipe(**{name: math.nextafter(1, 0)}), name) == math.nextafter(1, 0)
    for bad in (1, 1.0, -1e-9, math.nan, "much", None):
        with pytest.raises(InvalidArgument, match=rf"^{name} = .*: must be "):
            recipe(**{name: bad})
    if name == "theta":  # nothing decides it
        with pytest.raises(InvalidArgument, match=r"^theta = 'auto': must be "):
            recipe(theta="auto")
    else:
        assert getattr(recipe(**{name: "auto"}), name) == "auto"


def test_some_rounds_are_left_for_the_model():
    assert recipe(spread=0.5, centre=0.25).centre == 0.25
    for spread, centre in ((0.5, 0.5), (0.75, 0.5)):
        with pytest.raises(InvalidArgument, match=r"^spread \+ centre = "):
            recipe(spread=spread, centre=centre)


@pytest.mark.parametrize("bad", [0, 1.5, math.nan, "1"])
def test_k_is_a_count_or_a_share(bad):
    with pytest.raises(InvalidArgument, match=r"^k = "):
        recipe("PS-PM", mu=0.1, k=bad)


def test_numbers_have_one_kind_each():
    """A record that is compared and written: 1 and 1.0 are one value, but for k."""
    made = recipe(
        "ps-pm", clip=2, momentum=1, ratio=1, reg=1, averaging=2, learning_rate=1, rho=3, k=0.5
    )
    for name in ("clip", "momentum", "ratio", "reg", "averaging", "learning_rate", "rho"):
        assert type(getattr(made, name)) is float
    assert type(made.k) is Share
    assert (made.solution, made.epsilon) == ("PS-PM", Fraction(1))
    assert recipe(epsilon=0.1).epsilon == Fraction(1, 10)


def test_what_is_not_said():
    """Both ends of a run fill it in on their own."""
    made = Recipe(epsilon=1)
    numbers = (made.epochs, made.reg, made.theta, made.clip, made.momentum, made.ratio, made.seed)
    assert numbers == (1, 0.0, 0.2, 1.0, 0.0, 0.1, 0)
    assert made.solution == "FJ"
    assert made.k == Share(0.1)
    assert made.dim is made.words is made.requested_solution is None
    for name in ("learning_rate", "averaging", "rho", "mu", "bases", "spread", "centre"):
        assert getattr(made, name) == "auto"


def test_a_table_of_fields_has_no_others():
    assert Recipe.of({"solution": "NP", "dim": 3}) == Recipe("NP", dim=3)
    with pytest.raises(
        InvalidArgument, match=r"^Epsilon = 1: must be a known parameter, such as epsilon"
    ):
        Recipe.of({"Epsilon": 1})


def test_epsilon_is_needed_where_reports_are_private():
    with pytest.raises(InvalidArgument, match=r"^epsilon = None: must be a number > 0: J"):
        Recipe("J", dim=3)
    assert Recipe("NP", dim=3).epsilon is None


@pytest.mark.parametrize(
    ("name", "private"),
    [("NP", False), ("PS", False), ("PrivUnit", False), ("RJ", True), ("PS-PM-O", True)],
)
def test_private_is_what_a_certificate_covers(name, private):
    made = recipe(name, mu=0.1, rho=1.0)
    assert made.private is private
    if private:
        assert made.charge == 1
    else:
        with pytest.raises(InvalidArgument, match=f"^solution = '{name}': must be a private"):
            _ = made.charge


def test_a_charge_is_that_of_one_report():
    assert recipe("PS-PM", epsilon=2.0, epochs=5, mu=0.25).charge == Fraction(2, 5)
    assert recipe("PS-PM-C", epsilon=2.0, mu=0.25).charge > 2  # over its budget, and says so


@pytest.mark.parametrize(("name", "rate"), [("PS-PM-O", 1.0), ("PS-PM", 0.25), ("NP", 0.25)])
def test_the_rate_is_taken_once(name, rate):
    assert recipe(name, mu=0.1, learning_rate=0.25).rate == rate
    with pytest.raises(InvalidArgument, match=r"^learning_rate = 'auto'"):
        _ = recipe(name, mu=0.1).rate


def test_what_was_decided_reaches_the_solution():
    assert recipe("J", rho=2.5).build().mechanism.radius == 2.5
    assert recipe("J", rho=None).build().mechanism.radius is None
    several = recipe(rho=None, bases=3, seed=7, epochs=2, epsilon=4.0).build()
    assert (several.transform.bases, several.transform.seed, several.epochs) == (3, 7, 2)
    assert recipe(rho=None, bases="auto").build().transform.bases == 1
    two = recipe("PS-PM", mu=0.25, k=2, clip=0.5, momentum=0.125).build()
    assert float(two.mechanism.selection.epsilon) == 0.25
    assert (two.mechanism.clip, two.feedback.momentum) == (0.5, 0.125)
    assert two.mechanism.selection.top(8) == 2


@pytest.mark.parametrize(
    ("name", "open_"), [("RJ", "rho"), ("J", "rho"), ("PS-PM", "mu"), ("EXP-PM", "mu")]
)
def test_nothing_that_matters_is_left_open(name, open_):
    given = {"rho": 1.0, "mu": 0.1}
    for made in (lambda r: r.build(), lambda r: r.with_unused_zeroed, lambda r: r.wire_part):
        assert made(recipe(name, **given)) is not None
        with pytest.raises(InvalidArgument, match=f"^{open_} = 'auto'"):
            made(recipe(name, **{**given, open_: "auto"}))


def test_what_does_not_matter_is_a_number_all_the_same():
    plain = recipe("PM", learning_rate=0.5).with_unused_zeroed
    assert (plain.mu, plain.rho, plain.bases, plain.spread, plain.centre) == (0, None, None, 0, 0)
    kept = recipe("RJ", mu=0.5, rho=2.0, bases=4, spread=0.125, centre=0.25)
    assert kept.with_unused_zeroed == kept


def test_devices_are_not_told_what_the_server_does_afterwards():
    told = recipe(
        rho=1.0,
        averaging=2,
        reg=0.5,
        theta=0.125,
        requested_solution="PS-PM",
        spread=0.25,
        centre=0.25,
    ).wire_part
    assert (told.averaging, told.reg, told.theta, told.requested_solution) == (0, 0, 0.2, None)
    assert (told.spread, told.centre, told.rho, told.epsilon) == (0, 0, 1.0, 1)


def test_a_share_by_itself_needs_the_clients_of_a_round():
    with pytest.raises(InvalidArgument, match=r"^batch = None: must be the number of clients"):
        solution("PS-PM", epsilon=1.0, dim=8, mu="auto")
    with pytest.raises(InvalidArgument, match=r"^batch = 0"):
        solution("PS-PM", epsilon=1.0, dim=8, mu="auto", batch=0)
