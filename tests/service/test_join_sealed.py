"""The page at /join where reports leave sealed: keys, both numbers, and what is refused."""

import pytest

from tests.browsing import CONTRAST, width_is_kept
from tests.service.sealing import SealedFront
from tests.service.support import running
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
BOTH = (
    "ε = 2 against everybody; ε = 0.2, δ = 10⁻⁶ if relay and service do not work together, among at"
    " least 6,001 honest reports."
)
WITHOUT_ED25519 = """() => {
  const { importKey } = SubtleCrypto.prototype;
  SubtleCrypto.prototype.importKey = function (format, key, kind, ...rest) {
    if (kind.name === "Ed25519") throw new DOMException("Unrecognized name.", "NotSupportedError");
    return importKey.call(this, format, key, kind, ...rest);
  };
}"""


@pytest.fixture
def service(quick_path):
    with running(join_task(), quick_path / "store") as client:
        yield client


@pytest.fixture
def relay(service):
    with SealedFront(service.address) as front:
        yield front


@pytest.fixture
def visitor(browser, relay):
    made = Visitor(browser, relay.url)
    yield made
    made.close()


def test_both_numbers_are_shown_and_what_leaves_is_sealed(service, relay, visitor):
    token = service.invitations.invite("device")
    tab = visitor.open(token, relay.keys)
    assert tab.inner_text("#both-numbers").replace("\u00a0", " ") == BOTH
    assert "at least 6,667 reports, or never; up to 10 % of them" in tab.inner_text("#condition")
    assert "has 0 of the 6,667 reports" in tab.inner_text("#reports-so-far")
    assert "2 reports of 97 sealed bytes, one an epoch" in tab.inner_text("#asked")
    shown = tab.inner_text("#server-key").replace("\u00a0", "").replace(" ", "")
    assert shown.replace("\n", "") == relay.key.public
    assert tab.is_hidden("#compare")
    assert visitor.uploads() == []
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    ((_, report),) = shown_reports(tab)
    ((message, name),) = visitor.uploads()
    assert (len(report), len(message), name) == (16, 97, token)
    assert relay.messages == [message]
    assert report not in message
    assert "97 bytes: this report, sealed for the service" in tab.inner_text("#left-words")
    assert "counts once its round is released" in tab.inner_text("#reports")
    assert service.get("/v1/rounds/open")["counts"]["accepted"] == 1
    tab.get_by_text("has 1 of the 6,667 reports").wait_for()
    own = f"{relay.url}/"
    assert all(r.url.startswith(own) for r in visitor.requests)  # none to the service
    assert tab.url == f"{own}join"
    # At a later visit the keys are known, and others are refused.
    later = visitor.open()
    assert later.is_hidden("#compare")
    other = relay.keys.replace(relay.key.public, "ab" * 32)
    stranger = visitor.open(token, other)
    assert "not those of your invitation link" in stranger.inner_text("#trouble")
    relay.shuffle["signing_key"] = "cd" * 32
    changed = visitor.open()
    assert "not those of your earlier visit" in changed.inner_text("#trouble")
    assert changed.is_disabled("#go")


def test_a_link_without_keys_has_a_person_compare_them(service, relay, visitor):
    tab = visitor.open(service.invitations.invite("device"))
    assert tab.is_visible("#compare")
    assert "Your link names no keys." in tab.inner_text("#keys-said")
    choose(tab)
    tab.check("#anew-yes")
    assert tab.is_disabled("#go")
    tab.check("#keys-yes")
    tab.click("#go")
    tab.wait_for_selector(ACCEPTED)
    assert len(relay.messages) == 1


@pytest.mark.parametrize("part", ["task", "request", "weights", "preparing"])
def test_what_the_relay_has_altered_is_not_paid_for(service, relay, visitor, part):
    relay.altered = part
    tab = visitor.open(service.invitations.invite("device"), relay.keys)
    take_part(tab)
    tab.get_by_text(f"Stopped: the service has not signed the {part} that came with it.").wait_for()
    assert (visitor.uploads(), ledger_facts(tab)["Reports"]) == ([], "0")


def test_keys_of_a_link_hold_where_the_run_takes_no_sealed_reports(browser, service, relay):
    visitor = Visitor(browser, service.address)
    tab = visitor.open(service.invitations.invite("device"), relay.keys)
    assert "this run takes no sealed reports" in tab.inner_text("#trouble")
    assert tab.is_disabled("#go")
    visitor.close()


def test_what_was_paid_for_is_sealed_anew_when_it_is_sent_later(service, relay, visitor):
    tab = visitor.open(service.invitations.invite("device"), relay.keys)
    tab.route("**/v1/reports", lambda route: route.abort())
    with tab.expect_request("**/v1/reports"):
        take_part(tab)
    tab.wait_for_selector("#reports [data-outcome=waiting]")
    tab.close()
    later = visitor.open()
    later.click("#send-now")
    later.wait_for_selector(ACCEPTED)
    assert [len(message) for message in relay.messages] == [97]
    assert service.get("/v1/rounds/open")["counts"]["accepted"] == 1


def test_a_browser_that_cannot_check_signatures_is_told_before_anything(service, relay, visitor):
    visitor.context.add_init_script(f"({WITHOUT_ED25519})()")
    tab = visitor.open(service.invitations.invite("device"), relay.keys)
    assert "cannot check what the service has signed" in tab.inner_text("#trouble")
    assert tab.is_disabled("#go")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_and_can_be_read(browser, service, relay, width, scheme):
    size = {"width": width, "height": 900}
    visitor = Visitor(browser, relay.url, viewport=size, color_scheme=scheme)
    tab = visitor.open(service.invitations.invite("device"))
    assert width_is_kept(tab)
    assert tab.evaluate(CONTRAST) == []
    tab.check("#keys-yes")
    take_part(tab)
    tab.wait_for_selector(ACCEPTED)
    assert width_is_kept(tab)
    assert tab.evaluate(CONTRAST) == []
    visitor.close()
