"""The collector: reports wait for a commit that they share, rounds end, and views follow.

Whoever brings a report waits until it is durable. While one group is being committed the next one
gathers, so that a flush of the disk serves all who wait (group commit). The database is the truth:
what is in memory here is one view of it and the reports that wait. All work on the database is done
by one thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from fedsel.errors import InvalidArgument
from fedsel.reports import Totals
from fedsel.server._admission import Counts
from fedsel.server._checkpoint import Checkpoint, CheckpointError
from fedsel.service._monitoring import Evaluation, log_event
from fedsel.service._store import (
    Batch,
    BatchResult,
    RoundStatus,
    Store,
    StoreUnavailable,
    Transaction,
)
from fedsel.service.task import Task
from fedsel.service.view import RunSnapshot
from fedsel.wire import ReportFormat, Verdict


class IncomingReport(NamedTuple):
    """A well-formed report of a participant."""

    round: int
    participant: bytes
    report: bytes


@final
@dataclass(frozen=True)
class GatewayBatch:
    """A gateway's batch as it came: one report after another."""

    gateway: bytes
    number: bytes
    data: bytes


class Receipt(NamedTuple):
    """What became of a batch."""

    verdict: Verdict
    counts: Counts


def judge_reports(
    transaction: Transaction, arrivals: Sequence[IncomingReport], rounds: int
) -> list[Verdict]:
    """Add what may be added to the open round, of so many in all; say what became of each."""
    number = transaction.round
    first: dict[bytes, bytes] = {}
    for arrival in arrivals:
        if arrival.round == number < rounds:
            first.setdefault(arrival.participant, arrival.report)
    before = (
        dict(zip(first, transaction.add(number, list(first.items())), strict=True)) if first else {}
    )
    verdicts = []
    for arrival in arrivals:
        if arrival.round > number or arrival.round >= rounds:
            verdict = Verdict.EARLY
        elif arrival.round < number:
            known = transaction.report_of(arrival.round, arrival.participant)
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


def judge_batch(
    transaction: Transaction, parcel: GatewayBatch, form: ReportFormat, rounds: int
) -> Receipt:
    """Add a batch's reports of the open round, once; a repeated batch is told what became of it."""
    digest = hashlib.sha256(parcel.data).digest()
    before = transaction.batch_of(parcel.gateway, parcel.number)
    if before is not None:
        same = before.digest == digest
        return Receipt(Verdict.DUPLICATE if same else Verdict.CONFLICT, before.counts)
    batch, number = form.decode_many(parcel.data), transaction.round
    now = batch.valid & (batch.round == number) & (number < rounds)
    accepted, late = (
        int(np.count_nonzero(which)) for which in (now, batch.valid & (batch.round < number))
    )
    counts = Counts(accepted, len(now) - accepted - late, 0, late)
    rows = np.frombuffer(parcel.data, dtype=np.dtype((np.void, form.size)))
    kept = parcel.data if accepted == len(now) else rows[now].tobytes()
    transaction.add_batch(
        number, Batch(parcel.gateway, parcel.number, kept, BatchResult(digest, counts))
    )
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


POLL_SECONDS = 0.25
"""How often it is looked whether a round is over, by time or by another process."""
MOST_AT_ONCE = 4096
"""Reports of one commit."""
MOST_BATCH_BYTES = 64 << 20
"""Bytes of batches of one commit."""

Item = IncomingReport | GatewayBatch
Waiting = tuple[Item, "asyncio.Future[Verdict | Receipt]"]


class Busy(Exception):
    """More reports wait than the service lets wait."""


def opened(task: Task, store: Store, now: float | None = None) -> Checkpoint:
    """The checkpoint of a task's run, which begins if it is new; another task is refused."""
    kept = store.begin(task.name, task.begin.encode(), time.time() if now is None else now)
    state = Checkpoint.decode(kept)
    try:
        state.check_same(task.begin)
    except InvalidArgument as error:
        error.name += f" of the task {task.name!r}"
        error.allowed += (
            " (its run has begun so, and what is automatic follows from the rest of the task; undo"
            " the change, or give the task another name or another --store)"
        )
        raise
    return state


@final
class Collector:
    """Leads one run in one process."""

    def __init__(self, task: Task, store: Store, *, now: Callable[[], float] = time.time) -> None:
        self.task, self.store, self._now = task, store, now
        self._test = Evaluation.of(task)
        state = opened(task, store, now())
        self.available = True
        self._failure: tuple[str, str] | None = None
        self.place: RoundStatus = store.place()
        self.view = RunSnapshot.of(task, state, store.times(), store.measures())
        self.commits = 0
        self._rejected = 0
        self._waiting: list[Waiting] = []
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "fedsel-store")
        self._tasks: list[asyncio.Task[None]] = []

    # --- on the event loop ----------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write and to watch the clock."""
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        """Commit what waits, then let go of the store."""
        while self._waiting and self.available:
            self._wake.set()
            await asyncio.sleep(0.01)
        for one in self._tasks:
            one.cancel()
            with suppress(asyncio.CancelledError):
                await one
        for _, done in self._waiting:
            if not done.done():
                done.set_exception(StoreUnavailable("the service ends"))
        await self._in_thread(self.store.close)
        self._thread.shutdown()

    @property
    def waiting(self) -> int:
        """How many wait for their commit."""
        return len(self._waiting)

    def reject(self, count: int = 1) -> None:
        """Count reports that were malformed or not welcome."""
        self._rejected += count

    def put(self, item: Item) -> asyncio.Future[Verdict | Receipt]:
        """Take a report or a batch; what is awaited comes after it is durable."""
        if self.waiting >= self.task.limits.waiting:
            raise Busy
        done: asyncio.Future[Verdict | Receipt] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        self._wake.set()
        return done

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            group, rejected = self._next_group(), self._rejected
            try:
                items = [item for item, _ in group]
                verdicts, place = await self._in_thread(self._commit, items, rejected)
            except Exception as error:
                self._failed(error)
                for _, done in group:
                    if not done.done():
                        done.set_exception(error)
                continue
            self._rejected -= rejected
            for (_, done), verdict in zip(group, verdicts, strict=True):
                if not done.done():  # else nobody waits for it any more
                    done.set_result(verdict)
            self.place = place
            self._recovered()
            if place.round != self.view.round or self._due(place):
                await self._follow(self._seen, place)

    def _next_group(self) -> list[Waiting]:
        size = count = 0
        for item, _ in self._waiting[:MOST_AT_ONCE]:
            size += len(item.data) if isinstance(item, GatewayBatch) else 0
            if count and size > MOST_BATCH_BYTES:
                break
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        if not self._waiting:
            self._wake.clear()
        return group

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._rejected:
                self._wake.set()  # an empty group counts them
            else:
                await self._follow(self._look)

    async def _follow(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            await self._in_thread(work, *arguments)
        except Exception as error:
            self._failed(error)
        else:
            self._recovered()

    def _recovered(self) -> None:
        if not self.available:
            log_event("store answers again")
        self.available, self._failure = True, None

    def _failed(self, error: Exception) -> None:
        """Note that the store does not do what it should; the same is logged once."""
        failure = (type(error).__name__, str(error))
        if failure != self._failure:
            log_event("store failed", level="error", kind=failure[0], detail=failure[1])
        self.available, self._failure = False, failure

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    # --- in the store's thread ------------------------------------------------------------------

    def _commit(
        self, items: Sequence[Item], rejected: int
    ) -> tuple[list[Verdict | Receipt], RoundStatus]:
        with self.store.writing() as transaction:
            verdicts = self._judged(transaction, items)
            transaction.tally(transaction.round, tallied(verdicts, rejected))
            place = transaction.place()
        self.commits += 1
        return verdicts, place

    def _judged(self, transaction: Transaction, items: Sequence[Item]) -> list[Verdict | Receipt]:
        rounds = self.view.rounds
        arrivals = [(i, item) for i, item in enumerate(items) if isinstance(item, IncomingReport)]
        verdicts: dict[int, Verdict | Receipt] = {}
        if arrivals:
            judged = judge_reports(transaction, [item for _, item in arrivals], rounds)
            verdicts.update(zip((i for i, _ in arrivals), judged, strict=True))
        parcels = [(i, item) for i, item in enumerate(items) if isinstance(item, GatewayBatch)]
        # In one order everywhere: processes that wait for each other's batches must not do so
        # in a circle.
        for i, parcel in sorted(parcels, key=lambda p: (p[1].gateway, p[1].number)):
            verdicts[i] = judge_batch(transaction, parcel, self.view.form, rounds)
        return [verdicts[i] for i in range(len(items))]

    def _look(self) -> None:
        """See whether the round is over by the clock, or by another process."""
        self._seen(self.store.place())

    def _seen(self, place: RoundStatus) -> None:
        if place.round == self.view.round and self._due(place):
            place = self._close()
        while place.round != self.view.round:  # until no other process goes on in between
            state = Checkpoint.decode(self.store.checkpoint())
            times, measures = self.store.times(), self.store.measures()
            self.view = RunSnapshot.of(self.task, state, times, measures)
            place = self.store.place()
        self.place = place

    def _due(self, place: RoundStatus) -> bool:
        rule = self.task.close_after
        seconds = self._now() - place.opened
        return not self.view.state.finished and rule.due(place.counts.accepted, seconds)

    def _close(self) -> RoundStatus:
        """End the open round, if no other process was faster: add up, step, open the next one."""
        with self.store.closing() as transaction:
            place = transaction.place()
            if place.round != self.view.round or not self._due(place):
                return place
            state = Checkpoint.decode(transaction.checkpoint())
            after = state.advanced(self._added(transaction, place), place.counts)
            found = None if self._test is None else json.dumps(self._test.measured(after))
            transaction.advance(after.encode(), self._now(), after.finished, found)
        log_event("round closed", round=place.round, **place.counts._asdict())
        return self.store.place()

    def _added(self, transaction: Transaction, place: RoundStatus) -> Totals:
        """The sums of the round, from the database: memory does not grow with the reports."""
        form = self.view.form
        totals = self.view.state.recipe.build().in_round(place.round).totals()
        for chunk in transaction.reports(place.round):
            totals.add(form.decode_many(chunk).reports)
        if totals.count != place.counts.accepted:
            raise CheckpointError(
                f"round {place.round} has {totals.count} reports, not {place.counts.accepted}"
            )
        return totals

    @property
    def counts(self) -> Counts:
        """What became of the reports of the open round so far, as far as is known here."""
        place = self.place
        return place.counts if place.round == self.view.round else Counts()
