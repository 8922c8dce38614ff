"""What becomes of reports and batches within one transaction on the open round."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedsel.server._checkpoint import Counts, judge_round, judge_rounds
from fedsel.service._store import GatewayBatch, Transaction
from fedsel.wire import ReportFormat, Verdict


class IncomingReport(NamedTuple):
    """A well-formed report of a participant."""

    round: int
    participant: bytes
    report: bytes


class Receipt(NamedTuple):
    """The verdict on a batch, and the counts of its reports."""

    verdict: Verdict
    counts: Counts


Item = IncomingReport | GatewayBatch
Same = Callable[[bytes | None, bytes], bool]


def judge_reports(
    transaction: Transaction,
    reports: Sequence[IncomingReport],
    rounds: int,
    same: Same = operator.eq,
) -> list[Verdict]:
    """Add reports to the open round, unless all ``rounds`` are over; return their verdicts.

    ``same`` says whether what a participant had sent in a round is what it sends now.
    """
    number, first = transaction.round, dict[bytes, bytes]()
    verdicts = [judge_round(report.round, number, number >= rounds) for report in reports]
    for report, verdict in zip(reports, verdicts, strict=True):
        if verdict is Verdict.ACCEPTED:
            first.setdefault(report.participant, report.report)
    found = transaction.add(number, list(first.items())) if first else []
    before = dict(zip(first, found, strict=True))
    for i, (of_round, participant, sent) in enumerate(reports):
        verdict = verdicts[i]
        if verdict is Verdict.ACCEPTED:
            known = before[participant]
            if known is not None:
                verdicts[i] = Verdict.DUPLICATE if same(known, sent) else Verdict.CONFLICT
            else:  # added now; a second one of the same group meets the first
                before[participant] = first[participant]
        elif verdict is Verdict.LATE and same(transaction.report_of(of_round, participant), sent):
            verdicts[i] = Verdict.DUPLICATE
    return verdicts


def judge_batch(
    transaction: Transaction, batch: GatewayBatch, form: ReportFormat, rounds: int
) -> Receipt:
    """Add a batch's reports of the open round, once; a repeated batch gets its first receipt."""
    digest = hashlib.sha256(batch.data).digest() if batch.digest is None else batch.digest
    before = transaction.batch_of(batch)
    if before is not None:
        return Receipt(Verdict.DUPLICATE if before[0] == digest else Verdict.CONFLICT, before[1])
    number = transaction.round
    if batch.round is not None:
        verdict = judge_round(batch.round, number, number >= rounds)
        if verdict is not Verdict.ACCEPTED:
            return Receipt(verdict, Counts())
    now, late = judge_rounds(form.decode_many(batch.data), number, number >= rounds)
    accepted = int(np.count_nonzero(now))
    counts = Counts(accepted, len(now) - accepted - late, 0, late)
    if accepted < len(now):
        rows = np.frombuffer(batch.data, dtype=np.dtype((np.void, form.size)))
        batch = replace(batch, data=rows[now].tobytes())
    transaction.add_batch(batch, digest, counts)
    return Receipt(Verdict.ACCEPTED, counts)


def tallied(verdicts: Sequence[Verdict | Receipt], rejected: int) -> Counts:
    """Count the verdicts of a group, and ``rejected`` further reports."""
    counts = Counts.of(verdicts).plus(Counts(rejected=rejected))
    for receipt in verdicts:
        if isinstance(receipt, Verdict):
            continue
        if receipt.verdict is Verdict.ACCEPTED:
            counts = counts.plus(receipt.counts)
        elif receipt.verdict is Verdict.DUPLICATE:
            counts = counts.plus(Counts(duplicate=receipt.counts.accepted))
        else:
            counts = counts.plus(Counts(rejected=1))
    return counts
