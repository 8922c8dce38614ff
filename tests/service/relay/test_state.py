"""What a relay keeps, and what it knows of a run."""

import pytest

from fedsel.errors import InvalidArgument
from fedsel.server import CheckpointError, Counts
from fedsel.service._snapshot import CachedBytes
from fedsel.service._store import open_store
from fedsel.service.relay._state import (
    Passed,
    RelaySnapshot,
    RelayState,
    ReleasedRound,
    Terms,
    begun,
)
from fedsel.wire import CloseRule
from fedsel.wire._contract import Shuffled, ShuffleRule
from tests.service.relay.support import relay_config
from tests.service.support import task_of


def terms_of(rule, n_min=50):
    shuffle = Shuffled(ShuffleRule(n_min), 0.5, "0a" * 32, "0b" * 32)
    return Terms("Plan", "Example Ltd", 4, rule, shuffle, 64, 4.0)


@pytest.mark.parametrize(
    ("rule", "release"),
    [
        (CloseRule(reports=80), CloseRule(reports=80, least=50)),
        (CloseRule(seconds=60.0, least=10), CloseRule(seconds=60.0, least=50)),
        (CloseRule(reports=80, seconds=60.0, least=70), CloseRule(80, 60.0, 70)),
        (CloseRule(reports=20), CloseRule(reports=50, least=50)),
    ],
)
def test_nothing_is_released_with_fewer_than_n_min(rule, release):
    assert terms_of(rule).release == release


def test_the_state_goes_through_its_bytes():
    begin = RelayState.begin(relay_config())
    opened = begin.opened(terms_of(CloseRule(seconds=5.0)), bytes(32))
    for state in (begin, opened, opened.waiting, opened.over):
        assert RelayState.decode(state.encode()) == state
    assert (opened.waiting.tag, opened.over.finished) == ("", True)


def test_the_run_of_a_service_is_none_of_a_relay(quick_path):
    store = open_store(quick_path / "store")
    task = task_of()
    store.begin(task.name, task.begin.encode(), 0.0)
    with pytest.raises(CheckpointError, match="no relay's"):
        begun(relay_config(name=task.name), store)
    store.close()


@pytest.mark.parametrize("name", ["run", "server_key", "signing_key"])
def test_another_run_or_key_is_refused(quick_path, name):
    store = open_store(quick_path / "store")
    begun(relay_config(), store)
    other = getattr(relay_config(), name).replace("0", "1").replace("ab", "cd")
    with pytest.raises(InvalidArgument, match=f"{name} of the relay 'test'"):
        begun(relay_config(**{name: other}), store)
    store.close()


def snapshot_at(turn, state, passed=None):
    """Round 0 was released in turn 1."""
    past = ReleasedRound(0, 1, b"\1" * 32, Counts(60, 1, 2, 3), 5.0, 9.0)
    rows = [(0.0, 5.0, None), (5.0, 9.0, past.encode()), (9.0, None, None)]
    return RelaySnapshot(relay_config(), state, turn, rows, passed, Counts(60, 1, 2, 3))


def test_turns_are_rounds_that_are_open_or_on_their_way():
    terms = terms_of(CloseRule(reports=60))
    begin = RelayState.begin(relay_config())
    assert RelaySnapshot(relay_config(), begin, 0, [(0.0, None, None)], None).rounds == 0
    waiting = snapshot_at(2, begin.opened(terms, b"\1" * 32).waiting)
    assert (waiting.round, waiting.collecting, waiting.rounds) == (0, False, 4)
    assert waiting.turns == {b"\1" * 32: 1}
    assert waiting.ended == Counts(60, 1, 2, 3)
    assert waiting.past[0].per_second == 15.0
    request = CachedBytes(b"request")
    passed = Passed(1, terms, b"\2" * 32, CachedBytes(b"{}"), None, request)
    opened = snapshot_at(3, begin.opened(terms, b"\2" * 32), passed)
    assert (opened.round, opened.collecting) == (1, True)
    assert opened.turns == {b"\1" * 32: 1, b"\2" * 32: 3}
    assert opened.part("request") is request
    assert opened.part("task") is None  # nothing that is no part of a round
    assert snapshot_at(2, waiting.state, passed).passed is None  # it is of the next round
    over = snapshot_at(9, begin.opened(terms, b"").over, passed)
    assert (over.round, over.finished) == (4, True)
