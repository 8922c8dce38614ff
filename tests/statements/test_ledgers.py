"""The report on many ledgers: every device is in it, every number is right, nothing is changed."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.device import Client, Fault, Intent, Request
from fedsel.statements import certainty, inspect_ledgers
from fedsel.statements._ledger_page import NOT_STATED
from tests.statements.support import (
    BEGUN,
    HOSTILE,
    KEYBOARD,
    POLICY,
    RUNS,
    D,
    Text,
    device,
    fleet,
    keyboard,
    state,
    study,
)

MADE = 1_800_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fleet")


@pytest.fixture(scope="module")
def stores(folder):
    return fleet(folder)


@pytest.fixture(scope="module")
def report(stores):
    return inspect_ledgers(stores, made=MADE)


def test_reading_changes_nothing(folder, stores):
    before = state(folder)
    inspect_ledgers(stores).to_html()
    assert state(folder) == before


def test_every_store_is_in_it_with_its_fault(report, stores):
    assert [device.store for device in report.devices] == [str(store) for store in stores]
    assert {d.name: d.fault for d in report.devices} == {
        "one": None,
        "two": None,
        "quiet": None,
        "copied": None,
        "damaged": Fault.DAMAGED,
        "restored": Fault.DISAGREES,
        "foreign": Fault.FOREIGN,
        "without-ledger": Fault.OCCUPIED,
        "missing": Fault.MISSING,
    }
    assert (len(report.read), len(report.unread), report.complete) == (4, 5, False)
    assert [d.copy_of for d in report.devices[:4]] == [None, None, None, str(stores[0])]


def test_what_each_device_has_sent(report):
    one, two, quiet = report.devices[:3]
    assert (one.history.spent, one.history.left) == (4, 4)
    assert [(run.run, run.intents, run.reports, run.most_epsilon) for run in two.runs] == [
        (RUNS["keyboard"], (KEYBOARD,), 2, 2),
        (RUNS["study"], (Intent(),), 1, Fraction(1, 9)),
        (RUNS["hostile"], (HOSTILE,), 1, Fraction(1, 9)),
    ]
    assert (two.runs[0].first, two.runs[0].last) == (BEGUN + 3600, BEGUN + 7200)
    assert {run.bytes_each for run in two.runs} == {16}
    assert quiet.runs == ()
    assert report.most_spent == 4


def test_the_register_of_runs(report):
    keyboard_, study_, _ = report.runs
    assert (keyboard_.devices, keyboard_.reports, keyboard_.most_epsilon) == (3, 10, 4)
    assert keyboard_.intents == (KEYBOARD,)
    assert (study_.devices, study_.intents) == (1, (Intent(),))
    assert (keyboard_.first, keyboard_.last) == (BEGUN + 3600, BEGUN + 4 * 3600)


def test_the_register_does_not_depend_on_the_order_of_the_devices(report, stores):
    """The device that has spent the most comes first in one order and last in the other."""
    turned = inspect_ledgers([stores[1], stores[0], stores[3]], made=MADE)
    assert {run.run: run for run in turned.runs} == {run.run: run for run in report.runs}
    assert [device.runs[0].most_epsilon for device in turned.devices] == [2, 4, 4]
    assert turned.most_spent == report.most_spent == 4


def test_a_server_that_tells_different_devices_different_things(tmp_path):
    device(tmp_path / "a", [study(Intent("A study"))])
    device(tmp_path / "b", [study(Intent("Advertising"))])
    report = inspect_ledgers([tmp_path / "a", tmp_path / "b"])
    assert report.runs[0].intents == (Intent("A study"), Intent("Advertising"))
    assert "A study / Advertising" in Text(report.to_html()).text


def test_as_json(report):
    told = json.loads(json.dumps(report.to_dict()))
    assert (told["complete"], told["devices_read"], told["devices_unread"]) == (False, 4, 5)
    assert told["made"] == "2027-01-15T08:00:00+00:00"
    two = told["devices"][1]
    assert (two["spent_exact"], two["left_exact"], two["lifetime_exact"]) == ("20/9", "52/9", "8")
    assert two["spent"] == pytest.approx(20 / 9)
    assert two["certainty_spent"] == certainty(Fraction(20, 9))
    assert [run["purpose"] for run in two["runs"]] == [KEYBOARD.purpose, None, HOSTILE.purpose]
    assert [(r["number"], r["epsilon_exact"], r["bytes"]) for r in two["reports"]] == [
        (1, "1", 16),
        (2, "1", 16),
        (3, "1/9", 16),
        (4, "1/9", 16),
    ]
    damaged = told["devices"][4]
    assert (damaged["read"], damaged["fault"]) == (False, "DAMAGED")
    assert damaged["problem"] == Fault.DAMAGED.value
    assert "spent" not in damaged
    assert [m["certainty"] for m in told["meaning"]] == [certainty(e) for e in (0.5, 1, 2, 4, 8)]


def test_the_page_says_it_all(report, stores):
    page = report.to_html()
    text = Text(page).text
    for sentence in (
        "5 of 9 ledgers could not be read: what these devices have sent is not known here.",
        "No device has spent more than ε = 4.",
        "at most 98.2 % certain",
        KEYBOARD.purpose,
        KEYBOARD.recipient,
        NOT_STATED,
        "2.22222222222 = 20/9 exactly",
        "5.77777777778 = 52/9 exactly",
        "2027-01-15 08:00:00 UTC",
        f"{stores[3]} is a copy of {stores[0]}",
        "1 of 3 runs stated neither.",
        "73 %",
        "99.97 %",
    ):
        assert sentence in text, sentence
    for unread in report.unread:
        assert f"{unread.store}: {unread.fault.value}." in text
    assert text.count("NOT READ") == 5


def test_the_page_is_the_same_for_the_same_ledgers(stores, report):
    assert inspect_ledgers(stores, made=MADE).to_html() == report.to_html()


def test_texts_of_a_server_are_text_on_the_page(report):
    page = Text(report.to_html())
    assert page.text.count(HOSTILE.purpose) >= 2
    assert HOSTILE.recipient in page.text
    assert [attributes for tag, attributes in page.elements if tag == "img"] == []
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)


def test_nothing_on_it_depends_on_the_data(tmp_path, monkeypatch):
    """Devices of different data: the same page and the same JSON, but for their folders."""
    monkeypatch.setattr("fedsel.device._ledger.time.time", lambda: BEGUN)  # all begin at once
    pages = []
    for name, update in (
        ("a", np.zeros(8)),
        ("b", 1e3 * np.arange(8.0)),
        ("c", np.full(8, np.nan)),
    ):
        device(tmp_path / name / "store", [keyboard(), study()], update)
        report = inspect_ledgers([tmp_path / name / "store"], made=MADE)
        plain = json.dumps(report.to_dict()) + report.to_html()
        pages.append(plain.replace(str(tmp_path / name), ""))
        reports = [entry.report for entry in report.devices[0].history.entries]
        assert all(data.hex() not in plain for data in reports)
    assert pages[0] == pages[1] == pages[2]


def test_a_ledger_in_use_is_read_and_one_that_is_held_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("fedsel.statements._ledgers._TIMEOUT", 0.05)
    client = device(tmp_path / "a", [keyboard(1)])
    assert inspect_ledgers([tmp_path / "a"]).complete
    with client.ledger.transaction(write=True):
        held = inspect_ledgers([tmp_path / "a"])
    assert held.unread[0].fault is Fault.BUSY
    assert "No ledger could be read" in Text(held.to_html()).text
    assert len(client.history().entries) == 1


def test_witnesses_elsewhere(tmp_path):
    for name in ("a", "b"):
        device(tmp_path / name, [keyboard(1)], witness=tmp_path / f"{name}.witness")
    stores = [tmp_path / "a", tmp_path / "b"]
    assert inspect_ledgers(stores, witness=f"{tmp_path}/{{name}}.witness").complete
    assert {d.fault for d in inspect_ledgers(stores).devices} == {Fault.DISAGREES}
    assert inspect_ledgers(stores[:1], witness=str(tmp_path / "a.witness")).complete
    with pytest.raises(InvalidArgument, match=r"^witness = .*with \{name\} in it"):
        inspect_ledgers(stores, witness=str(tmp_path / "a.witness"))


def test_a_store_is_named_once(tmp_path):
    device(tmp_path / "a", [])
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for again in (tmp_path / "a", f"{tmp_path}/a/", tmp_path / "x" / ".." / "a", tmp_path / "link"):
        with pytest.raises(InvalidArgument, match=r"^DIR = .*named once"):
            inspect_ledgers([tmp_path / "a", again])


def test_many_reports_are_counted_where_they_are_not_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("fedsel.statements._ledger_page._MOST_ROWS", 3)
    device(tmp_path / "a", [keyboard(4), study()])
    report = inspect_ledgers([tmp_path / "a"])
    assert "The 2 reports before these are in the JSON" in Text(report.to_html()).text
    assert len(report.to_dict()["devices"][0]["reports"]) == 5


def test_a_clock_that_no_calendar_knows(tmp_path):
    client = Client(POLICY, tmp_path / "a", create=True)
    client._now = lambda: 10**17
    request = Request(b"k" * 16, 0, 0, keyboard()[2]).encode()
    client.answer(request, np.zeros(D), np.ones(D))
    report = inspect_ledgers([tmp_path / "a"])
    assert f"{10**17} s after 1970" in Text(report.to_html()).text
    assert report.to_dict()["devices"][0]["reports"][0]["time"] == f"{10**17} s after 1970"


def test_devices_of_one_name_are_told_apart(tmp_path):
    for parent in ("x", "y"):
        device(tmp_path / parent / "store", [])
    text = Text(inspect_ledgers([tmp_path / "x/store", tmp_path / "y/store"]).to_html()).text
    assert "All 2 ledgers were read." in text
    assert "have sent nothing." in text
    assert f"store {tmp_path}/x/store".replace("store /", "/") in text


def test_a_lifetime_that_is_all_but_no_protection(report):
    rich = replace(report.devices[0].history, spent=Fraction(400), lifetime=Fraction(500))
    device_ = replace(report.devices[0], history=rich)
    text = Text(replace(report, devices=(device_,)).to_html()).text
    assert "practically 100 %" in text
    assert math.isfinite(device_.to_dict()["certainty_spent"])


def test_a_raised_lifetime_is_shown_for_ever(tmp_path):
    store = device(tmp_path / "raised", [keyboard(1)]).ledger.store
    Client(replace(POLICY, lifetime=80), store, raised_by="Ada <b>Bell</b>")
    Client(replace(POLICY, lifetime=1), store)  # and it was lowered since
    report = inspect_ledgers([store])
    (told,) = report.to_dict()["devices"]
    assert [(one["epsilon"], one["raised_by"]) for one in told["lifetimes"]] == [
        (8.0, None),
        (80.0, "Ada <b>Bell</b>"),
        (1.0, None),
    ]
    assert [one["after_reports"] for one in told["lifetimes"]] == [0, 1, 1]
    page = Text(report.to_html()).text
    assert page.count("Its lifetime was raised from ε = 8 to 80 on ") == 2
    assert page.count("after 1 reports, by Ada <b>Bell</b>.") == 2
    assert "Every lifetime that this ledger has had" in page
