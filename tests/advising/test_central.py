"""Advice for a central goal: budgets that are proved, rounds, and what a shuffler is worth."""

import json

import pytest

from fedsel import InvalidArgument, advise, amplify
from fedsel.mechanisms.central import compose
from tests.cli.support import run_here

SMALL = {"dim": 16, "clients": 4_000, "central": 0.5, "delta": 1e-5}


@pytest.fixture(scope="module")
def advice():
    return advise(**SMALL)


@pytest.mark.slow
def test_every_solution_has_the_local_epsilon_that_keeps_the_goal(advice):
    assert advice.rounds == 20
    assert advice.reports == 200
    for outlook in advice.outlooks[:3]:
        assert outlook.epsilon_per_report > 0.5
        found = amplify(outlook.solution, reports=200, delta=1e-5)
        assert 0.47 < found.epsilon <= 0.5, outlook.name
    best = advice.outlooks[0]
    assert advice.epsilon == pytest.approx(best.epsilon_per_report)
    assert advice.central.guarantee.local == pytest.approx(best.epsilon_per_report)
    assert advice.central.guarantee.epsilon == 0.5


def test_without_a_shuffler_the_local_epsilon_is_the_goal(advice):
    without = advice.central.without
    assert without == advise(dim=16, clients=4_000, epsilon=0.5)
    assert without.outlooks[0].alignment_all < advice.outlooks[0].alignment_all
    assert without.rounds == 100
    with_it, alone, rounds = advice.central.sentences(advice)
    assert "Proved: central ε = 0.5 at δ = 1e-05 among 200" in with_it
    assert "local ε = 0.5 in all, 100 rounds" in alone
    assert "below 20 rounds no record is prepared" in rounds


def test_fewer_rounds_allow_more_and_are_shown(advice):
    ladder = advice.central.ladder
    assert [rung.rounds for rung in ladder] == [1, 5, 10, 20, 50, 100]
    assert [rung.reports for rung in ladder] == [4000, 800, 400, 200, 80, 40]
    locals_ = [rung.local for rung in ladder]
    assert locals_ == sorted(locals_, reverse=True)
    chosen = next(rung for rung in ladder if rung.rounds == 20)
    assert chosen.local == advice.epsilon
    assert chosen.alignment == advice.outlooks[0].alignment_all


@pytest.mark.slow
def test_rounds_are_respected():
    few = advise(**SMALL, rounds=3)
    assert few.rounds == 3
    assert few.reports == 1333
    assert few.central.without.rounds == 3
    assert 3 in [rung.rounds for rung in few.central.ladder]
    assert advise(dim=16, clients=4_000, epsilon=1.0, rounds=3).batch == 1334


@pytest.mark.slow
def test_several_epochs_are_composed():
    split = advise(dim=16, clients=4_000, central=0.5, delta=1e-5, epochs=3)
    best = split.outlooks[0]
    proved = split.central.guarantee
    assert proved.epochs == 3
    assert proved.epsilon <= 0.5
    assert proved == compose(best.solution, reports=200, epochs=3, delta=1e-5)
    assert best.epsilon_total == pytest.approx(3 * proved.local)  # it is of the one recommended
    assert "in each of 3 epochs" in split.central.sentences(split)[0]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"central": 0}, "central"),
        ({"central": float("nan")}, "central"),
        ({"epsilon": 1.0}, "central"),
        ({"central": None}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"central": None, "epsilon": 1.0}, "delta"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 4_001}, "rounds"),
        ({"rounds": 3, "batch": 30}, "rounds"),
    ],
)
def test_wrong_input_is_named(changes, name):
    with pytest.raises(InvalidArgument, match=rf"^{name} = "):
        advise(**{**SMALL, **changes})


@pytest.mark.slow
def test_the_command_says_both(advice):
    options = ["--dim", "16", "--clients", "4000", "--central", "0.5", "--delta", "1e-5"]
    text = run_here("advise", *options).stdout
    assert "central ε = 0.5 at δ = 1e-05 if shuffled" in text
    assert "FJ, shuffled, by the rounds of an epoch" in text
    assert "With a shuffler: FJ" in text
    assert "Without a shuffler: FJ" in text
    found = json.loads(run_here("advise", *options, "--json").stdout)
    assert found == json.loads(json.dumps(advice.as_dict()))
    assert found["central"]["without"]["epsilon"] == 0.5
    error = run_here("advise", *options, "--epsilon", "1", status=2).stderr
    assert error == "fedsel: --central = 0.5: must be omitted if the local ε is given\n"
