"""What clients cannot do to the service by their connections: slow ones, large ones, many."""

import asyncio
import http.client
import socket
import ssl
import sys
import threading
import time
from contextlib import ExitStack, suppress

import pytest

from fedsel.service._connections import Connection, Listener
from fedsel.service._http import Answer
from fedsel.service._task import Limits
from fedsel.service.running import Serving, background
from tests.service.support import (
    FREE,
    Http,
    certificate,
    reports_for,
    running,
    task_of,
    wait_until,
)

pytestmark = pytest.mark.xdist_group("processes")
QUICK = {**FREE, "header_seconds": 2.0, "body_seconds": 2.0, "answer_seconds": 2.0}


def connect(client):
    host, port = client.address.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)))
    made.settimeout(60)
    return made


def send_until_it_ends(connection, parts):
    """Send parts until the service ends the connection; it must."""
    try:
        for part in parts:
            connection.sendall(part)
    except ConnectionError:
        return
    raise AssertionError("the service took it all")


def dripped(parts, seconds):
    for part in parts:
        yield part
        time.sleep(seconds)


def ends(connection):
    """Whether the service ends the connection, without an answer."""
    try:
        return connection.recv(1 << 16) == b""
    except ConnectionError:
        return True


HEAD = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"


@pytest.mark.slow
def test_slow_clients_are_ended_and_others_served(quick_path):
    """A header byte by byte, a body byte by byte, nothing at all, and a header without an end."""
    with running(task_of(limits=QUICK), quick_path / "s") as client, ExitStack() as stack:
        token = client.invitations.invite("device").encode()
        slow = {
            "nothing": b"",
            "half a header": b"GET /v1/task HTTP/1.1\r\nHost:",
            "half a body": HEAD
            + b"Authorization: Bearer " + token + b"\r\nContent-Length: 16\r\n\r\nabc",
        }  # fmt: skip
        connections = {}
        for name, data in slow.items():
            connections[name] = stack.enter_context(connect(client))
            connections[name].sendall(data)
        dripping = stack.enter_context(connect(client))
        # Each byte is in time, the header is not.
        parts = [b"GET /v1/task HTTP/1.1\r\nX: ", *[b"x"] * 6000]
        send_until_it_ends(dripping, dripped(parts, 0.01))
        assert client.get("/healthz") == {"status": "alive"}
        for name, connection in connections.items():
            assert ends(connection), name
        # After an answer the next header is timed as well.
        again = stack.enter_context(connect(client))
        again.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"alive" in again.recv(4096)
        again.sendall(b"GET /healthz HT")
        assert ends(again)


def test_a_header_without_an_end(quick_path):
    with running(task_of(), quick_path / "s") as client, connect(client) as connection:
        connection.sendall(b"GET /v1/task HTTP/1.1\r\n")
        lines = (b"X-%d: " % i + b"y" * 1000 + b"\r\n" for i in range(10_000))
        send_until_it_ends(connection, lines)
        assert client.get("/healthz") == {"status": "alive"}


def test_a_reader_that_never_reads(quick_path):
    """Its answers fill the buffers; then the connection is ended."""
    with running(task_of(dim=100_000, limits=QUICK), quick_path / "s") as client:
        with connect(client) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            asked = b"GET /v1/model HTTP/1.1\r\nHost: x\r\n\r\n"
            send_until_it_ends(connection, dripped([asked] * 1000, 0.05))
        assert client.get("/healthz") == {"status": "alive"}


# --- what a connection may cost -------------------------------------------------------------------


TRAILERS = HEAD + b"Authorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
EXTENSION = HEAD + b"Authorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n1;x="
LINES = b"X: " + b"y" * 1000 + b"\r\n"


@pytest.mark.parametrize(
    ("first", "part"),
    [
        (b"GET /v1/task HTTP/1.1\r\nX: ", b"y" * 4096),
        (b"GET /", b"y" * 4096),
        (b"", b"\r\n" * 2048),
        (TRAILERS, LINES),
        (EXTENSION, b"y" * 4096),
        (b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n", LINES),
        (b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"),
    ],
    ids=["line", "path", "nothing", "trailers", "extension", "behind events", "requests"],
)
def test_nothing_without_an_end_is_taken(quick_path, first, part):
    """What no request holds, or what comes behind an answer without an end."""
    with running(task_of(), quick_path / "s") as client, connect(client) as connection:
        token = client.invitations.invite("device").encode()
        connection.sendall(first % token if b"%s" in first else first)
        send_until_it_ends(connection, [part] * ((64 << 20) // len(part)))
        assert client.get("/healthz") == {"status": "alive"}


def test_requests_in_a_row_are_answered_in_a_row(quick_path):
    """More of them than are handed on at a time, with a body that is, too."""
    with running(task_of(), quick_path / "s") as client, connect(client) as connection:
        rows = b"".join(reports_for(client.request(), 2))
        token = client.invitations.invite("gateway")
        body = rows * (200_000 // len(rows))
        batch = (
            f"PUT /v1/batches/x HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
            f"Content-Type: application/octet-stream\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        get = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        last = b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        sending = threading.Thread(
            target=connection.sendall, args=(get * 3000 + batch.encode() + body + get * 500 + last,)
        )
        sending.start()
        answers = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        sending.join()
        assert answers.count(b'{"status":"alive"}') == 3500
        assert f'"accepted":{len(body) // (len(rows) // 2)}'.encode() in answers
        assert answers.endswith(b'{"status":"ready"}')


class Recorder(asyncio.Protocol):
    """A transport and a protocol in one: notes what a connection does with both."""

    def __init__(self):
        self.given, self.reading, self.ended = [], True, False
        self.data_received = self.given.append

    def get_extra_info(self, _):
        return ("127.0.0.1", 1)

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def is_closing(self):
        return self.ended

    def abort(self):
        self.ended = True


def test_reading_stops_while_an_answer_is_under_way():
    async def scene():
        seen, one = Recorder(), Connection(Listener(Limits()))
        one.http = seen
        one.connection_made(seen)
        one.data_received(b"first")
        one.request_begins("/v1/model")
        one.answer_goes_on()
        one.data_received(b"x" * 300_000)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (seen.given, seen.reading) == ([b"first"], False)
        one.request_ends()
        for _ in range(10):  # the next one: its header, then its body, some at a time
            await asyncio.sleep(0)
        assert not seen.reading
        one.request_begins("/v1/batches/x")
        while not seen.reading:
            one.body_taken(more=True)
            await asyncio.sleep(0)
        assert b"".join(seen.given[1:]) == b"x" * 300_000
        assert max(map(len, seen.given)) <= 1 << 16
        assert not seen.ended

    asyncio.run(scene())


def test_a_large_answer_is_sent_in_parts():
    sent = []

    async def send(message):
        sent.append(message)

    body = bytes(range(256)) * 4000
    asyncio.run(Answer(200, body, ())({"method": "GET"}, None, send))
    assert b"".join(message["body"] for message in sent[1:]) == body
    assert max(len(message["body"]) for message in sent[1:]) <= 1 << 18
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * 3 + [False]


# --- places by network ----------------------------------------------------------------------------

ELSEWHERE = pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2")


def status_from(source, port, headers=None):
    """What somebody at another address of this machine is answered; None without an answer."""
    asked = http.client.HTTPConnection("127.0.0.1", port, 60, (source, 0))
    try:
        asked.request("GET", "/v1/task", headers=headers or {})
        return asked.getresponse().status
    except (ConnectionError, http.client.BadStatusLine):
        return None
    finally:
        asked.close()


@ELSEWHERE
@pytest.mark.parametrize("secured", [False, True])
def test_one_network_has_only_so_many_connections(quick_path, secured):
    """Silent ones, before a handshake, too; those of others are served."""
    limits = {**FREE, "connections": 4, "connections_per_address": 2, "header_seconds": 600.0}
    cert, key = certificate(quick_path) if secured else (None, None)
    options = {"tls_cert": cert, "tls_key": key} if secured else {}
    with (
        background(task_of(limits=limits), Serving(str(quick_path / "s"), port=0, **options)) as at,
        ExitStack() as stack,
    ):
        port = int(at.rpartition(":")[2])

        def silent(source="127.0.0.1"):
            made = socket.create_connection(("127.0.0.1", port), 60, (source, 0))
            return stack.enter_context(made)

        first, *_ = [silent() for _ in range(2)]
        for _ in range(6):
            assert ends(silent())
        if secured:
            context = ssl.create_default_context(cafile=cert)
            with context.wrap_socket(silent("127.0.0.2"), server_hostname="127.0.0.1") as other:
                other.sendall(b"GET /v1/task HTTP/1.1\r\nHost: x\r\n\r\n")
                assert other.recv(100).startswith(b"HTTP/1.1 200")
        else:
            assert status_from("127.0.0.2", port) == 200
            first.close()
            wait_until(lambda: status_from("127.0.0.1", port) == 200)


@ELSEWHERE
def test_the_connections_of_a_proxy_are_those_of_many(quick_path):
    limits = {**FREE, "connections_per_address": 2}
    task, proxies = task_of(limits=limits), ("127.0.0.1/32",)
    with running(task, quick_path / "s", proxies=proxies) as client, ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(connect(client))
        assert client.get("/healthz") == {"status": "alive"}


@ELSEWHERE
def test_clients_of_ipv4_differ_at_a_socket_of_ipv6(quick_path):
    limits = {**FREE, "per_address": 0.001}
    store = str(quick_path / "s")
    with background(task_of(limits=limits), Serving(store, "::", 0, proxies=("127.0.0.3",))) as at:
        port = int(at.rpartition(":")[2])
        asked = [status_from(f"127.0.0.{i}", port) for i in (1, 2, 1, 2)]
        assert asked == [200, 200, 429, 429]
        behind = ("10.0.0.1", "10.0.0.2", "10.0.0.1")
        asked = [status_from("127.0.0.3", port, {"X-Forwarded-For": one}) for one in behind]
        assert asked == [200, 200, 429]


@pytest.mark.slow
def test_a_handshake_takes_only_so_long(quick_path):
    """Of silent clients, of those that send byte by byte, and of those that speak no TLS."""
    cert, key = certificate(quick_path)
    limits = {**FREE, "header_seconds": 1.0}
    serving = Serving(str(quick_path / "s"), port=0, tls_cert=cert, tls_key=key)
    with background(task_of(limits=limits), serving) as address, ExitStack() as stack:
        port = int(address.rpartition(":")[2])
        slow = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(4)
        ]
        slow[1].sendall(b"\x16\x03\x01\x02\x00\x01")
        slow[2].sendall(b"GET /v1/task HTTP/1.1\r\n\r\n")
        hello = b"\x16\x03\x01\x02\x00" + bytes(500)
        with suppress(ConnectionError):
            for part in dripped([hello[i : i + 1] for i in range(400)], 0.05):
                slow[3].sendall(part)
            raise AssertionError("the service took it all")
        for one in slow[:3]:
            with suppress(ConnectionError):
                while one.recv(1024):  # an alert, perhaps
                    pass
        client = Http(address, ssl.create_default_context(cafile=cert))

        def served():  # its handshake is timed as well
            with suppress(OSError):
                return client.get("/healthz") == {"status": "alive"}

        wait_until(served)
        client.close()


# --- what is made once a round --------------------------------------------------------------------
