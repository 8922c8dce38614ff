"""Snapshots of a run: large answers are made and compressed once."""

import gzip
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedsel.service._snapshot import RunSnapshot
from tests.service.support import (
    reports_for,
    running,
    task_of,
    wait_until,
)

pytestmark = pytest.mark.xdist_group("processes")


@pytest.mark.parametrize(
    ("path", "name"), [("/v1/model.json", "_trained"), ("/v1/rounds", "_rounds")]
)
def test_large_answers_are_made_once_and_hold_nobody_up(quick_path, monkeypatch, path, name):
    made, goes_on, original = [], threading.Event(), getattr(RunSnapshot, name)

    def slow(view):
        made.append(view)
        assert goes_on.wait(60)
        return original(view)

    monkeypatch.setattr(RunSnapshot, name, slow)
    with running(task_of(), quick_path / "s") as client:
        with ThreadPoolExecutor(8) as readers:
            found = [readers.submit(fetch, client.address + path) for _ in range(8)]
            wait_until(lambda: made)
            assert client.get("/healthz") == {"status": "alive"}  # meanwhile
            goes_on.set()
            assert len({one.result() for one in found}) == 1
        assert len(made) == 1
        for row in reports_for(client.request(), 5):
            client.send(row)
        client.wait_for(1)
        assert fetch(client.address + path) != found[0].result()
        assert len(made) == 2


def test_octets_are_compressed_once_and_hold_nobody_up(quick_path, monkeypatch):
    made, goes_on, original = [], threading.Event(), gzip.compress

    def slow(data, **options):
        made.append(data)
        assert goes_on.wait(60)
        return original(data, **options)

    monkeypatch.setattr(gzip, "compress", slow)
    with running(task_of(dim=1000), quick_path / "s") as client:
        with ThreadPoolExecutor(4) as readers:
            found = [readers.submit(fetch, client.address + "/v1/model", "gzip") for _ in range(4)]
            wait_until(lambda: made)
            assert client.get("/healthz") == {"status": "alive"}
            goes_on.set()
            assert {gzip.decompress(one.result()) for one in found} == {bytes(8000)}
        assert len(made) == 1


def fetch(address, encoding="identity"):
    asked = urllib.request.Request(address, headers={"Accept-Encoding": encoding})
    return urllib.request.urlopen(asked, timeout=60).read()
