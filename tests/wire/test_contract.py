"""What a service writes about its task and about reports is what a device reads."""

import json
from dataclasses import fields, replace

import pytest

from fedsel.errors import InvalidArgument
from fedsel.wire import Announcement, CloseRule, InvalidMessage, Schema, Verdict

TASK = Announcement(
    name="churn",
    run=bytes(range(16)),
    invitations="signed",
    rounds_per_epoch=4,
    close_after=CloseRule(reports=10, seconds=60.0),
    schema=Schema({"age": (0, 100), "job": ["cook", "smith"]}, "left", ("no", "yes")),
    loss="logistic",
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"invitations": "open", "close_after": CloseRule(reports=1)},
        {"schema": Schema(7)},
        {"schema": Schema({"x": "private"}, classes=("a", "b", "c"))},
        {"schema": None, "loss": None},
        {"schema": Schema({"2": (0, 1), "1": (0, 1)}, target_range=(-1.5, 2.0)), "loss": "huber"},
    ],
)
def test_an_announcement_is_read_as_it_was_written(changes):
    task = replace(TASK, **changes)
    assert Announcement.decode(task.encode()) == task


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"loss": None}, "loss"),
        ({"schema": None}, "loss"),
        ({"loss": "squared"}, "target_range"),
        ({"schema": Schema(1, target_range=(0, 1))}, "target_range"),
        ({"loss": "cubic"}, "loss"),
    ],
)
def test_labels_and_loss_belong_together(changes, name):
    with pytest.raises(InvalidArgument) as caught:
        replace(TASK, **changes)
    assert caught.value.name == name


def test_its_fields_are_the_keys_of_the_json():
    assert list(json.loads(TASK.encode())) == [one.name for one in fields(Announcement)]


def test_what_is_for_people_is_not_believed_and_what_is_new_is_ignored():
    told = replace(TASK, epsilon=0.001, purpose="x", dim=10**12)
    later = {**json.loads(told.encode()), "colour": "red"}
    later["close_after"]["moon"] = "full"
    assert Announcement.decode(json.dumps(later).encode()) == TASK


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b"{}", b"null", b"\xff", b"[" * 10**5])
def test_anything_else_is_no_announcement(data):
    with pytest.raises(InvalidMessage):
        Announcement.decode(data)


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, b'{"outcome": "accepted"}', Verdict.ACCEPTED),
        (200, b'{"outcome": "duplicate"}', Verdict.DUPLICATE),
        (200, b'{"outcome": "late"}', None),
        (200, b"<html>", None),
        (202, b'{"outcome": "accepted"}', None),
        (409, b'{"error": "early"}', Verdict.EARLY),
        (409, b"", Verdict.CONFLICT),
        (410, b'{"error": "late"}', Verdict.LATE),
        (400, b'{"error": "malformed"}', Verdict.REJECTED),
        (401, b"{}", None),
    ],
)
def test_verdicts(status, body, verdict):
    assert Verdict.read(status, body) is verdict
    assert (verdict is not None and verdict.taken) == (status == 200 and verdict is not None)
