"""The report on many ledgers: every device is in it, every number is right, nothing is changed."""

import json
from fractions import Fraction

import pytest

from fedsel import InvalidArgument
from fedsel.device import Fault, Intent
from fedsel.statements import certainty, inspect_ledgers
from tests.statements.support import (
    BEGUN,
    HOSTILE,
    KEYBOARD,
    MADE,
    RUNS,
    Text,
    device,
    keyboard,
    state,
    study,
)


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
        with pytest.raises(InvalidArgument, match=r"^DIR = .*listed once"):
            inspect_ledgers([tmp_path / "a", again])


def test_devices_of_one_name_are_told_apart(tmp_path):
    for parent in ("x", "y"):
        device(tmp_path / parent / "store", [])
    text = Text(inspect_ledgers([tmp_path / "x/store", tmp_path / "y/store"]).to_html()).text
    assert "All 2 ledgers were read." in text
    assert "have sent nothing." in text
    assert f"store {tmp_path}/x/store".replace("store /", "/") in text
