"""Limits of single clients: how often they may ask, and how much they may send."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import final

from fedsel.service.answers import Receive, Refusal, Scope

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
    """What limits by address count as one: of IPv6 the 64 bits that a household is given.

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


def declared_length(scope: Scope) -> int | None:
    """The length that a request declares; None if it declares none, −1 if it is no number."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 16 else -1
    return None


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes:
    """The body of a request, if it is not too large: that is known before it is read.

    A body of undeclared length (chunked) is read until it is too large. How long it may take to
    arrive is watched at the connection (`fedsel.service.connections`).
    """
    length = declared_length(scope)
    if length is not None and not 0 <= length <= most:
        raise Refusal("too_large")
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        if len(body) > most:
            raise Refusal("too_large")
        return body
    parts, size = [], 0
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise Refusal("too_large")
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()
    raise Refusal("timeout")  # the client has gone: nobody reads this
