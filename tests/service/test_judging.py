"""What becomes of reports and batches in one transaction."""

from dataclasses import replace

from fedsel.server import Counts
from fedsel.service._judging import IncomingReport, judge_batch, judge_reports, tallied
from fedsel.service._store import GatewayBatch
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
