"""The collector: reports wait for a commit that they share, rounds end, and views follow.

Whoever brings a report waits until it is durable. While one group is being committed the next one
gathers, so that a flush of the disk serves all who wait (group commit). The database is the truth:
what is in memory here is one view of it and the reports that wait. All work on the database is done
by one thread.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, final

from fedsel.errors import InvalidArgument
from fedsel.reports import Totals
from fedsel.server.checkpoint import Checkpoint, CheckpointError
from fedsel.server.outcome import Counts
from fedsel.service.evaluation import Evaluation
from fedsel.service.judging import (
    Arrival,
    Parcel,
    Receipt,
    judge_batch,
    judge_reports,
    tallied,
)
from fedsel.service.logs import log_event
from fedsel.service.storage import Books, Place, Store, StoreUnavailable
from fedsel.service.task import Task
from fedsel.service.view import View
from fedsel.wire import Verdict

POLL_SECONDS = 0.25
"""How often it is looked whether a round is over, by time or by another process."""
MOST_AT_ONCE = 4096
"""Reports of one commit."""
MOST_BATCH_BYTES = 64 << 20
"""Bytes of batches of one commit."""

Item = Arrival | Parcel
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
        self.place: Place = store.place()
        self.view = View.of(task, state, store.times(), store.measures())
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
            size += len(item.data) if isinstance(item, Parcel) else 0
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
    ) -> tuple[list[Verdict | Receipt], Place]:
        with self.store.writing() as books:
            verdicts = self._judged(books, items)
            books.tally(books.round, tallied(verdicts, rejected))
            place = books.place()
        self.commits += 1
        return verdicts, place

    def _judged(self, books: Books, items: Sequence[Item]) -> list[Verdict | Receipt]:
        rounds = self.view.rounds
        arrivals = [(i, item) for i, item in enumerate(items) if isinstance(item, Arrival)]
        verdicts: dict[int, Verdict | Receipt] = {}
        if arrivals:
            judged = judge_reports(books, [item for _, item in arrivals], rounds)
            verdicts.update(zip((i for i, _ in arrivals), judged, strict=True))
        parcels = [(i, item) for i, item in enumerate(items) if isinstance(item, Parcel)]
        # In one order everywhere: processes that wait for each other's batches must not do so
        # in a circle.
        for i, parcel in sorted(parcels, key=lambda p: (p[1].gateway, p[1].number)):
            verdicts[i] = judge_batch(books, parcel, self.view.form, rounds)
        return [verdicts[i] for i in range(len(items))]

    def _look(self) -> None:
        """See whether the round is over by the clock, or by another process."""
        self._seen(self.store.place())

    def _seen(self, place: Place) -> None:
        if place.round == self.view.round and self._due(place):
            place = self._close()
        while place.round != self.view.round:  # until no other process goes on in between
            state = Checkpoint.decode(self.store.checkpoint())
            times, measures = self.store.times(), self.store.measures()
            self.view = View.of(self.task, state, times, measures)
            place = self.store.place()
        self.place = place

    def _due(self, place: Place) -> bool:
        rule = self.task.close_after
        seconds = self._now() - place.opened
        return not self.view.state.finished and rule.due(place.counts.accepted, seconds)

    def _close(self) -> Place:
        """End the open round, if no other process was faster: add up, step, open the next one."""
        with self.store.closing() as books:
            place = books.place()
            if place.round != self.view.round or not self._due(place):
                return place
            state = Checkpoint.decode(books.checkpoint())
            after = state.advanced(self._added(books, place), place.counts)
            found = None if self._test is None else json.dumps(self._test.measured(after))
            books.advance(after.encode(), self._now(), after.finished, found)
        log_event("round closed", round=place.round, **place.counts._asdict())
        return self.store.place()

    def _added(self, books: Books, place: Place) -> Totals:
        """The sums of the round, from the database: memory does not grow with the reports."""
        form = self.view.form
        totals = self.view.state.recipe.build().in_round(place.round).totals()
        for chunk in books.reports(place.round):
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
