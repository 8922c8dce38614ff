"""The service as a whole: paths of no good, too much that waits, batches within memory."""

from contextlib import ExitStack

import pytest

from tests.service.support import (
    FREE,
    reports_for,
    running,
    task_of,
    wait_until,
)
from tests.service.test_connections import connect

pytestmark = pytest.mark.xdist_group("processes")


def test_too_much_that_waits(quick_path, monkeypatch):
    from fedsel.service._collector import Collector

    monkeypatch.setattr(Collector, "waiting", property(lambda _: 1))
    limits = {**FREE, "waiting": 1}
    with running(task_of(limits=limits), quick_path / "s") as client:
        (row,) = reports_for(client.request(), 1)
        status, headers, answer = client.ask(
            "POST", "/v1/reports", row, client.invitations.invite("device")
        )
        assert (status, answer["error"], headers["retry-after"]) == (503, "busy", "1")


def test_figures_for_prometheus(quick_path):
    with running(task_of(), quick_path / "s") as client:
        client.send(reports_for(client.request(), 1)[0])
        text = client.get("/metrics").decode()
        assert 'fedsel_reports_total{outcome="accepted",run="test"} 1.0' in text
        assert 'fedsel_round{run="test"} 0.0' in text
        assert 'route="/v1/reports",run="test",status="200"' in text


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
        token = client.invitations.invite("gateway")
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
