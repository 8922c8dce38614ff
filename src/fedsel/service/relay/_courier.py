"""The courier of a relay: it brings what was released to the service, and the next round back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, final

from fedsel.device._connection import Ended, Ending
from fedsel.service._collector import Collector
from fedsel.service._monitoring import log_event
from fedsel.service._store import Store
from fedsel.service._task import PART_BYTES
from fedsel.service.relay._run import RelayedRun
from fedsel.service.relay._state import Passed, RelaySnapshot
from fedsel.service.relay._upstream import Elsewhere, NotTheRun, Upstream

_LOOK_SECONDS, _AFTER_FAILURE_SECONDS = 0.1, 1.0
SIGNATURE_SECONDS = 60.0
"""After which a younger signature of the open round is fetched."""


@final
class Courier:
    """Does all that a relay does at its service, in a thread of its own.

    Whatever was interrupted is done again: the service counts a part of a round once. Of several
    processes one delivers. ``store`` is the courier's own, on the same database.
    """

    def __init__(self, collector: Collector[RelayedRun], store: Store) -> None:
        self._collector, self._store = collector, store
        self._config = collector.run.config
        self._over = threading.Event()
        self._upstream = Upstream(self._config, self._pause)
        self._thread = ThreadPoolExecutor(1, "fedsel-courier")
        self._signed, self._delivered = 0.0, -1
        self._failure: tuple[str, str] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def reachable(self) -> bool:
        """Whether the service has answered, and as it should, when it was last asked."""
        return self._failure is None

    def start(self) -> None:
        """Begin to look what there is to do."""
        self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """End, also in the middle of an exchange; the store is closed."""
        self._over.set()
        self._upstream.cut()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self._thread.shutdown)
        self._upstream.close()
        self._store.close()

    def _pause(self, seconds: float) -> None:
        """Wait before an exchange is tried again, but not beyond the end."""
        if self._over.wait(seconds):
            raise Ended(Ending.UNREACHABLE, "the relay ends")

    async def _in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def _work(self) -> None:
        while True:
            wait = _LOOK_SECONDS
            try:
                await self._step(self._collector.run.snapshot)
            except Elsewhere:
                pass
            except Exception as error:
                self._failed(error)
                wait = _AFTER_FAILURE_SECONDS
            await asyncio.sleep(wait)

    def _failed(self, error: Exception) -> None:
        """Log a failure, the same one once."""
        failure = (type(error).__name__, str(error))
        if failure != self._failure:
            about = {"relay": self._config.name, "kind": failure[0], "detail": failure[1]}
            log_event("service failed", level="error", **about)
        self._failure = failure

    def _answered(self) -> None:
        if self._failure is not None:
            log_event("service answers again", relay=self._config.name)
        self._failure = None

    async def _step(self, snapshot: RelaySnapshot) -> None:
        """Do what is to be done now, if anything is."""
        if snapshot.finished or snapshot.collecting:
            if snapshot.passed is None:
                await self._restore(snapshot)
            elif snapshot.collecting and time.monotonic() - self._signed > SIGNATURE_SECONDS:
                passed = await self._in_thread(self._upstream.refreshed, snapshot.passed)
                await self._keep(passed)
            return
        if not await self._in_thread(self._store.lead):
            return
        now = await self._in_thread(self._upstream.open_round)
        if snapshot.past:
            past = snapshot.past[-1].round
            if now.number not in (past, past + 1):
                raise NotTheRun(
                    f"it is at round {now.number}, and this relay after round {past}: is another"
                    " relay at work, or was a store restored from a copy?"
                )
            if self._delivered != past:  # though it may have come about before a restart
                await self._in_thread(self._deliver, snapshot)
                self._delivered = past
                now = await self._in_thread(self._upstream.open_round)
            if now.number == past:
                return
        passed = await self._in_thread(self._upstream.fetch, now, snapshot.state.terms)
        self._answered()
        self._signed = time.monotonic()
        await self._collector.do(self._collector.run.open, passed)

    async def _restore(self, snapshot: RelaySnapshot) -> None:
        """Fetch what is passed on, after a restart, or after another process has begun a round."""
        now = await self._in_thread(self._upstream.open_round)
        passed: Passed = await self._in_thread(self._upstream.fetch, now, snapshot.state.terms)
        if snapshot.collecting and (passed.number, passed.tag.hex()) != (
            snapshot.round,
            snapshot.state.tag,
        ):
            raise NotTheRun(
                f"it is at round {passed.number}, and this relay collects for round"
                f" {snapshot.round}, or for another request: was a store restored from a copy?"
            )
        await self._keep(passed)

    async def _keep(self, passed: Passed) -> None:
        self._answered()
        self._signed = time.monotonic()
        await self._collector.do(self._collector.run.keep, passed)

    def _deliver(self, snapshot: RelaySnapshot) -> None:
        """Give the service the reports of the last released round, in the order of their bytes."""
        terms, past = snapshot.state.terms, snapshot.past[-1]
        if terms is None:
            raise NotTheRun("nothing was ever announced")
        size = terms.sealed_bytes
        parts = self._store.sorted_reports(past.turn, max(1, PART_BYTES // size))
        count = self._upstream.deliver(past.round, parts, size)
        log_event("round delivered", relay=self._config.name, round=past.round, reports=count)
