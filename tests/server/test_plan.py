"""What "auto" follows from where a server has not seen the model: the setting, entry by entry."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedsel import InvalidArgument, PublicFacts, Recipe, resolve_auto
from fedsel.auto._numbers import AUTO
from fedsel.preparation import FeatureScale
from fedsel.server._plan import ServerPlan, recipe_asked
from fedsel.wire import RecordPipeline

ASKED = Recipe(epsilon=4.0, epochs=3, reg=0.0)


def planned(asked=ASKED, **changes):
    return ServerPlan(asked, **{"nodes": 200, "rounds_per_epoch": 20, **changes})


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"nodes": 0}, "nodes"),
        ({"rounds_per_epoch": 0}, "rounds_per_epoch"),
        ({"nodes": 3, "rounds_per_epoch": 4}, "rounds_per_epoch"),
        ({"norm": 0.0}, "norm"),
        ({"norm": -1.0}, "norm"),
        ({"norm": 1.0, "records_per_node": 0}, "records_per_node"),
        ({"records_per_node": 1}, "records_per_node"),
        ({"features": 0, "feature_range": (0, 1)}, "features"),
        ({"features": 1}, "features"),
        ({"features": 2.5, "feature_range": (0, 1)}, "features"),
        ({"feature_range": (0, 1), "norm": 2.0}, "norm"),
        ({"feature_range": (0, 1), "norm": 0.5}, "norm"),
        ({"feature_range": (1, 0)}, "feature_range"),
        ({"feature_range": 7}, "feature_range"),
        ({"public_mean": {0: 0.5}}, "public_mean"),
        ({"public_mean": {"a": 0.5}, "feature_range": (0, 1)}, r"public_mean\['a'\]"),
        ({"public_mean": {0: 1.5}, "feature_range": (0, 1)}, r"public_mean\[0\]"),
        ({"public_mean": [0.5, 2.0], "feature_range": (0, 1)}, r"public_mean\[1\]"),
        ({"public_mean": [0.5], "feature_range": (0, 1), "features": 2}, "public_mean"),
        ({"public_mean": {2: 0.5}, "feature_range": (0, 1), "features": 2}, r"public_mean\[2\]"),
        (
            {"public_mean": {10**15: 0.5}, "feature_range": (0, 1)},
            r"public_mean\[1000000000000000\]",
        ),
        ({"public_mean": {5: 0.5}, "feature_range": ([0, 0], [1, 1])}, r"public_mean\[5\]"),
        ({"asked": replace(ASKED, centre=0.1)}, "centre"),
        ({"asked": replace(ASKED, spread=0.1)}, "spread"),
        ({"asked": replace(ASKED, solution="PS-PM", reg=0.1)}, "reg"),
    ],
)
def test_what_is_wrong_is_told_before_nodes_are_there(changes, name):
    with pytest.raises(InvalidArgument, match=rf"^{name} = "):
        planned(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": 4, "rounds_per_epoch": 4},
        {"norm": 1.0, "records_per_node": 1},
        {"feature_range": (0, 1), "norm": 1.0},
        {"feature_range": (0, 1), "features": 1, "norm": 1.0},
        {"feature_range": (0, 1)},
        {"feature_range": (0, 1), "public_mean": {7: 0.5}},
        {
            "asked": replace(ASKED, centre=0.1),
            "feature_range": (0, 1),
            "public_mean": {0: 0.5},
            "norm": 1.0,
        },
        {"feature_range": (0, 1), "public_mean": [0.5] * 7, "norm": 1.0},
        {"asked": replace(ASKED, centre=0.0, spread=0.0)},
        {"asked": replace(ASKED, centre=0.1), "feature_range": (0, 1), "norm": 1.0},
        {"asked": replace(ASKED, reg=0.1)},
        {"asked": replace(ASKED, solution="PS-PM")},
        {"asked": replace(ASKED, k=50, solution="PS-PM")},
    ],
)
def test_what_is_right_is_taken(changes):
    planned(**changes)


def test_a_batch_is_a_share_of_the_nodes():
    batches = [planned(nodes=n, rounds_per_epoch=r).batch for n, r in ((7, 2), (7, 7), (1, 1))]
    assert batches == [3, 1, 1]
    assert ServerPlan(ASKED, 9).batch == 9


def settled(dim, asked=ASKED, **setting):
    given = {"clients": 10, "rounds": 60, "norm": 1.0, "model": "linear"}
    return resolve_auto(asked, PublicFacts(dim=dim, **{**given, **setting}))


def test_a_linear_model_follows_from_the_norm_of_its_records():
    assert planned(norm=1.0).recipe_of(11) == settled(11)
    found = planned(norm=3.0, records_per_node=5).recipe_of(11)
    assert found == settled(11, norm=3.0, records=5)
    assert found != settled(11, norm=3.0)
    assert planned(norm=1.0, model="network").recipe_of(11) == settled(11, model="network")


def test_without_a_norm_nothing_is_known_of_a_radius():
    plain = replace(ASKED, rho=None)
    found = planned().recipe_of(11)
    assert found == settled(11, plain, norm=None, model="network")
    assert found.rho is None
    own = replace(ASKED, rho=0.7)
    assert planned(own).recipe_of(11).rho == 0.7
    assert planned(own, model="linear").recipe_of(11) == settled(11, own, norm=None)


def test_bounds_tell_how_many_classes_there_are_and_what_is_to_be_learnt():
    given = {"features": 10, "offset": True, "loose": 0}
    assert planned(norm=1.0, feature_range=(0, 1)).recipe_of(11) == settled(11, **given)
    loose = planned(norm=1.0, feature_range=(0, 9)).recipe_of(11)
    assert loose == settled(11, **{**given, "loose": 16})
    even = planned(norm=1.0, feature_range=(-1, 1)).recipe_of(11)
    assert even == settled(11, features=10, offset=False)
    several = planned(norm=1.0, feature_range=(0, 1), features=10).recipe_of(44)
    assert several == settled(44, **given, classes=4)
    more = planned(norm=1.0, feature_range=(0, 1), features=3).recipe_of(16)
    assert more == settled(16, **{**given, "features": 3}, classes=4)
    one = planned(norm=1.0, feature_range=(0, 1), features=10).recipe_of(22)
    assert one == settled(22, **given, classes=2)
    network = planned(feature_range=(0, 1), features=10).recipe_of(44)
    asked = replace(ASKED, rho=None)
    assert network == settled(44, asked, **given, norm=None, model="network")


def test_without_bounds_no_round_prepares():
    many = planned(norm=1.0, nodes=20_000, rounds_per_epoch=50)
    assert (many.recipe_of(101).spread, many.recipe_of(101).centre) == (0.0, 0.0)
    loose = replace(many, feature_range=(0, 100)).recipe_of(101)
    assert (loose.spread > 0, loose.centre > 0) == (True, True)


def test_the_server_works_on_what_is_scaled():
    """A rate over, and a decay times, the root of the mean square of the scales."""
    asked = replace(ASKED, reg=0.5)
    plain, scaled = (planned(asked, norm=1.0).recipe_of(11, s) for s in ([1.0], [1.0, 7.0]))
    assert plain == settled(11, asked)
    assert scaled.reg == pytest.approx(2.5, rel=1e-15)  # √((1 + 49)/2) = 5
    assert scaled.learning_rate == pytest.approx(plain.learning_rate / 5, rel=1e-15)
    assert replace(scaled, reg=0.5, learning_rate=plain.learning_rate) == plain
    own = planned(replace(asked, learning_rate=0.3), norm=1.0).recipe_of(11, [1.0, 7.0])
    assert (own.learning_rate, own.reg) == (0.3, pytest.approx(2.5))


def test_the_entries_of_a_record():
    def entries(dim, **changes):
        return len(planned(**{"norm": 1.0, "feature_range": (0, 1), **changes}).bounds_of(dim).low)

    assert planned().bounds_of(11) is None
    assert entries(11) == 10
    assert entries(2) == 1
    assert entries(22, features=10) == 10
    assert entries(12, feature_range=([0, 0, 0], 1)) == 3
    assert entries(12, feature_range="private") == 11
    assert entries(11, norm=None, features=10) == 10
    assert entries(17, norm=None, features=10) == 10  # of a network, whatever its size
    for dim, changes in (
        (1, {}),
        (10, {"features": 10}),
        (10, {"features": 10, "norm": None}),
        (12, {"features": 10}),
        (13, {"feature_range": ([0, 0, 0], 1)}),
    ):
        with pytest.raises(InvalidArgument, match=rf"^features = .*the {dim} parameters"):
            entries(dim, **changes)
    bounds = planned(norm=1.0, feature_range=([0, -2], [1, 5])).bounds_of(3)
    assert (bounds.low.tolist(), bounds.high.tolist()) == ([0, -2], [1, 5])


def test_what_nodes_do_with_their_records_first():
    assert planned().preparing_of(settled(11)) is None
    for norm in (1.0, None):
        made = planned(replace(ASKED, centre=0.2), norm=norm, feature_range=(0, 1))
        recipe = made.recipe_of(11)
        expected = RecordPipeline.begin(
            FeatureScale.of((0, 1), 10), recipe, 20, linear=norm is not None
        )
        assert made.preparing_of(recipe).encode() == expected.encode()
        assert expected.plan.centre_rounds == 4
        assert expected.plan.intercept is (norm is not None)


def test_further_parameters_are_those_of_a_recipe():
    assert recipe_asked({"clip": 0.5}, epsilon=1.0, dim=3) == Recipe(epsilon=1.0, dim=3, clip=0.5)
    assert recipe_asked({"rho": AUTO}, epsilon=1.0) == Recipe(epsilon=1.0)
    for name in ("solution", "epsilon", "dim", "epochs", "learning_rate", "asked", "colour"):
        with pytest.raises(InvalidArgument, match=rf"^{name} = 1: must be a known parameter[:,] "):
            recipe_asked({name: 1})


def test_a_root_mean_square_of_many_scales():
    scales = np.linspace(0.1, 2.0, 50)
    asked = replace(ASKED, reg=1.0)
    found = planned(asked, norm=1.0).recipe_of(50, scales)
    assert found.reg == pytest.approx(math.sqrt(float(np.mean(scales**2))))
