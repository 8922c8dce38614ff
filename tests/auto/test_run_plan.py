"""Which rounds prepare: public knowledge decides."""

import math
from dataclasses import replace

import pytest

from fedsel import PublicFacts, Recipe, resolve_auto
from fedsel.auto._numbers import CENTRE, SPREAD, SPREAD_OF_ANY
from fedsel.auto._run_plan import plan_for
from fedsel.errors import InvalidArgument
from fedsel.preparation._plan import OCTAVES
from tests.preparation.test_preparation import D, plan_of


@pytest.mark.parametrize(
    "change",
    [
        {"features": 0},
        {"dim": D},
        {"spread_rounds": -1},
        {"radius": math.nan},
        {"loose": (True,)},
        {"loose": (False,) * D},
        {"octaves": 0},
    ],
)
def test_impossible_plans(change):
    with pytest.raises(InvalidArgument, match=next(iter(change)) + "|spread_rounds"):
        replace(plan_of(), **change)


def setting(**changes):
    return PublicFacts(**{"dim": 30, "clients": 300, "rounds": 100, "norm": 1.0, **changes})


def test_public_knowledge_decides_which_rounds_prepare():
    made = resolve_auto(Recipe(epsilon=2.0), setting())
    assert (made.spread, made.centre) == (0, 0)
    made = resolve_auto(Recipe(epsilon=2.0), setting(offset=True, loose=OCTAVES))
    assert (made.spread, made.centre) == (SPREAD, CENTRE)
    plan = plan_for(made, made.build(), loose=(True,) * 29, rounds=100)
    assert (plan.spread_rounds, plan.centre_rounds) == (5, 10)
    assert plan_for(made, made.build(), loose=(False,) * 29, rounds=100).spread_rounds == 0
    unknown = resolve_auto(Recipe(epsilon=2.0), setting(loose=64))
    assert unknown.spread == SPREAD_OF_ANY


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ({"solution": "PS-PM"}, {}),
        ({"solution": "J"}, {}),
        ({"epsilon": 0.05}, {}),
        ({}, {"rounds": 10}),
        ({}, {"clients": 1}),
        ({}, {"norm": None}),
        ({"centre": 0.0, "spread": 0.0}, {}),
    ],
)
def test_where_nothing_prepares(recipe, changes):
    known = setting(offset=True, loose=OCTAVES, **changes)
    made = resolve_auto(Recipe(**{"epsilon": 2.0, **recipe}), known)
    assert (made.spread, made.centre) == (0, 0)
    assert plan_for(made, made.build(), loose=(True,) * 29, rounds=100) is None


def test_what_is_asked_for_and_cannot_be():
    with pytest.raises(InvalidArgument, match=r"centre = 0.1: must be 0 with PS-PM"):
        resolve_auto(Recipe("PS-PM", epsilon=1.0, centre=0.1), setting())
    for share in (-0.1, 1.0, math.nan, "yes"):
        with pytest.raises(InvalidArgument, match="centre"):
            Recipe(epsilon=1.0, centre=share)
    with pytest.raises(InvalidArgument, match="to leave rounds for training"):
        Recipe(epsilon=1.0, centre=0.5, spread=0.5)
    made = resolve_auto(Recipe(epsilon=1.0, centre=0.6, spread=0.3), setting())
    with pytest.raises(InvalidArgument, match="3 of 2 rounds"):
        plan_for(made, made.build(), loose=(True,) * 29, rounds=2)
