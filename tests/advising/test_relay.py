"""What a relay can promise: an n_min that is reached, and what it guarantees."""

import json

import pytest

from fedsel import InvalidArgument, advise
from fedsel.auto import FAILURE, reachable_n_min, waiting_probability
from fedsel.mechanisms.central import add_up, amplify
from tests.cli.support import run_here

SMALL = {"dim": 16, "clients": 4_000, "epsilon": 2.0, "rounds": 20}


def test_every_round_reaches_n_min_and_the_honest_part_of_it_is_what_hides():
    advice = advise(**SMALL, drop_out=0.2, dishonest=0.05)
    relay = advice.relay
    assert relay.rule.n_min == reachable_n_min(4_000, 20, drop_out=0.2)
    assert waiting_probability(relay.rule.n_min, 4_000, 20, drop_out=0.2) <= FAILURE
    best = advice.outlooks[0].solution
    assert relay.guarantee == amplify(best, reports=relay.rule.honest, delta=1e-6)
    assert relay.local == 2.0
    reached, both = advice.relay_sentences
    assert f"0.999 n_min = {relay.rule.n_min} is reached in each of 20 rounds" in reached
    assert "if 0.8 of 4,000 clients report" in reached
    assert "ε = 2 against everybody" in both
    assert f"{relay.rule.most_dishonest} reports of a round may be dishonest" in both


def test_several_epochs_are_added_up_and_must_all_reach_it():
    advice = advise(**SMALL, epochs=2)
    rule = advice.relay.rule
    assert rule.n_min == reachable_n_min(4_000, 20, epochs=2) < reachable_n_min(4_000, 20)
    best = advice.outlooks[0].solution
    assert advice.relay.guarantee == add_up(best, reports=rule.honest, epochs=2, delta=1e-6)
    assert "in each of 40 rounds" in advice.relay_sentences[0]


def test_a_central_goal_is_kept_among_the_reports_of_a_relay():
    advice = advise(dim=16, clients=4_000, central=0.5, delta=1e-5, rounds=20)
    relay = advice.relay
    assert relay.rule.delta == 1e-5
    assert relay.local < advice.epsilon  # a smaller round hides less
    assert relay.guarantee.epsilon == 0.5
    assert relay.guarantee.reports == relay.rule.honest
    assert f"ε = {relay.local:g} against everybody; ε = 0.5, δ = 10⁻⁵" in advice.relay_sentences[1]


def test_few_clients_promise_nothing():
    advice = advise(dim=16, clients=40, epsilon=2.0, rounds=20)
    assert advice.relay is None
    assert advice.relay_sentences == (
        "Behind a relay no round is certain of two reports: take fewer rounds.",
    )
    assert advice.as_dict()["relay"] is None


def test_the_command_says_it_too():
    given = ["--dim", "16", "--clients", "4000", "--rounds", "20", "--epsilon", "2"]
    given += ["--drop-out", "0.2", "--dishonest", "0.05"]
    advice = advise(**SMALL, drop_out=0.2, dishonest=0.05)
    found = json.loads(run_here("advise", *given, "--json").stdout)
    assert found["relay"] == json.loads(json.dumps(advice.relay.as_dict()))
    assert (found["drop_out"], found["dishonest"]) == (0.2, 0.05)
    printed = " ".join(run_here("advise", *given).stdout.split())
    assert " ".join(advice.relay_sentences) in printed


@pytest.mark.parametrize("name", ["drop_out", "dishonest"])
@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_impossible_shares(name, share):
    with pytest.raises(InvalidArgument) as caught:
        advise(**SMALL, **{name: share})
    assert caught.value.name == name
