"""Reports over HTTP: what becomes of each, and that rounds end as they should."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from fedsel.server import Counts
from fedsel.server._checkpoint import Checkpoint
from fedsel.service._store import open_store
from tests.service.support import reports_for, running, task_of, wait_until

pytestmark = pytest.mark.xdist_group("processes")


@pytest.fixture
def client(store_url):
    with running(task_of(), store_url) as made:
        made.store = store_url
        yield made


def test_a_round_is_closed_by_count_and_steps_as_a_checkpoint_does(client):
    request = client.request()
    rows = reports_for(request, 5)
    assert [client.send(row) for row in rows] == [(200, "accepted")] * 5
    now = client.wait_for(1)
    assert (now["round"], now["counts"]["accepted"], now["of"]) == (1, 0, 4)
    begun = replace(task_of().begin, run=request.run)
    totals = begun.recipe.build().totals()
    totals.add(request.format.decode_many(b"".join(rows)).reports)
    expected = begun.advanced(totals, Counts(5))
    assert client.get("/v1/rounds/1/weights") == expected.state.weights.astype("<f8").tobytes()
    assert client.get("/v1/model") == expected.state.average.astype("<f8").tobytes()
    rounds = client.get("/v1/rounds")["rounds"]
    assert [r["accepted"] for r in rounds] == [5]
    assert rounds[0]["closed"] >= rounds[0]["opened"]


def test_a_report_counts_once(client):
    first, second = reports_for(client.request(), 2)
    token = client.invitations.invite("device")
    assert client.send(first, token) == (200, "accepted")
    assert client.send(first, token) == (200, "duplicate")
    assert client.send(second, token) == (409, "conflict")
    assert client.get("/v1/rounds/open")["counts"] == {
        "accepted": 1, "rejected": 1, "duplicate": 1, "late": 0,
    }  # fmt: skip


def test_late_reports_and_those_that_were_in_time(client):
    rows = reports_for(client.request(), 6)
    tokens = [client.invitations.invite("device") for _ in rows]
    for row, token in zip(rows[:5], tokens, strict=False):
        client.send(row, token)
    client.wait_for(1)
    assert client.send(rows[5], tokens[5]) == (410, "late")
    assert client.send(rows[0], tokens[0]) == (200, "duplicate")  # it was accepted: all is well
    assert client.send(rows[1], tokens[0]) == (410, "late")
    early = rows[0][:4] + (3).to_bytes(4, "little") + rows[0][8:]
    assert client.send(early, tokens[0]) == (409, "early")
    assert client.ask("GET", "/v1/rounds/0/weights")[0] == 410
    assert client.ask("GET", "/v1/rounds/2/weights")[0] == 404


def test_what_is_no_report(client):
    (good,) = reports_for(client.request(), 1)
    for bad in (b"", b"x", good[:-1], good + b"x", b"\xff" * 16, bytes(70_000)):
        status, word = client.send(bad)
        assert (status, word) in {(400, "malformed"), (413, "too_large")}, bad[:20]
    token = client.invitations.invite("device")
    assert client.ask("POST", "/v1/reports", good, token, Content_Type="text/plain")[0] == 415
    assert client.ask("POST", "/v1/reports", good)[0] == 401
    assert client.ask("POST", "/v1/reports", good, "made.up.token")[0] == 401
    assert client.ask("POST", "/v1/reports", good, "x" * 2000)[0] == 401
    gateway = client.invitations.invite("gateway")
    assert client.ask("POST", "/v1/reports", good, gateway)[0] == 403
    assert client.ask("GET", "/v1/reports")[0] == 405
    assert client.send(good) == (200, "accepted")
    wait_until(lambda: client.get("/v1/rounds/open")["counts"]["rejected"] == 11)


def test_batches_of_a_gateway(client):
    request = client.request()
    rows = reports_for(request, 3)
    token = client.invitations.invite("gateway")

    def put(name, data, token=token):
        status, _, answer = client.ask("PUT", f"/v1/batches/{name}", data, token)
        return status, answer

    late = rows[0][:4] + (9).to_bytes(4, "little") + rows[0][8:]
    mixed = rows[0] + b"\xff" * 16 + rows[1] + late
    expected = {"outcome": "accepted", "accepted": 2, "rejected": 2, "duplicate": 0, "late": 0}
    assert put("one", mixed) == (200, expected)
    assert put("one", mixed) == (200, {**expected, "outcome": "duplicate"})
    assert put("one", rows[2])[0] == 409
    other = client.invitations.invite("gateway")
    assert put("one", rows[2], other)[1]["accepted"] == 1  # its own names
    assert put("two", rows[2][:-1])[0] == put("two", b"")[0] == 400
    assert put("a%20b", rows[2])[0] == 404
    assert put("two", rows[2], client.invitations.invite("device"))[0] == 403
    # The third single report makes the round full: 2 + 1 + 2.
    assert client.send(rows[0]) == client.send(rows[1]) == (200, "accepted")
    client.wait_for(1)
    assert put("one", mixed)[1]["outcome"] == "duplicate"
    assert put("three", rows[0])[1]["late"] == 1
    assert client.get("/v1/rounds")["rounds"][0]["accepted"] == 5


def test_the_run_ends(client):
    for number in range(4):
        for row in reports_for(client.request(), 5, number):
            assert client.send(row) == (200, "accepted")
        client.wait_for(number + 1)
    now = client.get("/v1/rounds/open")
    assert now["finished"]
    assert client.ask("GET", "/v1/rounds/open/request")[0] == 410
    assert client.send(row) == (410, "late")
    assert client.send(row[:4] + (4).to_bytes(4, "little") + row[8:]) == (409, "early")
    model = client.get("/v1/model.json")
    assert model["about"]["finished"]
    assert np.frombuffer(client.get("/v1/model"), "<f8").tolist() == model["weights"]


def test_a_round_is_closed_by_time_if_it_has_reports(store_url):
    task = task_of(close_after={"seconds": 0.6, "least": 2})
    with running(task, store_url) as client:
        rows = reports_for(client.request(), 2)
        client.send(rows[0])
        opened = client.get("/v1/rounds/open")["opened"]
        assert client.get("/v1/rounds/open")["round"] == 0
        client.send(rows[1])
        client.wait_for(1)
        first = client.get("/v1/rounds")["rounds"][0]
        assert first["accepted"] == 2
        assert first["closed"] - opened >= 0.6
        assert client.get("/v1/rounds/open")["round"] == 1


def test_a_service_goes_on_where_it_was(store_url):
    task = task_of()
    with running(task, store_url) as client:
        rows = reports_for(client.request(), 5)
        tokens = [client.invitations.invite("device") for _ in rows]
        for row, token in zip(rows[:3], tokens, strict=False):
            client.send(row, token)
    with running(task, store_url) as client:
        assert client.send(rows[0], tokens[0]) == (200, "duplicate")
        for row, token in zip(rows[3:], tokens[3:], strict=True):
            assert client.send(row, token) == (200, "accepted")
        client.wait_for(1)
        assert client.get("/v1/rounds")["rounds"][0]["accepted"] == 5
    store = open_store(store_url)
    store.choose("test")
    assert Checkpoint.decode(store.checkpoint()).round == 1
    store.close()
    with (
        pytest.raises(ValueError, match="as in the checkpoint"),
        running(task_of(epsilon=1.0), store_url),
    ):
        pass


def test_octets_are_sent_once(client):
    status, headers, weights = client.ask("GET", "/v1/rounds/0/weights")
    assert (status, len(weights)) == (200, 64)
    tag = headers["etag"]
    path = "/v1/rounds/0/weights"
    assert client.ask("GET", path, If_None_Match=tag)[::2] == (304, b"")
    assert client.ask("GET", path, If_None_Match=f'"x", W/{tag}')[0] == 304
    assert client.ask("GET", path, If_None_Match='"x"')[0] == 200
    _, headers, packed = client.ask("GET", path, Accept_Encoding="br, gzip")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed) == weights
    assert client.ask("GET", path, Accept_Encoding="gzip;q=0")[2] == weights
    assert client.ask("HEAD", path)[2] == b""


def test_in_an_open_task_names_are_the_clients_own(store_url):
    with running(task_of(invitations="open"), store_url) as client:
        first, second = reports_for(client.request(), 2)
        assert client.send(first, "0123456789abcdef") == (200, "accepted")
        assert client.send(first, "0123456789abcdef") == (200, "duplicate")
        assert client.send(second, "fedcba9876543210") == (200, "accepted")
        assert client.send(second, "short")[0] == 401
        # A gateway is invited all the same.
        assert client.ask("PUT", "/v1/batches/1", first, "0123456789abcdef")[0] == 403


def test_what_is_stored_tells_no_name(quick_path):
    """Neither a token nor the random name in it is in the store, nor are rounds linked by it."""
    with running(task_of(), quick_path / "s") as client:
        token = client.invitations.invite("device")
        for number in range(2):
            rows = reports_for(client.request(), 5, number)
            client.send(rows[0], token)
            for row in rows[1:]:
                client.send(row)
            client.wait_for(number + 1)
        store = open_store(quick_path / "s", alone=False)
        store.choose("test")
        names = [
            bytes(row[0])
            for row in store._connection.execute("SELECT participant FROM reports").fetchall()
        ]
        store.close()
    assert len(names) == len(set(names)) == 10
    import jwt

    name = jwt.decode(token, options={"verify_signature": False})["sub"].encode()
    kept = b"".join(file.read_bytes() for file in (quick_path / "s").iterdir())
    assert name not in kept
    assert token.encode() not in kept


def test_a_task_tells_what_it_is_about(quick_path):
    task = task_of(
        dim=None, solution="RJ", k=None, mu=None, learning_rate=None, features=["age", "hours"],
        feature_range=[[0, 0], [100, 80]], labels=["no", "yes"], purpose="Plan shifts",
        recipient="Example Ltd", rounds_per_epoch=40,
    )  # fmt: skip
    with running(task, quick_path / "s") as client:
        told = client.get("/v1/task")
        assert told["schema"] == {
            "classes": ["no", "yes"],
            "columns": [{"name": "age", "range": [0, 100]}, {"name": "hours", "range": [0, 80]}],
        }
        assert told["epsilon_per_report"] == 4.0
        assert (told["purpose"], told["recipient"]) == ("Plan shifts", "Example Ltd")
        assert client.request().intent.purpose == "Plan shifts"
        preparing = client.get("/v1/rounds/0/preparing")
        assert preparing["high"] == [100.0, 80.0]
        linear = client.get("/v1/model.json")["linear"]
        assert linear == {"coefficients": [[0.0, 0.0]], "constants": [0.0]}
        assert client.get("/v1/rounds/open")["stage"] == "spread"
