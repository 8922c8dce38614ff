"""``fedsel ledger`` as the owner of a device meets it."""

import json

import numpy as np
import pytest

from fedsel.device import Client, Intent, Policy, Request
from tests.cli.support import run_here
from tests.wire.support import complete


def run(*arguments, status=0, command="show"):
    done = run_here("ledger", command, *arguments, status=status)
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def store(tmp_path):
    policy = Policy(1.0, 0.5, ["PS-PM", "PM"], [4])
    client = Client(policy, tmp_path / "store", witness=tmp_path / "w", create=True)
    for name, epsilon, run_ in (("PS-PM", 0.3, bytes(16)), ("PM", 0.1, b"\1" * 16)):
        recipe = complete(name, epsilon=epsilon, dim=4, epochs=3)
        client.answer(Request(run_, 0, 0, recipe).encode(), np.zeros(4), np.ones(4))
    return tmp_path / "store"


def test_history_in_words(store):
    text = run(store, "--witness", store.parent / "w")
    assert "PS-PM" in text
    assert "ε spent: 0.133333333333 = 2/15 exactly" in text
    assert "ε left: 0.866666666667 = 13/15 exactly" in text
    assert "lifetime ε: 1\n" in text


def test_history_as_json(store):
    said = json.loads(run(store, "--witness", store.parent / "w", "--json"))
    assert (said["spent_exact"], said["left_exact"], said["lifetime"]) == ("2/15", "13/15", 1.0)
    assert [(r["number"], r["solution"], r["epsilon_exact"]) for r in said["reports"]] == [
        (1, "PS-PM", "1/10"),
        (2, "PM", "1/30"),
    ]
    assert all(len(r["report"]) == 32 for r in said["reports"])


def test_an_empty_history(tmp_path):
    Client(Policy(2.0, 0.5, ["PM"], [4]), tmp_path / "s", create=True)
    text = run(tmp_path / "s")
    assert "No report has left this device." in text
    assert "ε left: 2\n" in text


def test_what_is_no_ledger(store, tmp_path):
    assert "must be a folder that exists" in run(tmp_path / "none", status=2)
    assert "but no ledger" in run(tmp_path, status=1)
    assert "disagree" in run(store, status=1)  # its witness lies elsewhere
    (store / "ledger.sqlite").write_bytes(b"not a database" * 100)
    assert "not a ledger of fedsel" in run(store, "--witness", tmp_path / "w", status=1)
    (tmp_path / "empty").mkdir()
    assert "there is no ledger" in run(tmp_path / "empty", status=1)
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_ledger_is_begun_once(tmp_path):
    store = tmp_path / "store"
    text = run(store, "--lifetime", 0.3, command="create")
    assert "ε left: 0.3 = 3/10 exactly" in text
    assert "this one has one" in run(store, "--lifetime", 8, status=2, command="create")
    assert "lifetime = nan" in run(tmp_path / "x", "--lifetime", "nan", status=2, command="create")
    assert not (tmp_path / "x").exists()
    told = json.loads(run(tmp_path / "y", "--lifetime", 2, "--json", command="create"))
    assert told["left_exact"] == "2"
    policy = Policy(0.3, 0.3, ["PM"], [4])
    client = Client(policy, store)  # without create=True
    request = Request(bytes(16), 0, 0, complete("PM", epsilon=0.3, dim=4))
    client.answer(request.encode(), np.zeros(4), np.ones(4))
    assert client.history().left == 0


def test_purposes_are_shown_with_their_runs(tmp_path):
    client = Client(Policy(1.0, 0.5, ["PM"], [4], runs=3), tmp_path / "s", create=True)
    recipe = complete("PM", epsilon=0.1, dim=4)
    said = Intent("A [b]study[/b]", "A <i>university</i>")
    for run_, intent in ((bytes(16), said), (b"\1" * 16, Intent())):
        client.answer(Request(run_, 0, 0, recipe, intent).encode(), np.zeros(4), np.ones(4))
    text = run(tmp_path / "s")
    runs = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert "00000000 A [b]study[/b] A <i>university</i> PM, d = 4 1 0.1 (1/10)" in runs
    assert "01010101 not stated not stated PM, d = 4 1 0.1 (1/10)" in runs
    reports = json.loads(run(tmp_path / "s", "--json"))["reports"]
    assert [(r["purpose"], r["recipient"]) for r in reports] == [
        (said.purpose, said.recipient),
        (None, None),
    ]


def test_a_lifetime_is_raised_by_a_command_that_leaves_a_trace(store):
    own = ("--witness", store.parent / "w")
    text = run(store, "--lifetime", 3, "--by", "Ada Bell", *own, command="raise")
    raised = "after 2 reports, by Ada Bell: ε = 3 ever, in place of ε = 1 ever."
    assert "It was allowed more on " in text
    assert raised in text
    Client(Policy(0.5, 0.5, ["PM"], [4]), store, witness=store.parent / "w")
    assert raised in run(store, *own)
    assert raised in " ".join(run(store, *own, command="report").split())
    told = json.loads(run(store, *own, "--json"))
    assert [(one["limits"][0]["epsilon"], one["allowed_by"]) for one in told["changes"]] == [
        (1.0, None),
        (3.0, "Ada Bell"),
        (0.5, None),
    ]
    for lifetime, by, said in (
        (0.5, "Ada", "--lifetime = 0.5: must be above 1/2"),
        ("nan", "Ada", "--lifetime = nan"),
        (2, "", "--by = "),
        (2, "two\nlines", "--by = "),
    ):
        wrong = ("--lifetime", lifetime, "--by", by, *own)
        assert said in run(store, *wrong, status=2, command="raise")
    assert json.loads(run(store, *own, "--json")) == told
    assert "disagree" in run(store, "--lifetime", 2, "--by", "Ada", status=1, command="raise")
