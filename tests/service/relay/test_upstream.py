"""A relay at its service: it passes nothing on that the service has not signed."""

import json
import time

import pytest

from fedsel.device._connection import Ended
from fedsel.service.relay._state import Terms
from fedsel.service.relay._upstream import Elsewhere, NotTheRun, ServiceRound, Upstream
from fedsel.wire import CloseRule
from tests.service.relay.support import SHUFFLED, config_for, sealed_for
from tests.service.support import running, task_of
from tests.service.visiting import join_task

OPEN = ServiceRound(0, False)


@pytest.fixture
def service(quick_path):
    task = task_of(**SHUFFLED)
    with running(task, quick_path / "store") as client:
        client.config = config_for(task, quick_path / "store", client.address)
        yield client


@pytest.fixture
def upstream(service):
    made = Upstream(service.config)
    yield made
    made.close()


def altered(upstream, monkeypatch, part, change):
    """Let the service give a part otherwise than it is."""
    real = upstream._get

    def get(path, most):
        found = real(path, most)
        return change(found) if path.endswith(part) else found

    monkeypatch.setattr(Upstream, "_get", lambda _, path, most: get(path, most))


def test_what_is_passed_on_is_what_the_service_gives(service, upstream):
    assert upstream.open_round() == OPEN
    passed = upstream.fetch(OPEN, None)
    for part in ("request", "weights", "preparing"):
        _, _, content = service.ask("GET", f"/v1/rounds/0/{part}", Accept="*/*")
        content = b"null" if content is None else content
        assert getattr(passed, part).plain == content, part
    assert json.loads(passed.task.plain)["shuffle"]["n_min"] == 4
    assert passed.model is None  # devices of this task have models of their own
    assert passed.terms.close_after == CloseRule(reports=5)
    refreshed = upstream.refreshed(passed)
    assert refreshed._replace(signature=None) == passed._replace(signature=None)


def test_a_linear_model_is_passed_on(quick_path):
    task = join_task(shuffle={"n_min": 2}, close_after={"reports": 3})
    with running(task, quick_path / "store") as client:
        upstream = Upstream(config_for(task, quick_path / "store", client.address))
        passed = upstream.fetch(OPEN, None)
        assert json.loads(passed.model.plain) == client.get("/v1/model.json")
        upstream.close()


@pytest.mark.parametrize("part", ["task", "request", "weights", "preparing"])
def test_a_part_that_is_not_signed(upstream, monkeypatch, part):
    changes = {
        "task": lambda text: text.replace(b'"clients": 40', b'"clients": 41'),
        "request": lambda data: data.replace(data[12:20], bytes(8), 1),
        "weights": lambda data: b"\1" + data[1:],
        "preparing": lambda text: text + b" ",
    }
    altered(upstream, monkeypatch, part, changes[part])
    with pytest.raises(NotTheRun):
        upstream.fetch(OPEN, None)


def test_a_signature_of_another_key_or_time(service, upstream, monkeypatch):
    altered(upstream, monkeypatch, "signature", lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(NotTheRun, match="signed by another key"):
        upstream.fetch(OPEN, None)
    monkeypatch.undo()
    later = time.time() + 7200
    monkeypatch.setattr(time, "time", lambda: later)
    # The service runs in this process: it must be its old signature that comes.
    old = upstream._get("/v1/rounds/0/signature", 300)
    monkeypatch.undo()
    altered(upstream, monkeypatch, "signature", lambda _: old)
    with pytest.raises(NotTheRun, match="too old, or ahead"):
        upstream.fetch(OPEN, None)


def test_terms_may_not_change(upstream):
    terms = upstream.fetch(OPEN, None).terms
    assert upstream.fetch(OPEN, terms).terms == terms
    other = Terms(**{**vars(terms), "rounds": 5})
    with pytest.raises(NotTheRun, match="another rounds than"):
        upstream.fetch(OPEN, other)


def test_a_service_without_a_relay(quick_path):
    with running(task_of(), quick_path / "plain") as plain:
        config = config_for(task_of(name="a", **SHUFFLED), quick_path / "other", plain.address)
        upstream = Upstream(config)
        with pytest.raises((Ended, NotTheRun)):
            upstream.fetch(OPEN, None)
        upstream.close()


def test_a_round_is_delivered_once(service, upstream):
    request = service.get("/v1/rounds/open/request")
    rows = sorted(sealed_for(request, service.config.server_key, 6))
    contents = [row[33:] for row in rows]
    parts, size = [b"".join(contents[:4]), b"".join(contents[4:])], len(contents[0])
    with pytest.raises(NotTheRun, match="something else"):
        upstream.deliver(0, parts, size * 2)  # as if there were half as many
    assert upstream.deliver(0, parts, size) == 6
    service.wait_for(1)
    assert service.get("/v1/rounds")["rounds"][0]["accepted"] == 6
    assert upstream.deliver(0, parts, size) == 6  # it is there
    for other in ([parts[1], parts[0]], parts[:1], [*parts, parts[0]]):
        with pytest.raises(NotTheRun, match="something else in the place of the round"):
            upstream.deliver(0, other, size)
    with pytest.raises(Elsewhere):
        upstream.fetch(OPEN, None)


def test_a_token_that_is_none(service):
    config = service.config
    device = service.invitations.invite("device")
    for token in ("a.b.c", device):
        upstream = Upstream(type(config)(**{**vars(config), "token": token}))
        with pytest.raises(NotTheRun, match="does not know the token of this relay"):
            upstream.deliver(0, [bytes(64)], 64)
        with pytest.raises(NotTheRun, match="does not know the token of this relay"):
            upstream.fetch(OPEN, None)  # before a device has paid for anything
        upstream.close()


def test_what_does_not_open_is_no_report_and_is_counted(service, upstream):
    request = service.get("/v1/rounds/open/request")
    good = [row[33:] for row in sealed_for(request, service.config.server_key, 4)]
    assert upstream.deliver(0, [b"".join([*good, bytes(64)])], 64) == 5
    service.wait_for(1)
    counts = service.get("/v1/rounds")["rounds"][0]
    assert (counts["accepted"], counts["rejected"]) == (4, 1)
