"""One script of server answers drives every device: Python, Node and a browser end alike."""

import json
import subprocess
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519

from fedsel.device import Client, Policy, RawRecords, _connection, _session, join
from fedsel.measuring import answer_recipe, question_recipe
from fedsel.wire import (
    Intent,
    ModelQuestion,
    Question,
    RecordPipeline,
    Request,
    Sealing,
    SignedRound,
    measuring_run,
)
from fedsel.wire._pipeline import preparing_text
from tests.clients.test_js import CLIENT, _run, node  # noqa: F401
from tests.device.joining import CUT, RUN, Script, Server

SCRIPT = json.loads(Path(__file__).with_name("answers.json").read_text("utf-8"))
CASES, KEYS = SCRIPT["cases"], SCRIPT["keys"]
POLICY = Policy(lifetime=2.0, per_report=2.0, solutions=["RJ"], dimensions=[3])
PATIENCE = 60.0
TASK, REQUEST, INVITATION = "/v1/task", "/v1/rounds/open/request", "/v1/invitation"

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
in_processes = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


class AnswerScript(Script):
    """A service that answers as a case says, and then as it should."""

    def __init__(self, case):
        super().__init__(case.get("epochs", 1))
        self.task.update(case.get("task", {}))
        self.asks, self.round = case.get("asks"), case.get("round", 0)
        self.epoch = self.round // self.task["rounds_per_epoch"]
        self.training, self.pipeline = self.recipe, self.preparing
        self.arrange()
        self.over = threading.Event()
        for path, answers in case["answers"].items():
            self.next[path] = [self._answer_of(answer) for answer in answers]
        if "shuffle" in case:
            self.task["shuffle"] = public(case["shuffle"])
        self.signing = {"key": "signing", "seconds": 0, "other": None, **case.get("signature", {})}

    def _answer_of(self, answer):
        if "do" in answer:
            return getattr(self, answer["do"])
        return answer["status"], answer["body"].encode(), answer.get("headers", {})

    def arrange(self):
        """What the open round asks, where a task measures its model or asks people."""
        if self.asks is None:
            return
        self.recipe, self.preparing = self.training, self.pipeline
        if "question" in self.asks:
            self.recipe = question_recipe(Question.of_dict(self.asks["question"]), 2.0)
            self.preparing = b"null"
        elif self.measures():
            self.recipe = answer_recipe(self.asks["answers"], 2.0)
            question = ModelQuestion.of_dict(self.asks["measure"])
            pipeline = RecordPipeline.decode(self.pipeline.decode(), 2)
            self.preparing = preparing_text(pipeline, question)
        if "preparing" in self.asks:
            self.preparing = self.asks["preparing"].encode()

    def measures(self):
        """Whether the open round measures the model."""
        per_epoch = self.task["rounds_per_epoch"]
        return "measure" in self.asks and self.round % per_epoch == per_epoch - 1

    def request(self):
        if self.asks is None or not self.measures():
            return super().request()
        run = measuring_run(RUN, self.asks.get("of", 0))
        return Request(run, 0, self.round, self.recipe, Intent("Testing", "Testers")).encode()

    def took(self, body):
        if self.asks is None:
            return super().took(body)
        self.advance()
        return 200, b'{"outcome": "accepted"}', {}

    def advance(self):
        """Go on to the next round."""
        self.round += 1
        self.epoch = self.round // self.task["rounds_per_epoch"]
        self.finished = self.epoch == self.training.epochs
        self.arrange()

    def as_it_is(self, _):
        """As without a script."""
        if self.finished:
            return 410, b'{"error": "finished"}', {}
        return 200, self.request(), {}

    def go_on(self, _):
        """The next round is open: others have answered this one."""
        self.advance()
        return self.as_it_is(None)

    def cut(self, _):
        return CUT

    def cut_body(self, _):
        return iter([b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", b'{"outcome"'])

    def cut_chunk(self, _):
        return iter([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"5\r\nabc"])

    def silence(self, _):
        self.over.wait(60)
        return CUT

    def next_round(self, _):
        self.round += 1
        return 410, b'{"error": "late"}', {}

    def answer(self, path, body):
        """Also the files of the client, for a page."""
        if path == "/":
            return 200, b"<!doctype html><title>device</title>", {"content-type": "text/html"}
        if path.startswith("/js/"):
            return 200, (CLIENT / path[4:]).read_bytes(), {"content-type": "text/javascript"}
        if path.endswith("/signature") and not self.next[path]:
            self.seen[path] += 1
            return 200, self.signature(), {}
        return super().answer(path, body)

    def signature(self):
        """What a service signs of a round; or an enemy."""
        parts = {
            "task": json.dumps(self.task).encode(),
            "request": self.request(),
            "weights": bytes(8 * self.recipe.dim),
            "preparing": self.preparing,
        }
        if self.signing["other"] is not None:
            parts[self.signing["other"]] += b" "
        key = bytes.fromhex(KEYS[self.signing["key"]]["private"])
        own = ed25519.Ed25519PrivateKey.from_private_bytes(key)
        return SignedRound.sign(own, int(time.time()) + self.signing["seconds"], **parts)

    def opened(self, body):
        """A report as the service reads it, where it has left sealed."""
        if "shuffle" not in self.task:
            return body
        key, message = KEYS["server"], Sealing.split(body)
        asked = (replace(Request.decode(self.request()), epoch=0, round=n) for n in range(2))
        sealings = {s.tag: s for s in (Sealing(r.encode(), key["public"]) for r in asked)}
        private = x25519.X25519PrivateKey.from_private_bytes(bytes.fromhex(key["private"]))
        return sealings[message.tag].unseal(message.content, private)


def times(case):
    """How often the same device takes part, one time after another; the last one is judged."""
    return case.get("times", 1)


def is_silent(case):
    return any(a.get("do") == "silence" for answers in case["answers"].values() for a in answers)


def public(values):
    """Values in which keys are named, with what is public of these."""
    return {
        n: KEYS[v]["public"] if isinstance(v, str) and v in KEYS else v for n, v in values.items()
    }


def policy_of(case):
    return {"columns": case.get("columns"), **public(case.get("policy", {}))}


def options_of(case, url):
    given = {"url": url, "patience": case.get("patience", PATIENCE), "silence": is_silent(case)}
    return {**given, "policy": policy_of(case), "chance": case.get("chance"), "times": times(case)}


def check(case, script, found):
    """The outcome, what was charged, and every request are those of the case."""
    said = ("ending", "detail", "accepted", "late")
    wanted = {name: case[name] for name in said if name in case}
    assert {name: found.get(name) for name in wanted} == wanted
    assert len(found["reports"]) == case["charged"]
    assert len(set(script.bodies)) == len(found["reports"])  # the same, ever again
    assert {script.opened(body).hex() for body in script.bodies} == set(found["reports"])
    low, high = case.get("longest_pause", (0, 300.25))
    assert low <= found["longest"] < high
    if case["ending"] != "UNREACHABLE":  # else chance decides how often it is tried
        asked = {path: n for path, n in script.seen.items() if path.startswith("/v1/")}
        assert asked == case["requests"]


@every_case
def test_python(case, quick_path, monkeypatch):
    pauses, sleep = [0.0], time.sleep
    monkeypatch.setattr(time, "sleep", lambda s: (pauses.append(s), sleep(min(s, 0.002))))
    if is_silent(case):
        monkeypatch.setattr(_connection, "SECONDS", 1.0)
    if "chance" in case:
        chosen = lambda first, last: first + int((last - first + 1) * case["chance"])  # noqa: E731
        monkeypatch.setattr(_session, "random_round", chosen)
    policy = replace(POLICY, **policy_of(case))
    client, script = Client(policy, quick_path / "ledger", create=True), AnswerScript(case)
    records = RawRecords([[30, 50], [60, 20]], ["yes", "no"], ["age", "pay"])
    with Server(script) as server:
        url, patience = server.url, case.get("patience", PATIENCE)
        for _ in range(times(case)):
            outcome = join(url, client, records, token="invitation", every=0.01, patience=patience)
        script.over.set()
    found = {
        "ending": outcome.ending.name,
        "detail": outcome.detail,
        "accepted": outcome.accepted,
        "late": outcome.late,
        "reports": [entry.report.hex() for entry in outcome.history.entries],
        "longest": max(pauses),
    }
    check(case, script, found)


@pytest.fixture(scope="module")
def in_node(node):  # noqa: F811
    """Script and outcome of each case: all of them in one process."""
    scripts = [AnswerScript(case) for case in CASES]
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(script)) for script in scripts]
        asked = [options_of(case, s.url) for case, s in zip(CASES, servers, strict=True)]
        done = subprocess.run(
            [node, CLIENT / "test" / "joining.mjs"],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            check=False,
        )
        for script in scripts:
            script.over.set()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {c["name"]: pair for c, *pair in zip(CASES, scripts, found, strict=True)}


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
@every_case
def test_node(case, in_node):
    script, found = in_node[case["name"]]
    check(case, script, found)
    assert (found["early"], found["idle"]) == (0, True)


@pytest.mark.slow
@pytest.mark.xdist_group("pages")
@every_case
def test_page(case, browser):
    script = AnswerScript(case)
    with Server(script) as server:
        context = browser.new_context()
        tab = context.new_page()
        tab.goto(f"{server.url}/")
        load = "async (asked) => (await import('/js/test/joining.js')).takePart(asked)"
        found = tab.evaluate(load, options_of(case, server.url))
        script.over.set()
        context.close()
    check(case, script, found)
    assert (found["early"], found["idle"]) == (0, True)
