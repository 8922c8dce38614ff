"""The page of a report on ledgers."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from fedsel.device import Client, Limit, Limits, Request
from fedsel.statements import inspect_ledgers
from fedsel.statements._ledger_page import NOT_STATED
from tests.statements.support import (
    BEGUN,
    HOSTILE,
    KEYBOARD,
    MADE,
    POLICY,
    D,
    Text,
    device,
    keyboard,
    study,
)


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


def test_a_run_of_one_day_has_one_date(tmp_path, monkeypatch):
    stores, said = [tmp_path / "first", tmp_path / "second"], []
    for number, store in enumerate(stores):
        monkeypatch.setattr("tests.statements.support.BEGUN", BEGUN + number * 24 * 3600)
        device(store, [keyboard()])
        said.append(Text(inspect_ledgers(stores[: number + 1], made=MADE).to_html()).text)
    assert "2026-09-21 –" not in said[0]
    assert "2026-09-21 – 2026-09-22" in said[1]


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


def test_a_lifetime_that_is_all_but_no_protection(report):
    limits = Limits((Limit(Fraction(500)),))
    rich = replace(report.devices[0].history, spent=Fraction(400), changes=(limits,))
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
    assert [(one["limits"][0]["epsilon"], one["allowed_by"]) for one in told["changes"]] == [
        (8.0, None),
        (80.0, "Ada <b>Bell</b>"),
        (1.0, None),
    ]
    assert [one["after_reports"] for one in told["changes"]] == [0, 1, 1]
    page = Text(report.to_html()).text
    assert page.count("It was allowed more on ") == 2
    raised = "after 1 report, by Ada <b>Bell</b>: ε = 80 ever, in place of ε = 8 ever."
    assert page.count(raised) == 2
    assert "All limits that this ledger has had" in page
