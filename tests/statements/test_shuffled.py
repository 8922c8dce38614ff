"""What a relay's shuffling adds to the statement of a run, and what it counts on."""

import json
from fractions import Fraction

import pytest

from fedsel import Aggregator, InvalidArgument, Reports, solution
from fedsel.device import Request
from fedsel.mechanisms.central import CentralGuarantee, add_up, compose
from fedsel.server._checkpoint import Checkpoint, Counts
from fedsel.statements import RunStatement
from fedsel.statements._shuffled import ByRelay, IfShuffled
from fedsel.wire import ShuffleRule
from tests.statements.support import Text
from tests.wire.support import complete

RECIPE = complete("PM", epsilon=3, dim=4, epochs=3)
RULE = ShuffleRule(n_min=20, dishonest=0.1, delta=1e-4)


def after(heard):
    """The checkpoint of a service after rounds with so many reports, one round an epoch."""
    state = Checkpoint.begin(RECIPE)
    for count in heard:
        totals = RECIPE.build().totals()
        totals.add(Reports([[0]] * count, [[1]] * count))
        state = state.advanced(totals, Counts(accepted=count))
    return state


def test_a_run_behind_a_relay_states_both_numbers_and_the_share_of_dishonest_clients():
    statement = RunStatement.of(after((25, 30)), shuffle=RULE)
    expected = add_up(RECIPE.build(), reports=18, epochs=2, delta=1e-4)
    shuffled = statement.shuffled
    assert isinstance(shuffled, ByRelay)
    assert shuffled.guarantee == expected
    both = RULE.said(expected.epsilon, Fraction(2))
    assert both.endswith("among at least 18 honest reports")
    text = Text(statement.to_html()).text
    for sentence in (both, RULE.condition, *shuffled.trust, shuffled.epsilon):
        assert sentence in text
    assert "A relay has shuffled the reports: ε = 2 against everybody" in str(statement)
    assert "at most 2 may come from clients who work for the service" in shuffled.trust[1]
    assert "If a trusted shuffler" not in text
    assert "if shuffled" not in text
    told = json.loads(json.dumps(statement.to_dict()))
    assert told["if_shuffled"] is None
    assert told["shuffled"] == {
        "epsilon": expected.epsilon,
        "delta": 1e-4,
        "reports": 18,
        "epochs": 2,
        "local": 2.0,
        "n_min": 20,
        "dishonest": 0.1,
    }


def test_without_a_relay_it_stays_an_if():
    statement = RunStatement.of(after((25, 30)))
    assert isinstance(statement.shuffled, IfShuffled)
    told = statement.to_dict()
    assert told["shuffled"] is None
    assert told["if_shuffled"]["reports"] == 25
    assert "If a trusted shuffler mixes" in str(statement)
    assert "A relay has shuffled" not in Text(statement.to_html()).text


@pytest.mark.parametrize(("fewest", "stated"), [(18, True), (17, False)])
def test_a_round_with_fewer_than_the_honest_ones_proves_nothing(fewest, stated):
    """A relay counts sealed reports; those that are none when they are opened hide nobody."""
    statement = RunStatement.of(after((25, fewest)), shuffle=RULE)
    assert (statement.shuffled is not None) is stated
    assert ("A relay has shuffled" in str(statement)) is stated
    assert "If a trusted shuffler" not in str(statement)


def test_what_is_no_rule():
    with pytest.raises(InvalidArgument, match="shuffle = 'x': must be a ShuffleRule"):
        RunStatement.of(after((25,)), shuffle="x")


def test_before_there_are_reports_nothing_is_stated():
    for shuffle in (RULE, None):
        statement = RunStatement.of(after(()), shuffle=shuffle)
        assert statement.shuffled is None
        with pytest.raises(InvalidArgument, match="no reports yet"):
            statement.central()


@pytest.mark.slow
def test_epochs_are_composed_at_the_delta_of_the_relay():
    statement = RunStatement.of(after((30, 30)), shuffle=RULE)
    assert statement.central() == compose(RECIPE.build(), reports=18, epochs=2, delta=1e-4)
    assert "2 epochs added up" in statement.shuffled.sentence


def test_clients_that_remember_have_the_local_number_alone():
    kept = complete("PS-PM", epsilon=2, dim=4, epochs=2, mu=0.1)
    found = ByRelay.of(kept.build().privacy, RULE, 25, 2)
    assert found.guarantee.epsilon >= kept.build().privacy.total
    assert "shuffling proves nothing more" in found.sentence


def test_an_aggregator_may_be_asked_as_well(tmp_path):
    server = Aggregator(RECIPE, tmp_path)
    form = Request.decode(server.request()).format
    for client in range(3):
        server.receive(client, form.encode(0, Reports([1], [0])))
    server.step()
    assert RunStatement.of(server, shuffle=ShuffleRule(3, 0.0)).shuffled.reports == 3


def test_no_number_is_rounded_down():
    privacy = solution("Duchi", epsilon=Fraction(2, 15), dim=3).privacy
    found = IfShuffled.of(privacy, 10, 1)
    object.__setattr__(found, "guarantee", CentralGuarantee(0.100001, 1e-6, 10, 0.133))
    assert found.epsilon == "central ε = 0.1001 at δ = 10⁻⁶"
    assert "Local ε = 0.1334 " in found.sentence
    assert str(found.guarantee).startswith("central ε = 0.1001 at δ = 1e-06 among 10")
