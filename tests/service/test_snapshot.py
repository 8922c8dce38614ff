"""Snapshots of a run: large answers are made and compressed once."""

import gzip
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fedsel import InvalidArgument, Schema, __version__, load_model
from fedsel.service._snapshot import RunSnapshot
from fedsel.wire import RecordPipeline
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


LINEAR = {"dim": None, "solution": "RJ", "k": None, "mu": None, "learning_rate": None}
COLUMNS = {"age": [0, 100], "job": ["cook", "smith"]}


@pytest.mark.parametrize(
    ("about", "classes"),
    [
        ({"schema": {"columns": COLUMNS, "classes": ["no", "yes"]}}, ["no", "yes"]),
        ({"schema": {"columns": COLUMNS, "classes": ["a", "b", "c"]}}, ["a", "b", "c"]),
        ({"schema": {"columns": COLUMNS, "target_range": [0, 9]}, "loss": "huber"}, None),
        ({"features": 3, "feature_range": [-1, 1], "loss": "svm"}, [-1, 1]),
    ],
)
def test_the_model_of_a_service_is_an_estimator(quick_path, about, classes):
    table = [{"age": 200, "job": "smith"}, {"age": None}, {"age": 5, "job": "cook"}]
    if "features" in about:
        table = [[1.0, 0.5, -3.0], [0.0, 0.0, 0.0]]
    with running(task_of(**LINEAR, **about), quick_path / "s") as client:
        for number in range(4):
            for row in reports_for(client.request(), 5, number):
                client.send(row)
            client.wait_for(number + 1)
        loaded, file = load_model(client.address), client.get("/v1/model.json")
        weights = np.frombuffer(client.get("/v1/model"), "<f8")
    schema = loaded.schema or Schema(3)
    assert file["about"] == {
        "fedsel": __version__, "name": "test", "solution": "RJ", "epsilon": 4.0, "rounds": 4,
        "finished": True, "clients": 40,
    }  # fmt: skip
    pipeline = RecordPipeline.of_dict(file["pipeline"], most=3)
    rows = pipeline.records(schema.encode(table))
    margins = rows @ weights.reshape(schema.rows, -1).T
    assert np.abs(margins).max() > 0
    if classes is None:
        expected = 4.5 + 4.5 * np.clip(margins[:, 0], -1, 1)
        np.testing.assert_allclose(loaded.predict(table), expected)
        return
    assert loaded.classes_.tolist() == classes
    found = loaded.decision_function(table).reshape(margins.shape)
    np.testing.assert_allclose(found, margins)


def test_updates_of_ones_own_give_weights_alone(quick_path):
    with running(task_of(), quick_path / "s") as client:
        file = client.get("/v1/model.json")
        assert (file["weights"], file["schema"], file["linear"]) == ([0.0] * 8, None, None)
        with pytest.raises(InvalidArgument, match="devices brought updates of their own"):
            load_model(client.address)


def fetch(address, encoding="identity"):
    asked = urllib.request.Request(address, headers={"Accept-Encoding": encoding})
    return urllib.request.urlopen(asked, timeout=60).read()
