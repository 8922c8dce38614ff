"""Connections that take too long are ended: to send a request, or to read its answer.

uvicorn times idle connections (``timeout_keep_alive``), but none that sends a header or a body byte
by byte, and none that never reads its answer. Here each connection notes when it began to wait for
its client, and one sweep a second ends those that have waited too long. That costs a request two
assignments.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, final

from fedsel.extras import needed
from fedsel.service.task import Limits

with needed("service", "fedsel.service"):
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_UNREAD_BYTES = 1 << 16
"""Of a header, and of a body that comes after its answer."""
SWEEP_SECONDS = 1.0
ENDLESS = frozenset({"/v1/events"})
"""Paths whose answers have no end: what is sent must be read in time, and the server ends them."""
_HEADER, _BODY, _ANSWER, _IDLE = "header", "body", "answer", "idle"


@final
class TimedConnection(HttpToolsProtocol):
    """A connection that knows since when, and for what, it has waited for its client."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._phase, self._since = _HEADER, time.monotonic()
        self._unread = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request; of those that nobody reads there may be only so many."""
        if self._phase is _IDLE:
            self._enter(_HEADER)
        phase = self._phase
        super().data_received(data)
        if phase is not self._phase:
            return
        if phase is _HEADER or (phase is _BODY and self.cycle.response_complete):
            self._unread += len(data)
            if self._unread > MOST_UNREAD_BYTES:
                self.transport.abort()

    def on_headers_complete(self) -> None:
        """A request begins."""
        self._enter(_BODY)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Its body is whole; it may have been refused before."""
        self._enter(_IDLE if self.cycle.response_complete else _ANSWER)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered."""
        if self._phase is _ANSWER:
            self._enter(_IDLE)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client has not read what was sent: from now on it is waited for."""
        if self._endless:
            self._since = time.monotonic()
        super().pause_writing()

    def shutdown(self) -> None:
        """The server ends: what has no end of its own is cut off."""
        if self._endless:
            self.transport.close()
        super().shutdown()

    @property
    def _endless(self) -> bool:
        return self._phase is _ANSWER and bool(self.scope) and self.scope["path"] in ENDLESS

    def _enter(self, phase: str) -> None:
        self._phase, self._since, self._unread = phase, time.monotonic(), 0

    def end_if_slow(self, limits: Limits, now: float) -> bool:
        """End the connection if its client takes too long; whether it was ended."""
        allowed = {
            _HEADER: limits.header_seconds,
            _BODY: limits.body_seconds,
            _ANSWER: limits.answer_seconds,
            _IDLE: limits.idle_seconds,
        }[self._phase]
        if now - self._since <= allowed:
            return False
        if self._endless and not self.flow.write_paused:
            return False
        self.transport.abort()
        return True


async def sweep(connections: set[Any], limits: Limits) -> None:
    """End slow connections, once a second, for ever."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = time.monotonic()
        for one in list(connections):
            if isinstance(one, TimedConnection):
                one.end_if_slow(limits, now)
