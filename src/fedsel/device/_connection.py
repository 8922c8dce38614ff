"""One service over HTTP: verified by TLS, never read without end, asked again until it answers."""

from __future__ import annotations

import http.client
import io
import json
import re
import secrets
import socket
import ssl
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast, final
from urllib.parse import urlsplit

from fedsel.errors import InvalidArgument, check_kind
from fedsel.wire._contract import word_of

SECONDS = 30.0
"""How long one step of an exchange may take: to connect, to send, to read on. The whole of it has a
deadline of its own."""
SHORT = 1 << 16
"""Bytes of an answer that are always read: an error page may be longer than what was asked for."""
Tell = Callable[[str], object]
"""tell(a sentence about what has happened)."""
Pause = Callable[[float], object]
"""Waits for so many seconds; it may raise `Ended`."""
_MOST_TOKEN = 4096
_MOST_WAIT = 300.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0
_GZIP = 31  # zlib's window for what gzip has written
_RANDOM = secrets.SystemRandom()


class Ending(Enum):
    """Why a device takes part no longer. None of these depends on its data."""

    FINISHED = "the run is over"
    DONE = "the run asks this device for no further report"
    SPENT = "the budget of this device does not suffice for another report"
    REFUSED = "this device refuses what it is asked"
    UNINVITED = "the service does not let this device take part"
    CONFLICT = "the service has another report from the holder of this invitation"
    UNREACHABLE = "the service does not answer"
    NOT_UNDERSTOOD = "the service does not answer as a service of fedsel would"


class Ended(Exception):
    """Taking part is over; ``detail`` says more to the owner."""

    def __init__(self, ending: Ending, detail: str = "") -> None:
        super().__init__(ending, detail)
        self.ending, self.detail = ending, detail

    def __str__(self) -> str:
        return f"{self.ending.value}: {self.detail}" if self.detail else self.ending.value


class Interrupted(Exception):
    """The exchange did not come about: it may be tried again, as it was."""


def jittered(seconds: float) -> float:
    """Vary a time at random, so that devices that start together do not stay together."""
    return seconds * _RANDOM.uniform(0.5, 1.5)


def random_round(first: int, last: int) -> int:
    """Draw a round from ``first`` to ``last``."""
    return _RANDOM.randint(first, last)


@final
class Patience:
    """Waits longer from failure to failure, at random, and ends when nothing has worked for long.

    >>> patience = Patience(0.1)
    >>> patience.wait("busy", asked=1.0)
    Traceback (most recent call last):
    fedsel.device._connection.Ended: the service does not answer: busy
    """

    def __init__(self, seconds: float, pause: Pause | None = None) -> None:
        pause = time.sleep if pause is None else pause
        self._end, self._pause, self.failures = time.monotonic() + seconds, pause, 0

    @property
    def left(self) -> float:
        """Seconds until it ends."""
        return self._end - time.monotonic()

    def step(self) -> float:
        """Seconds that the next step of an exchange may take; after the end, a `TimeoutError`."""
        if self.left <= 0:
            raise TimeoutError
        return min(self.left, SECONDS)

    def wait(self, why: str, asked: float = 0.0) -> None:
        """After a failure: wait, for as long as the service asks at least.

        Gives up where that would leave no time for another try.
        """
        # "Full jitter": devices that failed together come back spread over the whole time.
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.failures, 16))
        pause = asked + _RANDOM.uniform(0.0, longest)
        if pause >= self.left:
            raise Ended(Ending.UNREACHABLE, why)
        self.failures += 1
        self._pause(pause)


@final
@dataclass(frozen=True)
class Reply:
    """What came back; ``wait`` is for how many seconds the service asks."""

    status: int
    body: bytes
    wait: float = 0.0

    @property
    def values(self) -> dict[str, Any]:
        """The JSON object in the body; a body without one ends the session."""
        try:
            values = json.loads(self.body)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise Ended(Ending.NOT_UNDERSTOOD, "its answer is no JSON")
        return values

    @property
    def word(self) -> str:
        """The outcome or the error code that the service gives; "" if there is none."""
        return word_of(self.body)


@final
class Connection:
    """Sends requests to a service, and reconnects when the connection was closed.

    What was fetched before is not sent again (ETag), and comes compressed where that is shorter.
    """

    def __init__(
        self,
        url: str,
        *,
        ca: str | Path | None = None,
        patience: float = SECONDS,
        tell: Tell = len,
        pause: Pause | None = None,
    ) -> None:
        self.url, self._patience, self._tell, self._pause = url, patience, tell, pause
        self._secure, self._host, self._port, self._base = check_address("url", url)
        self._context = _context(ca) if self._secure else None
        if ca is not None and not self._secure:
            raise InvalidArgument("ca", str(ca), "omitted with http, which verifies nobody")
        self._connection: _InTime | None = None
        self._kept: dict[str, tuple[str, bytes]] = {}

    @property
    def exposed(self) -> bool:
        """Whether others on the network can read the traffic."""
        return not self._secure and self._host not in ("localhost", "127.0.0.1", "::1")

    def patience(self, more: float = 0.0) -> Patience:
        """A new patience, for something that may be tried again."""
        return Patience(self._patience + more, self._pause)

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def cut(self) -> None:
        """Let an exchange that goes on in another thread fail at once."""
        known = self._connection
        if known is not None and known.sock is not None:
            with suppress(OSError):
                known.sock.shutdown(socket.SHUT_RDWR)

    def ask(
        self,
        path: str,
        most: int,
        *,
        body: bytes | None = None,
        keep: str | None = None,
        token: str | None = None,
        more: float = 0.0,
    ) -> Reply:
        """The answer to a request, which is made again until there is one: POST with a body.

        408, 429, all failures of the server and every failure on the way are tried again, because
        none of them tells whether the request was processed. Sending the same bytes again is safe.
        At most ``most`` bytes are read; ``keep`` names the answer in the cache; ``more`` seconds of
        patience are for what takes long.
        """
        patience = self.patience(more)
        while True:
            wait = 0.0
            try:
                reply = self._once(path, max(most, SHORT), patience, body, keep, token)
            except Interrupted as error:
                why = str(error)
            else:
                again = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
                if reply.status not in again and reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                    if patience.failures:
                        self._tell("the service answers again")
                    return reply
                why, wait = f"status {reply.status}", reply.wait
            if not patience.failures:
                self._tell(f"no answer from {self.url} ({why}); trying again")
            patience.wait(why, wait)

    def not_understood(self, reply: Reply) -> Ended:
        """The error for a reply that no run sends; at the root of several runs it names them."""
        url, detail = self.url.rstrip("/"), f"status {reply.status} from {self.url}"
        if reply.word == "several_runs" and isinstance(paths := reply.values.get("paths"), list):
            known = [p for p in paths if re.fullmatch(r"runs/[a-z0-9_-]+/", str(p))]
            detail = f"it leads several runs; choose one: {', '.join(f'{url}/{p}' for p in known)}"
        elif reply.word:
            detail += f", {reply.word}"
        return Ended(Ending.NOT_UNDERSTOOD, detail)

    def _once(
        self,
        path: str,
        most: int,
        patience: Patience,
        body: bytes | None,
        keep: str | None,
        token: str | None,
    ) -> Reply:
        headers = {"Accept-Encoding": "gzip"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/octet-stream"
        if keep in self._kept:
            headers["If-None-Match"] = self._kept[str(keep)][0]
        reused = self._connection is not None
        try:
            reply, tag = self._exchange(path, body, headers, most, patience)
        except Interrupted:
            if not reused:
                raise
            # A connection that was idle for long is closed by the service: that is no failure.
            reply, tag = self._exchange(path, body, headers, most, patience)
        if keep is None:
            return reply
        if reply.status == HTTPStatus.NOT_MODIFIED and keep in self._kept:
            return Reply(HTTPStatus.OK, self._kept[keep][1])
        self._kept.pop(keep, None)
        if reply.status == HTTPStatus.OK and tag:
            self._kept[keep] = tag, reply.body
        return reply

    def _exchange(
        self, path: str, body: bytes | None, headers: dict[str, str], most: int, patience: Patience
    ) -> tuple[Reply, str]:
        """The reply and its ETag."""
        try:
            if self._connection is None:
                self._connection = _InTime(self._host, self._port, self._context)
            self._connection.patience = patience
            method = "GET" if body is None else "POST"
            self._connection.request(method, self._base + path, body, headers)
            response = self._connection.getresponse()
            length = response.length
            data = response.read(most + 1)
            # `http.client` takes the end of the connection for the end of the headers: a reply that
            # is cut there has neither a length nor a body.
            headless = length is None and not response.chunked and not data
            if headless or (length is not None and len(data) < min(length, most + 1)):
                raise http.client.IncompleteRead(b"")
            if response.will_close or len(data) > most:
                self.close()
        except ssl.SSLCertVerificationError as error:
            self.close()
            detail = f"its certificate is not trusted ({error.verify_message}); --ca names another"
            raise Ended(Ending.UNREACHABLE, detail) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise Interrupted(_why(error)) from None
        except BaseException:
            self.close()  # what was begun must not be taken for the answer to the next request
            raise
        if len(data) > most:
            raise Ended(Ending.NOT_UNDERSTOOD, "its answer is too long")
        known = response.headers
        if known.get("content-encoding", "").lower() == "gzip":
            data = _unpacked(data, most)
        asked = known.get("retry-after", "")
        wait = min(float(asked), _MOST_WAIT) if re.fullmatch(r"\d{1,6}", asked) else 0.0
        return Reply(response.status, data, wait), known.get("etag", "")


@final
class _InTime(http.client.HTTPConnection):
    """A connection of which every step ends with the patience for the whole exchange.

    `http.client` limits the time of one step alone: a service that sends a byte now and then, or
    "100 Continue" without end, never exceeds it.
    """

    patience: Patience

    def __init__(self, host: str, port: int | None, context: ssl.SSLContext | None) -> None:
        self.default_port = http.client.HTTP_PORT if context is None else http.client.HTTPS_PORT
        super().__init__(host, port or self.default_port)
        self._context = context
        self.response_class = self._response  # type: ignore[assignment]

    def connect(self) -> None:
        """Connect to one of the host's addresses, and shake hands."""
        places = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for number, (*_, place) in enumerate(places, 1):
            try:
                address = cast("tuple[str, int]", place[:2])
                sock = socket.create_connection(address, self.patience.step())
                break
            except OSError:
                if number == len(places):
                    raise
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        if self._context is not None:
            sock.settimeout(self.patience.step())
            self.sock = self._context.wrap_socket(sock, server_hostname=self.host)

    def send(self, data: Any) -> None:
        """Send it all; a connection is opened where there is none."""
        if self.sock is None:
            self.connect()
        self.sock.settimeout(self.patience.step())
        super().send(data)

    def _response(self, sock: socket.socket, **options: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, **options)
        response.fp = io.BufferedReader(_Reading(sock, response.fp.detach(), self.patience))
        return response


@final
class _Reading(io.RawIOBase):
    """Reads a socket until the patience ends."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, patience: Patience) -> None:
        self._sock, self._raw, self._patience = sock, raw, patience

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(self._patience.step())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def check_token(name: str, token: str) -> str:
    """A token that can stand in a header; it is a secret, and no message holds it."""
    text = token.strip()
    if len(text) > _MOST_TOKEN or not re.fullmatch(r"[!-~]+", text):
        raise InvalidArgument(name, "not shown", "one invitation: letters without spaces")
    return text


def check_address(name: str, url: str) -> tuple[bool, str, int | None, str]:
    """Whether it is https, host, port and path of the address of a service."""
    check_kind(name, url, str)
    allowed = "the address of a service, such as https://example.org or http://127.0.0.1:8000"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidArgument(name, url, allowed) from None
    whole = parts.scheme in ("http", "https") and parts.hostname and re.fullmatch(r"[!-~]+", url)
    if not whole or parts.query or parts.fragment or parts.username:
        raise InvalidArgument(name, url, allowed)
    return parts.scheme == "https", str(parts.hostname), port, parts.path.rstrip("/")


def _context(ca: str | Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError):
        raise InvalidArgument("ca", str(ca), "a file of certificates (PEM)") from None


def _why(error: Exception) -> str:
    """What went wrong on the way, in few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror).lower()
    return "the connection was cut"


def _unpacked(data: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    try:
        unpacked = unpacker.decompress(data, most + 1)
    except zlib.error:
        raise Interrupted("the answer is damaged") from None
    if len(unpacked) > most:
        raise Ended(Ending.NOT_UNDERSTOOD, "its answer is too long")
    if data and not unpacker.eof:
        raise Interrupted("the answer was cut")
    return unpacked
