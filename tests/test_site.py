"""The site builds without a warning, has every public name, and asks no network for anything."""

import html
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from tools.site.flow import drawn

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

ROOT = Path(__file__).parent.parent
REFERENCE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## `(fedsel[.a-z]*)`\n(.*?)(?=^## |\Z)", REFERENCE, re.M | re.S))
FOREIGN = re.compile(r"(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return folder


def test_the_pictures_of_the_flow_are_as_drawn():
    images = ROOT / "docs" / "images"
    assert (images / "flow.svg").read_text(encoding="utf-8") == drawn(4)
    assert (images / "flow-narrow.svg").read_text(encoding="utf-8") == drawn(2)


class Resources(HTMLParser):
    """What a browser loads for a page, as against what it links to."""

    def __init__(self):
        super().__init__()
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.components: set[str] = set()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.add(values.get("id"))
        self.components.add(values.get("data-md-component"))
        self.components |= set((values.get("class") or "").split())
        if tag == "link" and values.get("rel") not in {"canonical", "prev", "next"}:
            self.loaded.append(values["href"])
        elif tag in {"script", "img", "iframe", "source", "video", "audio", "embed"}:
            self.loaded += [values[name] for name in ("src", "srcset") if values.get(name)]


def parsed(path):
    page = Resources()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def test_a_page_loads_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for path in pages:
        page = parsed(path)
        assert not [url for url in page.loaded if FOREIGN.match(url)], path
        # The theme's script asks GitHub for stars, and a registry for mermaid, where it sees these.
        assert not {"source", "mermaid"} & page.components, path
        for url in page.loaded if path.name != "404.html" else ():
            assert (path.parent / url.partition("?")[0]).exists(), (path, url)
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text()), style


@pytest.mark.parametrize("module", SECTIONS)
def test_every_public_name_has_its_docstring_on_a_page(site, module):
    names = re.findall(r"^- `(\w+)`: \S", SECTIONS[module], re.M)
    lists = re.findall(r"^(?:Names|Also here): .*$", SECTIONS[module], re.M)
    names += re.findall(r"`(\w+)`", "".join(lists))
    overview = (site / "api.html").read_text(encoding="utf-8")
    section = overview.split(f"<code>{module}</code>", 1)[1].split("<h2", 1)[0]
    links = dict(re.findall(r'<a href="([^"]+)"><code>(\w+)</code>', section))
    assert sorted(links.values()) == sorted(names)
    for link in links:
        page, _, anchor = link.partition("#")
        assert anchor in parsed(site / page).ids, link


DOCUMENTED = {
    "fedsel.sklearn": ("FedSelClassifier", "FedSelRegressor"),
    "fedsel.torch": ("FederatedTrainer",),
    "fedsel.flower": ("FedSelStrategy",),
}


def rows_of(page):
    """The rows of tables of parameters and attributes: name, type, description …, in plain text."""
    for row in re.findall(r'<tr class="doc-section-item">(.*?)</tr>', page, re.S):
        cells = re.findall(r"<td>(.*?)</td>", row, re.S)
        yield [html.unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in cells]


def test_types_and_descriptions_stand_in_their_columns(site):
    """A type is an expression of Python, as in the signature, and nothing else."""
    for path in sorted((site / "api").glob("*.html")):
        for name, kind, told, *_ in rows_of(path.read_text(encoding="utf-8")):
            assert name.lstrip("*").isidentifier(), (path, name)
            assert told, (path, name)
            compile(kind or "None", f"{path.name}: {name}", "eval")


@pytest.mark.parametrize("module", DOCUMENTED)
def test_every_parameter_is_described(site, module):
    if module == "fedsel.torch":
        pytest.importorskip("torch", reason="needs the extra fedsel[torch]")
    page = (site / "api" / f"{module}.html").read_text(encoding="utf-8")
    for name in DOCUMENTED[module]:
        described = page.split(f'id="{module}.{name}"', 1)[1].split("Attributes:", 1)[0]
        rows = [row[0].lstrip("*") for row in rows_of(described.split("doc-children", 1)[0])]
        assert sorted(rows) == sorted(signature(getattr(import_module(module), name)).parameters)


def test_from_a_file_the_search_finds_and_nothing_is_fetched(site, browser):
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.get_by_role("textbox", name="Search").first.press_sequentially("ledger witness")
    found = page.locator(".md-search-result__link").first
    found.wait_for()
    assert "device.html" in found.get_attribute("href")
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    page.close()


WIDE = ("index", "how-it-works", "choosing", "sklearn", "shuffling", "api/fedsel.mechanisms")
"""Pages with wide tables, long lines and pictures."""


def test_no_page_is_wider_than_a_phone(site, browser):
    """Tables, code and figures scroll by themselves; the page does not."""
    page = browser.new_page(viewport={"width": 380, "height": 800})
    for name in WIDE:
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, name
    page.close()
