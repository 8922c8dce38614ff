"""Pages in a real browser: Chromium, headless, from files; `browser` of conftest starts it."""

import os
import shutil
from contextlib import contextmanager

import pytest

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")

# Contrast of every visible text with the ground behind it, by WCAG 2: [ratio, text] below AA.
CONTRAST = """() => {
  const parsed = (c) => c.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => {
    const v = [r, g, b][i] / 255;
    return sum + w * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const c = parsed(getComputedStyle(node).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) {
    const node = text.parentElement;
    const unseen = node.closest("svg, script, .anchor") || !node.checkVisibility();
    if (unseen || !text.data.trim()) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(parsed(style.color)), light(ground(node))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24;
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5)) poor.push([ratio, text.data]);
  }
  return poor;
}"""


def chromium():
    """Where the browser is, or None."""
    found = [os.environ.get("FEDSEL_CHROMIUM"), *(shutil.which(name) for name in NAMES)]
    return next((path for path in found if path), None)


@contextmanager
def started():
    """The browser; without one the test is skipped, and says so."""
    path = chromium()
    if path is None:
        pytest.skip(f"no browser: install one of {', '.join(NAMES)} or set FEDSEL_CHROMIUM")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def watched(browser, file):
    """Opens a page, each time in a window of its own; what it complains about or asks for fails.

    A page is a file, which asks for nothing, or an address, which asks nobody but its own host.
    """
    contexts, complaints = [], []
    address = file if isinstance(file, str) else file.as_uri()

    def open_page(width=1400, height=900, **settings):
        context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda m: complaints.append(f"console {m.type}: {m.text}"))
        tab.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        tab.on("request", lambda r: complaints.append(r.url) if asks(r.url) else None)
        tab.goto(address)
        return tab

    def asks(url):
        own = (
            url.startswith(f"{address}/") if isinstance(file, str) else url.split("#")[0] == address
        )
        return not own and not url.startswith("data:")

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def width_is_kept(tab):
    return tab.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
