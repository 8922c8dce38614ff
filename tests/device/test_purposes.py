"""Purpose and recipient on a device: what a policy asks for, and what the ledger keeps of it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel._internal.random import stream
from fedsel.device import Client, Intent, Ledger, Policy, Reason, Request
from tests.device.test_client import UPDATE, WEIGHTS, D, policy, recipe, refusal

RUN, OTHER_RUN = bytes(range(16)), bytes(16)
STATED = Intent("Better suggestions", "Example Ltd")


def asked(intent=STATED, number=0, run=RUN, of=None):
    return Request(run, number, number, of or recipe(), intent).encode()


def opened(quick_path, **changes):
    return Client(policy(**changes), quick_path / "store", create=True)


@pytest.mark.parametrize(
    ("changes", "intent"),
    [
        ({"require_purpose": True}, Intent()),
        ({"require_purpose": True}, Intent("", "Example Ltd")),
        ({"require_recipient": True}, Intent()),
        ({"require_recipient": True}, Intent("Better suggestions")),
        ({"require_purpose": True, "require_recipient": True}, Intent("Better suggestions")),
        ({"recipients": ["Example Ltd"]}, Intent()),
        ({"recipients": ["Example Ltd"]}, Intent("Better suggestions")),
        ({"recipients": ["Example Ltd"]}, Intent("Better suggestions", "Example Ltd.")),
        ({"recipients": ["Example Ltd"]}, Intent("Better suggestions", "example ltd")),
        (
            {"recipients": ["Example Ltd"]},
            Intent("Better suggestions", "Exаmple Ltd"),
        ),  # Cyrillic а
        ({"recipients": ["Example Ltd"]}, Intent("Example Ltd")),
        ({"purposes": ["Better suggestions", "A study"]}, Intent("A study of more", "Example Ltd")),
        ({"purposes": ["Better suggestions"]}, Intent()),
        ({"purposes": ["A"], "recipients": ["B"]}, Intent("B", "A")),
    ],
)
def test_a_policy_refuses_before_anything_is_spent(quick_path, changes, intent):
    client = opened(quick_path, **changes)
    assert refusal(client, asked(intent)) is Reason.PURPOSE
    assert client.history().entries == ()


@pytest.mark.parametrize(
    ("changes", "intent"),
    [
        ({}, Intent()),
        ({}, STATED),
        ({"require_purpose": True}, Intent("Better suggestions")),
        ({"require_recipient": True}, Intent("", "Example Ltd")),
        ({"require_purpose": True, "require_recipient": True}, STATED),
        ({"recipients": ["Another", "Example Ltd"]}, STATED),
        ({"recipients": ["Example Ltd"]}, Intent("", "Example Ltd")),
        ({"purposes": ["Better suggestions"], "recipients": ["Example Ltd"]}, STATED),
    ],
)
def test_what_a_policy_allows_is_answered_for_the_same_price(quick_path, changes, intent):
    client = opened(quick_path, **changes)
    client.answer(asked(intent), WEIGHTS, UPDATE)
    history = client.history()
    assert history.spent == Fraction(2, 5)
    assert history.intents == ({RUN: intent} if intent else {})
    assert Ledger(quick_path / "store").inspect() == history


def test_another_task_is_refused_for_its_own_reason_first(quick_path):
    client = opened(quick_path, require_purpose=True, dimensions=[D + 1])
    assert refusal(client, asked(Intent())) is Reason.NOT_ALLOWED


def test_what_is_said_changes_no_draw(quick_path):
    """The same entropy, the same report, whatever the purpose."""
    reports = set()
    for place, intent in enumerate((Intent(), STATED, Intent("", "x"))):
        client = Client(policy(), quick_path / str(place), create=True)
        client._entropy = stream(1, 0, 0)
        reports.add(client.answer(asked(intent), WEIGHTS, UPDATE))
    assert len(reports) == 1


@pytest.mark.parametrize(
    "other", [Intent(), Intent("Better suggestions"), Intent("Advertising", "Example Ltd")]
)
def test_a_purpose_is_tied_to_its_run(quick_path, other):
    client = opened(quick_path)
    report = client.answer(asked(), WEIGHTS, UPDATE)
    assert refusal(client, asked(other)) is Reason.CONFLICT  # the round that was answered
    assert refusal(client, asked(other, number=1)) is Reason.CONFLICT
    assert client.answer(asked(), WEIGHTS, UPDATE) == report
    client.answer(asked(number=1), WEIGHTS, UPDATE)
    assert client.history().intents == {RUN: STATED}
    assert client.history().spent == Fraction(4, 5)


def test_a_run_without_a_purpose_gets_none_later(quick_path):
    client = opened(quick_path)
    client.answer(asked(Intent()), WEIGHTS, UPDATE)
    assert refusal(client, asked(number=1)) is Reason.CONFLICT
    client.answer(asked(Intent(), number=1), WEIGHTS, UPDATE)
    assert client.history().intents == {}


def test_each_run_has_its_own(quick_path):
    client = opened(quick_path, runs=3)
    second = Intent("A study", "A university")
    client.answer(asked(), WEIGHTS, UPDATE)
    client.answer(asked(second, run=OTHER_RUN), WEIGHTS, UPDATE)
    client.answer(asked(Intent(), run=b"x" * 16), WEIGHTS, UPDATE)
    assert client.history().intents == {RUN: STATED, OTHER_RUN: second}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("require_purpose", 1),
        ("require_purpose", "yes"),
        ("require_recipient", None),
        ("recipients", "Example Ltd"),
        ("recipients", []),
        ("recipients", [""]),
        ("recipients", ["a", 7]),
        ("recipients", ["two\nlines"]),
        ("recipients", ["x" * 101]),
        ("purposes", [" a"]),
        ("purposes", ["x" * 201]),
        ("purposes", {"a": 1}),
    ],
)
def test_impossible_policies_are_named(name, value):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        policy(**{name: value})


def test_a_policy_of_a_file(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text(
        'lifetime = 2\nper_report = 0.5\nsolutions = ["RJ"]\ndimensions = [8]\n'
        'require_purpose = true\nrecipients = ["Universität Wien", "Example Ltd, Vienna"]\n',
        encoding="utf-8",
    )
    loaded = Policy.load(file)
    assert (loaded.require_purpose, loaded.require_recipient, loaded.purposes) == (
        True,
        False,
        None,
    )
    assert loaded.recipients == ("Universität Wien", "Example Ltd, Vienna")
    assert hash(loaded) == hash(Policy.load(file))


def test_a_policy_may_become_stricter_in_the_middle_of_a_run(quick_path):
    client = opened(quick_path)
    client.answer(asked(Intent()), WEIGHTS, UPDATE)
    strict = Client(policy(require_purpose=True), quick_path / "store")
    assert refusal(strict, asked(Intent(), number=1)) is Reason.PURPOSE
    assert refusal(strict, asked(number=1)) is Reason.CONFLICT
    assert len(strict.history().entries) == 1


def test_a_request_that_only_says_more_is_another_question_to_the_ledger(quick_path):
    """The digest of an entry covers the whole request, what is stated included."""
    client = opened(quick_path, runs=2)
    client.answer(asked(), WEIGHTS, UPDATE)
    client.answer(asked(replace(STATED, purpose="Other"), run=OTHER_RUN), WEIGHTS, UPDATE)
    first, second = client.history().entries
    assert first.digest != second.digest
    assert np.frombuffer(first.report, "<u4")[1] == np.frombuffer(second.report, "<u4")[1] == 0
