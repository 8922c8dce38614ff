"""What a connection may cost: memory, a place among others, and time.

uvicorn with httptools is fast, but bounds nothing: neither headers, pipelined requests and trailers
nor a client that sends byte by byte or never reads. (In November 2026 hypercorn 0.18, granian 2.8
and uvicorn 0.54 with h11 bounded headers, but neither slow bodies nor connections by network, and
h11 and hypercorn took 4 and 6 times as much of a core per request.) So each connection has a
`Connection` here, between its transport and uvicorn's protocol. It uses what
asyncio and ASGI specify (protocols, transports, ``scope["state"]``), nothing of the protocol's own:

- **Memory.** Bytes are handed on a part at a time, and none while an answer is under way: then
  reading stops. `MOST_UNREAD_BYTES` that the application has not taken end the connection, as
  does whatever follows a request whose answer has no end.
- **Places.** Connections are counted when they are accepted, before any handshake, in all and by
  network (`Limits.connections`, ``connections_per_address``).
- **Time.** Each connection notes since when, and for what, it has waited for its client. One sweep
  a second ends those that have waited too long.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, cast, final

from fedsel._internal.extras import needed
from fedsel.service._task import Limits

with needed("service", "fedsel.service"):
    from uvicorn.protocols.http.auto import AutoHTTPProtocol


CONNECTION = "fedsel.connection"
"""Where the state of a scope has the connection of a request."""
ENDLESS = frozenset({"/v1/events"})
"""Paths whose answers have no end: what is sent must be read in time, and the server ends them."""
PART_BYTES, BODY_PART_BYTES = 1 << 12, 1 << 16
"""Bytes handed on at a time: so few hold the headers of about a hundred requests at most."""
MOST_UNREAD_BYTES = 1 << 17
"""Bytes of a header, of trailers, or of a body after its answer. A report that is slightly too
large is still read away, so that its sender sees the answer."""
SPARE_CONNECTIONS = 128
"""Connections beyond the limit that are still answered, with 503."""
SWEEP_SECONDS, ACCEPT_AGAIN_SECONDS = 1.0, 0.1
_HANDSHAKE, _HEADER, _BODY, _ANSWER, _IDLE = "handshake", "header", "body", "answer", "idle"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Gone(Exception):
    """The client of an answer has gone."""


@final
class Listener:
    """Makes the connections of one process, counts them, and ends those that take too long.

    Connections of ``proxies`` are not counted by network: many clients share them.
    """

    def __init__(
        self,
        limits: Limits,
        proxies: Sequence[Network] = (),
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        self.limits, self._proxies = limits, proxies
        self.tls: ssl.SSLContext | None = None
        if certificate is not None:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*certificate)
        self._within: set[Connection] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._of_network: Counter[Hashable] = Counter()

    def __call__(self, *, app_state: dict[str, Any], **options: Any) -> Connection:
        """A new connection, made as uvicorn makes its own protocol."""
        made = Connection(self)
        make = cast(Any, AutoHTTPProtocol)
        made.http = make(app_state={**app_state, CONNECTION: made}, **options)
        return made

    def enter(self, one: Connection, host: str) -> bool:
        """Whether there is room for one more, of this network and in all."""
        if one in self._within:
            return True
        address = address_of(host)
        if address is None or not any(address in proxy for proxy in self._proxies):
            one.network = network_of(host)
        full = len(self._within) >= self.limits.connections + SPARE_CONNECTIONS
        most = self.limits.connections_per_address
        if full or (one.network is not None and self._of_network[one.network] >= most):
            return False
        self._within.add(one)
        self._of_network[one.network] += 1
        return True

    def leave(self, one: Connection) -> None:
        """Give the place of a connection to others."""
        if one in self._within:
            self._within.remove(one)
            self._of_network[one.network] -= 1
            if not self._of_network[one.network]:
                del self._of_network[one.network]

    async def accept(self, listening: socket.socket, make: Callable[[], Connection]) -> None:
        """Accept connections over TLS for ever, and count them before their handshakes.

        `asyncio.Server` would show them only afterwards.
        """
        listening.setblocking(False)
        while True:
            try:
                client, (host, *_) = await asyncio.get_running_loop().sock_accept(listening)
            except ConnectionError:  # gone before it was accepted
                continue
            except OSError:  # no more sockets
                await asyncio.sleep(ACCEPT_AGAIN_SECONDS)
                continue
            one = make()
            if self.enter(one, host):
                task = asyncio.ensure_future(self._handshake(client, one))
                self._handshakes.add(task)
                task.add_done_callback(self._handshakes.discard)
            else:
                client.close()

    async def _handshake(self, client: socket.socket, one: Connection) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: one,
                client,
                ssl=self.tls,
                ssl_handshake_timeout=self.limits.header_seconds,
            )
        except BaseException as error:
            self.leave(one)
            if not isinstance(error, OSError):  # it took too long, was no TLS, or has gone
                raise

    async def sweep(self) -> None:
        """End slow connections, once a second, for ever."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            for one in list(self._within):
                one.end_if_slow(now)

    def close(self) -> None:
        """The server ends: cut off what would not end by itself."""
        for task in self._handshakes:
            task.cancel()
        for one in list(self._within):
            one.end_if_endless()


@final
class Connection(asyncio.Protocol):
    """A connection between its transport and ``http``, the protocol that reads and answers."""

    http: asyncio.Protocol

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport
        self._phase, self._since = _HANDSHAKE, time.monotonic()
        self._held = b""  # has come, and is not handed on
        self._untaken = 0  # bytes handed on since the application last took any
        self._handing = self.lost = self._endless = self._write_paused = False
        self.network: Hashable = None

    # --- from the transport ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there, and over TLS its handshake is over."""
        self._transport = cast(asyncio.Transport, transport)
        if self._listener.enter(self, (transport.get_extra_info("peername") or ("",))[0]):
            self._enter(_HEADER)
            self.http.connection_made(transport)
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Hand bytes on, unless they are many or nobody waits for them: then stop reading."""
        if not self._held and len(data) <= PART_BYTES and self._phase is not _ANSWER:
            self._give(data)
            return
        if self._endless:
            self._transport.abort()
            return
        self._held += data
        self._transport.pause_reading()
        self._hand_on_soon()

    def _hand_on_soon(self) -> None:
        if not self._handing:
            self._handing = True
            asyncio.get_running_loop().call_soon(self._hand_on)

    def _hand_on(self) -> None:
        """Hand a part on, and the next one after the application had its turn."""
        self._handing = False
        if self._phase is _ANSWER or self._transport.is_closing():
            return
        size = BODY_PART_BYTES if self._phase is _BODY else PART_BYTES
        data, self._held = self._held[:size], self._held[size:]
        self._give(data)
        if self._transport.is_closing():
            return
        if self._held:
            self._hand_on_soon()
        else:
            self._transport.resume_reading()

    def _give(self, data: bytes) -> None:
        if self._untaken > MOST_UNREAD_BYTES:
            self._transport.abort()
            return
        if self._phase is _IDLE:
            self._enter(_HEADER)
        self._untaken += len(data)
        self.http.data_received(data)

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return self.http.eof_received()

    def pause_writing(self) -> None:
        """The client has not read what was sent: from now on it is waited for."""
        self._write_paused = True
        if self._endless:
            self._since = time.monotonic()
        self.http.pause_writing()

    def resume_writing(self) -> None:
        """The client has read enough."""
        self._write_paused = False
        self.http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._listener.leave(self)
        self._held, self.lost = b"", True
        if self._phase is not _HANDSHAKE:  # else it was refused
            self.http.connection_lost(exc)

    # --- from the application -------------------------------------------------------------------

    def request_begins(self, path: str) -> None:
        """A header is whole; its body follows, if it has one."""
        self._enter(_BODY)
        self._untaken, self._endless = 0, path in ENDLESS
        if self._endless and self._held:
            self._transport.abort()

    def body_taken(self, more: bool) -> None:
        """A part of the body has arrived at the application."""
        self._untaken = 0
        if not more:
            self._enter(_ANSWER)

    def answer_goes_on(self) -> None:
        """The client must now read a part of the answer; raise `Gone` if it has left.

        uvicorn itself notices this for the last of pipelined requests alone.
        """
        if self.lost:
            raise Gone
        if self._phase is not _ANSWER:
            self._enter(_ANSWER)

    def request_ends(self) -> None:
        """The request is answered; bytes that came meanwhile belong to the next one."""
        self._endless = False
        self._enter(_HEADER if self._untaken else _IDLE)
        if self._held:
            self._hand_on_soon()

    # --- from the clock -------------------------------------------------------------------------

    def _enter(self, phase: str) -> None:
        self._phase, self._since = phase, time.monotonic()

    def end_if_slow(self, now: float) -> None:
        """End the connection if its client takes too long."""
        limits = self._listener.limits
        allowed = {
            _HANDSHAKE: math.inf,  # the event loop's own timer ends it
            _HEADER: limits.header_seconds,
            _BODY: limits.body_seconds,
            _ANSWER: limits.answer_seconds,
            _IDLE: limits.idle_seconds,
        }[self._phase]
        if now - self._since > allowed and not (self._endless and not self._write_paused):
            self._transport.abort()

    def end_if_endless(self) -> None:
        """End the connection if its answer has no end."""
        if self._endless:
            self._transport.close()


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address of a peer; one of IPv4 is the same at a socket of IPv6.

    >>> address_of("::ffff:10.0.0.1")
    IPv4Address('10.0.0.1')
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def network_of(host: str) -> Hashable:
    """The network that limits by address count as one: of IPv6 the 64 bits of a household.

    >>> network_of("10.0.0.1"), network_of("::ffff:10.0.0.1")
    ('10.0.0.1', '10.0.0.1')
    >>> network_of("2001:db8::1") == network_of("2001:db8::2:3")
    True
    """
    if ":" not in host:  # as most are: what follows takes microseconds
        return host
    address = address_of(host)
    if isinstance(address, ipaddress.IPv6Address):
        return address.packed[:8]
    return host if address is None else str(address)
