"""What a relay answers: to devices, to strangers, and while a round is on its way."""

import copy
import threading

import pytest

from fedsel.errors import InvalidArgument
from fedsel.service._store import KEY_VARIABLE
from fedsel.service.relay._front import Relay
from fedsel.service.relay._upstream import Upstream
from fedsel.wire import Sealing
from tests.service.relay.support import SHUFFLED, config_for, relayed, sealed_for
from tests.service.relay.test_courier import send_round
from tests.service.support import running, task_of, wait_until


@pytest.fixture
def pair(quick_path):
    with relayed(quick_path) as (service, relay):
        wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        yield service, relay


def test_what_is_no_sealed_report(pair):
    service, relay = pair
    request, key = relay.get("/v1/rounds/open/request"), relay.config.server_key
    (good,) = sealed_for(request, key, 1)
    for bad in (b"", b"x", good[:-1], good + b"x", b"\2" + good[1:], bytes(97), bytes(70_000)):
        assert relay.send(bad) in {(400, "malformed"), (413, "too_large")}, bad[:5]
    elsewhere = Sealing(request + b" ", key).seal(bytes(16))  # for no round that there is
    assert relay.send(elsewhere) == (400, "malformed")
    assert relay.ask("POST", "/v1/reports", good)[0] == 401
    assert relay.send(good, service.invitations.invite("device")) == (401, "not_invited")
    assert relay.send(good, relay.invitations.invite("gateway")) == (403, "wrong_kind")
    token = relay.invitations.invite("device")
    assert relay.send(good, token) == (200, "accepted")
    assert relay.send(good, token) == (200, "duplicate")
    other = Sealing(request, key).seal(bytes(16))
    assert relay.send(other, token) == (200, "duplicate")  # nobody can tell what it was
    assert relay.get("/v1/rounds/open")["counts"]["accepted"] == 1


def test_the_service_takes_nothing_from_devices(pair):
    service, relay = pair
    token = service.invitations.invite("device")
    request = service.get("/v1/rounds/open/request")
    (sealed,) = sealed_for(request, relay.config.server_key, 1)
    for path in ("/v1/reports", "/v1/rounds/0/shuffled/0", "/v1/rounds/0/released/5"):
        status, _, answer = service.ask("POST", path, sealed[33:], token)
        assert (status, answer["error"]) in {(404, "not_found"), (403, "wrong_kind")}, path
    assert service.ask("PUT", "/v1/batches/a", sealed, token)[0] == 404
    assert service.ask("GET", "/join")[0] == 404
    for path in ("/v1/rounds/x/shuffled/0", "/v1/rounds/0/shuffled/%C2%B2"):
        assert service.ask("POST", path, sealed, relay.config.token)[0] == 404
    early = service.ask("POST", "/v1/rounds/2/shuffled/0", sealed[33:], relay.config.token)
    assert (early[0], early[2]["error"]) == (409, "early")
    broken = service.ask("POST", "/v1/rounds/0/shuffled/0", sealed, relay.config.token)
    assert broken[2]["error"] == "malformed"


def test_a_round_on_its_way_takes_nothing_and_lets_nobody_pay(pair, monkeypatch):
    """Devices find the same request, and parts that are over: they pay for nothing."""
    service, relay = pair
    go_on, real = threading.Event(), Upstream.deliver

    def held(self, *arguments):
        go_on.wait(60)
        return real(self, *arguments)

    monkeypatch.setattr(Upstream, "deliver", held)
    request = relay.get("/v1/rounds/open/request")
    late, again = sealed_for(request, relay.config.server_key, 2, seed=1)
    known = relay.invitations.invite("device")
    relay.send(again, known)
    send_round(relay, 4)
    now = wait_until(lambda: (now := relay.get("/v1/rounds/open"))["released"] and now)
    assert now["round"] == 0
    assert relay.get("/v1/rounds/open/request") == request
    for part in ("weights", "preparing", "signature"):
        for number in ("open", "0"):
            answer = relay.ask("GET", f"/v1/rounds/{number}/{part}")
            assert (answer[0], answer[2]["error"]) == (410, "late")
    assert relay.send(late) == (410, "late")
    assert relay.send(again, known) == (200, "duplicate")  # it was accepted: all is well
    go_on.set()
    service.wait_for(1)
    wait_until(lambda: relay.get("/v1/rounds/open")["round"] == 1)
    assert relay.send(late) == (410, "late")
    assert relay.send(again, known) == (200, "duplicate")
    assert service.get("/v1/rounds")["rounds"][0]["accepted"] == 5


def test_the_signature_is_of_what_is_passed_on(pair):
    from fedsel.wire import SignedRound

    _, relay = pair
    signed = SignedRound.verify(relay.get("/v1/rounds/open/signature"), relay.config.signing_key)
    raw = {p: relay.ask("GET", f"/v1/rounds/0/{p}")[2] for p in ("request", "weights")}
    assert signed.covers(**raw)
    assert relay.ask("GET", "/v1/rounds/0/model")[0] == 404
    assert relay.ask("GET", "/v1/rounds/1/weights")[0] == 404


def test_a_report_may_be_faster_than_the_news_of_its_round(pair, monkeypatch):
    """Another process opens a round, which this one sees while the report waits for its verdict."""
    _, relay = pair
    request, real, lagging = relay.get("/v1/rounds/open/request"), Relay.snapshot, [True]
    (row,) = sealed_for(request, relay.config.server_key, 1)

    def snapshot(self):
        found = copy.copy(real.fget(self))
        if lagging and lagging.pop():
            found.turns = {}
        return found

    monkeypatch.setattr(Relay, "snapshot", property(snapshot))
    token = relay.invitations.invite("device")
    assert relay.send(row, token) == (409, "early")  # the device sends it again
    assert relay.send(row, token) == (200, "accepted")


def test_a_relay_with_the_secret_of_the_service_is_refused(quick_path, monkeypatch):
    """With it, it could open every report."""
    monkeypatch.setenv(KEY_VARIABLE, "ab" * 32)
    task = task_of(**SHUFFLED)
    config = config_for(task, quick_path / "service", "http://127.0.0.1:9")
    with pytest.raises(InvalidArgument, match="FEDSEL_SERVICE_KEY = 'not shown': must be another"):
        Relay.check(config, None)
    monkeypatch.setenv(KEY_VARIABLE, "cd" * 32)
    with running(config, quick_path / "relay") as relay:
        assert relay.get("/healthz") == {"status": "alive"}
