"""Server-sent events: each listener is told what has changed since it was last told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, final

from fedsel.service._http import Application, Receive, Refusal, Scope, Send

MOST_OFTEN_SECONDS = 0.5
HEARTBEAT_SECONDS = 15.0
RETRY_MILLISECONDS = 2000
_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy must not wait for more
)
Fragments = Mapping[str, str]
Told = tuple[Mapping[str, Any], Fragments]
"""The open round for programs, and parts of the page by their id."""


@final
class Live:
    """Those who listen, at most so many. Each looks twice a second; what it sees is shared.

    Nothing is queued: who reads slowly is told the latest when there is room again.
    """

    def __init__(self, look: Callable[[], Told], most: int) -> None:
        self._look, self._most = look, most
        self._seen: Told | None = None
        self._looked = -MOST_OFTEN_SECONDS
        self.listeners = 0

    def listener(self) -> Application:
        """An answer without end; refused where too many listen."""
        if self.listeners >= self._most:
            raise Refusal("crowded")
        return _Listener(self)

    def now(self) -> Told:
        """What is to be seen: at most half a second old."""
        now = asyncio.get_running_loop().time()
        if self._seen is None or now - self._looked >= 0.9 * MOST_OFTEN_SECONDS:
            self._seen, self._looked = self._look(), now
        return self._seen


@final
class _Listener:
    def __init__(self, live: Live) -> None:
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell what has changed until the listener is gone, or the server ends."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        self._live.listeners += 1
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await self._tell(send, gone)
        finally:
            self._live.listeners -= 1
            gone.cancel()

    async def _tell(self, send: Send, gone: asyncio.Future[None]) -> None:
        clock = asyncio.get_running_loop().time
        known: dict[str, str] = {}
        text, told = f"retry: {RETRY_MILLISECONDS}\n\n", clock()
        while not gone.done():
            now, fragments = self._live.now()
            fresh = {name: html for name, html in fragments.items() if known.get(name) != html}
            if fresh:
                known.update(fresh)
                data = json.dumps({"now": now, "page": fresh}, ensure_ascii=False, allow_nan=False)
                text += f"event: change\ndata: {data}\n\n"
            elif clock() - told >= HEARTBEAT_SECONDS:
                text += "event: alive\ndata: {}\n\n"
            if text:
                await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                text, told = "", clock()
            await asyncio.wait({gone}, timeout=MOST_OFTEN_SECONDS)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
