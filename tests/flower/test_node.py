"""Settings of a node: taken, refused by name, and never widened by a run."""

import re
from fractions import Fraction

import pytest

from fedsel import InvalidArgument
from fedsel.device import Reason
from fedsel.flower import NODES_VARIABLE, FedSelMod, Node
from fedsel.flower._messages import NodeRefusal, Question
from fedsel.sampling.device import SYSTEM
from fedsel.server import ServerKey
from tests.flower.messages import (
    App,
    config,
    context,
    message,
    question,
)
from tests.flower.test_mod import refusal

pytestmark = pytest.mark.usefixtures("flower_identity")


NO_FIELDS = dict.fromkeys(("per-report", "solutions", "dimensions"))


def test_no_setting_leads_to_other_entropy(tmp_path, monkeypatch):
    for name in ("SEED", "FEDSEL_SEED", "FEDSEL_ENTROPY", "PYTHONHASHSEED"):
        monkeypatch.setenv(name, "1")
    wishes = {"seed": 1, "entropy": "seeded", "fedsel-seed": 1}
    asked = Question(b"", (1.0,))
    client = FedSelMod()._client(context(config(tmp_path / "s") | {"seed": 1}, **wishes), asked)
    assert client._entropy is SYSTEM


def test_a_missing_ledger_is_not_begun_anew(tmp_path, caplog):
    app = App()
    own = config(tmp_path / "gone", create=None)
    assert refusal(FedSelMod()(message(question()), context(own), app)) == Reason.LEDGER.value
    assert "there is no ledger" in caplog.text  # the owner is told
    assert app.calls == []


def test_a_node_does_not_pay_for_reports_that_no_flower_server_opens(tmp_path):
    key = ServerKey.generate().public
    with pytest.raises(InvalidArgument, match=r"^server_key = .*: must be omitted on Flower"):
        Node.of(config(tmp_path / "s", **{"server-key": key}))


def test_settings_of_a_node(tmp_path, monkeypatch):
    file = tmp_path / "policy.toml"
    file.write_text('lifetime = 0.3\nper_report = 0.1\nsolutions = ["RJ"]\ndimensions = [9, 10]\n')
    node = Node.of({"fedsel-policy": str(file), "fedsel-store": "/s", "fedsel-witness": "/w"})
    assert node.policy.lifetime == Fraction(3, 10)
    assert str(node.witness) == "/w"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Node.of(config("~/s")).store == tmp_path / "s"
    assert not node.create
    values = config(tmp_path, solutions="RJ, PM", dimensions="9,10", **{"least-seconds": 0.5})
    assert Node.of(values).policy.dimensions == (9, 10)
    assert Node.of(values).policy.least_seconds == 0.5
    monkeypatch.setenv(NODES_VARIABLE, str(tmp_path))
    assert Node.of({"partition-id": 3, "num-partitions": 9}).store == tmp_path / "node-3"
    assert Node.of(values).store == tmp_path  # the node's own config comes first


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"store": None}, "fedsel-store"),
        ({"store": 3}, "fedsel-store"),
        ({"store": "ledger"}, "fedsel-store"),
        ({"store": "./ledger"}, "fedsel-store"),
        ({"store": "~nobody-here/ledger"}, "fedsel-store"),
        ({"witness": "witness"}, "fedsel-witness"),
        ({"policy": "policy.toml", "lifetime": None, **NO_FIELDS}, "fedsel-policy"),
        ({"lifetime": None}, "lifetime"),
        ({"lifetime": float("nan")}, "lifetime"),
        ({"lifetime": True}, "lifetime"),
        ({"per-report": "lots"}, "per_report"),
        ({"dimensions": "many"}, "fedsel-dimensions"),
        ({"solutions": "NP"}, "solutions"),
        ({"reports-per-dya": 3}, "fedsel-reports-per-dya"),
        ({"policy": "/nowhere.toml"}, "fedsel-lifetime"),
        ({"create": "yes"}, "fedsel-create"),
        ({"seed": 1}, "fedsel-seed"),
        ({"entropy": "seeded"}, "fedsel-entropy"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, changes, name):
    wrong = config(tmp_path / "s", **changes)
    with pytest.raises(InvalidArgument, match=rf"^{name} = "):
        Node.of(wrong)
    app = App()
    reply = FedSelMod()(message(question()), context(wrong), app)
    assert refusal(reply) == (
        NodeRefusal.WRONG_SETTINGS if name.startswith("fedsel-") else NodeRefusal.WRONG_POLICY
    )
    assert app.calls == []


def test_what_a_server_hears_of_a_wrong_node_tells_the_cases_apart_and_no_value(tmp_path, caplog):
    """No settings, a wrong key, a missing or wrong policy; the owner's log has the key."""
    gone = {"policy": str(tmp_path / "gone.toml"), "lifetime": None, **NO_FIELDS}
    cases = {
        NodeRefusal.NO_SETTINGS: [{"partition-id": 0}],
        NodeRefusal.WRONG_SETTINGS: [
            config(tmp_path / "s", speed=9),
            config("here"),
            config(tmp_path, store=None),
        ],
        NodeRefusal.WRONG_POLICY: [
            config(tmp_path / "s", lifetime=-1.5),
            config(tmp_path / "s", **gone),
        ],
    }
    app = App()
    for sentence, wrong in cases.items():
        for own in wrong:
            caplog.clear()
            assert refusal(FedSelMod()(message(question()), context(own), app)) == sentence
            assert [r.levelname for r in caplog.records] == ["ERROR"]
    assert app.calls == []


@pytest.mark.parametrize(
    "prefix",
    [
        *("fedsel_", "fedsel.", "Fedsel-", "FEDSEL-", "fedsel", " fedsel-", "fed-sel-", "fesdel-"),
        *("fedsl-", "f\u0435dsel-", "fedsel\u2010", "node-fedsel-"),
    ],
)
def test_a_mistyped_prefix_loosens_nothing(tmp_path, monkeypatch, prefix, caplog):
    """The limit would not be there, and nobody would know."""
    own = config(tmp_path / "s") | {f"{prefix}reports-per-day": 1}
    with pytest.raises(InvalidArgument, match=rf"^{re.escape(prefix)}reports-per-day = 1: must"):
        Node.of(own)
    app = App()
    reply = FedSelMod()(message(question()), context(own), app)
    assert refusal(reply) == NodeRefusal.WRONG_SETTINGS
    assert prefix in caplog.text  # the owner is told which key it is
    monkeypatch.setenv(NODES_VARIABLE, str(tmp_path))  # nor is it taken for a simulated node
    with pytest.raises(InvalidArgument, match="reports-per-day"):
        Node.of({"partition-id": 0, f"{prefix}reports-per-day": 1})
    assert app.calls == []
    assert not (tmp_path / "s").exists()


def test_keys_of_the_app_are_its_own(tmp_path):
    others = ("partition-id", "num-partitions", "federation", "fedavg-rate", "dataset", "selection")
    assert Node.of(config(tmp_path / "s") | dict.fromkeys(others, 1)).store == tmp_path / "s"


def test_another_folder_begins_no_new_lifetime(tmp_path, monkeypatch):
    """A relative path would name another ledger after a chdir, and begin it."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path, tmp_path / "elsewhere"):
        monkeypatch.chdir(place)
        reply = FedSelMod()(message(question()), context(config("store")), App())
        assert refusal(reply) == NodeRefusal.WRONG_SETTINGS
        assert not (place / "store").exists()
    monkeypatch.setenv(NODES_VARIABLE, "nodes")
    with pytest.raises(InvalidArgument, match=rf"^{NODES_VARIABLE} = 'nodes': must be an absolute"):
        Node.of({"partition-id": 0})
