"""SPEC.md says enough on windows, menus and clocks, too."""

import math
from fractions import Fraction

import pytest

from tests.vectors.foreign_windows import (
    held,
    implies,
    judged,
    limits_of,
    seconds,
)
from tests.vectors.support import cases


def of(kind):
    return [case for case in cases("windows") if case["kind"] == kind]


def written(limits):
    return [[str(epsilon), *rest] for epsilon, *rest in limits]


def read(rows):
    return [(Fraction(epsilon), *rest) for epsilon, *rest in rows]


def test_lengths_of_time():
    for case in of("duration"):
        assert seconds(case["text"]) == case["seconds"], case


def test_limits_of_policies():
    for case in of("table"):
        if "wrong" not in case:
            assert written(limits_of(case["values"])) == case["limits"]


def test_which_limits_are_as_strict():
    for case in of("change"):
        asked, present = read(case["asked"]), read(case["present"])
        allowed = all(any(implies(a, b) for a in asked) for b in present)
        assert allowed == case["allowed"], case


@pytest.mark.parametrize("case", of("past"), ids=lambda case: case["shows"])
def test_what_a_past_allows(case):
    entries = [
        (e["time"], Fraction(e["charge"]), e["purpose"], e["recipient"]) for e in case["entries"]
    ]
    times = [case["created"], *case["confirmed"], *(entry[0] for entry in entries)]
    policy, asked, now = case["policy"], case["asked"], case["now"]
    run = (asked["purpose"], asked["recipient"])
    charge, ledger = Fraction(asked["charge"]), limits_of(policy)
    if policy["solutions"] == ["RJ"]:  # the request asks for PM
        assert case["reason"] == "NOT_ALLOWED"
        return
    found = judged(policy, ledger, entries, times, now, charge, run)
    assert found == (case["reason"] or case["time"])
    at = max(math.floor(now), *times)
    for limit, standing in zip(ledger, case["standings"], strict=True):
        assert str(held(limit, entries, at)) == standing["held"]
