"""The dashboard without a browser: the page and its tables, events, and a clean end."""

import json
import re
import signal
import socket
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from fedsel.server._checkpoint import Counts, RoundRecord
from fedsel.service import _dashboard as status
from fedsel.service import _pages as handlers
from fedsel.service._charts import MOST_BARS
from fedsel.service._connections import Connection
from fedsel.service._connections import Listener as Connections
from fedsel.service._dashboard import run_left
from fedsel.service._snapshot import RunSnapshot
from fedsel.service._task import Limits
from tests.service.support import (
    FREE,
    Http,
    ServiceProcess,
    reports_for,
    running,
    task_of,
    wait_until,
)
from tests.service.test_monitoring import LINEAR, ROWS

pytestmark = pytest.mark.xdist_group("processes")
COLUMNS = handlers.Columns(measured=True)
NASTY = "<b>bold</b> & \"quoted\" 'name'"


class Reader(HTMLParser):
    """Tables as lists of rows, all text, and every tag with its attributes."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.tags, self.text, self._in_cell = [], [], "", False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag):
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data):
        self.text += data.replace("\xa0", " ")
        if self._in_cell:
            self.tables[-1][-1][-1] += data


class Listener:
    """A raw client of the events."""

    def __init__(self, address):
        parts = urlsplit(address)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=120)
        self._socket.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode().partition(": ")
            self.headers[name] = value
        self._text = ""

    def next(self):
        """The next event and what it says; None at the end."""
        while "\n\n" not in self._text:
            size = self._file.readline().strip()
            if not size or size == b"0":
                return None
            self._text += self._file.read(int(size, 16) + 2)[:-2].decode()
        block, _, self._text = self._text.partition("\n\n")
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        return (fields["event"], json.loads(fields["data"])) if "event" in fields else self.next()

    def until(self, condition):
        """The first change for which a condition holds."""
        while (event := self.next()) is not None:
            if event[0] == "change" and condition(event[1]):
                return event[1]
        raise AssertionError("the events have ended")

    def close(self):
        self._file.close()
        self._socket.close()


@pytest.fixture
def listening():
    opened = []

    def listen(client):
        opened.append(Listener(client.address))
        return opened[-1]

    yield listen
    for one in opened:
        one.close()


def far_on(count, **changes):
    """The view of a run after so many rounds, each of a minute."""
    task = task_of(rounds_per_epoch=10 * count, clients=40 * count, **changes)
    records = tuple(RoundRecord(n, 0, 5 + n % 3, 1, 2, 3) for n in range(count))
    measures = [json.dumps({"accuracy": n / count, "loss": 1.0}) for n in range(count)]
    rounds = [(60.0 * n, 60.0 * n + 60.0, measured) for n, measured in enumerate(measures)]
    state = replace(task.begin, records=records)
    return RunSnapshot(task, state, [*rounds, (60.0 * count, None, None)])


def test_the_page_is_complete_and_escaped(quick_path):
    (quick_path / "test.csv").write_text(ROWS)
    test_set = {"data": str(quick_path / "test.csv"), "label": "gone"}
    told = {"name": NASTY, "purpose": NASTY + "1", "recipient": NASTY + "2"}
    task = task_of(**LINEAR, **told, evaluation=test_set)
    with running(task, quick_path / "store") as client:
        empty = Reader(client.get("/").decode())
        assert empty.tables[1][1:] == [["No round is over yet."]]
        for n in range(2):
            sent = reports_for(client.request(), 5, seed=n)
            client.send(b"nonsense")
            tokens = [client.invitations.invite("device") for _ in sent]
            for row, token in zip(sent, tokens, strict=True):
                assert client.send(row, token) == (200, "accepted")
            client.wait_for(n + 1)
            assert client.send(sent[0], tokens[0]) == (200, "duplicate")
            assert client.send(sent[1])[1] == "late"
        for row in reports_for(client.request(), 3):
            client.send(row)
        wait_until(lambda: client.get("/v1/rounds/open")["counts"]["duplicate"] == 1)
        status, headers, page = client.ask("GET", "/")
        known = client.get("/v1/rounds")["rounds"]
        assert client.ask("HEAD", "/")[2] == b""
        for path in ("/dashboard.css", "/dashboard.js"):
            _, found, _ = client.ask("GET", path)
            assert client.ask("GET", path, if_none_match=found["etag"])[0] == 304
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = Reader(page.decode())
    for text in told.values():
        assert text in page.text
    assert not any(tag == "b" for tag, _ in page.tags)
    for tag, attributes in page.tags:
        assert not any(name == "style" or name.startswith("on") for name in attributes)
        if tag == "th":
            assert attributes["scope"] in ("col", "row")
    assert {"header", "main", "nav", "footer", "caption"} <= {tag for tag, _ in page.tags}
    counts, rounds = page.tables
    assert counts[1:] == [["Open round", "3", "0", "1", "1"], ["All rounds", "13", "2", "2", "2"]]
    assert rounds[0][:6] == ["Round", "Stage", "Accepted", "Rejected", "Duplicate", "Late"]
    for row, record in zip(rounds[1:], reversed(known), strict=True):
        names = ("accepted", "rejected", "duplicate", "late")
        assert row[:6] == [str(record["round"]), "training", *(str(record[n]) for n in names)]
        seconds = record["closed"] - record["opened"]
        assert float(row[6]) == pytest.approx(seconds, abs=0.05)
        assert row[8] == f"{100 * record['measured']['accuracy']:.1f}"
        assert row[9] == f"{record['measured']['loss']:.3f}"
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert {"v1/model", "v1/openapi.json", "metrics"} <= links
    assert any(link.endswith("SPEC.md") for link in links)
    assert not any(token in page.text for token in tokens)
    assert "127.0.0.1" not in page.text


def test_many_rounds_make_no_large_page():
    view = far_on(1234)
    made = {"figures": status.figures(view), **handlers.listed(view.past, None, COLUMNS)}
    assert sum(map(len, made.values())) < 80_000
    assert made["rounds"].count("<tr>") == 50
    assert made["figures"].count("<rect") <= MOST_BARS
    assert made["figures"].count("<circle") <= 2 * status.MOST_POINTS
    assert 'href="./?before=1184#rounds"' in made["pager"]
    made = handlers.listed(view.past, 100, COLUMNS)
    numbers = re.findall(r'<th scope="row"[^>]*>(\d+)<', made["rounds"])
    assert numbers == [str(n) for n in range(99, 49, -1)]
    links = re.findall(r'href="([^"]+)"', made["pager"])
    assert links == ["./?before=50#rounds", "./?before=150#rounds"]
    pager = handlers.listed(view.past, 1200, COLUMNS)["pager"]
    assert re.findall(r'href="([^"]+)"', pager) == ["./?before=1150#rounds", "./#rounds"]


def test_older_rounds_have_an_address(quick_path):
    with running(task_of(), quick_path / "store") as client:
        for row in reports_for(client.request(), 5):
            client.send(row)
        client.wait_for(1)
        page = client.get("/?before=1").decode()
        assert Reader(page).tables[1][1][:3] == ["0", "training", "5"]
        assert "live-rounds" not in page  # they do not change any more
        for wrong in ("x", "", "0", "-1", "1.5", "1&before=0", "12345678901"):
            assert client.ask("GET", f"/?before={wrong}")[0] == 404


def test_what_is_left_is_estimated_from_recent_rounds():
    view = far_on(30)
    assert run_left(view, 1800.0) == 60.0 * 270
    assert run_left(view, 1830.0) == 60.0 * 270 - 30
    assert run_left(view, 9999.0) == 60.0 * 269  # an open round that takes longer says no more
    assert run_left(far_on(30, epochs=1), 1800.0) is not None
    begun = RunSnapshot(task_of(), task_of().begin, [(0.0, None, None)])
    assert run_left(begun, 10.0) is None
    state = status.state(begun, Counts(3), 2.0, True)
    assert "No estimate before a round is over" in state
    assert '<progress value="3" max="5"' in state
    assert "1.5" in state
    for part in (
        status.state(begun, Counts(), 2.0, False),
        status.said(view, False),
    ):
        assert "does not answer" in part
    assert view.past[29].per_second == 7 / 60


def test_a_run_that_is_over_says_so(quick_path):
    with running(task_of(rounds_per_epoch=1), quick_path / "store") as client:
        for row in reports_for(client.request(), 5):
            client.send(row)
        client.wait_for(1)
        page = Reader(client.get("/").decode())
    assert "The run is over" in page.text
    assert [row[0] for row in page.tables[0][1:]] == ["All rounds"]


def test_a_shuffled_run_says_both_numbers_and_its_relay(quick_path):
    task = task_of(shuffle={"n_min": 4, "dishonest": 0.25}, epochs=2)
    with running(task, quick_path / "store") as client:
        page = Reader(client.get("/").decode())
        known = client.get("/v1/task")["shuffle"]
    assert task.shuffle.said(task.shuffled_epsilon, 4.0) in page.text
    assert task.shuffle.condition in page.text
    assert "no shuffler" not in page.text
    assert "Central, only if shuffled" not in page.text
    assert "relay and service included" in page.text
    ends = "when its relay releases it: with 5 reports"
    assert f"A round ends {ends}" in page.text
    assert f"A round ends{ends}" in page.text  # a fact of the task
    for name in ("server_key", "signing_key"):
        assert known[name] in page.text
    assert "at most 1 of a round" in page.text
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert "join" not in links
    assert "v1/model" in links
    by_time = task_of(close_after={"seconds": 3600}, shuffle={"n_min": 4})
    begun = RunSnapshot(by_time, by_time.begin, [(0.0, None, None)])
    assert "releases it: after 1 h with at least 4 reports" in status.state(
        begun, Counts(), 2.0, True
    )


def test_listeners_are_told_what_changes(quick_path, listening, monkeypatch):
    monkeypatch.setattr(handlers, "HEARTBEAT_SECONDS", 0.0)
    with running(task_of(), quick_path / "store") as client:
        one = listening(client)
        assert one.status == 200
        assert one.headers["content-type"].startswith("text/event-stream")
        name, first = one.next()
        assert name == "change"
        now = {**first["now"], "counts": {**first["now"]["counts"]}}
        assert now == client.get("/v1/rounds/open")
        everything = {"state", "counts", "figures", "rounds", "pager", "privacy", "said"}
        assert set(first["page"]) == everything
        page = client.get("/").decode()
        assert all(f'id="live-{name}" data-live' in page for name in everything)
        sent = reports_for(client.request(), 5)
        client.send(sent[0])
        change = one.until(lambda data: data["now"]["counts"]["accepted"] == 1)
        assert "counts" in change["page"]
        assert "rounds" not in change["page"]
        for row in sent[1:]:
            client.send(row)
        change = one.until(lambda data: "rounds" in data["page"])
        assert change["now"]["round"] == 1
        assert {"figures", "said"} <= set(change["page"])
        assert change["page"]["said"] == "Round 0 has ended with 5 reports. Round 1 is open."
        wait_until(lambda: one.next()[0] == "alive")


def test_only_so_many_may_listen(quick_path, listening):
    with running(task_of(limits={**FREE, "listeners": 2}), quick_path / "store") as client:
        first, _ = listening(client), listening(client)
        assert first.next()[0] == "change"
        status, headers, data = client.ask("GET", "/v1/events")
        assert (status, data["error"], headers["retry-after"]) == (503, "crowded", "10")
        assert client.ask("HEAD", "/v1/rounds")[0] == 200
        assert client.get("/")  # the page is there all the same
        first.close()
        again = wait_until(lambda: (one := listening(client)).status == 200 and one)
        assert again.next()[0] == "change"


def test_who_does_not_read_is_ended():
    ended, one = [], Connection(Connections(Limits(answer_seconds=5.0)))
    one._transport = SimpleNamespace(abort=lambda: ended.append(1))
    one.http = SimpleNamespace(pause_writing=lambda: None)
    one.request_begins("/v1/events")
    one.answer_goes_on()
    one.end_if_slow(one._since + 1e6)
    one.pause_writing()
    one.end_if_slow(one._since + 4)
    assert not ended
    one.end_if_slow(one._since + 6)
    assert ended


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_listener_does_not_hold_up_the_end(quick_path, request, listening, workers):
    """Of one process, and of two that share a database; each sees what the other took."""
    store = quick_path / "store" if workers == 1 else request.getfixturevalue("postgres_url")
    path = quick_path / "trial.toml"
    path.write_text(
        "epsilon = 2\ndim = 8\nclients = 40\nrounds_per_epoch = 2\ninvitations = 'open'\n"
        "close_after = { reports = 3 }\n"
    )
    with ServiceProcess(path, store, "--workers", str(workers)) as service:
        client = Http(service.address)
        several = [listening(client) for _ in range(4)]
        for i, row in enumerate(reports_for(client.request(), 3)):
            client.send(row, f"a random text of one's own {i}")
        for one in several:
            assert one.until(lambda data: "said" in data["page"] and data["now"]["round"] == 1)
        client.close()
        service.process.send_signal(signal.SIGINT)
        for one in several:
            while one.next() is not None:
                pass
        assert service._ended() == 0
        assert "Cancel" not in service.errors  # uvicorn's word for having waited in vain
        assert "stopped" in service.errors
