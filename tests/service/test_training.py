"""When the rounds of a shuffled run are over, and its keys."""

import pytest

from fedsel.errors import InvalidArgument
from fedsel.server import CheckpointError, Counts
from fedsel.service._judging import tallied
from fedsel.service._store import GatewayBatch, open_store
from fedsel.service._training import TrainingRun
from fedsel.service.relay._state import begun
from fedsel.wire import Verdict
from tests.service.relay.support import relay_config
from tests.service.support import reports_for, task_of


@pytest.fixture
def shuffled(store_url):
    """A shuffled run, and a function that adds a part of a round to it."""
    task = task_of(shuffle={"n_min": 4, "dishonest": 0.0})
    store = open_store(store_url)
    run = TrainingRun(task, store, lambda: 1.0)

    def add(part, count, bad=0):
        rows = reports_for(run.snapshot.state.request(), count, seed=part)
        data = b"".join([*rows, *[bytes(len(rows[0]))] * bad])
        number = run.snapshot.round
        batch = GatewayBatch(b"relay", b"%d-%d" % (number, part), data, number)
        with store.writing() as transaction:
            (receipt,) = run.judged(transaction, [batch])
            transaction.tally(tallied([receipt], 0))
        return receipt

    yield run, add
    store.close()


def test_a_shuffled_round_is_over_once_when_all_of_it_is_there(shuffled):
    run, add = shuffled
    assert add(0, 4).counts == Counts(4)
    assert add(1, 1, bad=1).counts == Counts(1, 1)
    assert not run.due(run.store.status())  # whatever close_after says
    assert run.release(0, 5) is Verdict.CONFLICT  # there are six
    assert run.release(0, 7) is Verdict.CONFLICT
    assert run.release(1, 6) is Verdict.EARLY
    assert run.release(0, 6) is Verdict.ACCEPTED
    assert run.release(0, 6) is Verdict.DUPLICATE
    assert run.release(0, 5) is Verdict.CONFLICT  # of another relay
    run.read()
    assert run.snapshot.round == 1
    assert run.snapshot.past[0].record.counts == Counts(5, 1)


def test_fewer_than_n_min_are_no_round(shuffled):
    run, add = shuffled
    add(0, 3)
    assert run.release(0, 3) is Verdict.CONFLICT
    assert run.store.status().round == 0
    add(1, 1)
    assert run.release(0, 4) is Verdict.ACCEPTED


def test_keys_of_a_shuffled_run_follow_from_its_secret(shuffled, monkeypatch):
    run, _ = shuffled
    again = TrainingRun(run.task, run.store, lambda: 2.0)
    assert again.keys.sealing.public == run.keys.sealing.public
    assert again.snapshot.shuffled == run.snapshot.shuffled
    assert again.snapshot.shuffled.keys == run.keys.public
    monkeypatch.setenv("FEDSEL_SERVICE_KEY", "ab" * 32)
    with pytest.raises(
        InvalidArgument, match="FEDSEL_SERVICE_KEY = 'not shown': must be the secret"
    ):
        TrainingRun(run.task, run.store, lambda: 2.0)
    own = task_of(name="own", shuffle={"n_min": 4})
    TrainingRun(own, run.store, lambda: 2.0)
    monkeypatch.delenv("FEDSEL_SERVICE_KEY")
    with pytest.raises(InvalidArgument, match="FEDSEL_SERVICE_KEY"):
        TrainingRun(own, run.store, lambda: 2.0)


@pytest.mark.parametrize("rule", [None, {"n_min": 3}, {"n_min": 4, "dishonest": 0.1}])
def test_the_rule_that_devices_have_agreed_to_stays(shuffled, rule):
    run, _ = shuffled
    with pytest.raises(InvalidArgument, match=r"shuffle of the task 'test' = .*n_min=4"):
        TrainingRun(task_of(shuffle=rule), run.store, lambda: 2.0)
    store = run.store.another()
    TrainingRun(task_of(name="plain"), store, lambda: 1.0)
    with pytest.raises(InvalidArgument, match=r"shuffle of the task 'plain' = .*: must be None"):
        TrainingRun(task_of(name="plain", shuffle={"n_min": 4}), store, lambda: 2.0)
    store.close()


def test_a_relays_store_is_no_services(store_url):
    store = open_store(store_url)
    begun(relay_config(), store)
    with pytest.raises(CheckpointError, match="is a relay's"):
        TrainingRun(task_of(), store, lambda: 1.0)
    store.close()


def test_a_run_that_is_not_shuffled_has_no_keys(store_url):
    store = open_store(store_url)
    run = TrainingRun(task_of(), store, lambda: 1.0)
    assert run.keys is None
    assert run.snapshot.shuffled is None
    assert run.release(0, 5) is Verdict.CONFLICT
    with pytest.raises(InvalidArgument, match="shuffled"):
        run.snapshot.signature(0)
    store.close()
