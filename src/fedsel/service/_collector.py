"""The collector: it commits reports in groups, ends rounds, and keeps the snapshot current.

A sender waits until its report is durable. While one group is committed, the next one gathers, so
that one flush of the disk serves many senders (group commit). The database is the truth; memory
holds one snapshot of it and the waiting reports. One thread does all work on the database.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np

from fedsel.errors import InvalidArgument
from fedsel.mechanisms._reports import Totals
from fedsel.server._checkpoint import Checkpoint, Counts, judge_round, judge_rounds
from fedsel.server._folder import CheckpointError
from fedsel.service._http import Refusal
from fedsel.service._monitoring import Evaluation, log_event
from fedsel.service._snapshot import RunSnapshot
from fedsel.service._store import GatewayBatch, RoundStatus, Store, StoreUnavailable, Transaction
from fedsel.service._task import Task
from fedsel.wire import ReportFormat, Verdict

_POLL_SECONDS = 0.25
"""How often the collector looks whether a round is over, by time or by another process."""
_MOST_AT_ONCE, _MOST_BATCH_BYTES = 4096, 64 << 20
"""Reports of one commit, and bytes of its batches."""


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
Waiting = tuple[Item, "asyncio.Future[Verdict | Receipt]"]


def opened(task: Task, store: Store, now: float | None = None) -> Checkpoint:
    """The checkpoint of a task's run, which begins if it is new; another task is refused."""
    kept = store.begin(task.name, task.begin.encode(), time.time() if now is None else now)
    state = Checkpoint.decode(kept)
    try:
        state.check_same(task.begin)
    except InvalidArgument as error:
        error.name += f" of {task}"
        error.allowed += (
            " (its run has begun so, and what is automatic follows from the rest of the task; undo"
            " the change, or give the task another name or another --store)"
        )
        raise
    return state


def judge_reports(
    transaction: Transaction, reports: Sequence[IncomingReport], rounds: int
) -> list[Verdict]:
    """Add reports to the open round, unless all ``rounds`` are over; return their verdicts."""
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
                verdicts[i] = Verdict.DUPLICATE if known == sent else Verdict.CONFLICT
            else:  # added now; a second one of the same group meets the first
                before[participant] = first[participant]
        elif verdict is Verdict.LATE and transaction.report_of(of_round, participant) == sent:
            verdicts[i] = Verdict.DUPLICATE
    return verdicts


def judge_batch(
    transaction: Transaction, batch: GatewayBatch, form: ReportFormat, rounds: int
) -> Receipt:
    """Add a batch's reports of the open round, once; a repeated batch gets its first receipt."""
    digest = hashlib.sha256(batch.data).digest()
    before = transaction.batch_of(batch)
    if before is not None:
        return Receipt(Verdict.DUPLICATE if before[0] == digest else Verdict.CONFLICT, before[1])
    number = transaction.round
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


@final
class Collector:
    """Runs one task in one process."""

    def __init__(self, task: Task, store: Store, *, now: Callable[[], float] = time.time) -> None:
        self.task, self.store, self._now = task, store, now
        self._test = Evaluation.of(task)
        state = opened(task, store, now())
        self.available = True
        self._failure: tuple[str, str] | None = None
        self.status: RoundStatus = store.status()
        self.snapshot = RunSnapshot(task, state, store.rounds())
        self.commits = 0
        self._rejected = 0
        self._waiting: list[Waiting] = []
        self._wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "fedsel-store")
        self._tasks: list[asyncio.Task[None]] = []

    # --- on the event loop ----------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write and to watch the clock."""
        self._rest()
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        """Commit the waiting reports, then close the store."""
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
        """The number of reports and batches that wait for their commit."""
        return len(self._waiting)

    @property
    def counts(self) -> Counts:
        """Counts of the open round; zeros while the snapshot lags behind the store."""
        return self.status.counts if self.status.round == self.snapshot.round else Counts()

    def reject(self, count: int = 1) -> None:
        """Count malformed and uninvited reports."""
        self._rejected += count

    def put(self, item: Item) -> asyncio.Future[Verdict | Receipt]:
        """Queue a report or a batch; the future has its verdict once it is durable."""
        if self.waiting >= self.task.limits.waiting:
            raise Refusal("busy")
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
                verdicts, status = await self._in_thread(self._commit, items, rejected)
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
            self.status = status
            self._recovered()
            if status.round != self.snapshot.round or self._due(status):
                await self._follow(self._seen, status)

    def _next_group(self) -> list[Waiting]:
        size = count = 0
        for item, _ in self._waiting[:_MOST_AT_ONCE]:
            size += len(item.data) if isinstance(item, GatewayBatch) else 0
            if count and size > _MOST_BATCH_BYTES:
                break
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        if not self._waiting:
            self._wake.clear()
        return group

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if self._rejected:
                self._wake.set()  # an empty group counts them
            elif not (self.snapshot.state.finished and self.available):
                await self._follow(lambda: self._seen(self.store.status()))

    async def _follow(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            await self._in_thread(work, *arguments)
        except Exception as error:
            self._failed(error)
        else:
            self._recovered()

    def _recovered(self) -> None:
        if not self.available:
            log_event("store answers again", task=self.task.name)
        self.available, self._failure = True, None

    def _failed(self, error: Exception) -> None:
        """Note that the store fails; log the same failure once."""
        failure = (type(error).__name__, str(error))
        if failure != self._failure:
            what = {"task": self.task.name, "kind": failure[0], "detail": failure[1]}
            log_event("store failed", level="error", **what)
        self.available, self._failure = False, failure

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    # --- in the store's thread ------------------------------------------------------------------

    def _commit(
        self, items: Sequence[Item], rejected: int
    ) -> tuple[list[Verdict | Receipt], RoundStatus]:
        with self.store.writing() as transaction:
            verdicts = self._judged(transaction, items)
            transaction.tally(tallied(verdicts, rejected))
            status = transaction.status()
        self.commits += 1
        self._rest()
        return verdicts, status

    def _judged(self, transaction: Transaction, items: Sequence[Item]) -> list[Verdict | Receipt]:
        rounds = self.snapshot.rounds
        verdicts: dict[int, Verdict | Receipt] = {}
        reports = [(i, item) for i, item in enumerate(items) if isinstance(item, IncomingReport)]
        judged = judge_reports(transaction, [item for _, item in reports], rounds)
        verdicts.update(zip((i for i, _ in reports), judged, strict=True))
        batches = [(i, item) for i, item in enumerate(items) if isinstance(item, GatewayBatch)]
        # In one order everywhere: processes that wait for each other's batches must not do so
        # in a circle.
        for i, batch in sorted(batches, key=lambda pair: (pair[1].gateway, pair[1].number)):
            verdicts[i] = judge_batch(transaction, batch, self.snapshot.form, rounds)
        return [verdicts[i] for i in range(len(items))]

    def _seen(self, status: RoundStatus) -> None:
        """Close the round if it is due; follow where another process has closed it."""
        if status.round == self.snapshot.round and self._due(status):
            status = self._close()
        while status.round != self.snapshot.round:  # until no other process goes on in between
            state = Checkpoint.decode(self.store.checkpoint())
            self.snapshot = RunSnapshot(self.task, state, self.store.rounds())
            status = self.store.status()
        self.status = status
        self._rest()

    def _rest(self) -> None:
        if self.snapshot.state.finished:  # what is asked of it from now on is in memory
            self.store.rest()

    def _due(self, status: RoundStatus) -> bool:
        rule = self.task.close_after
        seconds = self._now() - status.opened
        return not self.snapshot.state.finished and rule.due(status.counts.accepted, seconds)

    def _close(self) -> RoundStatus:
        """End the open round, if no other process was faster: add up, step, open the next one."""
        with self.store.closing() as transaction:
            status = transaction.status()
            if status.round != self.snapshot.round or not self._due(status):
                return status
            state = Checkpoint.decode(transaction.checkpoint())
            after = state.advanced(self._added(transaction, status), status.counts)
            found = None if self._test is None else json.dumps(self._test.measured(after))
            transaction.advance(after.encode(), self._now(), after.finished, found)
        counts = status.counts._asdict()
        log_event("round closed", task=self.task.name, round=status.round, **counts)
        return self.store.status()

    def _added(self, transaction: Transaction, status: RoundStatus) -> Totals:
        """The sums of the round, from the database: memory does not grow with the reports."""
        totals = self.snapshot.state.recipe.build().in_round(status.round).totals()
        for chunk in transaction.reports(status.round):
            totals.add(self.snapshot.form.decode_many(chunk).reports)
        if totals.count != status.counts.accepted:
            raise CheckpointError(
                f"round {status.round} has {totals.count} reports, not {status.counts.accepted}"
            )
        return totals
