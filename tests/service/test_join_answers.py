"""Whatever a service answers, the page at /join and `fedsel join` make the same of it."""

import json
import threading
import time
from pathlib import Path

import pytest

from fedsel.device import Client, Ending, Policy, RawRecords, join
from fedsel.device.joining import _connection as connections
from fedsel.service.joining.files import join_files
from tests.device.joining.support import CUT, RUN, Script, Server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

POLICY = {"lifetime": 2.0, "per_report": 2.0, "solutions": ["RJ"], "dimensions": [3]}
ENDINGS = {
    Ending.DONE: "over",
    Ending.FINISHED: "over",
    Ending.CONFLICT: "conflict",
    Ending.UNINVITED: "uninvited",
    Ending.NOT_UNDERSTOOD: "strange",
}
KINDS = {".js": "text/javascript", ".html": "text/html"}
TASK = {"epochs": 1, "rounds": 1, "purpose": "Testing", "recipient": "Testers"}

# The page's loop without the page; nobody waits for long.
PAGE = """async ([task, policy, silence]) => {
  const later = setTimeout;
  const events = [];
  window.setTimeout = (work, milliseconds) => {
    events.push("pause");
    return later(work, Math.min(milliseconds, 5));
  };
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (given) => timeout(silence && given === 30_000 ? silence : given);
  const { Device } = await import("/join/device.js");
  const { kept } = await import("/join/keeping.js");
  const { BrowserStore, Client } = await import("/join/client/index.js");
  const { toHex } = await import("/join/client/hash.js");
  const client = await Client.open(policy, new BrowserStore(), { create: true });
  let [reads, before] = [0, 0];
  const noted = (rows) => new Proxy(rows, { get: (all, name) => ((reads += 1), all[name]) });
  const records = { X: noted([[30, 50], [60, 20]]), y: noted([1, -1]), leftOut: 0, why: "" };
  const asked = {
    history: () => client.history(),
    answer: (...given) => ((before += reads), client.answer(...given)),
  };
  const fetched = window.fetch;
  window.fetch = (path, ...rest) => (events.push(path), fetched(path, ...rest));
  const told = { round() {}, model: () => events.push("shown"), waiting() {}, async ledger() {} };
  const device = new Device(asked, task, "invitation", records, told);
  const patience = new AbortController();
  later(() => patience.abort(), 60_000);
  const end = await device.run(patience.signal);
  const { entries } = await client.history();
  const { outcomes = {} } = await kept(task.run);
  // A model is judged on the records when it is shown: in a pause or at the end, no request waits.
  const hurried = (event, i) => event === "shown" && events[i - 1] !== "pause";
  if (events.slice(0, -1).some(hurried)) before += 1;
  if (before) return { end: "records were read before they were asked for" };
  return { end, outcomes: Object.values(outcomes), reports: entries.map((e) => toHex(e.report)) };
}"""


class PageScript(Script):
    """What a page asks for beside what any device does."""

    files = join_files()

    def __init__(self, answers):
        super().__init__(**TASK)
        self.gone = threading.Event()
        for path, told in answers.items():
            self.next[path] = [getattr(self, one) if isinstance(one, str) else one for one in told]

    def answer(self, path, body):
        if path == "/":
            return 200, b"<!doctype html><title>device</title>", {"content-type": "text/html"}
        if path.startswith("/join/"):
            name = path.removeprefix("/join/")
            return 200, self.files[name].plain, {"content-type": KINDS[Path(name).suffix]}
        if path == "/v1/rounds/open":
            now = {"finished": self.finished, "round": self.round, "epoch": self.epoch, "of": 1}
            return 200, json.dumps({**now, "model": "0"}).encode(), {}
        if path == "/v1/model.json":
            return 200, b'{"rounds": 0, "linear": null}', {}
        return super().answer(path, body)

    # Answers that are more than a status:

    def cut(self, _):
        return CUT

    def cut_body(self, _):
        return iter([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", b'{"outcome"'])

    def cut_chunk(self, _):
        return iter([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nabc"])

    def silence(self, _):
        self.gone.wait(60)
        return CUT

    def odd(self, _):
        self.finished = True
        return 200, b"<html>", {}

    def late(self, _):
        self.finished = True
        return 410, b'{"error": "late"}', {}

    def next_round(self, _):
        self.round += 1
        return 410, b'{"error": "late"}', {}


def status(code, body=b"{}", **headers):
    return code, body, {name.replace("_", "-"): value for name, value in headers.items()}


SENT = "/v1/reports"
OVER = ("over", ["accepted"], 1)
WAITING = ["waiting"]
CASES = {
    "200": ({}, OVER),
    "200 without JSON": ({SENT: ["odd"]}, OVER),
    "202": ({SENT: [status(202)]}, ("strange", WAITING, 1)),
    "301": ({SENT: [status(301, location="/v1/reports")]}, ("strange", WAITING, 1)),
    "307": ({SENT: [status(307, location="/v1/reports")]}, ("strange", WAITING, 1)),
    "400": ({SENT: [status(400)]}, ("strange", WAITING, 1)),
    "404": ({SENT: [status(404, b"<html>")]}, ("strange", WAITING, 1)),
    "401": ({SENT: [status(401)]}, ("uninvited", WAITING, 1)),
    "403": ({SENT: [status(403)]}, ("uninvited", WAITING, 1)),
    "409": ({SENT: [status(409, b'{"error": "conflict"}')]}, ("conflict", ["conflict"], 1)),
    "409 without JSON": ({SENT: [status(409, b"no")]}, ("conflict", ["conflict"], 1)),
    "409 early": ({SENT: [status(409, b'{"error": "early"}')] * 2}, OVER),
    "410": ({SENT: ["late"]}, ("over", ["late"], 1)),
    "408, 429, 500, 502, 503, 504": (
        {SENT: [status(code, retry_after="0") for code in (408, 429, 500, 502, 503, 504)]},
        OVER,
    ),
    "500 with a page": ({SENT: [status(500, b"<html>" * 1000)]}, OVER),
    "500, then 401": ({SENT: [status(500), status(401)]}, ("uninvited", WAITING, 1)),
    "silence": ({SENT: ["silence"]}, OVER),
    "cut": ({SENT: ["cut"] * 3}, OVER),
    "cut body": ({SENT: ["cut_body"] * 2}, OVER),
    "cut chunk": ({SENT: ["cut_chunk"]}, OVER),
    "invitation 500, 408": ({"/v1/invitation": [status(500), status(408)]}, OVER),
    "invitation 401": ({"/v1/invitation": [status(401)]}, ("uninvited", [], 0)),
    "invitation 202": ({"/v1/invitation": [status(202)]}, ("strange", [], 0)),
    "invitation without JSON": ({"/v1/invitation": [status(200, b"<")]}, ("strange", [], 0)),
    "weights 500, cut": ({"/v1/rounds/0/weights": [status(500), "cut_body"]}, OVER),
    "weights 404": ({"/v1/rounds/0/weights": [status(404)]}, ("strange", [], 0)),
    "weights 410": ({"/v1/rounds/0/weights": ["next_round"]}, OVER),
    "preparing 503": ({"/v1/rounds/0/preparing": [status(503)]}, OVER),
    "preparing of nothing": ({"/v1/rounds/0/preparing": [status(200)]}, ("strange", [], 0)),
}


@pytest.fixture
def quick(monkeypatch):
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.002)))


def in_python(script, folder):
    client = Client(Policy(**POLICY), folder / "ledger", create=True)
    records = RawRecords([[30, 50], [60, 20]], ["yes", "no"], ["age", "pay"])
    with Server(script) as server:
        found = join(server.url, client, records, token="invitation", every=0.01, patience=60.0)
        script.gone.set()
    known = ["accepted"] * found.accepted + ["late"] * found.late
    known += ["conflict"] * (found.ending is Ending.CONFLICT)
    reports = [entry.report.hex() for entry in found.history.entries]
    return ENDINGS[found.ending], known, reports


def in_a_page(script, browser, silence):
    with Server(script) as server:
        context = browser.new_context()
        tab = context.new_page()
        tab.goto(f"{server.url}/")
        task = {**script.task, "run": RUN.hex()}
        policy = {**POLICY, "lifetime": 2, "per_report": 2}
        found = tab.evaluate(PAGE, [task, policy, silence])
        script.gone.set()
        context.close()
    end = "uninvited" if found["end"] == "invitation" else found["end"]
    return end, found.get("outcomes", []), found.get("reports", [])


@pytest.mark.parametrize(("answers", "wanted"), CASES.values(), ids=CASES)
def test_both_make_the_same_of_an_answer(browser, quick, quick_path, monkeypatch, answers, wanted):
    silence = "silence" in answers.get(SENT, [])
    if silence:
        monkeypatch.setattr(connections, "SECONDS", 1.0)
    loops = {
        "python": lambda script: in_python(script, quick_path),
        "page": lambda script: in_a_page(script, browser, 1000 if silence else 0),
    }
    for name, loop in loops.items():
        script = PageScript(answers)
        end, known, reports = loop(script)
        found = known + WAITING * (len(reports) - len(known))
        assert (end, found, len(reports)) == wanted, name
        assert {body.hex() for body in script.bodies} == set(reports), name  # the same, ever again
