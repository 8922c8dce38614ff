"""The report page in a real browser: Chromium, headless, from a file."""

import re

import pytest

from tests.browsing import CONTRAST, watched, width_is_kept
from tests.pages.sample import TITLE, page, sections, table3

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "index.html"
    path.write_text(page(), encoding="utf-8")
    for name in ("table3.csv", "table3.png", "table3.svg"):
        (path.parent / name).write_text("a,b\n")
    return path


@pytest.fixture
def opened(browser, index):
    """Open the page in a window of its own; whatever it complains about or asks for fails."""
    with watched(browser, index) as open_page:

        def titled(*arguments, **settings):
            tab = open_page(*arguments, **settings)
            assert tab.title() == TITLE
            return tab

        yield titled


def column(tab, table, place):
    return tab.eval_on_selector_all(
        f"{table} tbody tr", f"rows => rows.map(row => row.cells[{place}].textContent)"
    )


def shown_claims(tab):
    return tab.eval_on_selector_all(
        ".claims tbody tr", "rows => rows.filter(r => r.checkVisibility()).map(r => r.dataset.kind)"
    )


def test_a_heading_sorts_up_down_and_back(opened):
    tab = opened()
    given = [row[2] for row in table3().tables[0].rows]
    as_shown = column(tab, "#table3", 2)
    numbers = sorted(g for g in given if g is not None)
    heading = tab.locator("#table3 thead th").nth(2)
    button = heading.get_by_role("button", name="EXP-PM", exact=True)

    def now():
        return heading.get_attribute("aria-sort"), column(tab, "#table3", 2)

    def written(values):
        return [f"{v:.2f}".replace("-", "−") for v in values] + ["–", "–"]

    button.click()
    assert now() == ("ascending", written(numbers))
    button.click()
    assert now() == ("descending", written(reversed(numbers)))
    button.click()
    assert now() == (None, as_shown)


def test_ties_stay_in_order_and_one_heading_is_marked(opened):
    tab = opened()
    model = tab.locator("#table3 thead th").nth(1).get_by_role("button")
    for direction, models in (("ascending", "logistic SVM"), ("descending", "SVM logistic")):
        model.click()
        order = list(zip(column(tab, "#table3", 1), column(tab, "#table3", 0), strict=True))
        data = ("syn-L", "BANK", "KDD", "ADULT")
        assert order == [(m, d) for m in models.split() for d in data]
        marked = tab.eval_on_selector_all("#table3 [aria-sort]", "all => all.map(h => h.ariaSort)")
        assert marked == [direction]
    tab.locator("#table3 thead th").nth(0).get_by_role("button").click()
    assert tab.locator("#table3 [aria-sort]").count() == 1


def test_sorting_by_keyboard_and_by_the_number_before_the_sign(opened):
    tab = opened()
    tab.locator("#table3 thead button").last.focus()
    tab.keyboard.press("Enter")
    means = [float(text.split()[0]) for text in column(tab, "#table3", 8)]
    assert means == sorted(means)
    tab.keyboard.press("Space")
    assert [float(t.split()[0]) for t in column(tab, "#table3", 8)] == means[::-1]
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Enter")
    numbers = [float(t.replace("−", "-")) for t in column(tab, "#table3", 7)]
    assert numbers == sorted(numbers)
    tab.locator("#table1 thead button").first.click()
    assert column(tab, "#table1", 0) == ["10", "100", "10,000"]


def test_the_overview_is_filtered_and_sorted(opened):
    tab = opened()
    kinds = [v.kind.key for s in sections() for v in s.verdicts]
    assert shown_claims(tab) == kinds
    tab.get_by_role("button", name="Does not hold 2").click()
    assert shown_claims(tab) == ["fails", "fails"]
    pressed = tab.locator("[aria-pressed=true]")
    assert pressed.inner_text() == "Does not hold 2"
    assert "2 of 7 claims" in tab.get_by_role("status").inner_text()
    tab.get_by_role("button", name="All 7").focus()
    tab.keyboard.press("Enter")
    assert shown_claims(tab) == kinds
    tab.locator(".claims thead button").first.click()
    order = ["holds", "partly", "fails", "unmeasured"]
    assert shown_claims(tab) == sorted(kinds, key=order.index)


def test_links_lead_to_sections_and_files(opened, index):
    tab = opened(reduced_motion="reduce")
    for link in (".claims a[href='#table3']", ".contents a[href='#fig2f']"):
        tab.locator(link).first.click()
        target = tab.locator(link).first.get_attribute("href")
        assert tab.url == index.as_uri() + target
        tab.wait_for_function(
            "id => document.querySelector(id).getBoundingClientRect().top < innerHeight / 2",
            arg=target,
        )
    tab.wait_for_function(
        "() => document.querySelector('.contents [aria-current]')?.hash === '#fig2f'"
    )
    for name in table3().files:
        href = tab.get_by_role("link", name=name, exact=True).evaluate("a => a.href")
        assert href == (index.parent / name).as_uri()


def test_drawings_are_seen_and_named(opened):
    tab = opened()
    drawings = tab.locator("figure img")
    assert drawings.count() == 3
    for place in range(3):
        box = drawings.nth(place).bounding_box()
        assert box["width"] > 300
        assert box["height"] > 200
        assert drawings.nth(place).evaluate("image => image.complete && image.naturalWidth > 300")
    assert tab.get_by_role("img", name="Accuracy grows with ε.", exact=True).count() == 1


@pytest.mark.parametrize("size", [(320, 600), (360, 760), (768, 1000), (1100, 800), (1400, 900)])
def test_the_page_never_scrolls_sideways(opened, size):
    tab = opened(*size)
    assert width_is_kept(tab)
    tab.locator(".settings summary").last.click()
    if size[0] < 1088:
        assert not tab.locator(".contents ol").is_visible()
        tab.locator(".contents summary").click()
    assert tab.locator(".contents ol").is_visible()
    assert width_is_kept(tab)


def test_on_a_narrow_screen_wide_tables_scroll_in_their_box(opened):
    tab = opened(360, 760, has_touch=True)
    box = tab.locator("#table3 .scroll")
    assert box.evaluate("b => b.scrollWidth > b.clientWidth")
    assert box.get_attribute("tabindex") == "0"
    assert tab.get_by_role("region", name="Gain over PM in percentage points").count() == 1
    tab.locator(".contents summary").click()
    tab.locator(".contents a[href='#table3']").click()
    assert not tab.locator(".contents ol").is_visible()
    assert tab.get_by_role("columnheader", name="Verdict").count() == 1


def test_commands_are_copied(opened):
    tab = opened(permissions=["clipboard-read", "clipboard-write"])
    button = tab.locator("#table3 .repeat .copy")
    button.click()
    tab.wait_for_function(
        "() => document.querySelector('#table3 .repeat .copy').textContent === 'Copied'"
    )
    assert tab.evaluate("navigator.clipboard.readText()") == table3().command
    assert tab.get_by_role("status").inner_text() == "Command copied"


def test_commands_are_selected_where_they_cannot_be_copied(opened):
    tab = opened()
    tab.evaluate("""() => {
      Object.defineProperty(navigator, "clipboard", { value: undefined });
      document.execCommand = () => false;
    }""")
    tab.locator("#table3 .repeat .copy").click()
    tab.wait_for_function(
        "() => document.querySelector('#table3 .repeat .copy').textContent === 'Selected'"
    )
    assert tab.evaluate("getSelection().toString()") == table3().command


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_text_stands_out_from_its_ground(opened, tmp_path, scheme, width):
    tab = opened(width, color_scheme=scheme)
    assert tab.evaluate(CONTRAST) == []
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(23, 24, 26)") == (scheme == "dark")
    plate = tab.eval_on_selector(".plate", "p => getComputedStyle(p).backgroundColor")
    assert plate == "rgb(255, 255, 255)"
    shot = tmp_path / f"{scheme}-{width}.png"
    tab.screenshot(path=shot, full_page=True)
    assert shot.stat().st_size > 50_000


def test_on_paper_everything_is_open(opened, tmp_path):
    tab = opened(673, color_scheme="dark")
    tab.get_by_role("button", name="Not measured 1").click()
    paper = tmp_path / "report.pdf"
    tab.pdf(path=paper, format="A4")
    assert paper.read_bytes().startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) >= 3
    tab.emulate_media(media="print")
    assert len(shown_claims(tab)) == 7
    for gone in (".contents", ".copy", ".skip"):
        assert not tab.locator(gone).first.is_visible()
    assert tab.locator(".settings-list").last.is_visible()
    assert tab.evaluate("[...document.querySelectorAll('main details')].every(d => !d.open)")
    assert tab.evaluate(CONTRAST) == []
    assert width_is_kept(tab)
    sizes = tab.eval_on_selector_all("figure img", "all => all.map(s => s.clientWidth)")
    assert all(0 < size <= 673 for size in sizes)


def test_without_scripts_it_is_all_there(opened):
    tab = opened(360, java_script_enabled=False)
    assert tab.locator("button").count() == 0
    assert tab.locator(".contents ol").is_visible()
    assert tab.locator(".tally li").count() == 4
    assert tab.locator("#table3 tbody tr").count() == 8
    tab.locator(".settings summary").last.click()
    assert tab.locator(".settings-list").last.is_visible()


def test_the_policy_is_enforced(browser, tmp_path):
    """What the other tests rely on: a violation is stopped, and it is seen."""
    intruder = (
        '<p id="intruder" style="color: red">x</p><script>window.intruded = true</script>'
        '<img src="http://127.0.0.1:9/x.png">'
    )
    path = tmp_path / "index.html"
    path.write_text(page().replace("</header>", f"{intruder}</header>"), encoding="utf-8")
    context = browser.new_context()
    tab, said = context.new_page(), []
    tab.on("console", lambda message: said.append(message.type))
    tab.goto(path.as_uri())
    assert tab.evaluate("window.intruded") is None
    assert tab.eval_on_selector("#intruder", "p => getComputedStyle(p).color") != "rgb(255, 0, 0)"
    context.close()
    assert said.count("error") == 3


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    """The page that `python -m reproduction` writes, not the sample."""
    from fedsel.experiments import CatalogueSource, Store
    from reproduction.run import Request, Watcher, reproduce, write_outcome, write_page

    folder = tmp_path_factory.mktemp("reproduction")
    request = Request(
        ("theorem2", "fig2i"),
        quick=True,
        changes=[("draws", 1000), ("repeats", 1), ("folds", 2), ("epsilons", [2.0])],
    )
    store = Store(folder / "results.sqlite")
    outcomes = reproduce(request, request.experiments, CatalogueSource(), store, {}, Watcher())
    for outcome in outcomes:
        write_outcome(outcome, folder)
    return write_page(outcomes, Request(("claims",), quick=True), folder)


@pytest.mark.parametrize("width", [360, 1400])
def test_a_real_reproduction_opens_without_a_complaint(browser, reproduction, width):
    with watched(browser, reproduction) as open_page:
        tab = open_page(width)
        assert width_is_kept(tab)
        assert tab.locator("#fig2i img").first.bounding_box()["width"] > 200
        assert tab.locator(".claims tbody tr").count() >= 5
        links = tab.eval_on_selector_all(
            "a[href$='.csv']", "all => all.map(a => a.getAttribute('href'))"
        )
        assert links
        assert all((reproduction.parent / link).exists() for link in links)


@pytest.fixture(scope="module")
def finding(tmp_path_factory):
    """The page that `fedsel audit module:function --html` writes."""
    from fedsel.auditing import audit_program, values_within
    from fedsel.auditing.finding_page import finding_page

    found = audit_program(
        lambda x, entropy: x + entropy.laplace(),
        inputs=values_within(0, 1),
        claimed=1.0,
        trials=2000,
        pilot=2000,
        seed=1,
    )
    path = tmp_path_factory.mktemp("finding") / "finding.html"
    command = "fedsel audit noise.py:laplace --epsilon 1 --range 0 1"
    path.write_text(finding_page(found, target="noise.py:laplace", command=command), "utf-8")
    return path


@pytest.mark.parametrize("width", [320, 380, 1400])
def test_a_finding_is_read_on_a_phone_and_on_paper(browser, finding, width):
    with watched(browser, finding) as open_page:
        tab = open_page(width, 800)
        assert width_is_kept(tab)
        assert "is refuted" in tab.locator("header").inner_text()
        assert tab.locator(".badge.fails").is_visible()
        assert tab.locator("figure img").count() == 2
        assert tab.evaluate(CONTRAST) == []
        tab.emulate_media(media="print")
        assert width_is_kept(tab)
        assert tab.locator(".settings-list").is_visible()
