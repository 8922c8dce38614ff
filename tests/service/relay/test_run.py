"""Which sealed reports a relay counts, when a round is released, and what is left of it."""

import pytest

from fedsel.server import Counts
from fedsel.service._judging import IncomingReport, tallied
from fedsel.service._snapshot import CachedBytes
from fedsel.service._store import open_store
from fedsel.service.relay._run import NO_TURN, RelayedRun
from fedsel.service.relay._state import Passed
from fedsel.wire import CloseRule, Verdict
from tests.service.relay.support import relay_config
from tests.service.relay.test_state import terms_of

ACCEPTED, DUPLICATE, LATE = Verdict.ACCEPTED, Verdict.DUPLICATE, Verdict.LATE


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def relay(store_url):
    """A run with round 0 open; two reports make it due, of which n_min are three."""
    store, clock = open_store(store_url), Clock()
    run = RelayedRun(relay_config(), store, clock)
    run.clock = clock
    assert run.open(passed_of(0))
    run.read()
    yield run
    store.close()


def passed_of(number, *, last=False):
    terms = terms_of(CloseRule(reports=2, seconds=60.0), n_min=3)
    request = None if last else CachedBytes(b"request")
    tag = bytes([number + 1]) * 32
    return Passed(number, terms, tag, CachedBytes(b"{}"), None, request)


def send(run, *messages):
    """The verdicts on pairs of a participant and what it sends, for a turn or the open one."""
    reports = [
        IncomingReport(turn[0] if turn else run.snapshot.turn, name, content)
        for name, content, *turn in messages
    ]
    with run.store.writing() as transaction:
        verdicts = run.judged(transaction, reports)
        transaction.tally(tallied(verdicts, 0))
    return verdicts


def close(run):
    """Whether the round was released."""
    before = run.snapshot.turn
    if run.due(run.store.status()):
        run.close()
        run.read()
    return run.snapshot.turn != before


def kept(run, turn):
    return b"".join(run.store.sorted_reports(turn, 2))


def test_a_participant_counts_once_whatever_it_sends(relay):
    assert send(relay, (b"a", b"x"), (b"a", b"x"), (b"a", b"y")) == [ACCEPTED, DUPLICATE, DUPLICATE]
    assert send(relay, (b"a", b"z"), (b"b", b"w")) == [DUPLICATE, ACCEPTED]
    assert kept(relay, 1) == b"wx"
    assert relay.store.status().counts == Counts(2, 0, 3, 0)


def test_a_round_is_released_with_n_min_or_never(relay):
    send(relay, (b"a", b"x"), (b"b", b"w"))
    relay.clock.now += 1e9
    assert not close(relay)
    send(relay, (b"c", b"v"))
    assert close(relay)
    assert (relay.snapshot.collecting, relay.snapshot.round) == (False, 0)
    assert kept(relay, 1) == b"vwx"  # by their own bytes, not as they came
    assert send(relay, (b"d", b"u", 1), (b"a", b"new", 1)) == [LATE, DUPLICATE]
    assert kept(relay, 1) == b"vwx"


def test_what_was_overheard_adds_nothing(relay):
    """n_min messages of which two are the same are no n_min reports."""
    send(relay, (b"a", b"x"), (b"b", b"w"), (b"c", b"x"))
    assert not close(relay)
    assert not relay.due(relay.store.status())  # nobody counts again before there is a new one
    send(relay, (b"d", b"v"))
    assert close(relay)
    assert kept(relay, 1) == b"vwx"


def test_copies_are_counted_again_only_when_enough_may_be_different(relay):
    """Else a few devices with one message could make a relay count at every commit."""
    send(relay, *((name, b"x") for name in (b"a", b"b", b"c", b"d")))
    assert relay.due(relay.store.status())
    assert not close(relay)
    send(relay, (b"e", b"w"))
    assert not relay.due(relay.store.status())  # x and w, of three
    send(relay, (b"f", b"x"))
    assert relay.due(relay.store.status())  # it might be a third
    assert not close(relay)
    send(relay, (b"g", b"v"))
    assert close(relay)
    assert kept(relay, 1) == b"vwx"


def test_copies_of_one_round_do_not_delay_the_next(relay):
    send(relay, (b"a", b"x"), (b"b", b"x"), (b"c", b"x"))
    assert not close(relay)
    send(relay, (b"d", b"w"), (b"e", b"v"))
    assert close(relay)
    assert relay.open(passed_of(1))
    relay.read()
    send(relay, (b"a", b"x"), (b"b", b"w"), (b"c", b"v"))
    assert close(relay)


def test_unknown_tags_are_early_only_where_another_process_was_faster(relay):
    assert send(relay, (b"a", b"x", NO_TURN)) == [Verdict.REJECTED]
    send(relay, (b"a", b"x"), (b"b", b"w"), (b"c", b"v"))
    snapshot = relay.snapshot
    assert close(relay)
    relay.snapshot = snapshot
    assert send(relay, (b"a", b"x", NO_TURN)) == [Verdict.EARLY]


def test_the_next_round_forgets_what_was_sent_but_not_who_did(relay):
    send(relay, (b"a", b"x"), (b"b", b"w"), (b"c", b"v"))
    close(relay)
    assert relay.open(passed_of(1))
    assert not relay.open(passed_of(1))  # it is open
    relay.read()
    assert (relay.snapshot.round, relay.snapshot.turn) == (1, 3)
    assert kept(relay, 1) == b""
    assert send(relay, (b"a", b"x", 1), (b"d", b"x", 1)) == [DUPLICATE, LATE]
    assert send(relay, (b"a", b"x2"), (b"b", b"w2")) == [ACCEPTED, ACCEPTED]
    assert [one.counts for one in relay.snapshot.past] == [Counts(3)]


def test_what_comes_while_a_round_is_on_its_way_stays_counted(relay):
    send(relay, (b"a", b"x"), (b"b", b"w"), (b"c", b"v"))
    close(relay)
    assert relay.snapshot.ended == Counts(3)
    send(relay, (b"d", b"u", 1), (b"a", b"x", 1))
    relay.open(passed_of(1))
    relay.read()
    assert relay.snapshot.ended == Counts(3, 0, 1, 1)


def test_the_run_ends(relay):
    send(relay, (b"a", b"x"), (b"b", b"w"), (b"c", b"v"))
    close(relay)
    assert relay.open(passed_of(4, last=True))
    relay.read()
    assert relay.snapshot.finished
    assert not relay.due(relay.store.status())
    assert send(relay, (b"a", b"x", 1), (b"a", b"x", NO_TURN)) == [DUPLICATE, Verdict.REJECTED]


def test_a_new_relay_begins_where_the_service_is(store_url):
    store = open_store(store_url)
    run = RelayedRun(relay_config(), store, Clock())
    assert run.open(passed_of(3))
    run.read()
    assert (run.snapshot.round, run.snapshot.turn) == (3, 7)
    again = RelayedRun(relay_config(), store, Clock())  # as after a restart
    assert (again.snapshot.turns, again.snapshot.passed) == ({b"\4" * 32: 7}, None)
    store.close()
