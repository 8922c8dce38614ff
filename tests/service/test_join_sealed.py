"""The page at /join of a relay: keys, both numbers, what waits and what is refused."""

import functools
import json
import threading
from dataclasses import replace

import numpy as np
import pytest

from fedsel.service.relay._upstream import Upstream
from fedsel.wire import Intent, Request
from tests.browsing import CONTRAST, width_is_kept
from tests.service.relay.support import config_for, relayed, sealed_for
from tests.service.sealing import AlteringRelay
from tests.service.support import running, wait_until
from tests.service.visiting import (
    Visitor,
    choose,
    join_task,
    ledger_facts,
    shown_reports,
    take_part,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

ACCEPTED = "#reports [data-outcome=accepted]"
WITHOUT_ED25519 = """() => {
  const { importKey } = SubtleCrypto.prototype;
  SubtleCrypto.prototype.importKey = function (format, key, kind, ...rest) {
    if (kind.name === "Ed25519") throw new DOMException("Unrecognized name.", "NotSupportedError");
    return importKey.call(this, format, key, kind, ...rest);
  };
}"""


@functools.cache  # the central ε is proved once
def sealed_task(n_min=4, reports=4):
    return join_task(clients=reports, close_after={"reports": reports}, shuffle={"n_min": n_min})


@pytest.fixture
def pair(quick_path):
    """A service and its relay; a round is released with four reports."""
    with relayed(quick_path, task=sealed_task()) as (service, relay):
        wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        yield service, relay


@pytest.fixture
def relay(pair):
    return pair[1]


@pytest.fixture
def visitor(browser, relay):
    made = Visitor(browser, relay.address)
    yield made
    made.close()


def keys_of(config):
    """What an invitation link says of the keys."""
    return f"server-key={config.server_key}&signing-key={config.signing_key}"


def invited(relay):
    """An invitation, and the keys of its link."""
    return relay.invitations.invite("device"), keys_of(relay.config)


def others_report(relay, count=3):
    """Reports of other devices in the open round."""
    request = relay.get("/v1/rounds/open/request")
    for row in sealed_for(request, relay.config.server_key, count):
        assert relay.send(row) == (200, "accepted")


def test_both_numbers_are_shown_and_what_leaves_is_sealed(browser, quick_path):
    task = sealed_task(n_min=80, reports=100)
    with relayed(quick_path, task=task) as (_, relay):
        wait_until(lambda: relay.ask("GET", "/readyz")[0] == 200)
        visitor = Visitor(browser, relay.address)
        token, keys = invited(relay)
        tab = visitor.open(token, keys)
        both = task.shuffle.said(task.shuffled_epsilon, 2)
        assert tab.inner_text("#both-numbers").replace("\u00a0", " ") == f"{both}."
        assert "at least 80 reports, or never; at most 8 of them" in tab.inner_text("#condition")
        assert "has 0 of the 80 reports" in tab.inner_text("#reports-so-far")
        assert "2 reports of 97 sealed bytes, one an epoch" in tab.inner_text("#asked")
        shown = tab.inner_text("#server-key").replace("\u00a0", "").replace(" ", "")
        assert shown.replace("\n", "") == relay.config.server_key
        assert tab.is_hidden("#compare")
        assert visitor.uploads() == []
        take_part(tab)
        tab.wait_for_selector(ACCEPTED)
        ((_, report),) = shown_reports(tab)
        ((message, name),) = visitor.uploads()
        assert (len(report), len(message), name) == (16, 97, token)
        assert report not in message
        assert "97 bytes: this report, sealed for the service" in tab.inner_text("#left-words")
        assert "counts once its round is released" in tab.inner_text("#reports")
        assert relay.get("/v1/rounds/open")["counts"]["accepted"] == 1
        tab.get_by_text("has 1 of the 80 reports").wait_for()
        own = f"{relay.address}/"
        assert all(r.url.startswith(own) for r in visitor.requests)  # none to the service
        assert tab.url == f"{own}join"
        # At a later visit the keys are known, and others are refused.
        later = visitor.open()
        assert later.is_hidden("#compare")
        stranger = visitor.open(token, keys.replace(relay.config.server_key, "ab" * 32))
        assert "not those of your invitation link" in stranger.inner_text("#trouble")
        visitor.close()


def test_a_report_counts_once_its_round_is_released(pair, visitor, monkeypatch):
    service, relay = pair
    on_its_way, deliver = threading.Event(), Upstream.deliver

    def held(self, *arguments):
        on_its_way.wait()
        return deliver(self, *arguments)

    monkeypatch.setattr(Upstream, "deliver", held)
    tab = visitor.open(*invited(relay))
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    assert "counts once its round is released" in tab.inner_text("#reports")
    try:
        others_report(relay)
        tab.get_by_text("The round is released: the service works on it.").wait_for()
        tab.get_by_text("Round 1 of 2 is released").wait_for()
        tab.get_by_text("was released with its round, and counts").wait_for()
    finally:
        on_its_way.set()
    tab.get_by_text("has 1 of the 4 reports").wait_for()
    latest, first = tab.locator(ACCEPTED).all_inner_texts()
    assert "counts once its round is released" in latest
    assert "was released with its round, and counts" in first
    others_report(relay)
    tab.get_by_text("The run is over. Thank you").wait_for()
    assert tab.inner_text("#reports-so-far") == ""
    assert tab.is_visible("#coefficients")  # of the model that the relay passes on
    later = visitor.open_over()
    for page in (tab, later):
        assert page.get_by_text("was released with its round, and counts").count() == 2
    assert [one["accepted"] for one in service.get("/v1/rounds")["rounds"]] == [4, 4]


def test_paused_it_goes_on_with_the_keys_of_its_link(relay, visitor):
    """Which are gone from the address bar by then."""
    tab = visitor.open(*invited(relay))
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    tab.click("#stop")
    tab.get_by_text("Paused. Nothing more is sent").wait_for()
    assert "Ready." in tab.inner_text("#go-said")
    tab.click("#go")
    others_report(relay)
    tab.locator(ACCEPTED).nth(1).wait_for()


def test_a_link_without_keys_has_a_person_compare_them(relay, visitor):
    tab = visitor.open(relay.invitations.invite("device"))
    assert tab.is_visible("#compare")
    assert "Your link names no keys." in tab.inner_text("#keys-said")
    choose(tab)
    tab.check("#anew-yes")
    assert tab.is_disabled("#go")
    tab.check("#keys-yes")
    tab.click("#go")
    tab.wait_for_selector(ACCEPTED)
    assert len(visitor.uploads()) == 1


def test_a_relay_whose_service_is_away_says_so(browser, quick_path):
    with running(sealed_task(), quick_path / "service") as service:
        config = config_for(sealed_task(), quick_path / "service", service.address)
    with running(config, quick_path / "relay") as relay:
        visitor = Visitor(browser, relay.address)
        tab = visitor.open(relay.invitations.invite("device"), keys_of(config))
        assert "The service cannot be reached. Trying again" in tab.inner_text("#trouble")
        assert tab.is_disabled("#go")
        visitor.close()


def other_weights(data):
    return (np.frombuffer(data, "<f8") + 1.0).tobytes()


def other_purpose(data):
    return replace(Request.decode(data), intent=Intent("Something else", "Somebody")).encode()


ALTERED = {
    "task": lambda data: data + b" ",
    "request": other_purpose,
    "weights": other_weights,
    "preparing": lambda data: data + b" ",
}


@pytest.mark.parametrize("part", ALTERED)
def test_what_the_relay_has_altered_is_not_paid_for(browser, relay, part):
    with AlteringRelay(relay.address) as front:
        front.alter[part] = ALTERED[part]
        visitor = Visitor(browser, front.address)
        tab = visitor.open(*invited(relay))
        take_part(tab)
        stopped = f"Stopped: the service has not signed the {part} that came with it."
        tab.get_by_text(stopped).wait_for()
        assert (visitor.uploads(), ledger_facts(tab)["Reports"]) == ([], "0")
        visitor.close()


def test_other_keys_than_at_an_earlier_visit_are_refused(browser, relay):
    def other_key(data):
        told = json.loads(data)
        return json.dumps(
            {**told, "shuffle": {**told["shuffle"], "signing_key": "cd" * 32}}
        ).encode()

    with AlteringRelay(relay.address) as front:
        visitor = Visitor(browser, front.address)
        tab = visitor.open(*invited(relay))
        take_part(tab)
        tab.wait_for_selector(ACCEPTED)
        front.alter["task"] = other_key
        changed = visitor.open()
        assert "not those of your earlier visit" in changed.inner_text("#trouble")
        assert changed.is_disabled("#go")
        visitor.close()


def test_keys_of_a_link_hold_where_the_run_takes_no_sealed_reports(browser, quick_path):
    with running(join_task(), quick_path) as service:
        visitor = Visitor(browser, service.address)
        keys = f"server-key={'0a' * 32}&signing-key={'0b' * 32}"
        tab = visitor.open(service.invitations.invite("device"), keys)
        assert "this run takes no sealed reports" in tab.inner_text("#trouble")
        assert tab.is_disabled("#go")
        visitor.close()


def test_what_was_paid_for_is_sealed_anew_when_it_is_sent_later(relay, visitor):
    tab = visitor.open(*invited(relay))
    tab.route("**/v1/reports", lambda route: route.abort())
    with tab.expect_request("**/v1/reports") as begun:
        take_part(tab)
    tab.wait_for_selector("#reports [data-outcome=waiting]")
    tab.close()
    later = visitor.open()
    later.click("#send-now")
    later.wait_for_selector(ACCEPTED)
    sent = [message for message, _ in visitor.uploads()]
    assert {len(message) for message in sent} == {97}
    assert sent[-1] != begun.value.post_data_buffer
    assert relay.get("/v1/rounds/open")["counts"]["accepted"] == 1


def test_a_browser_that_cannot_check_signatures_is_told_before_anything(relay, visitor):
    visitor.context.add_init_script(f"({WITHOUT_ED25519})()")
    tab = visitor.open(*invited(relay))
    assert "cannot check what the service has signed" in tab.inner_text("#trouble")
    assert tab.is_disabled("#go")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_and_can_be_read(browser, relay, width, scheme):
    size = {"width": width, "height": 900}
    visitor = Visitor(browser, relay.address, viewport=size, color_scheme=scheme)
    tab = visitor.open(relay.invitations.invite("device"))
    assert width_is_kept(tab)
    assert tab.evaluate(CONTRAST) == []
    tab.check("#keys-yes")
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    assert width_is_kept(tab)
    assert tab.evaluate(CONTRAST) == []
    visitor.close()
