"""What becomes of reports and batches, and when the rounds of a shuffled run are over."""

from dataclasses import replace

import pytest

from fedsel.errors import InvalidArgument
from fedsel.server import Counts
from fedsel.service._store import GatewayBatch, open_store
from fedsel.service._training import (
    IncomingReport,
    TrainingRun,
    judge_batch,
    judge_reports,
    tallied,
)
from fedsel.wire import Verdict
from tests.service.support import reports_for, task_of


class Kept:
    """A store in memory: the slow twin of a group's verdicts."""

    def __init__(self, number):
        self.round, self.kept, self.batches, self.added = number, {}, {}, []

    def add(self, number, rows):
        return [self.kept.setdefault((number, name), row) and None for name, row in rows]

    def report_of(self, number, participant):
        return self.kept.get((number, participant))

    def batch_of(self, batch):
        return self.batches.get((batch.gateway, batch.number))

    def add_batch(self, batch, digest, counts):
        self.batches[batch.gateway, batch.number] = digest, counts
        self.added.append(batch.data)


def test_a_group_is_judged_as_one_after_another():
    transaction = Kept(2)
    transaction.kept[1, b"a"] = b"old"
    arrivals = [
        IncomingReport(2, b"a", b"x"),
        IncomingReport(2, b"a", b"x"),
        IncomingReport(2, b"a", b"y"),
        IncomingReport(1, b"a", b"old"),
        IncomingReport(1, b"b", b"old"),
        IncomingReport(3, b"a", b"x"),
    ]
    verdicts = judge_reports(transaction, arrivals, 4)
    assert [v.value for v in verdicts] == [
        "accepted", "duplicate", "conflict", "duplicate", "late", "early",
    ]  # fmt: skip
    assert tallied(verdicts, 4) == Counts(1, 6, 2, 1)


def test_a_batch_is_judged_as_its_reports():
    task = task_of()
    request = task.begin.request()
    rows, transaction = reports_for(request, 3), Kept(0)
    receipt = judge_batch(transaction, GatewayBatch(b"g", b"1", b"".join(rows)), request.format, 4)
    assert receipt == (Verdict.ACCEPTED, Counts(3))
    assert (
        judge_batch(transaction, GatewayBatch(b"g", b"1", rows[0]), request.format, 4)[0]
        is Verdict.CONFLICT
    )
    transaction.round = 1
    receipt = judge_batch(
        transaction, GatewayBatch(b"g", b"2", rows[0] + bytes(16)), request.format, 4
    )
    assert receipt == (Verdict.ACCEPTED, Counts(0, 1, 0, 1))


def test_what_is_no_report_in_a_batch_counts_in_no_round():
    """Of another run, or with slots that there are none of: neither accepted nor late."""
    request = task_of().begin.request()
    (good,), form = reports_for(request, 1), request.format
    strange = reports_for(replace(request, run=bytes(16)), 1)[0]
    broken = good[: -form.size // 4] + b"\xff" * (form.size - len(good[: -form.size // 4]))
    data = strange + good + broken
    assert [form.round_of(row) for row in (strange, good, broken)] == [None, 0, None]
    transaction = Kept(0)
    receipt = judge_batch(transaction, GatewayBatch(b"g", b"1", data), form, 4)
    assert receipt == (Verdict.ACCEPTED, Counts(1, 2))
    assert transaction.added == [good]
    transaction.round = 1
    receipt = judge_batch(transaction, GatewayBatch(b"g", b"2", data), form, 4)
    assert receipt == (Verdict.ACCEPTED, Counts(0, 2, 0, 1))


def test_a_batch_of_one_round_alone_is_not_taken_in_another():
    request = task_of().begin.request()
    data, transaction = b"".join(reports_for(request, 2)), Kept(1)
    for number, verdict in ((0, Verdict.LATE), (2, Verdict.EARLY)):
        batch = GatewayBatch(b"relay", b"%d-0" % number, data, number)
        assert judge_batch(transaction, batch, request.format, 4) == (verdict, Counts())
    assert transaction.added == []
    batch = GatewayBatch(b"relay", b"0-0", data, 0)
    transaction.round = 0
    assert judge_batch(transaction, batch, request.format, 4)[0] is Verdict.ACCEPTED
    transaction.round = 1  # it was accepted: all is well
    assert judge_batch(transaction, batch, request.format, 4)[0] is Verdict.DUPLICATE


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
    monkeypatch.setenv("FEDSEL_SERVICE_KEY", "ab" * 32)
    other = TrainingRun(run.task, run.store, lambda: 2.0)
    assert other.keys.signing.public != run.keys.signing.public


def test_a_run_that_is_not_shuffled_has_no_keys(store_url):
    store = open_store(store_url)
    run = TrainingRun(task_of(), store, lambda: 1.0)
    assert run.keys is None
    assert run.snapshot.shuffled is None
    assert run.release(0, 5) is Verdict.CONFLICT
    with pytest.raises(InvalidArgument, match="shuffled"):
        run.snapshot.signature(0)
    store.close()
