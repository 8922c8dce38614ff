"""Devices with ledgers for the tests of statements, and what a page says."""

import shutil
import sqlite3
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np

from fedsel.device import Client, Intent, Policy, Request
from fedsel.device import _storage as storage
from tests.wire.support import complete

D = 8
MADE = 1_800_000_000
KEYBOARD = Intent("Improve the keyboard's suggestions", "Example Ltd, Vienna")
HOSTILE = Intent(
    "<script>document.title='owned'</script> [b]x[/b] =1+1 $x$ &amp; \\u202e",
    "\"><img src=x onerror=alert(2)>'",
)
RUNS = {"keyboard": b"k" * 16, "study": b"s" * 16, "hostile": b"h" * 16}
BEGUN = 1_790_000_000
POLICY = Policy(8, 2, ["RJ", "PS-PM"], [D], runs=9)


def device(folder, reports, update=None, **places):
    """A store that has answered: (run, intent, recipe, how often), a report an hour."""
    client = Client(POLICY, folder, create=True, **places)
    now = BEGUN
    client._now = lambda: now
    for run, intent, recipe, count in reports:
        for number in range(count):
            now += 3600
            request = Request(RUNS[run], number, number, recipe, intent).encode()
            client.answer(request, np.zeros(D), np.ones(D) if update is None else update)
    return client


def keyboard(count=4):
    return ("keyboard", KEYBOARD, complete("RJ", epsilon=4, dim=D, epochs=4, rho=0.4), count)


def study(intent=None, count=1):
    recipe = complete("PS-PM", epsilon=Fraction(1, 3), dim=D, epochs=3)
    return ("study", intent or Intent(), recipe, count)


def fleet(folder):
    """Nine folders: three devices that can be read, and all that can be wrong with others."""
    device(folder / "one", [keyboard()])
    device(folder / "two", [keyboard(2), study(), ("hostile", HOSTILE, study()[2], 1)])
    device(folder / "quiet", [])
    shutil.copytree(folder / "one", folder / "copied")
    for name in ("damaged", "restored", "foreign", "without-ledger"):
        shutil.copytree(folder / "two", folder / name)
    statement(folder / "damaged" / storage.LEDGER_NAME, "DELETE FROM reports WHERE number = 1")
    statement(folder / "restored" / storage.WITNESS_NAME, "UPDATE state SET reports = 2")
    (folder / "foreign" / storage.LEDGER_NAME).write_bytes(b"no database" * 500)
    (folder / "without-ledger" / storage.LEDGER_NAME).unlink()
    order = ("one", "two", "quiet", "copied", "damaged", "restored", "foreign", "without-ledger")
    return [folder / name for name in (*order, "missing")]


def statement(file, sql):
    connection = sqlite3.connect(file)
    connection.execute(sql)
    connection.commit()
    connection.close()


def state(folder):
    """Every file below a folder: its bytes, and when it was last written."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


class Text(HTMLParser):
    """The words of a page, and the elements that it has."""

    def __init__(self, page):
        super().__init__()
        self.words, self.elements, self._silent = [], [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._silent += tag in ("script", "style")

    def handle_endtag(self, tag):
        self._silent -= tag in ("script", "style")

    def handle_data(self, data):
        if not self._silent:
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())
