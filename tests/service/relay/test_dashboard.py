"""The page of a relay: counts alone, where the reports are, both numbers, and what is missing."""

import re
from types import SimpleNamespace

import pytest

from fedsel.server import Counts
from fedsel.service._pages import listed
from fedsel.service.relay import _dashboard as status
from fedsel.service.relay._dashboard import NO_SERVICE, RelayBoard
from fedsel.service.relay._state import RelaySnapshot, RelayState, ReleasedRound
from fedsel.service.relay._upstream import Upstream
from fedsel.service.running import Serving, background
from fedsel.wire import CloseRule
from tests.service.relay.support import SHUFFLED, config_for, relay_config, relayed
from tests.service.relay.test_courier import send_round
from tests.service.relay.test_state import terms_of
from tests.service.support import FREE, Http, running, task_of, wait_until
from tests.service.test_dashboard import NASTY, Reader, listening  # noqa: F401 - a fixture

TOLD = {"name": NASTY, "purpose": NASTY + "1", "recipient": NASTY + "2"}


def snapshot_of(count=0, *, first=0, state="open", rule=None):
    """A relay's run after so many released rounds, each open for a minute with 60 reports."""
    config = relay_config()
    known = RelayState.begin(config)
    if state != "new":
        known = known.opened(terms_of(rule or CloseRule(reports=80, seconds=3600.0)), b"\1" * 32)
    known = {"way": known.waiting, "over": known.over}.get(state, known)
    numbers = range(first, first + count)
    past = [ReleasedRound(n, 2 * n + 1, bytes([n]) * 32, Counts(60), 0, 0) for n in numbers]
    rows = [(60.0 * i, 60.0 * i + 60.0, one.encode()) for i, one in enumerate(past)]
    now = first + count if state == "open" else first + count - 1
    turn = 0 if state == "new" else 2 * now + (1 if state == "open" else 2)
    now = (60.0 * count, None, None)
    return RelaySnapshot(config, known, turn, [*rows, now], None, Counts(60 * count))


def collector_of(snapshot, accepted=0, *, available=True, held_up=False):
    run = SimpleNamespace(snapshot=snapshot, held_up=held_up)
    return SimpleNamespace(run=run, counts=Counts(accepted), available=available)


def state_of(snapshot, accepted=0, *, reachable=True, seconds=10.0, **how):
    now = snapshot.opened + seconds
    made = status.state(collector_of(snapshot, accepted, **how), reachable, now)
    return Reader(str(made)).text


def test_the_page_is_complete_and_escaped(quick_path):
    task = task_of(**SHUFFLED, **TOLD)
    with relayed(quick_path, task=task) as (service, relay):
        tokens = [relay.config.token]
        for number in range(2):
            send_round(relay, seed=number)
            service.wait_for(number + 1)
        wait_until(lambda: relay.get("/v1/rounds/open")["round"] == 2)
        relay.send(b"nonsense")
        send_round(relay, 2, seed=2)
        wait_until(lambda: relay.get("/v1/rounds/open")["counts"]["rejected"] == 1)
        page = Reader(relay.get("/").decode())
        rounds = relay.get("/v1/rounds")["rounds"]
        older = Reader(relay.get("/?before=1").decode())
        assert relay.ask("GET", "/?before=x")[0] == 404
        for path in ("/dashboard.css", "/dashboard.js", "/join"):
            assert relay.ask("GET", path)[0] == 200
        metrics = relay.get("/metrics").decode()
    for text in TOLD.values():
        assert text in page.text
    assert not any(tag == "b" for tag, _ in page.tags)
    config = relay.config
    for fact in (config.service, config.run, config.server_key, config.signing_key):
        assert fact in page.text
    both = task.shuffle.said(task.shuffled_epsilon, 4.0)
    assert both in page.text
    assert task.shuffle.condition in page.text
    counts, table = page.tables
    assert counts[1:] == [["Open round", "2", "1", "0", "0"], ["All rounds", "12", "1", "0", "0"]]
    assert [row[:5] for row in table[1:]] == [[str(n), "5", "0", "0", "0"] for n in (1, 0)]
    assert float(table[1][5]) == pytest.approx(rounds[1]["closed"] - rounds[1]["opened"], abs=0.05)
    assert [row[0] for row in older.tables[1][1:]] == ["0"]
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert {"join", "v1/rounds", "v1/openapi.json", "metrics"} <= links
    assert "v1/model" not in links
    assert not any(token in page.text for token in tokens)
    assert "Round 2" in page.text
    assert 'fedsel_service_available{run="b-bold-b-quoted-name"} 1.0' in metrics
    assert 'fedsel_n_min{run="b-bold-b-quoted-name"} 4.0' in metrics


def test_listeners_follow_a_round_on_its_way(quick_path, monkeypatch, listening):  # noqa: F811
    """Collecting, on its way while the service takes it, and collecting for the next one."""
    gone, real = [], Upstream.deliver

    def held(self, *arguments):
        wait_until(lambda: gone)
        return real(self, *arguments)

    monkeypatch.setattr(Upstream, "deliver", held)
    with relayed(quick_path, limits={**FREE, "listeners": 3}) as (_, relay):
        wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        one = listening(relay)
        first = one.until(lambda _: True)
        parts = {"state", "counts", "figures", "rounds", "pager", "privacy", "said"}
        assert set(first["page"]) == parts
        page = relay.get("/").decode()
        assert all(f'id="live-{name}" data-live' in page for name in parts)
        assert {**first["now"]} == relay.get("/v1/rounds/open")
        send_round(relay)
        change = one.until(lambda data: "On its way" in data["page"].get("state", ""))
        assert ">5</dd>" in change["page"]["state"]
        assert "are deleted here" in change["page"]["state"]
        gone.append(True)
        change = one.until(lambda data: data["now"]["round"] == 1 and "said" in data["page"])
        assert change["page"]["said"] == "Round 0 is released with 5 reports. Round 1 is open."
        assert "Collecting" in change["page"]["state"]


def test_what_a_round_waits_for():
    text = state_of(snapshot_of(2), 30)
    assert "Collecting" in text
    assert "Round 2" in text
    assert "30 of 80" in text
    assert "30 of 50" in text
    assert "released with 80 reports, or after 1 h with at least 50 reports" in text
    assert "This round: 50 reports or 59 min 50 s." in text
    assert "about 2 min" in text  # two rounds of a minute
    assert "3.0" in text
    assert "2 of 4 rounds released" in text
    held = state_of(snapshot_of(2), 80, held_up=True)
    assert "This round: different messages." in held
    by_time = state_of(snapshot_of(0, rule=CloseRule(seconds=60.0)), 7, seconds=0.5)
    assert "7 of 50" in by_time
    assert "No estimate before a round is over" in by_time
    assert "–" in by_time  # no rate before a second has passed


def test_what_does_not_answer_is_said():
    waiting = snapshot_of(1, state="way")
    assert "On its way to the service" in state_of(waiting)
    without = state_of(waiting, reachable=False)
    assert "Waiting for the service" in without
    assert NO_SERVICE in without
    assert "60" in without
    store = state_of(snapshot_of(1), available=False, reachable=False)
    assert status.UNAVAILABLE in store
    assert NO_SERVICE in store
    assert status.said(waiting, True, False) == NO_SERVICE
    assert status.said(waiting, False, False) == status.UNAVAILABLE
    assert status.said(waiting, True, True) == "Round 0 is released with 60 reports."
    assert status.said(snapshot_of(), True, True) == ""


def test_a_run_that_is_over_says_so():
    over = snapshot_of(4, state="over")
    text = state_of(over)
    assert "The run is over" in text
    assert "4 of 4" in text
    assert "240" in text
    assert "1970-01-01 00:04:00 UTC" in text
    assert status.said(over, True, True).endswith("with 60 reports. The run is over.")
    assert [row[0] for row in Reader(_table(status.counts(over, Counts()))).tables[0]] == [
        "All rounds"
    ]
    assert "The run is over" in state_of(snapshot_of(0, state="over"))


def _table(rows):
    return f"<table>{rows}</table>"


def test_before_the_service_has_answered(quick_path):
    """The page is there, with what the relay's own settings say."""
    task = task_of(**SHUFFLED)
    with running(task, quick_path / "service") as service:
        config = config_for(task, quick_path / "service", service.address)
    with running(config, quick_path / "relay") as relay:
        wait_until(
            lambda: 'fedsel_service_available{run="test"} 0.0' in relay.get("/metrics").decode()
        )
        page = Reader(relay.get("/").decode())
        assert "fedsel_n_min" not in relay.get("/metrics").decode()
    assert "Waiting for the service" in page.text
    assert NO_SERVICE in page.text
    assert config.server_key in page.text
    assert "not known yet" in page.text
    assert "No round is released yet." in page.text


def test_rounds_are_listed_by_their_numbers_where_a_relay_began_late():
    past = snapshot_of(120, first=7).past
    latest = listed(past, None, RelayBoard.columns)
    numbers = re.findall(r'<th scope="row"[^>]*>(\d+)<', latest["rounds"])
    assert numbers == [str(n) for n in range(126, 76, -1)]
    assert "Rounds 77 to 126 of 127" in latest["pager"]
    oldest = listed(past, 27, RelayBoard.columns)
    assert "Rounds 7 to 26" in oldest["pager"]
    assert re.findall(r'href="([^"]+)"', oldest["pager"]) == ["./?before=77#rounds"]
    assert listed([], 5, RelayBoard.columns)["rounds"].count("<td") == 1


def test_several_relays_have_a_page_each(quick_path):
    configs = [relay_config(name=name) for name in ("A & B", "c")]
    with background(configs, Serving(str(quick_path / "relays"), port=0)) as address:
        client = Http(address)
        page = Reader(client.get("/").decode())
        assert [row[0] for row in page.tables[0][1:]] == ["A & B", "c"]
        own = Reader(client.get("/runs/a-b/").decode())
        assert "A & B" in own.text
        assert "Waiting for the service" in own.text
        client.close()
