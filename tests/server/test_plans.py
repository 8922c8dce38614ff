"""Rounds that prepare, at the server: which plan it takes, and what its rounds are for."""

from dataclasses import replace

import numpy as np
import pytest

from fedsel import InvalidArgument, PublicFacts, Recipe, resolve_auto
from fedsel._internal.random import stream
from fedsel.auto._run_plan import plan_for
from fedsel.device import Request
from fedsel.preparation import PublicMeans
from fedsel.server import Aggregator

D = 6
RECIPE = resolve_auto(
    Recipe(epsilon=40.0, epochs=2, spread=0.2, centre=0.2), PublicFacts(D, 12, 20, norm=1.0)
)
PLAN = plan_for(RECIPE, RECIPE.build(), loose=(True,) * (D - 1), rounds=10)
UNPREPARED = replace(RECIPE, spread=0.0, centre=0.0)


def opened(folder, recipe=RECIPE, rounds=10, plan=PLAN):
    return Aggregator(recipe, folder, rounds_per_epoch=rounds, plan=plan)


@pytest.mark.parametrize(
    ("recipe", "plan"),
    [
        (replace(RECIPE, spread=0.0), None),
        (replace(RECIPE, centre=0.0), None),
        (RECIPE, None),
        (UNPREPARED, "a plan"),
        (RECIPE, 7),
        (RECIPE, replace(PLAN, dim=D + 1)),
        (replace(RECIPE, dim=D + 2), PLAN),
    ],
)
def test_a_plan_is_that_of_the_recipe(tmp_path, recipe, plan):
    with pytest.raises(InvalidArgument, match=r"^plan = "):
        opened(tmp_path, recipe, plan=plan)


def test_some_rounds_of_an_epoch_train(tmp_path):
    for rounds in (1, PLAN.rounds):
        with pytest.raises(InvalidArgument, match=rf"^plan = .*fewer than {rounds} rounds of dim"):
            opened(tmp_path / "few", rounds=rounds)
    with opened(tmp_path / "enough", rounds=PLAN.rounds + 1) as server:
        assert server.stage == "spread"
        assert server.preparation == PLAN.begin.preparation


def test_the_plan_of_a_checkpoint_stays(tmp_path):
    with opened(tmp_path) as server:
        assert (server.plan, server.epoch) == (PLAN, 0)
        assert server.influence == RECIPE.build().influence
        request = server.request()
    ends = [(end,) * (D - 1) for end in (-1.0, 1.0)]
    for change, name in (
        ({"noise": 2 * PLAN.noise}, "plan.noise"),
        ({"octaves": 9}, "plan.octaves"),
        ({"known": PublicMeans((0.25,) * (D - 1), *ends, PLAN.loose)}, "public_mean"),
    ):
        with pytest.raises(InvalidArgument, match=rf"^{name} = .*, as in the checkpoint"):
            opened(tmp_path, plan=replace(PLAN, **change))
    with opened(tmp_path) as server:
        assert server.request() == request


def test_without_a_plan_all_rounds_train(tmp_path):
    with opened(tmp_path, UNPREPARED, plan=None) as server:
        assert (server.stage, server.preparation) == ("training", None)


def play(server):
    """One round of eight clients."""
    request = Request.decode(server.request())
    solution, told = request.recipe.build().in_round(server.round), np.full(D, 0.1)
    for client in range(8):
        report, _ = solution.encode(told, np.zeros(D), stream(1, server.round, client))
        server.receive(client, request.format.encode(server.round, report))
    server.step()


def test_what_was_learnt_is_durable(tmp_path):
    """After each round that prepares, in the middle of a stage and at its end."""
    rounds, learnt = PLAN.rounds + 1, []
    for _ in range(PLAN.rounds):
        with opened(tmp_path, rounds=rounds) as server:
            play(server)
            before = server._state.state.learnt
        with opened(tmp_path, rounds=rounds) as server:
            after = server._state.state.learnt
            assert after.preparation == before.preparation
            assert after.reports == before.reports
            np.testing.assert_array_equal(after.total, before.total)
            learnt.append(after.reports)
    assert 8 in learnt  # what a stage has heard so far
    assert learnt[-1] == 0


def test_rounds_that_prepare_learn_and_the_others_step(tmp_path):
    stages = []
    with opened(tmp_path, rounds=PLAN.rounds + 2) as server:
        for _ in range(PLAN.rounds + 2):
            before, known, stage = server.weights, server.preparation, server.stage
            stages.append(stage)
            play(server)
            assert np.array_equal(server.weights, before) == (stage != "training")
            if stage == "training":
                assert server.preparation is known
    assert stages == [PLAN.stage(t) for t in range(PLAN.rounds + 2)]
    assert server.preparation != PLAN.begin.preparation
