"""The pages of a relay and of its service in a real browser."""

import pytest

from tests.browsing import CONTRAST, watched, width_is_kept
from tests.service.relay.support import SHUFFLED, relayed, sealed_for
from tests.service.relay.test_courier import send_round
from tests.service.support import task_of, wait_until
from tests.service.test_dashboard_browser import LIVE

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]
TASK = {"purpose": "Predict <b> who leaves", "recipient": "W" * 90, **SHUFFLED}


@pytest.fixture
def pair(quick_path):
    """A relay and its service after one round."""
    with relayed(quick_path, task=task_of(**TASK)) as (service, relay):
        send_round(relay)
        wait_until(lambda: relay.get("/v1/rounds/open")["round"] == 1)
        yield service, relay


def test_the_page_of_a_relay_is_live(browser, pair):
    service, relay = pair
    with watched(browser, relay.address) as opened:
        tab = opened(width=1280)
        tab.wait_for_selector(LIVE)
        assert tab.locator("#rounds tbody tr").count() == 1
        (row,) = sealed_for(relay.get("/v1/rounds/open/request"), relay.config.server_key, 1, 9)
        relay.send(row)
        tab.locator("#live-counts tr:first-child td:nth-child(2):text-is('1')").wait_for()
        tab.get_by_text("1 of 4", exact=True).wait_for()
        send_round(relay, 4, seed=1)
        tab.locator("#rounds tbody tr").nth(1).wait_for()
        assert tab.locator("#figures rect").count() == 2
        assert "Round 1 is released" in tab.locator("[role=status].said").text_content()
        service.wait_for(2)
        tab.locator("#now").get_by_text("Round 2", exact=True).wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_pages_are_readable_on_small_and_large_screens(browser, pair, scheme):
    for party in pair:
        with watched(browser, party.address) as opened:
            for width in (375, 1280):
                tab = opened(width=width, color_scheme=scheme)
                tab.wait_for_selector(LIVE)
                tab.get_by_text("ε = 4 against everybody").wait_for()
                assert width_is_kept(tab)
                assert tab.evaluate(CONTRAST) == []
