"""What surrounds every request: limits by address, headers, figures, and errors without a trace."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, final

from fedsel.service._connections import CONNECTION, Connection, Gone, network_of
from fedsel.service._http import PROBLEM, Headers, Message, Receive, Scope, Send
from fedsel.service._monitoring import LOG, Metrics, log_event

MOST_REMEMBERED = 100_000
"""Clients whose last requests are remembered; the rest is forgotten, oldest first."""
BURST_SECONDS = 10.0


@final
class Buckets:
    """A bucket of tokens for each client: full at first, refilled at a rate, one for a request.

    >>> clock = iter([0.0, 0.0, 0.0, 0.5]).__next__
    >>> buckets = Buckets(rate=2.0, burst=2.0, clock=clock)
    >>> [buckets.take("a") for _ in range(4)]
    [True, True, False, True]
    """

    def __init__(
        self, rate: float, burst: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._clock = rate, clock
        self._burst = max(1.0, rate * BURST_SECONDS if burst is None else burst)
        self._known: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, client: Hashable) -> bool:
        """Whether this client may ask now."""
        now = self._clock()
        left, since = self._known.pop(client, (self._burst, now))
        left = min(self._burst, left + self._rate * (now - since))
        allowed = left >= 1.0
        self._known[client] = (left - 1.0 if allowed else left, now)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return allowed


ROUTE = "fedsel.route"
"""The key of the scope that holds the route."""
_SECURITY: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
_UNLIMITED = ("/healthz", "/readyz")


@final
class SecurityMiddleware:
    """An ASGI application around another one; nothing that goes wrong within gets out."""

    def __init__(self, app: Any, per_address: float) -> None:
        self._app, self._addresses = app, Buckets(per_address)
        self.metrics: Metrics | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or lead the application through its life."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets here
            return
        begin, status = time.perf_counter(), 0
        connection: Connection | None = scope.get("state", {}).get(CONNECTION)  # of our own server

        async def receiving() -> Message:
            message = await receive()
            if connection is not None:
                connection.body_taken(message.get("more_body", False))
            return message

        async def sending(message: Message) -> None:
            nonlocal status
            if connection is not None:
                connection.answer_goes_on()
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), *_SECURITY]
                if not any(name == _POLICY[0] for name, _ in headers):
                    headers.append(_POLICY)
                if scope["scheme"] == "https":
                    headers.append(_TRANSPORT)
                message["headers"] = headers
            await send(message)

        if connection is not None:
            connection.request_begins(scope["path"])
        try:
            client = scope.get("client")
            address = client[0] if client else ""
            if scope["path"] not in _UNLIMITED and not self._addresses.take(network_of(address)):
                await PROBLEM["too_often"](scope, receiving, sending)
            else:
                await self._app(scope, receiving, sending)
        except Gone:
            pass
        except Exception:
            LOG.error("request failed", exc_info=True)
            if not status:  # else uvicorn ends what was begun
                await PROBLEM["internal"](scope, receiving, sending)
        finally:
            if connection is not None:
                connection.request_ends()
            route, seconds = scope.get(ROUTE, "other"), time.perf_counter() - begin
            if self.metrics is not None:
                self.metrics.observe(route, status, seconds)
            if LOG.isEnabledFor(10):
                log_event(
                    "request",
                    level="debug",
                    method=scope["method"],
                    route=route,
                    status=status,
                    ms=round(1000 * seconds, 2),
                )
