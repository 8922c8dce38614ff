"""What becomes of reports and batches that wait for their commit, within one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from fedsel.server.outcome import Counts
from fedsel.service.storage import Batch, BatchResult, Books
from fedsel.wire import ReportFormat, Verdict


class Arrival(NamedTuple):
    """A well-formed report of a participant."""

    round: int
    participant: bytes
    report: bytes


@final
@dataclass(frozen=True)
class Parcel:
    """A gateway's batch as it came: one report after another."""

    gateway: bytes
    number: bytes
    data: bytes


class Receipt(NamedTuple):
    """What became of a batch."""

    verdict: Verdict
    counts: Counts


def judge_reports(books: Books, arrivals: Sequence[Arrival], rounds: int) -> list[Verdict]:
    """Add what may be added to the open round, of so many in all; say what became of each."""
    number = books.round
    first: dict[bytes, bytes] = {}
    for arrival in arrivals:
        if arrival.round == number < rounds:
            first.setdefault(arrival.participant, arrival.report)
    before = dict(zip(first, books.add(number, list(first.items())), strict=True)) if first else {}
    verdicts = []
    for arrival in arrivals:
        if arrival.round > number or arrival.round >= rounds:
            verdict = Verdict.EARLY
        elif arrival.round < number:
            known = books.report_of(arrival.round, arrival.participant)
            verdict = Verdict.DUPLICATE if known == arrival.report else Verdict.LATE
        else:
            known = before[arrival.participant]
            if known is None:  # added now; a second one of the same group meets the first
                verdict = Verdict.ACCEPTED
                before[arrival.participant] = first[arrival.participant]
            else:
                verdict = Verdict.DUPLICATE if known == arrival.report else Verdict.CONFLICT
        verdicts.append(verdict)
    return verdicts


def judge_batch(books: Books, parcel: Parcel, form: ReportFormat, rounds: int) -> Receipt:
    """Add a batch's reports of the open round, once; a repeated batch is told what became of it."""
    digest = hashlib.sha256(parcel.data).digest()
    before = books.batch_of(parcel.gateway, parcel.number)
    if before is not None:
        same = before.digest == digest
        return Receipt(Verdict.DUPLICATE if same else Verdict.CONFLICT, before.counts)
    batch, number = form.decode_many(parcel.data), books.round
    now = batch.valid & (batch.round == number) & (number < rounds)
    accepted, late = (
        int(np.count_nonzero(which)) for which in (now, batch.valid & (batch.round < number))
    )
    counts = Counts(accepted, len(now) - accepted - late, 0, late)
    rows = np.frombuffer(parcel.data, dtype=np.dtype((np.void, form.size)))
    kept = parcel.data if accepted == len(now) else rows[now].tobytes()
    books.add_batch(number, Batch(parcel.gateway, parcel.number, kept, BatchResult(digest, counts)))
    return Receipt(Verdict.ACCEPTED, counts)


def tallied(verdicts: Sequence[Verdict | Receipt], rejected: int) -> Counts:
    """The counts of a group: what was malformed, not welcome or in conflict was rejected."""
    accepted = duplicate = late = 0
    for verdict in verdicts:
        if isinstance(verdict, Receipt):
            if verdict.verdict is Verdict.ACCEPTED:
                accepted += verdict.counts.accepted
                rejected += verdict.counts.rejected
                late += verdict.counts.late
            elif verdict.verdict is Verdict.DUPLICATE:
                duplicate += verdict.counts.accepted
            else:
                rejected += 1
        elif verdict is Verdict.ACCEPTED:
            accepted += 1
        elif verdict is Verdict.DUPLICATE:
            duplicate += 1
        elif verdict is Verdict.LATE:
            late += 1
        else:
            rejected += 1
    return Counts(accepted, rejected, duplicate, late)
