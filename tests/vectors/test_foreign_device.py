"""SPEC.md says enough on requests, charges, policies and ledgers, too."""

import struct
from fractions import Fraction

import pytest

from tests.vectors import foreign
from tests.vectors.foreign_device import Device, Refused, charge, check_policy, parse
from tests.vectors.foreign_windows import GRID, added
from tests.vectors.support import cases


def of(kind, name):
    return [case for case in cases(name) if case["kind"] == kind]


def characters():
    ranges = (of(kind, "messages")[0]["ranges"] for kind in ("visible", "marks"))
    return [{c for first, last in pairs for c in range(first, last + 1)} for pairs in ranges]


CHARACTERS = characters()


@pytest.mark.parametrize("case", cases("requests"), ids=lambda case: case["shows"])
def test_requests(case):
    data = bytes.fromhex(case["request"])
    if "reason" in case:
        with pytest.raises(Refused, match=case["reason"]):
            check_price(parse(data, *CHARACTERS)[0])
    else:
        assert parse(data, *CHARACTERS)[0] == case["fields"]


def check_price(fields):
    """What goes together in the bytes alone, need not be a law."""
    try:
        charge(fields["recipe"])
    except ValueError:
        raise Refused("MALFORMED") from None


def test_charges():
    for case in of("charge", "policies"):
        recipe = parse(bytes.fromhex(case["request"]), *CHARACTERS)[0]["recipe"]
        if recipe["epsilon"] == "500" or "OW" in recipe["solution"]:
            continue  # long searches, which the tests of laws make
        price, ratio = charge(recipe)
        assert (str(price), str(ratio)) == (case["charge"], case["ratio"]), recipe


def test_policies():
    for case in of("verdict", "policies"):
        fields = parse(bytes.fromhex(case["request"]), *CHARACTERS)[0]
        try:
            check_policy(case["policy"], fields, bytes(8 * fields["recipe"]["dim"]))
            reason = None
        except Refused as refused:
            (reason,) = refused.args
        assert reason == case["reason"], case["shows"]


def test_sums():
    assert str(GRID) == of("grid", "ledgers")[0]["grid"]
    for case in of("added", "ledgers"):
        assert str(added(Fraction(case["spent"]), Fraction(case["charge"]))) == case["total"]


def test_ledgers():
    for case in of("ledger", "ledgers"):
        device = Device(case["policy"], *CHARACTERS, case["calls"][0]["time"])
        for call in case["calls"]:
            update = bytes.fromhex(call.get("update_f64", ""))
            numbers = list(struct.unpack(f"<{len(update) // 8}d", update))
            numbers = call.get("answer", numbers)
            words = foreign.Words(call["words"])
            given = (bytes.fromhex(call["request"]), bytes.fromhex(call["weights"]), numbers)
            try:
                answer = {"report": device.answer(*given, call["time"], words).hex()}
            except Refused as refused:
                answer = {"reason": refused.args[0]}
            assert answer.items() <= call.items(), case["shows"]
            assert (len(device.entries), str(device.spent)) == (call["reports"], call["spent"])
            if "digest" in call:
                run = call["request"][10:42]
                known = device.runs.get(run, {"open": False, "residual": None})
                kept = known["residual"] or [0.0] * 6
                assert struct.pack("<6f", *kept).hex() == call["residual_f32"]
                assert known["open"] == call["open"]
            assert words.left == 0
