"""What clients cannot do to the service: slow ones, large ones, many, and strange ones."""

import socket
import time
from contextlib import ExitStack

import pytest

from fedsel.service.limits import Buckets
from tests.service.support import FREE, reports_for, running, task_of, wait_until

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
    except OSError:
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
        token = client.door.invite("device").encode()
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


def test_a_body_is_refused_before_it_is_read(quick_path):
    with running(task_of(), quick_path / "s") as client:
        token = client.door.invite("device").encode()
        for length in (b"1000000000000", b"99999999999999999999"):
            with connect(client) as connection:
                connection.sendall(
                    HEAD + b"Authorization: Bearer " + token
                    + b"\r\nContent-Length: " + length + b"\r\n\r\n"
                )  # fmt: skip
                answer = connection.recv(4096)
                assert answer.split(b" ")[1] in (b"413", b"400"), answer
        with connect(client) as connection:  # without a length: until it is too much
            connection.sendall(
                HEAD + b"Authorization: Bearer " + token + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            send_until_it_ends(connection, [b"1000\r\n" + b"x" * 4096 + b"\r\n"] * 10_000)
        assert client.get("/healthz") == {"status": "alive"}


def test_a_reader_that_never_reads(quick_path):
    """Its answers fill the buffers; then the connection is ended."""
    with running(task_of(dim=100_000, limits=QUICK), quick_path / "s") as client:
        with connect(client) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            asked = b"GET /v1/model HTTP/1.1\r\nHost: x\r\n\r\n"
            send_until_it_ends(connection, dripped([asked] * 1000, 0.05))
        assert client.get("/healthz") == {"status": "alive"}


def test_many_requests_of_one_client(quick_path):
    limits = {"per_client": 0.001, "per_address": 1e9}
    with running(task_of(limits=limits), quick_path / "s") as client:
        first, second = reports_for(client.request(), 2)
        token = client.door.invite("device")
        assert client.send(first, token) == (200, "accepted")
        status, headers, answer = client.ask("POST", "/v1/reports", first, token)
        assert (status, answer["error"], headers["retry-after"]) == (429, "too_often", "1")
        assert client.send(second) == (200, "accepted")  # another one


def test_many_requests_of_one_address(quick_path):
    limits = {"per_client": 1e9, "per_address": 0.001}
    with running(task_of(limits=limits), quick_path / "s") as client:
        assert [client.ask("GET", "/v1/task")[0] for _ in range(3)] == [200, 429, 429]
        assert client.get("/healthz") == {"status": "alive"}


def test_too_much_that_waits(quick_path, monkeypatch):
    from fedsel.service.collector import Collector

    monkeypatch.setattr(Collector, "waiting", property(lambda _: 1))
    limits = {**FREE, "waiting": 1}
    with running(task_of(limits=limits), quick_path / "s") as client:
        (row,) = reports_for(client.request(), 1)
        status, headers, answer = client.ask(
            "POST", "/v1/reports", row, client.door.invite("device")
        )
        assert (status, answer["error"], headers["retry-after"]) == (503, "busy", "1")


def test_buckets_forget_the_oldest(monkeypatch):
    monkeypatch.setattr("fedsel.service.limits.MOST_REMEMBERED", 3)
    buckets = Buckets(1.0, burst=1.0, clock=lambda: 0.0)
    assert [buckets.take(name) for name in "abca"] == [True, True, True, False]
    buckets.take("d")
    assert len(buckets._known) == 3
    assert not buckets.take("a")
    assert buckets.take("b")  # forgotten: it may ask again


def test_headers_and_errors_without_a_trace(quick_path, monkeypatch, capfd):
    from fedsel.service.app import Service

    async def fails(self, scope, receive):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(Service, "get_task", fails)
    with running(task_of(), quick_path / "s") as client:
        status, headers, answer = client.ask("GET", "/v1/task")
        assert (status, answer["error"]) == (500, "internal")
        assert "secret" not in str(answer)
        for path in ("/v1/rounds", "/nothing", "/v1/task"):
            _, headers, _ = client.ask("GET", path)
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert headers["access-control-allow-origin"] is None
            assert headers["server"] is None
        status, _, answer = client.ask("GET", "/v1/task/")
        assert (status, answer["error"]) == (404, "not_found")
        status, headers, answer = client.ask("DELETE", "/v1/task")
        assert (status, answer["error"]) == (405, "not_allowed")
        assert "GET" in headers["allow"]


def test_other_sites_ask_if_they_are_named(quick_path):
    task = task_of(origins=["https://example.org"])
    with running(task, quick_path / "s") as client:
        _, headers, _ = client.ask("GET", "/v1/task", Origin="https://example.org")
        assert headers["access-control-allow-origin"] == "https://example.org"
        _, headers, _ = client.ask("GET", "/v1/task", Origin="https://evil.example")
        assert headers["access-control-allow-origin"] is None
        status, headers, _ = client.ask(
            "OPTIONS", "/v1/reports", Origin="https://example.org",
            Access_Control_Request_Method="POST", Access_Control_Request_Headers="authorization",
        )  # fmt: skip
        assert status == 200
        assert "authorization" in headers["access-control-allow-headers"]


def test_figures_for_prometheus(quick_path):
    with running(task_of(), quick_path / "s") as client:
        client.send(reports_for(client.request(), 1)[0])
        text = client.get("/metrics").decode()
        assert 'fedsel_reports_total{outcome="accepted"} 1.0' in text
        assert "fedsel_round 0.0" in text
        assert 'route="/v1/reports",status="200"' in text


def test_paths_of_no_good(quick_path):
    """Among them digits that are none to int()."""
    with running(task_of(), quick_path / "s") as client:
        for part in ("%C2%B2", "-1", "1e3", "9" * 40, "%00", "..", "0x0", "open%2F"):
            for path in (f"/v1/rounds/{part}/weights", f"/v1/rounds/0/{part}"):
                assert client.ask("GET", path)[0] == 404, path


def test_batches_take_only_so_much_memory(quick_path):
    """Their length is declared, and those on their way are no more than eight of the largest."""
    limits = {**FREE, "batch_bytes": 1000}
    with running(task_of(limits=limits), quick_path / "s") as client, ExitStack() as stack:
        rows = b"".join(reports_for(client.request(), 4))
        token = client.door.invite("gateway")
        assert client.ask("PUT", "/v1/batches/a", rows * 20, token)[0] == 413
        chunks = client.ask("PUT", "/v1/batches/a", iter([rows]), token)  # of no length
        assert (chunks[0], chunks[2]["error"]) == (411, "length")
        head = (
            f"PUT /v1/batches/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
            f"Content-Type: application/octet-stream\r\nAuthorization: Bearer {token}\r\n\r\n"
        )

        def full():
            stack.enter_context(connect(client)).sendall(head.encode() + b"x")
            return client.ask("PUT", "/v1/batches/b", rows, token)[0] == 503

        wait_until(full)
        stack.close()
        wait_until(lambda: client.ask("PUT", "/v1/batches/c", rows, token)[0] == 200)
