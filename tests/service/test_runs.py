"""Several runs in one service: each is alone below its path, and none disturbs another."""

import json
import re
import socket
import sqlite3
import urllib.request
from contextlib import contextmanager, suppress
from urllib.parse import urljoin, urlsplit

import pytest

from fedsel.errors import InvalidArgument
from fedsel.service._runs import Runs, slug_of
from fedsel.service._sqlite import SQLiteStore
from fedsel.service.inviting import invitations_of
from fedsel.service.running import Serving, background
from tests.cli.support import run_here
from tests.service.prefixing import PrefixProxy
from tests.service.support import FREE, Http, reports_for, running, task_of
from tests.service.test_dashboard import Reader
from tests.service.test_prefix import fetched, named_by
from tests.service.visiting import TABLE, Visitor, join_task, shown_reports, take_part

pytestmark = pytest.mark.xdist_group("processes")
OTHER = {"name": "Who pays? 2026", "purpose": "Predict <who> pays", "dim": 5, "rounds_per_epoch": 1}


def two_tasks(**changes):
    return [task_of(name="churn", **changes), task_of(**OTHER, **changes)]


@contextmanager
def running_all(tasks, store, **options):
    """A service in a thread; yields a client of the root and one of each run."""
    store = tuple(map(str, store)) if isinstance(store, list) else str(store)
    with background(tasks, Serving(store, port=0, **options)) as address:
        clients = [Http(address)]
        for task, place in zip(tasks, Runs.of(tasks, store).stores, strict=True):
            clients.append(Http(f"{address}/runs/{slug_of(task.name)}"))
            clients[-1].invitations = invitations_of(task, place)
        try:
            yield clients
        finally:
            for client in clients:
                client.close()


def rounds_over(client, count=1):
    """Send what ends so many rounds."""
    for number in range(count):
        for row in reports_for(client.request(), 5):
            assert client.send(row) == (200, "accepted")
        client.wait_for(number + 1)


def test_each_run_has_all_that_a_run_alone_has(store_url):
    with running_all(two_tasks(), store_url) as (root, churn, pays):
        assert [c.get("/v1/task")["dim"] for c in (churn, pays)] == [8, 5]
        rounds_over(churn)
        assert [r["accepted"] for r in churn.get("/v1/rounds")["rounds"]] == [5]
        assert pays.get("/v1/rounds")["rounds"] == []
        assert pays.get("/v1/rounds/open")["counts"]["accepted"] == 0
        paths = ("/", "/join", "/join/join.js", "/dashboard.js", "/v1/task", "/v1/model")
        for path in (*paths, "/v1/model.json", "/v1/openapi.json", "/readyz", "/metrics"):
            assert churn.get(path)
        assert churn.ask("GET", "/v1/runs")[0] == 404
        assert "Who pays? 2026" in pays.get("/").decode()
        status, headers, _ = root.ask("GET", "/runs/churn")
        assert (status, headers["location"]) == (308, "churn/")
        for path in ("/runs/nobody/v1/task", "/runs/nobody", "/runs/", "/runs", "/runs/churn//"):
            assert root.ask("GET", path)[0] == 404, path
        assert root.ask("POST", "/v1/reports", b"x", "x" * 20)[0] == 404


def test_an_invitation_is_for_one_run_only(store_url):
    tasks = [task_of(name="churn"), task_of(name="pays")]  # alike: only the run differs
    with running_all(tasks, store_url) as (_, churn, pays):
        mine, yours = churn.invitations.invite("device"), pays.invitations.invite("device")
        for client, good, bad in ((churn, mine, yours), (pays, yours, mine)):
            assert client.ask("GET", "/v1/invitation", token=good)[0] == 200
            assert client.ask("GET", "/v1/invitation", token=bad)[0] == 401
            (row,) = reports_for(client.request(), 1)
            assert client.send(row, bad) == (401, "not_invited")
            assert client.send(row, good) == (200, "accepted")
        (foreign,) = reports_for(pays.request(), 1)
        assert churn.send(foreign) == (400, "malformed")
        (batch, body) = ("/v1/batches/a", b"".join(reports_for(pays.request(), 2)))
        token = churn.invitations.invite("gateway")
        assert pays.ask("PUT", batch, body, token)[0] == 401


def test_the_root_lists_the_runs(quick_path):
    with running_all(two_tasks(), quick_path / "s") as (root, churn, pays):
        rounds_over(pays)
        first, second = root.get("/v1/runs")["runs"]
        run = churn.get("/v1/task")["run"]
        rest = {"round": 0, "of": 4, "finished": False, "available": True, "run": run}
        assert first == {"name": "churn", "purpose": "", "path": "runs/churn/", **rest}
        assert second["path"] == "runs/who-pays-2026/"
        assert (second["round"], second["of"], second["finished"]) == (1, 1, True)
        page = root.get("/").decode()
        assert "<who>" not in page
        _, *rows = Reader(page).tables[0]
        assert rows == [
            ["churn", "open", "0 of 4", "not stated"],
            ["Who pays? 2026", "over", "1 of 1", "Predict <who> pays"],
        ]
        status, _, told = root.ask("GET", "/v1/task")
        assert (status, told["error"]) == (404, "several_runs")
        assert told["paths"] == ["runs/churn/", "runs/who-pays-2026/"]
        described = root.get("/v1/openapi.json")
        for path in described["paths"]:
            assert root.ask("GET", path.replace("{run}", "churn"))[0] == 200, path
        assert "/v1/runs" not in churn.get("/v1/openapi.json")["paths"]
        text = root.get("/metrics").decode()
        assert 'fedsel_round{run="churn"} 0.0' in text
        assert 'fedsel_reports_total{outcome="accepted",run="who-pays-2026"} 5.0' in text
        assert re.search(r'route="/v1/reports",run="who-pays-2026",status="200"', text)
        assert 'run="nobody"' not in text


def test_a_run_alone_is_at_the_root_and_at_its_path(quick_path):
    with running(task_of(name="Churn"), quick_path / "s") as client:
        (one,) = client.get("/v1/runs")["runs"]
        assert (one["name"], one["path"]) == ("Churn", "runs/churn/")
        assert client.get(f"/{one['path']}v1/task") == client.get("/v1/task")
        assert client.get(f"/{one['path']}") == client.get("/")
        assert "/v1/runs" in client.get("/v1/openapi.json")["paths"]


def test_a_run_that_is_over_stays_readable_and_others_come_and_go(store_url, caplog):
    caplog.set_level("INFO", "fedsel.service")
    churn, pays = two_tasks()
    parts = ("/v1/rounds", "/v1/model", "/v1/model.json", "/v1/task", "/v1/rounds/open")
    with running(pays, store_url) as client:  # as with one run today
        rounds_over(client)
        before = {path: client.get(path) for path in parts}
    assert "stays in the store" not in caplog.text
    with running_all([churn, pays], store_url) as (root, new, over):
        assert {path: over.get(path) for path in parts} == before
        assert "The run is over" in over.get("/").decode()
        assert over.ask("GET", "/v1/rounds/open/request")[0] == 410
        rounds_over(new, 2)
        assert [one["finished"] for one in root.get("/v1/runs")["runs"]] == [False, True]
        begun = new.get("/v1/rounds")["rounds"]
    assert "stays in the store" not in caplog.text
    with running(churn, store_url) as client:  # the other one's file was removed
        assert client.get("/v1/rounds")["rounds"] == begun
    (record,) = [r for r in caplog.records if "stays in the store" in r.getMessage()]
    assert record.values == {"run": "Who pays? 2026"}
    with running_all([pays, churn], store_url) as (_, over, new):
        assert {path: over.get(path) for path in parts} == before
        assert new.get("/v1/rounds")["rounds"] == begun


def test_a_late_report_of_a_run_that_is_over_is_judged(store_url):
    """Its store is asked no more in between."""
    churn, pays = two_tasks()
    with running_all([churn, pays], store_url) as (_, _, over):
        rows, token = reports_for(over.request(), 6), over.invitations.invite("device")
        assert over.send(rows[0], token) == (200, "accepted")
        for row in rows[1:5]:
            over.send(row)
        over.wait_for(1)
        assert over.send(rows[0], token) == (200, "duplicate")
        assert over.send(rows[5]) == (410, "late")


def test_addresses_share_a_limit_and_the_most_generous_holds(quick_path):
    tight, wide = {**FREE, "per_address": 0.1}, {**FREE, "per_address": 0.3}
    tasks = [task_of(name="a", limits=tight), task_of(name="b", limits=wide)]
    with running_all(tasks, quick_path / "s") as (root, a, b):
        asked = [(root, "/v1/runs"), (a, "/v1/task"), (b, "/v1/task"), (a, "/v1/task")]
        assert [client.ask("GET", path)[0] for client, path in asked] == [200, 200, 200, 429]
        assert b.ask("GET", "/readyz")[0] == 200
    limits = Runs.of(tasks, "s").limits
    assert (limits.per_address, limits.connections) == (0.3, 4096)


def test_a_run_whose_store_fails_leaves_the_others_alone(quick_path, monkeypatch):
    insert = SQLiteStore.insert

    def read_only(self, number, rows):
        if self._folder.path.name == "b":
            raise sqlite3.OperationalError("attempt to write a readonly database")
        return insert(self, number, rows)

    monkeypatch.setattr(SQLiteStore, "insert", read_only)
    tasks = [task_of(name="a"), task_of(name="b")]
    with running_all(tasks, [quick_path / "a", quick_path / "b"]) as (root, a, b):
        assert root.get("/readyz") == {"status": "ready", "runs": {"a": True, "b": True}}
        (row,) = reports_for(b.request(), 1)
        assert b.send(row) == (503, "unavailable")
        rounds_over(a)
        # The next look at the round finds that the store can be read.
        (row,) = reports_for(b.request(), 1)
        assert b.send(row) == (503, "unavailable")
        assert b.get("/v1/task")["name"] == "b"


def test_ready_as_long_as_one_run_is(quick_path, monkeypatch):
    from fedsel.service._collector import Collector

    down = {"a"}
    available = property(lambda self: self.run.name not in down, lambda *_: None)
    monkeypatch.setattr(Collector, "available", available, raising=False)
    with running_all([task_of(name="a"), task_of(name="b")], quick_path / "s") as (root, a, b):
        assert root.get("/readyz")["runs"] == {"a": False, "b": True}
        assert (a.ask("GET", "/readyz")[0], b.ask("GET", "/readyz")[0]) == (503, 200)
        text = root.get("/metrics").decode()
        assert 'fedsel_store_available{run="a"} 0.0' in text
        assert 'fedsel_store_available{run="b"} 1.0' in text
        assert "its store does not answer" in root.get("/").decode()
        down.add("b")
        assert root.ask("GET", "/readyz")[2]["error"] == "unavailable"
        assert root.get("/healthz") == {"status": "alive"}


def test_sites_are_named_by_each_task(quick_path):
    tasks = [task_of(name="a", origins=["https://example.org"]), task_of(name="b")]
    with running_all(tasks, quick_path / "s") as (_, *clients):
        answers = [c.ask("GET", "/v1/task", Origin="https://example.org")[1] for c in clients]
        assert [h["access-control-allow-origin"] for h in answers] == ["https://example.org", None]


def test_events_of_a_run_have_no_end_and_end_with_the_service(quick_path):
    with running_all(two_tasks(), quick_path / "s") as (root, *_):
        place = urlsplit(root.address)
        ask = b"GET /runs/churn/v1/events HTTP/1.1\r\nHost: x\r\n\r\n"
        with socket.create_connection((place.hostname, place.port), 60) as pipelined:
            pipelined.sendall(ask)
            assert b"text/event-stream" in pipelined.recv(1 << 16)
            pipelined.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")  # nobody would read it
            with suppress(ConnectionError):
                while pipelined.recv(1 << 16):
                    pass
        listening = socket.create_connection((place.hostname, place.port), 60)
        listening.sendall(ask)
        assert b"event: change" in b"".join(iter_until(listening, b"event: change"))
    with listening:
        while listening.recv(1 << 16):
            pass


def iter_until(connection, wanted):
    seen = b""
    while wanted not in seen:
        part = connection.recv(1 << 16)
        assert part
        seen += part
        yield part


def test_runs_that_would_share_a_path_are_refused():
    for name in ("churn", "Churn", "churn!"):
        with pytest.raises(InvalidArgument, match="another one: /runs/churn is the path of"):
            Runs.of([task_of(name="churn"), task_of(name=name)], "s")
    with pytest.raises(InvalidArgument, match="one for each"):
        Runs.of([task_of()], ("a", "b"))
    with pytest.raises(InvalidArgument, match="one task at least"):
        Runs.of([], "s")


@pytest.mark.parametrize("name", ["a", "Ab c", "..", "/", "%2e%2e", "é", "日本", "a" * 100, "-"])
def test_a_path_is_safe_in_any_address(name):
    assert re.fullmatch(r"[a-z0-9_-]+", slug_of(name))
    assert slug_of(name) == slug_of(slug_of(name))


@pytest.fixture
def joined(quick_path):
    """Two runs to take part in; the first one's client has the addresses of both."""
    tasks = [join_task(close_after={"reports": 1}), join_task(name="other")]
    with running_all(tasks, quick_path / "store") as clients:
        yield clients


def test_a_device_joins_a_run_by_its_address(joined, quick_path):
    root, churn, other = joined
    (quick_path / "my.csv").write_text(TABLE)
    (quick_path / "invitation").write_text(churn.invitations.invite("device"))
    options = (
        *("--data", quick_path / "my.csv", "--label", "churned", "--every", 0.05),
        *("--store", quick_path / "ledger", "--create", "--lifetime", 1, "--per-report", 1),
        *("--token-file", quick_path / "invitation", "--json"),
    )
    lost = run_here("join", root.address, *options, status=1).stderr
    named = [f"{root.address}/runs/{name}/" for name in ("churn", "other")]
    assert f"it leads several runs; choose one: {', '.join(named)}" in lost
    told = json.loads(run_here("join", f"{churn.address}/", *options).stdout)
    assert told["accepted"] == 1
    assert churn.get("/v1/rounds")["rounds"][0]["accepted"] == 1
    assert other.get("/v1/rounds")["rounds"] == []


def test_every_address_of_the_pages_lies_below_the_path(joined):
    """Also where a proxy serves the whole service below a path."""
    root, *_ = joined
    with PrefixProxy(root.address) as proxy:
        url = f"{proxy.url}/runs/churn"
        pages = named_by(f"{proxy.url}/", fetched(f"{proxy.url}/"))
        assert {f"{url}/", f"{proxy.url}/runs/other/", f"{proxy.url}/v1/runs"} <= pages
        for address in pages:
            fetched(address)
        with urllib.request.urlopen(url) as answer:
            assert answer.url == f"{url}/"
        waiting, seen = [f"{url}/", f"{url}/join"], set()
        while waiting:
            address = waiting.pop()
            text = fetched(address)
            seen.add(address)
            if address.endswith((".js", "/", "/join")):
                own = {one for one in named_by(address, text) if "github.com" not in one}
                waiting += own - seen - set(waiting)
        place = f"{url}/v1/openapi.json"
        (server,) = json.loads(fetched(place))["servers"]
        assert urljoin(place, server["url"]) == f"{url}/"
    assert proxy.strays == []
    assert all(address.startswith(f"{url}/") for address in seen)
    assert f"{url}/join/client/index.js" in seen


@pytest.mark.slow
def test_a_browser_takes_part_in_two_runs_with_one_ledger(browser, joined):
    _, churn, other = joined
    visitor = Visitor(browser, churn.address)
    tab = visitor.open(churn.invitations.invite("device"))
    take_part(tab)
    tab.get_by_text("The run is over. Thank you: you spent ε = 2 in all.").wait_for()
    assert [outcome for outcome, _ in shown_reports(tab)] == ["accepted"] * 2
    assert all(r.url.startswith(f"{churn.address}/") for r in visitor.requests)
    tab.close()
    count, visitor.address = len(visitor.requests), other.address
    tab = visitor.open(other.invitations.invite("device"))
    assert shown_reports(tab) == []  # of this run
    assert tab.locator("#ledger-facts").inner_text().count("2") >= 1
    assert all(r.url.startswith(f"{other.address}/") for r in visitor.requests[count:])
    visitor.close()
