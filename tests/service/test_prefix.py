"""The service below a path of somebody's site: a proxy takes the path away, and all works."""

import json
import re
import urllib.request
from contextlib import contextmanager
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest

from tests.cli.support import run_here
from tests.service.prefixing import PrefixProxy
from tests.service.support import PATIENCE, reports_for, running
from tests.service.test_dashboard import Reader
from tests.service.visiting import TABLE, Visitor, join_task, shown_reports, take_part

pytestmark = pytest.mark.xdist_group("pages")


@pytest.fixture
def service(quick_path):
    with running(join_task(close_after={"reports": 1}), quick_path / "store") as client:
        yield client


@pytest.fixture
def long_service(quick_path):
    """Has so many rounds behind it that its page leads to older ones."""
    task = join_task(close_after={"reports": 1}, rounds_per_epoch=60, clients=120)
    with running(task, quick_path / "store") as client:
        for number in range(51):
            assert client.send(reports_for(client.request(), 1)[0]) == (200, "accepted")
            client.wait_for(number + 1)
        yield client


@contextmanager
def below_a_path(service):
    """A proxy; nothing may be asked for outside of its path."""
    with PrefixProxy(service.address) as proxy:
        yield proxy.url
    assert proxy.strays == []


def fetched(address):
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
        return answer.read().decode(errors="replace")  # of a model: octets


def named_by(address, text):
    """The addresses that a page or a module names, as a browser reads them."""
    if urlsplit(address).path.endswith(".js"):
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        found = re.findall(r'(?:from|import\() ?"([^"]+)"', code)
    else:
        tags = [attributes for _, attributes in Reader(text).tags]
        found = [tag.get("href", tag.get("src")) for tag in tags if "href" in tag or "src" in tag]
    return {urldefrag(urljoin(address, one)).url for one in found if not one.startswith("data:")}


def test_every_address_of_the_pages_lies_below_the_path(long_service):
    with below_a_path(long_service) as url:
        waiting, texts = [f"{url}/", f"{url}/join"], {}
        while waiting:
            address = waiting.pop()
            texts[address] = fetched(address)
            if address.endswith((".js", "/", "/join")) or "?" in address:
                own = {one for one in named_by(address, texts[address]) if "github.com" not in one}
                waiting += own - texts.keys() - set(waiting)
    assert all(address.startswith(f"{url}/") for address in texts)
    paths = {address.removeprefix(url) for address in texts}
    assert {"/dashboard.js", "/dashboard.css", "/join", "/?before=1", "/v1/model"} <= paths
    assert {"/join/service.js", "/join/base.css", "/join/client/index.js"} <= paths


def test_a_device_joins_by_the_address_with_the_path(service, quick_path):
    (quick_path / "my.csv").write_text(TABLE)
    (quick_path / "invitation").write_text(service.invitations.invite("device"))
    with below_a_path(service) as url:
        told = run_here(
            *("join", f"{url}/", "--data", quick_path / "my.csv", "--label", "churned"),
            *("--store", quick_path / "ledger", "--create", "--lifetime", 1, "--per-report", 1),
            *("--token-file", quick_path / "invitation", "--every", 0.05, "--json"),
        )
    assert json.loads(told.stdout)["accepted"] == 1
    assert service.get("/v1/rounds")["rounds"][0]["accepted"] == 1


@pytest.mark.slow
def test_a_browser_takes_part(browser, service):
    with below_a_path(service) as url:
        visitor = Visitor(browser, url)
        tab = visitor.open(service.invitations.invite("device"))
        take_part(tab)
        tab.get_by_text("The run is over. Thank you: you spent ε = 2 in all.").wait_for()
        assert [outcome for outcome, _ in shown_reports(tab)] == ["accepted"] * 2
        assert {body for body, _ in visitor.uploads()} == {body for _, body in shown_reports(tab)}
        assert all(r.url.startswith(f"{url}/") for r in visitor.requests)
        assert tab.url == f"{url}/join"
        visitor.close()


@pytest.mark.slow
def test_the_dashboard_is_live_and_leads_to_its_other_pages(browser, long_service):
    with below_a_path(long_service) as url:
        visitor = Visitor(browser, url)
        tab = visitor.context.new_page()
        tab.goto(f"{url}/")
        tab.wait_for_selector('#connection[data-state="live"]')
        long_service.send(reports_for(long_service.request(), 1)[0])
        tab.get_by_text("Round 51 has ended").wait_for(state="attached")
        tab.click("#older")
        tab.wait_for_url(f"{url}/?before=2#rounds")
        tab.wait_for_selector('#connection[data-state="live"]')
        tab.click("#newer")
        tab.wait_for_url(f"{url}/#rounds")
        tab.get_by_role("link", name="Take part").click()
        tab.wait_for_url(f"{url}/join")
        tab.locator("#go-said:not(:empty)").wait_for()
        visitor.close()
