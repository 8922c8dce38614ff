"""Disks that are lost, and stores that come back from a copy (docs/relay.md)."""

import shutil
from urllib.parse import urlsplit

import pytest

from fedsel.service.relay import _courier
from fedsel.service.relay._upstream import Upstream
from fedsel.service.running import Serving, background
from tests.service.relay.support import SHUFFLED, config_for
from tests.service.relay.test_courier import Cut, send_round
from tests.service.support import running, task_of, wait_until

TASK = task_of(**SHUFFLED)


@pytest.fixture
def failures(caplog, monkeypatch):
    """What relays say of their services, so far."""
    monkeypatch.setattr(_courier, "_AFTER_FAILURE_SECONDS", 0.01)
    caplog.set_level("INFO", "fedsel.service")

    def found():
        failed = [r for r in caplog.records if r.getMessage() == "service failed"]
        return [record.values["detail"] for record in failed]

    return found


def one_round(service, relay):
    """Round 0 from its reports to round 1 at both."""
    send_round(relay)
    service.wait_for(1)
    wait_until(lambda: relay.get("/v1/rounds/open")["round"] == 1)


def test_a_new_relay_begins_at_the_open_round_and_the_old_one_stands_still(quick_path, failures):
    with running(TASK, quick_path / "service") as service:
        config = config_for(TASK, quick_path / "service", service.address)
        with running(config, quick_path / "old") as relay:
            relay.config = config
            one_round(service, relay)
            token = relay.invitations.invite("device")
            send_round(relay, 2, seed=1)
        with running(config, quick_path / "new") as relay:
            relay.config = config
            assert wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
            now = relay.get("/v1/rounds/open")
            assert (now["round"], now["counts"]["accepted"]) == (1, 0)
            assert relay.ask("GET", "/v1/invitation", token=token)[0] == 401
            send_round(relay, seed=2)
            service.wait_for(2)
            wait_until(lambda: relay.get("/v1/rounds/open")["round"] == 2)
        assert not failures()
        with running(config, quick_path / "old") as relay:
            (told,) = wait_until(failures)
            assert "was a store restored from a copy?" in told
            assert relay.ask("GET", "/v1/rounds/open/request")[0] == 503
        assert service.get("/v1/rounds/open")["round"] == 2


def test_a_relay_that_is_lost_in_the_middle_of_a_delivery(quick_path, failures, monkeypatch):
    """Half a round is there, and nobody has the rest: no other half is taken."""
    monkeypatch.setattr(_courier, "PART_BYTES", 3 * 64)
    parts, real = [], Upstream._post

    def only_once(self, path, body):
        parts.append(path)
        if len(parts) > 1:
            raise Cut
        return real(self, path, body)

    with running(TASK, quick_path / "service") as service:
        config = config_for(TASK, quick_path / "service", service.address)
        with monkeypatch.context() as patch, running(config, quick_path / "old") as relay:
            patch.setattr(Upstream, "_post", only_once)
            relay.config = config
            send_round(relay)
            wait_until(lambda: len(parts) > 1)
        before = len(failures())
        with running(config, quick_path / "new") as relay:
            relay.config = config
            send_round(relay, seed=1)
            told = wait_until(lambda: failures()[before:])
            assert "it has something else in the place of the round" in told[0]
        now = service.get("/v1/rounds/open")
        assert (now["round"], now["counts"]["accepted"]) == (0, 3)


def test_a_service_that_is_restored_from_a_copy(quick_path, failures, monkeypatch):
    """A relay that collects notices when it wants a younger signature."""
    monkeypatch.setattr(_courier, "SIGNATURE_SECONDS", 0.01)
    store, copy = quick_path / "service", quick_path / "copy"
    with running(TASK, store):
        pass
    shutil.copytree(store, copy)
    with running(TASK, store) as service:
        config = config_for(TASK, store, service.address)
        port = urlsplit(service.address).port
        with running(config, quick_path / "relay") as relay:
            relay.config = config
            one_round(service, relay)
    with background(TASK, Serving(str(store), port=port)), running(config, quick_path / "relay"):
        pass  # it was the same service
    assert not failures()
    with running(config, quick_path / "relay") as relay:
        with background(TASK, Serving(str(store), port=port)):
            wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        with background(TASK, Serving(str(copy), port=port)):
            wait_until(lambda: any("404" in told for told in failures()))
            assert relay.get("/v1/rounds/open")["round"] == 1
    with background(TASK, Serving(str(copy), port=port)):
        before = len(failures())
        with running(config, quick_path / "relay"):
            told = wait_until(lambda: failures()[before:])
            assert "it is at round 0, and this relay collects for round 1" in told[-1]
