"""Requests and answers: small JSON with a fixed word, octets with an ETag, limits, headers.

No answer holds a stack trace.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from typing import Any, NamedTuple, Protocol, final

from fedsel.service._connections import CONNECTION, Connection, Gone, network_of
from fedsel.service._monitoring import LOG, Metrics, log_event
from fedsel.service._snapshot import CachedBytes
from fedsel.wire._model import compact_json

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

JSON_TYPE = b"application/json"
OCTETS_TYPE = b"application/octet-stream"
PART_BYTES = 1 << 18
"""Bytes of a body that are sent at a time."""
MOST_REMEMBERED = 100_000
"""Clients whose last requests are remembered; the rest is forgotten, oldest first."""
BURST_SECONDS = 10.0
ROUTE, RUN = "fedsel.route", "fedsel.run"
"""The keys of the scope that hold the route and the run."""
RUNS = "/runs/"
"""The path below which each run has its own."""
_SECURITY: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
_UNLIMITED = ("/healthz", "/readyz")


Handler = Callable[[Scope, Receive], Awaitable["Application"]]
RouteEntry = tuple[str, str, Handler]
"""A method, a path, and what answers it."""


class Application(Protocol):
    """An ASGI application that answers one request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


@final
class Answer(NamedTuple):
    """A complete answer: an ASGI application that sends it."""

    status: int
    body: bytes
    headers: Headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del receive
        start = {"type": "http.response.start", "status": self.status, "headers": self.headers}
        await send(start)
        body, sent = b"" if scope["method"] == "HEAD" else self.body, 0
        while len(body) - sent > PART_BYTES:  # a slow reader's buffer holds no more than that
            part = body[sent : sent + PART_BYTES]
            await send({"type": "http.response.body", "body": part, "more_body": True})
            sent += PART_BYTES
        await send({"type": "http.response.body", "body": body[sent:]})


def json_answer(values: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """Answer with values as JSON."""
    return text_answer(compact_json(values), JSON_TYPE, status, headers)


def text_answer(body: bytes, kind: bytes, status: int = 200, headers: Headers = ()) -> Answer:
    """Answer with bytes that nobody may cache."""
    length = (b"content-length", str(len(body)).encode())
    return Answer(
        status, body, ((b"content-type", kind), length, (b"cache-control", b"no-store"), *headers)
    )


async def cached_answer(
    octets: CachedBytes, scope: Scope, kind: bytes = OCTETS_TYPE, *more: tuple[bytes, bytes]
) -> Answer:
    """Answer with bytes that a client may keep while their ETag is the same: 304 if it has them."""
    asked = dict(scope["headers"])
    tag = octets.etag.encode()
    headers: Headers = (
        (b"etag", tag),
        (b"cache-control", b"no-cache"),
        (b"vary", b"accept-encoding"),
        *more,
    )
    known = [
        one.strip().removeprefix(b"W/") for one in asked.get(b"if-none-match", b"").split(b",")
    ]
    if tag in known or b"*" in known:
        return Answer(304, b"", headers)
    body = octets.plain
    if _takes_gzip(asked.get(b"accept-encoding", b"")):
        shorter = await octets.compressed.get()
        if len(shorter) < len(body):
            body = shorter
            headers += ((b"content-encoding", b"gzip"),)
    length = (b"content-length", str(len(body)).encode())
    return Answer(200, body, ((b"content-type", kind), length, *headers))


def cached(
    find: Callable[[], CachedBytes], kind: bytes = OCTETS_TYPE, *more: tuple[bytes, bytes]
) -> Handler:
    """Make a handler of bytes that a client may keep."""
    return lambda scope, _: cached_answer(find(), scope, kind, *more)


def made(make: Callable[[], Answer]) -> Handler:
    """Make a handler of an answer that is made anew for each request."""

    async def handler(_scope: Scope, _: Receive) -> Answer:
        return make()

    return handler


def _takes_gzip(header: bytes) -> bool:
    """Whether an Accept-Encoding allows gzip."""
    for one in header.lower().split(b","):
        name, _, quality = one.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def split_path(path: str) -> tuple[str, str]:
    """The run that a path names, "" if none, and the rest, as it would be with one run alone.

    >>> split_path("/runs/churn/v1/task"), split_path("/v1/task"), split_path("/runs/churn")
    (('churn', '/v1/task'), ('', '/v1/task'), ('churn', ''))
    """
    if not path.startswith(RUNS):
        return "", path
    run, slash, rest = path.removeprefix(RUNS).partition("/")
    return run, slash + rest


PROBLEMS: dict[str, tuple[int, str]] = {
    "malformed": (400, "these bytes are no report of this run"),
    "not_invited": (401, "an invitation is needed: Authorization: Bearer …"),
    "wrong_kind": (403, "this invitation is for something else"),
    "not_found": (404, "there is nothing here"),
    "several_runs": (404, "several runs are served here, each at its path in /v1/runs"),
    "not_allowed": (405, "this cannot be done here"),
    "timeout": (408, "the request took too long to arrive"),
    "conflict": (409, "something else was sent in its place before"),
    "early": (409, "this round has not begun"),
    "late": (410, "this round is over"),
    "finished": (410, "the run is over"),
    "length": (411, "the length must be given"),
    "too_large": (413, "the body is too large"),
    "wrong_type": (415, "the body must be application/octet-stream"),
    "too_often": (429, "too many requests: wait a little"),
    "internal": (500, "something went wrong here"),
    "crowded": (503, "too many are listening: reload the page instead"),
    "busy": (503, "too much is waiting: try again"),
    "unavailable": (503, "the store does not answer: try again"),
    "no_service": (503, "the service behind this relay does not answer: try again"),
}
"""Every error by its fixed code: its status, and a sentence for people."""
RETRY_SECONDS = {
    "too_often": b"1",
    "crowded": b"10",
    "busy": b"1",
    "unavailable": b"2",
    "no_service": b"2",
}


def _problem(code: str) -> Answer:
    status, sentence = PROBLEMS[code]
    headers: Headers = ()
    if code in RETRY_SECONDS:
        headers = ((b"retry-after", RETRY_SECONDS[code]),)
    if code == "not_invited":
        headers = ((b"www-authenticate", b"Bearer"),)
    return json_answer({"error": code, "message": sentence}, status, headers)


class Refusal(Exception):
    """Ends a request with the problem of this code."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


PROBLEM: dict[str, Answer] = {code: _problem(code) for code in PROBLEMS}
"""The answer for each code."""


def declared_length(scope: Scope) -> int | None:
    """The length that a request declares; None if it declares none, −1 if it is no number."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 16 else -1
    return None


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """Read the body of a request; refuse one that is too large, before it is read if possible.

    A body of undeclared length (chunked) is read until it is too large. `_connections` limits how
    long it may take to arrive.
    """
    length = declared_length(scope)
    if length is not None and not 0 <= length <= most:
        raise Refusal("too_large")
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise Refusal("timeout")  # the client has gone: nobody reads this
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise Refusal("too_large")
        more = message.get("more_body", False)
    return b"".join(parts)


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
        """Whether this client may send a request now."""
        now = self._clock()
        left, since = self._known.pop(client, (self._burst, now))
        left = min(self._burst, left + self._rate * (now - since))
        allowed = left >= 1.0
        self._known[client] = (left - 1.0 if allowed else left, now)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return allowed


@final
class SecurityMiddleware:
    """Wraps an ASGI application: limits, headers and metrics; no error of it reaches a client."""

    def __init__(self, app: Application, per_address: float, metrics: Metrics) -> None:
        self._app, self._addresses, self._metrics = app, Buckets(per_address), metrics

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

        _, path = split_path(scope["path"])
        if connection is not None:
            connection.request_begins(path)
        try:
            client = scope.get("client")
            address = client[0] if client else ""
            if path not in _UNLIMITED and not self._addresses.take(network_of(address)):
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
            seconds = time.perf_counter() - begin
            run, route = scope.get(RUN, ""), scope.get(ROUTE, "other")
            self._metrics.observe(run, route, status, seconds)
            if LOG.isEnabledFor(10):
                log_event(
                    "request",
                    level="debug",
                    method=scope["method"],
                    run=run,
                    route=route,
                    status=status,
                    ms=round(1000 * seconds, 2),
                )
