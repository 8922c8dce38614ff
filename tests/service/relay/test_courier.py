"""What a relay does at its service comes about once, wherever it is interrupted."""

import socket

import pytest

from fedsel.device import _connection
from fedsel.service._store import open_store
from fedsel.service.relay import _courier, _upstream
from fedsel.service.relay._upstream import Upstream
from tests.service.relay.support import SHUFFLED, config_for, relay_config, relayed, sealed_for
from tests.service.support import running, task_of, wait_until


class Cut(Exception):
    """The line was cut."""


def send_round(relay, count=5, seed=0):
    """Sealed reports of the open round, all of them accepted; the round is released with five."""
    wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
    wait_until(lambda: not relay.get("/v1/rounds/open")["released"])
    request = relay.get("/v1/rounds/open/request")
    for row in sealed_for(request, relay.config.server_key, count, seed):
        assert relay.send(row) == (200, "accepted")


def test_rounds_go_to_the_service_and_the_next_ones_come_back(quick_path):
    with relayed(quick_path) as (service, relay):
        for number in range(4):
            send_round(relay, seed=number)
            service.wait_for(number + 1)
        now = wait_until(lambda: (now := relay.get("/v1/rounds/open"))["finished"] and now)
        assert (now["round"], now["of"]) == (4, 4)
        assert relay.ask("GET", "/v1/rounds/open/request")[0] == 410
        assert relay.ask("GET", "/v1/model.json")[0] == 404  # devices have models of their own
        assert [one["accepted"] for one in service.get("/v1/rounds")["rounds"]] == [5] * 4
        assert [one["accepted"] for one in relay.get("/v1/rounds")["rounds"]] == [5] * 4
        assert relay.get("/v1/task") == service.get("/v1/task")


@pytest.mark.parametrize("cut", range(10))
def test_a_line_that_is_cut_anywhere(quick_path, monkeypatch, store_url, cut):
    """Before or after each of the five exchanges: two parts, the end of the round, and so on."""
    monkeypatch.setattr(_courier, "PART_BYTES", 3 * 64)
    monkeypatch.setattr(_courier, "_AFTER_FAILURE_SECONDS", 0.01)
    seen = []

    def cutting(real):
        def method(self, path, *rest):
            seen.append(path)
            if len(seen) == cut // 2 + 1 and cut % 2 == 0:
                raise Cut
            found = real(self, path, *rest)
            if len(seen) == cut // 2 + 1:
                raise Cut
            return found

        return method

    with relayed(quick_path, store=store_url) as (service, relay):
        wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        for name in ("_post", "_get"):
            monkeypatch.setattr(Upstream, name, cutting(getattr(Upstream, name)))
        send_round(relay)
        service.wait_for(1)
        wait_until(lambda: relay.get("/v1/rounds/open")["round"] == 1)
        assert service.get("/v1/rounds")["rounds"][0]["accepted"] == 5
        assert len(seen) > 5


def test_a_relay_that_was_ended_goes_on_where_it_was(quick_path, store_url):
    task = task_of(**SHUFFLED)
    with running(task, quick_path / "service") as service:
        config = config_for(task, quick_path / "service", service.address)
        with running(config, store_url) as relay:
            relay.config = config
            send_round(relay, 3)
        with running(config, store_url) as relay:
            relay.config = config
            assert relay.get("/v1/rounds/open")["counts"]["accepted"] == 3
            send_round(relay, 2, seed=1)
            service.wait_for(1)
    store = open_store(store_url)
    store.choose("test")
    assert b"".join(store.sorted_reports(1, 10)) == b""  # forgotten
    store.close()


def test_a_second_relay_loses_nothing_in_silence(quick_path):
    """The service has the round that it released from another: it says so, and goes no further."""
    with relayed(quick_path) as (service, relay):
        wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        with running(relay.config, quick_path / "second") as second:
            second.config = relay.config
            send_round(second, 4)
            send_round(relay)
            service.wait_for(1)
            (row,) = sealed_for(second.get("/v1/rounds/0/request"), relay.config.server_key, 1)
            assert second.send(row) == (200, "accepted")
            wait_until(lambda: second.get("/v1/rounds/open")["released"])
            wait_until(lambda: b'available{run="test"} 0.0' in second.get("/metrics"))
            assert second.get("/v1/rounds/open")["round"] == 0
        assert service.get("/v1/rounds")["rounds"][0]["accepted"] == 5


def test_a_service_that_is_away_holds_no_report_up(quick_path):
    task = task_of(**SHUFFLED)
    with running(task, quick_path / "service") as service:
        config = config_for(task, quick_path / "service", service.address)
        with running(config, quick_path / "relay") as relay:
            relay.config = config
            wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
            request = relay.get("/v1/rounds/open/request")
    with running(config, quick_path / "relay") as relay:
        for row in sealed_for(request, config.server_key, 2):
            assert relay.send(row) == (200, "accepted")
        status, headers, answer = relay.ask("GET", "/v1/rounds/open/request")
        assert (status, answer["error"], headers["retry-after"]) == (503, "no_service", "2")
        assert relay.ask("GET", "/v1/task")[0] == relay.ask("GET", "/readyz")[0] == 503
        assert relay.get("/healthz") == {"status": "alive"}


def test_the_end_does_not_wait_for_a_service_that_hangs(quick_path, monkeypatch):
    """It takes a connection and never answers: else this test would take ten minutes."""
    monkeypatch.setattr(_connection, "SECONDS", 600.0)
    monkeypatch.setattr(_upstream, "_PATIENCE", 600.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with running(relay_config(service=address), quick_path / "relay"):
            line, _ = silent.accept()
        line.close()


def test_another_run_behind_the_same_address_is_not_passed_on(quick_path):
    task = task_of(**SHUFFLED)
    with running(task, quick_path / "other") as service:
        config = config_for(task, quick_path / "service", service.address)
        with running(config, quick_path / "relay") as relay:
            wait_until(lambda: relay.ask("GET", "/v1/task")[0] == 503)
            assert relay.get("/v1/rounds/open")["n_min"] is None
