"""The JavaScript client in a real page: vectors, its ledger in IndexedDB, tabs, what is lost."""

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.browsing import ARGUMENTS, chromium

ROOT = Path(__file__).parents[2]
POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'"

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

SETUP = """async () => {
  const { Client, BrowserStore } = await import("/clients/js/src/index.js");
  const { POLICY, UPDATE, WEIGHTS, requestOf } = await import("/clients/js/test/support.js");
  const { toHex } = await import("/clients/js/src/hash.js");
  window.device = {
    open: (create = false) => Client.open(POLICY, new BrowserStore("test"), { create }),
    answer: async (client, place = {}, update = UPDATE) =>
      toHex(await client.answer(requestOf(place), WEIGHTS, update)),
    history: async (client) => {
      const { entries, spent } = await client.history();
      return { reports: entries.map(({ report }) => toHex(report)), spent: String(spent) };
    },
    fault: (attempt) => attempt.then(() => "none", (error) => error.fault ?? String(error)),
  };
}"""


class Handler(SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {".js": "text/javascript", ".json": "application/json"}

    def do_GET(self):
        if self.path == "/":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>device</title>")
        else:
            super().do_GET()

    def end_headers(self):
        self.send_header("Content-Security-Policy", POLICY)
        if self.path == "/":
            self.send_header("Content-Type", "text/html")
        super().end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def site():
    """The repository on a port of its own, with a policy that forbids eval and strangers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(ROOT)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def tabs(browser, site):
    """Opens tabs of one browser window; what a page complains about, or asks of others, fails."""
    context, complaints = browser.new_context(), []

    def tab(script=None):
        page = context.new_page()
        if script is not None:
            page.add_init_script(path=script)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda r: None if r.url.startswith(site) else complaints.append(r.url))
        page.goto(site)
        page.evaluate(SETUP)
        return page

    yield tab
    context.close()
    assert complaints == []


def test_every_vector_holds_in_a_page(tabs):
    page = tabs(ROOT / "clients" / "js" / "test" / "surroundings.js")
    checked = page.evaluate(
        """async () => {
          const { KINDS, failures } = await import("/clients/js/test/vectors.js");
          const wrong = [];
          let count = 0;
          for (const kind of KINDS) {
            const { cases } = await (await fetch(`/vectors/${kind}.json`)).json();
            count += cases.length;
            wrong.push(...(await failures(kind, cases)));
          }
          return { wrong, count };
        }"""
    )
    written = [json.loads(file.read_text())["cases"] for file in (ROOT / "vectors").glob("*.json")]
    assert checked["wrong"] == []
    assert 1000 < checked["count"] <= sum(map(len, written))


def test_the_bytes_of_a_page_follow_the_exact_law(tabs):
    statistic = tabs().evaluate(
        """async () => {
          const { Client } = await import("/clients/js/src/index.js");
          const { MemoryStore } = await import("/clients/js/test/memory.js");
          const { chiSquare, reportsOfJ } = await import("/clients/js/test/statistics.js");
          const { counts, law } = await reportsOfJ(Client, () => new MemoryStore(), 3000);
          return chiSquare(counts, law);
        }"""
    )
    assert statistic < 50.7  # by accident once in 10^9: χ² of five degrees of freedom


def test_a_ledger_outlives_its_page(tabs):
    page = tabs()
    assert page.evaluate("device.fault(device.open())") == "MISSING"
    assert page.evaluate("indexedDB.databases().then((all) => all.length)") == 0
    report = page.evaluate("device.open(true).then(device.answer)")
    page.close()
    later = tabs()
    assert later.evaluate("device.open().then(device.answer)") == report
    # To create is not to begin anew.
    history = later.evaluate("device.open(true).then(device.history)")
    assert history == {"reports": [report], "spent": "2"}


def test_two_tabs_at_once_are_one_charge(tabs):
    pages = [tabs() for _ in range(3)]
    pages[0].evaluate("device.open(true)")
    begin = "() => { window.answer = device.open().then(device.answer); }"
    for page in pages:
        page.evaluate(begin)
    reports = [page.evaluate("answer") for page in pages]
    assert len(set(reports)) == 1
    history = pages[0].evaluate("device.open().then(device.history)")
    assert history == {"reports": reports[:1], "spent": "2"}


def test_tabs_keep_to_one_window_on_a_ledger_of_an_earlier_version(tabs):
    pages = [tabs() for _ in range(3)]
    held = json.loads((ROOT / "tests" / "golden" / "ledger-js-v2.json").read_text())
    pages[0].evaluate(
        """async (held) => {
          const { BrowserStore, Client } = await import("/clients/js/src/index.js");
          const store = new BrowserStore("test");
          await store.create(held);
          const client = await Client.open(held.policy, store);
          await client.confirmClock("Zoë Bell"); // the ledger is years old
        }""",
        held,
    )
    begin = """(run) => {
      window.answer = (async () => {
        const { Client, BrowserStore } = await import("/clients/js/src/index.js");
        const { POLICY, requestOf } = await import("/clients/js/test/support.js");
        const policy = { ...POLICY, per_window: [2, "1 day"] };
        const client = await Client.open(policy, new BrowserStore("test"));
        const answer = device.answer(client, { run });
        const outcome = await answer.then(() => "answered", (error) => error.reason);
        return [outcome, (await client.history()).changes.length];
      })();
    }"""
    for run, page in enumerate(pages, 10):
        page.evaluate(begin, run)
    found = sorted(page.evaluate("answer") for page in pages)
    assert found == [["EXHAUSTED", 3], ["EXHAUSTED", 3], ["answered", 3]]


def test_a_tab_does_not_wait_for_ever(tabs):
    holder, page = tabs(), tabs()
    page.evaluate("device.open(true)")
    holder.evaluate(
        """() => new Promise((held) => {
          navigator.locks.request("fedsel ledger test", () => {
            held(true);
            return new Promise(() => {});
          });
        })"""
    )
    opening = """async () => {
      const { Client, BrowserStore } = await import("/clients/js/src/index.js");
      const { POLICY } = await import("/clients/js/test/support.js");
      return device.fault(Client.open(POLICY, new BrowserStore("test", { timeout: 0.2 })));
    }"""
    assert page.evaluate(opening) == "BUSY"
    holder.close()
    assert page.evaluate("device.fault(device.open())") == "none"


def test_a_tab_that_is_killed_between_charge_and_send(tabs):
    page = tabs()
    page.evaluate("device.open(true)")
    # It never gets further than the ledger: what writes the witness waits for ever.
    page.evaluate(
        """() => {
          const open = indexedDB.open.bind(indexedDB);
          let charged = 0;
          window.charged = new Promise((resolve) => {
            IDBFactory.prototype.open = (name, version) => {
              if (!name.includes("witness") || !charged) return open(name, version);
              resolve(true);
              return {};
            };
            const put = IDBObjectStore.prototype.put;
            IDBObjectStore.prototype.put = function (...values) {
              charged += 1;
              return put.apply(this, values);
            };
          });
          window.never = device.open().then(device.answer);
        }"""
    )
    assert page.evaluate("charged")
    page.close()
    later = tabs()
    report = later.evaluate("device.open().then(device.answer)")
    history = later.evaluate("device.open().then(device.history)")
    assert history == {"reports": [report], "spent": "2"}
    place = "{ epoch: 1, round: 1 }"
    later.evaluate(f"device.open().then((client) => device.answer(client, {place}))")
    assert later.evaluate("device.open().then(device.history)")["spent"] == "4"


def test_a_browser_that_crashes_after_the_charge_has_it_on_the_disk(browser, site, tmp_path):
    """No tab is closed and nothing is flushed at leisure: the whole browser ends at once."""
    from playwright.sync_api import Error

    def window():
        context = browser.browser_type.launch_persistent_context(
            tmp_path / "profile", executable_path=chromium(), args=ARGUMENTS
        )
        page = context.new_page()
        page.goto(site)
        page.evaluate(SETUP)
        return context, page

    context, page = window()
    report = page.evaluate("device.open(true).then(device.answer)")
    with pytest.raises(Error):
        context.new_cdp_session(page).send("Browser.crash")
    context, page = window()
    assert page.evaluate("device.open().then(device.answer)") == report
    history = page.evaluate("device.open().then(device.history)")
    assert history == {"reports": [report], "spent": "2"}
    context.close()


def test_every_write_is_on_the_disk_and_alone_before_a_report_leaves(tabs):
    """Whatever others have put into `Object.prototype`."""
    page = tabs()
    seen = page.evaluate(
        """async () => {
          const seen = { writes: [], completed: 0, locks: [] };
          const begin = IDBDatabase.prototype.transaction;
          IDBDatabase.prototype.transaction = function (...given) {
            const made = begin.apply(this, given);
            if (made.mode === "readwrite") {
              seen.writes.push([this.name, made.durability]);
              made.addEventListener("complete", () => (seen.completed += 1));
            }
            return made;
          };
          const request = LockManager.prototype.request;
          LockManager.prototype.request = function (name, options, work) {
            return request.call(this, name, options, (lock) => {
              seen.locks.push(lock.mode);
              return work(lock);
            });
          };
          Object.assign(Object.prototype, { durability: "relaxed", mode: "shared", steal: true });
          await device.open(true).then(device.answer);
          return seen;
        }"""
    )
    names = [["fedsel witness test", "strict"], ["fedsel ledger test", "strict"]]
    assert seen["writes"] == [*names, *reversed(names)]  # to begin, and to charge
    assert seen["completed"] == 4
    assert set(seen["locks"]) == {"exclusive"}


def test_cleared_storage_is_refused_unless_the_owner_begins_anew(tabs):
    page = tabs()
    page.evaluate("device.open(true).then(device.answer)")
    session = page.context.new_cdp_session(page)
    origin = page.evaluate("location.origin")
    session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
    assert page.evaluate("device.fault(device.open())") == "MISSING"
    assert page.evaluate("device.open(true).then(device.history)") == {"reports": [], "spent": "0"}


def test_a_ledger_that_was_put_back_is_refused(tabs):
    page = tabs()
    found = page.evaluate(
        """async () => {
          const texts = (name, text) => new Promise((resolve) => {
            const request = indexedDB.open(name, 1);
            request.onsuccess = () => {
              const mode = text === undefined ? "readonly" : "readwrite";
              const table = request.result.transaction("texts", mode).objectStore("texts");
              const asked = text === undefined ? table.get("text") : table.put(text, "text");
              asked.transaction.oncomplete = () => {
                request.result.close();
                resolve(asked.result);
              };
            };
          });
          const client = await device.open(true);
          await device.answer(client);
          const old = await texts("fedsel ledger test");
          await device.answer(client, { epoch: 1, round: 1 });
          const now = await texts("fedsel ledger test");
          const faults = [];
          for (const text of [old, "hello", { a: 1 }, now.replace('"reports":2', '"reports":1')]) {
            await texts("fedsel ledger test", text);
            faults.push(await device.fault(device.open()));
            faults.push(await device.fault(device.answer(client, { run: 2 })));
          }
          await texts("fedsel ledger test", now);
          faults.push(await device.fault(device.open()));
          return faults;
        }"""
    )
    refused = ["DISAGREES"] * 2 + ["FOREIGN"] * 4 + ["DAMAGED"] * 2
    assert found == [*refused, "none"]


def test_a_page_is_told_whether_the_browser_promises_to_keep_its_data(tabs):
    page = tabs()
    asked = page.evaluate(
        """async () => {
          const { BrowserStore } = await import("/clients/js/src/index.js");
          const store = new BrowserStore("test");
          return [await store.persist(), await store.isPersistent()];
        }"""
    )
    assert [type(answer) for answer in asked] == [bool, bool]
    assert asked[0] == asked[1]
