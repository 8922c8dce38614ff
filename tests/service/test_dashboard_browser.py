"""The dashboard in a real browser: live, on small screens, without JavaScript, and after a loss."""

import re
from dataclasses import replace

import pytest

from fedsel.service.running import Serving, background
from tests.browsing import CONTRAST, watched, width_is_kept
from tests.service.support import Http, reports_for, running, task_of, wait_until
from tests.service.test_monitoring import LINEAR, ROWS

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]
LIVE = '#connection[data-state="live"]'


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("test") / "test.csv"
    path.write_text(ROWS)
    told = {"name": "churn <b>", "purpose": "Predict who leaves", "recipient": "W" * 90}
    return task_of(**LINEAR, **told, evaluation={"data": str(path), "label": "gone"}, epochs=2)


def close_round(client):
    request = client.request()
    for row in reports_for(request, 5, seed=request.round):
        client.send(row)
    client.wait_for(request.round + 1)


def test_it_is_live(browser, task, quick_path):
    """Numbers, rows and figures follow the reports; nobody else is asked; nothing complains."""
    with running(task, quick_path / "store") as client:
        close_round(client)
        with watched(browser, client.address) as opened:
            tab = opened(width=1280)
            assert tab.title() == "churn <b> · fedsel"
            tab.wait_for_selector(LIVE)
            assert tab.locator("#rounds tbody tr").count() == 1
            bars = tab.locator("#figures rect").count()
            client.send(reports_for(client.request(), 1, seed=9)[0])
            tab.locator("#live-counts tr:first-child td:nth-child(2):text-is('1')").wait_for()
            tab.locator("#rounds .scroll").focus()
            close_round(client)
            tab.locator("#rounds tbody tr").nth(1).wait_for()
            assert tab.locator("#figures rect").count() == bars + 1
            assert tab.locator("#figures svg[role=img]").count() == 3
            assert "Round 1 has ended" in tab.locator("[role=status].said").text_content()
            assert tab.evaluate("document.activeElement.matches('#rounds .scroll')")
            tab.get_by_text("δ = 10⁻⁶").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_small_and_large_screens(browser, task, quick_path, scheme):
    with running(task, quick_path / "store") as client:
        for _ in range(2):
            close_round(client)
        with watched(browser, client.address) as opened:
            for width in (380, 1280):
                tab = opened(width=width, color_scheme=scheme)
                tab.wait_for_selector(LIVE)
                assert width_is_kept(tab)
                assert tab.evaluate(CONTRAST) == []
                sizes = tab.eval_on_selector_all(
                    ".chart text",
                    "all => all.map(t => t.getBoundingClientRect().height)",
                )
                assert min(sizes) > 9


def test_tables_need_no_script(browser, task, quick_path):
    with running(task, quick_path / "store") as client:
        close_round(client)
        with watched(browser, client.address) as opened:
            tab = opened(width=380, java_script_enabled=False)
            assert tab.locator("#rounds tbody tr").count() == 1
            assert "Reload the page for news" in tab.locator("#connection").text_content()
            close_round(client)
            tab.reload()
            assert tab.locator("#rounds tbody tr").count() == 2
            assert tab.locator("#figures rect").count() == 2


def test_a_hidden_page_holds_no_connection(browser, task, quick_path):
    """There is room for one who listens: it is free while nobody looks."""
    limits = replace(task.limits, listeners=1)
    show = """hidden => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with (
        running(replace(task, limits=limits), quick_path / "store") as client,
        watched(browser, client.address) as opened,
    ):
        tab = opened()
        tab.wait_for_selector(LIVE)
        assert client.ask("HEAD", "/v1/events")[0] == 503
        tab.evaluate(show, True)
        wait_until(lambda: client.ask("HEAD", "/v1/events")[0] == 200)
        close_round(client)
        assert tab.locator("#rounds tbody th").count() == 0
        tab.evaluate(show, False)
        tab.locator("#rounds tbody th").wait_for()


def test_a_lost_connection_is_said_and_mended(browser, task, quick_path):
    context = browser.new_context()
    tab = context.new_page()
    store = str(quick_path / "store")
    with background(task, Serving(store, port=0)) as address:
        tab.goto(address)
        tab.wait_for_selector(LIVE)
    tab.wait_for_selector('#connection[data-state="lost"]')
    assert re.match("Connection lost at .* trying again", tab.locator("#connection").text_content())
    with background(task, Serving(store, port=int(address.rpartition(":")[2]))):
        tab.wait_for_selector(LIVE)
        client = Http(address)
        assert client.get("/v1/rounds/open")["round"] == 0
        client.close()
    context.close()
