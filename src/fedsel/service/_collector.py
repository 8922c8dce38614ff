"""The collector: it commits what comes in groups, ends rounds, and keeps the snapshot current.

A sender waits until its report is durable. While one group is committed, the next one gathers, so
that one flush of the disk serves many senders (group commit). The database is the truth; memory
holds one snapshot of it and the waiting reports. One thread does all work on the database. What a
report is, and when a round is over, is the affair of the run: one that is trained
(`_training.TrainingRun`), or one that a relay collects for (`relay`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar, final

from fedsel.server._checkpoint import Counts
from fedsel.service._http import Refusal
from fedsel.service._judging import Item, Receipt, tallied
from fedsel.service._monitoring import log_event
from fedsel.service._store import GatewayBatch, RoundStatus, Store, StoreUnavailable, Transaction
from fedsel.service._task import Limits
from fedsel.wire import Verdict

_POLL_SECONDS = 0.25
"""How often the collector looks whether a round is over, by time or by another process."""
_MOST_AT_ONCE, _MOST_BATCH_BYTES = 4096, 64 << 20
"""Reports of one commit, and bytes of its batches."""
Waiting = tuple[Item, "asyncio.Future[Verdict | Receipt]"]


class Snapshot(Protocol):
    """A run as it is now: the number that the store has for its open round, and whether any is."""

    @property
    def turn(self) -> int: ...

    @property
    def finished(self) -> bool: ...


class Run(Protocol):
    """What a collector leads. All methods are called in the store's thread."""

    @property
    def name(self) -> str: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def store(self) -> Store: ...

    @property
    def snapshot(self) -> Snapshot: ...

    def judged(
        self, transaction: Transaction, items: Sequence[Item]
    ) -> list[Verdict | Receipt]: ...

    def due(self, status: RoundStatus) -> bool: ...

    def close(self) -> None: ...

    def read(self) -> None: ...


R = TypeVar("R", bound=Run)


@final
class Collector(Generic[R]):
    """Leads one run in one process."""

    def __init__(self, run: R) -> None:
        self.run, self.store = run, run.store
        self.available = True
        self._failure: tuple[str, str] | None = None
        self.status: RoundStatus = self.store.status()
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
        return self.status.counts if self.status.round == self.run.snapshot.turn else Counts()

    def reject(self, count: int = 1) -> None:
        """Count malformed and uninvited reports."""
        self._rejected += count

    def put(self, item: Item) -> asyncio.Future[Verdict | Receipt]:
        """Queue a report or a batch; the future has its verdict once it is durable."""
        if self.waiting >= self.run.limits.waiting:
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
            if status.round != self.run.snapshot.turn or self.run.due(status):
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
            elif not (self.run.snapshot.finished and self.available):
                await self.look()

    async def look(self) -> None:
        """See at once what has changed in the store."""
        await self._follow(lambda: self._seen(self.store.status()))

    async def do(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do something in the store's thread, and see what it has changed; return its result."""
        found = await self._in_thread(work, *arguments)
        await self.look()
        return found

    async def _follow(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            await self._in_thread(work, *arguments)
        except Exception as error:
            self._failed(error)
        else:
            self._recovered()

    def _recovered(self) -> None:
        if not self.available:
            log_event("store answers again", task=self.run.name)
        self.available, self._failure = True, None

    def _failed(self, error: Exception) -> None:
        """Note that the store fails; log the same failure once."""
        failure = (type(error).__name__, str(error))
        if failure != self._failure:
            what = {"task": self.run.name, "kind": failure[0], "detail": failure[1]}
            log_event("store failed", level="error", **what)
        self.available, self._failure = False, failure

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    # --- in the store's thread ------------------------------------------------------------------

    def _commit(
        self, items: Sequence[Item], rejected: int
    ) -> tuple[list[Verdict | Receipt], RoundStatus]:
        with self.store.writing() as transaction:
            verdicts = self.run.judged(transaction, items)
            transaction.tally(tallied(verdicts, rejected))
            status = transaction.status()
        self.commits += 1
        self._rest()
        return verdicts, status

    def _seen(self, status: RoundStatus) -> None:
        """Close the round if it is due; follow where another process has closed it."""
        if status.round == self.run.snapshot.turn and self.run.due(status):
            self.run.close()
            status = self.store.status()
        while status.round != self.run.snapshot.turn:  # until no other process goes on in between
            self.run.read()
            status = self.store.status()
        self.status = status
        self._rest()

    def _rest(self) -> None:
        if self.run.snapshot.finished:  # what is asked of it from now on is in memory
            self.store.rest()
