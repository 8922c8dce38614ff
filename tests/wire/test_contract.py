"""What a service writes about its task and about reports is what a device reads."""

import json
from dataclasses import fields, replace
from fractions import Fraction

import pytest

from fedsel import Recipe, amplify
from fedsel.errors import InvalidArgument
from fedsel.mechanisms.central import add_up, compose
from fedsel.wire import (
    Announcement,
    CloseRule,
    InvalidMessage,
    Schema,
    Shuffled,
    ShuffleRule,
    Verdict,
)

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


@pytest.mark.parametrize(
    ("n_min", "dishonest", "honest"),
    [(100, 0.0, 100), (100, 0.1, 90), (10, 0.3, 7), (101, 0.1, 91), (2, 0.99, 1)],
)
def test_a_rule_counts_honest_reports_alone(n_min, dishonest, honest):
    rule = ShuffleRule(n_min, dishonest, delta=1e-4)
    assert rule.honest == honest
    recipe = Recipe("FJ", epsilon=2.0, dim=8, rho=0.4)
    expected = amplify(recipe.build(), reports=honest, delta=1e-4)
    assert rule.guarantee(recipe) == rule.guarantee(recipe, composed=True) == expected


def test_a_rule_adds_epochs_up_or_composes_them():
    rule = ShuffleRule(40, 0.1, delta=1e-3)
    recipe = Recipe("Duchi", epsilon=4.0, dim=3, epochs=4)
    known = {"reports": 36, "epochs": 4, "delta": 1e-3}
    added, composed = (rule.guarantee(recipe, composed=way) for way in (False, True))
    assert added == add_up(recipe.build(), **known)
    assert composed == compose(recipe.build(), **known)
    assert composed.epsilon < added.epsilon < 4
    # Clients that keep what they have not sent have the local ε alone.
    kept = Recipe("PS-PM", epsilon=4.0, dim=3, epochs=4, mu=0.1)
    assert rule.guarantee(kept).epsilon == pytest.approx(kept.build().privacy.total)


@pytest.mark.parametrize(
    ("local", "central", "delta", "numbers"),
    [
        (4, 0.2, 1e-6, ("4", "0.2", "10⁻⁶")),
        (Fraction(2, 15), 0.10001, 2.5e-7, ("0.1334", "0.1001", "2.5·10⁻⁷")),
        (0.1, 0.0999999, 1.00001e-9, ("0.1", "0.1", "1.001·10⁻⁹")),
        (12.34567, 0.0, 0.01, ("12.35", "0", "0.01")),
        (Fraction(10**6, 3), 99.999, 9.9999e-8, ("333400", "100", "10⁻⁷")),
    ],
)
def test_both_numbers_are_said_rounded_up(local, central, delta, numbers):
    shuffled = Shuffled(ShuffleRule(6667, 0.1, delta), central, "", "")
    first, second, third = numbers
    assert shuffled.said(local) == (
        f"ε = {first} against everybody; ε = {second}, δ = {third} if relay and service do not"
        " work together, among at least 6,001 honest reports"
    )


@pytest.mark.parametrize(
    ("dishonest", "most"),
    [(0.0, "0"), (0.1, "666"), (0.5, "3,333"), (1e-4, "0"), (0.9999, "6,666")],
)
def test_how_many_clients_may_be_dishonest_is_said_as_a_number(dishonest, most):
    said = Shuffled(ShuffleRule(6667, dishonest), 0.2, "", "").condition
    assert f"at least 6,667 reports, or never; at most {most} of them" in said
