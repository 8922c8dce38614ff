"""The page of a report on ledgers in Chromium: wide, narrow, and on paper."""

import re

import pytest

from fedsel.statements import inspect_ledgers
from tests.browsing import CONTRAST, watched, width_is_kept
from tests.statements.support import KEYBOARD, device, fleet, study

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]
LONG = ("study", type(KEYBOARD)("x" * 200, "-".join("y" * 50)), study()[2], 1)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    stores = fleet(folder)
    device(folder / ("long-name-" * 12), [LONG])
    report = inspect_ledgers([*stores, folder / ("long-name-" * 12)], made=1_800_000_000)
    file = tmp_path_factory.mktemp("page") / "report.html"
    file.write_text(report.to_html(), encoding="utf-8")
    return file


@pytest.fixture
def opened(browser, page):
    """Open the page; whatever it complains about or asks for fails."""
    with watched(browser, page) as open_page:
        yield open_page


@pytest.mark.parametrize("width", [1280, 380])
def test_it_is_readable_and_texts_of_a_server_do_nothing(opened, tmp_path, width):
    tab = opened(width)
    assert tab.title() == "What these devices have reported"
    assert width_is_kept(tab)
    assert tab.evaluate(CONTRAST) == []
    assert tab.locator(".absent").first.is_visible()
    assert tab.locator("img").count() == 0
    assert tab.get_by_text("<script>document.title='owned'</script>").first.is_visible()
    assert tab.locator("#devices tbody tr").count() == 10
    headings = tab.eval_on_selector_all("h2", "all => all.map(h => h.textContent.trim())")
    assert [h for h in headings if "What" in h][:2] == [
        "What was asked, for what and for whom #",
        "What ε means for a person #",
    ]
    tab.locator("#devices thead button").nth(2).click()  # sorted by ε spent
    first = tab.eval_on_selector("#devices tbody tr", "row => row.cells[2].textContent")
    assert first == "0"
    shot = tmp_path / f"{width}.png"
    tab.screenshot(path=shot, full_page=True)
    assert shot.stat().st_size > 50_000


def test_on_paper_nothing_is_cut_off(opened, tmp_path):
    tab = opened(673, color_scheme="dark")
    paper = tmp_path / "report.pdf"
    tab.pdf(path=paper, format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) >= 3
    tab.emulate_media(media="print")
    assert width_is_kept(tab)
    assert tab.evaluate(CONTRAST) == []
    assert not tab.locator(".contents").first.is_visible()
    widths = tab.eval_on_selector_all("table", "all => all.map(t => t.scrollWidth)")
    assert max(widths) <= 673
    for words in ("This ledger was not read", "at most 98.2 %, from an even prior"):
        assert tab.get_by_text(words).first.is_visible()
