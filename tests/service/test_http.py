"""Answers of the service: bodies, buckets, headers, and errors without a trace."""

import pytest

from fedsel.service._http import Buckets
from tests.service.support import (
    reports_for,
    running,
    task_of,
)
from tests.service.test_connections import HEAD, connect, send_until_it_ends

pytestmark = pytest.mark.xdist_group("processes")


def test_a_body_is_refused_before_it_is_read(quick_path):
    with running(task_of(), quick_path / "s") as client:
        token = client.invitations.invite("device").encode()
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


def test_many_requests_of_one_client(quick_path):
    limits = {"per_client": 0.001, "per_address": 1e9}
    with running(task_of(limits=limits), quick_path / "s") as client:
        first, second = reports_for(client.request(), 2)
        token = client.invitations.invite("device")
        assert client.send(first, token) == (200, "accepted")
        status, headers, answer = client.ask("POST", "/v1/reports", first, token)
        assert (status, answer["error"], headers["retry-after"]) == (429, "too_often", "1")
        assert client.send(second) == (200, "accepted")  # another one


def test_many_requests_of_one_address(quick_path):
    limits = {"per_client": 1e9, "per_address": 0.001}
    with running(task_of(limits=limits), quick_path / "s") as client:
        assert [client.ask("GET", "/v1/task")[0] for _ in range(3)] == [200, 429, 429]
        assert client.get("/healthz") == {"status": "alive"}


def test_buckets_forget_the_oldest(monkeypatch):
    monkeypatch.setattr("fedsel.service._http.MOST_REMEMBERED", 3)
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

    monkeypatch.setattr(Service, "get_model_json", fails)
    with running(task_of(), quick_path / "s") as client:
        status, headers, answer = client.ask("GET", "/v1/model.json")
        assert (status, answer["error"]) == (500, "internal")
        assert "secret" not in str(answer)
        for path in ("/v1/rounds", "/nothing", "/v1/model.json"):
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
