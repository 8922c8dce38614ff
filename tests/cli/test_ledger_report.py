"""``fedsel ledger report`` as a privacy officer meets it."""

import json
from html.parser import HTMLParser

import pytest

from fedsel.device import Fault
from tests.cli.support import run_here
from tests.statements.support import HOSTILE, KEYBOARD, Text, device, fleet, keyboard, state, study


def report(*arguments, status=0):
    return run_here("ledger", "report", *arguments, status=status)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture(scope="module")
def stores(folder):
    return fleet(folder)


def test_ledgers_that_can_all_be_read(tmp_path, stores):
    page = tmp_path / "page.html"
    told = report(*stores[:3], "--html", page)
    assert "All 3 ledgers were read." in told.stdout
    assert "largest ε spent: 4\n" in told.stdout
    assert "2.22222 (20/9)" in told.stdout
    assert told.stderr == ""
    assert "All 3 ledgers were read." in Text(page.read_text(encoding="utf-8")).text


def test_what_cannot_be_read_is_said_by_status_table_page_and_json(folder, tmp_path, stores):
    before, page = state(folder), tmp_path / "page.html"
    told = report(*stores, "--html", page, status=1)
    words = " ".join(told.stdout.replace("│", " ").split())
    assert words.count("NOT READ") == 5
    assert "5 of 9 ledgers could not be read" in told.stdout
    listed = json.loads(report(*stores, "--json", status=1).stdout)
    assert [d["fault"] for d in listed["devices"]] == [
        *[None] * 4,
        *("DAMAGED", "DISAGREES", "FOREIGN", "OCCUPIED", "MISSING"),
    ]
    assert not listed["complete"]
    text = Text(page.read_text(encoding="utf-8")).text
    for fault in (Fault.DAMAGED, Fault.DISAGREES, Fault.FOREIGN, Fault.OCCUPIED, Fault.MISSING):
        assert fault.value in text
    assert state(folder) == before


def test_texts_of_a_server_are_shown_as_they_are(stores):
    words = report(stores[1]).stdout
    folded = "".join(words.replace("│", "").split())
    assert "[b]x[/b]" in folded
    assert "not stated" in words
    listed = json.loads(report(stores[1], "--json").stdout)
    purposes = [run["purpose"] for run in listed["devices"][0]["runs"]]
    assert purposes == [KEYBOARD.purpose, None, HOSTILE.purpose]


def test_json_and_page_at_once(tmp_path, stores):
    page = tmp_path / "page.html"
    assert json.loads(report(stores[0], "--json", "--html", page).stdout)["complete"]
    parser = HTMLParser()
    parser.feed(page.read_text(encoding="utf-8"))
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_wrong_usage_is_named_before_anything_is_read(tmp_path, stores):
    assert "DIR" in report(stores[0], stores[0], status=2).stderr
    assert "--html" in report(stores[0], "--html", tmp_path / "no" / "x.html", status=2).stderr
    assert "--html" in report(stores[0], "--html", tmp_path, status=2).stderr
    assert "witness" in report(*stores[:2], "--witness", tmp_path / "w", status=2).stderr
    assert "Missing argument" in report(status=2).stderr


def test_witnesses_by_the_name_of_their_store(tmp_path):
    for name in ("a", "b"):
        device(tmp_path / name, [keyboard(1), study()], witness=tmp_path / f"{name}.witness")
    both = (tmp_path / "a", tmp_path / "b")
    assert "ledgers read: 0\n" in report(*both, status=1).stdout
    told = report(*both, "--witness", f"{tmp_path}/{{name}}.witness").stdout
    assert "All 2 ledgers were read." in told


def test_a_copied_store_is_pointed_out(stores):
    words = " ".join(report(stores[0], stores[3]).stdout.replace("│", " ").split())
    assert "is a copy of" in words
