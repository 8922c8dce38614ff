"""A person at the page /join, for the tests: what they do, and what their browser asks for."""

import re

from tests.service.support import FREE, task_of

PATIENCE = 20_000
FEATURES = ("age", "hours")
HEADER = "age,hours,churned"
TABLE = f"{HEADER}\n30,10,stays\n60,70,leaves\n45,20,stays\n"
# The words of a device, by round: what a report is drawn from. Nothing in the package takes words;
# the browser's own source is replaced before the page's first module is loaded.
GIVEN_WORDS = """(words) => {
  let round = 0;
  const places = words.map(() => 0);
  const [ask, fill] = [window.fetch, crypto.getRandomValues];
  window.fetch = (path, ...rest) => {
    const asked = /rounds\\/(\\d+)\\/weights/.exec(path);
    if (asked) round = Number(asked[1]);
    return ask.call(window, path, ...rest);
  };
  crypto.getRandomValues = (array) => {
    if (!(array instanceof BigUint64Array)) return fill.call(crypto, array);
    array[0] = BigInt(words[round][places[round]++]);
    return array;
  };
}"""


def join_task(**changes):
    """A task that a page can take part in: two epochs of one round, ε = 1 a report."""
    values = {
        "name": "churn",
        "epsilon": 2,
        "epochs": 2,
        "solution": None,
        "k": None,
        "mu": None,
        "learning_rate": None,
        "dim": None,
        "features": list(FEATURES),
        "feature_range": [[0, 0], [100, 80]],
        "labels": ["stays", "leaves"],
        "clients": 4,
        "rounds_per_epoch": 1,
        "close_after": {"reports": 1000},
        "purpose": "Predict who leaves",
        "recipient": "Example Telecom",
    }
    return task_of(**{**values, **changes})


QUESTION = {
    "name": "canteen",
    "question": "cross table",
    "columns": {"job": ["cook", "smith", "other"], "age": [0, 80]},
    "bins": 4,
    "epsilon": 2,
    "clients": 4000,
    "close_after": {"reports": 1000},
    "invitations": "open",
    "purpose": "Plan the canteen",
    "recipient": "Example Telecom",
    "limits": FREE,
}
"""A task that asks people in place of training."""


def measured_task(**changes):
    """A task of six rounds, of which the last two measure the model."""
    values = {"epochs": 1, "epsilon": 6, "clients": 60, "rounds_per_epoch": 6, "measure": 0.34}
    values |= {"close_after": {"reports": 1}, "centre": 0.0, "spread": 0.0}
    return join_task(**{**values, **changes})


class Visitor:
    """A browser's window at the page of a service; every request that it makes is noted."""

    def __init__(self, browser, address, **settings):
        self.address = address
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(PATIENCE)
        self.requests, self.complaints = [], []
        self.context.on("request", self._asked)

    def open(self, token=None, keys=None):
        """The page in a new tab, when it is ready for a person; by a link with these keys."""
        link = f"#invitation={token}&{keys}" if keys else f"#token={token}" if token else ""
        return self.follow(f"{self.address}/join{link}")

    def follow(self, link):
        """The page of a link in a new tab, when it is ready for a person."""
        tab = self.context.new_page()
        tab.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        tab.on("console", self._heard)
        tab.goto(link)
        tab.locator("#go-said:not(:empty), #trouble:not([hidden])").first.wait_for()
        return tab

    def open_over(self):
        """The page in a new tab, once it has seen that the run is over."""
        tab = self.context.new_page()
        tab.goto(f"{self.address}/join")
        tab.get_by_text("The run is over: nobody can take part any more.").wait_for()
        tab.wait_for_selector("#reports li")
        return tab

    def _asked(self, request):
        self.requests.append(request)

    def _heard(self, message):
        # What a browser says of failed requests is its own; the tests have them fail.
        if not message.text.startswith("Failed to load resource"):
            self.complaints.append(f"console {message.type}: {message.text}")

    def uploads(self):
        """What was sent: the body and the token of each request that has a body."""
        sent = [r for r in self.requests if r.method != "GET"]
        return [(r.post_data_buffer, r.headers["authorization"].split()[1]) for r in sent]

    def close(self):
        self.context.close()
        assert self.complaints == []


def choose(tab, text=TABLE, said="3 records are ready."):
    """Choose a file, and wait for what the page says of it."""
    file = {"name": "own.csv", "mimeType": "text/csv", "buffer": text.encode()}
    tab.set_input_files("#file", file)
    tab.locator("#data-said", has_text=said).wait_for()


def take_part(tab, *data):
    """Choose a file, say that this is the first time, and press the button."""
    choose(tab, *data)
    if tab.is_visible("#anew"):
        tab.check("#anew-yes")
    tab.click("#go")


def shown_reports(tab):
    """The reports as the page shows them: [what became of it, its bytes]."""
    rows = tab.locator("#reports li").all()
    return [
        (row.get_attribute("data-outcome"), bytes.fromhex(re.sub(r"\s", "", code)))
        for row in rows
        for code in [row.locator("code").inner_text()]
    ]


def ledger_facts(tab):
    """The ledger's figures as the page shows them."""
    terms, values = (tab.locator(f"#ledger-facts {part}") for part in ("dt", "dd"))
    return dict(zip(terms.all_inner_texts(), values.all_inner_texts(), strict=True))
