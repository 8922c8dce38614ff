"""A device ends before it pays where keys, signature or the signature's time are not right."""

import time
from dataclasses import replace

import pytest

from fedsel import Policy
from fedsel.device._connection import Ended, Ending
from fedsel.device._sealed import FRESH_SECONDS, check_sealed, check_signed
from fedsel.server._keys import RunKeys
from fedsel.wire import Announcement, CloseRule, ShuffleRule
from fedsel.wire._contract import Shuffled

KEYS = RunKeys.of_secret(bytes(32), bytes(16))
OTHER = RunKeys.of_secret(b"\1" * 32, bytes(16))
PINS = {"server_key": KEYS.sealing.public, "signing_key": KEYS.signing.public}
PARTS = {"task": b"{}", "request": b"request", "weights": bytes(16), "preparing": b"null"}
TASK = Announcement(
    name="test",
    run=bytes(16),
    invitations="signed",
    rounds_per_epoch=1,
    close_after=CloseRule(reports=1),
    schema=None,
    loss=None,
    shuffle=Shuffled(ShuffleRule(100), 0.5, **PINS),
)
PLAIN = replace(TASK, shuffle=None)


def policy(**keys):
    return Policy(lifetime=1.0, per_report=1.0, solutions=["FJ"], dimensions=[2], **keys)


def refused(check, *arguments):
    """How a check ends."""
    with pytest.raises(Ended) as caught:
        check(*arguments)
    return caught.value.ending, caught.value.detail


def test_keys_that_agree():
    check_sealed(policy(**PINS), TASK)
    check_sealed(policy(), PLAIN)


@pytest.mark.parametrize("name", PINS)
def test_a_key_that_is_not_pinned_is_named(name):
    """Also whose it has to be: whoever passes the task on may have changed it."""
    keys = {other: key for other, key in PINS.items() if other != name}
    ending, detail = refused(check_sealed, policy(**keys), TASK)
    assert ending is Ending.REFUSED
    assert f'its policy needs {name} = "{PINS[name]}", if that is the service\'s' in detail


def test_keys_that_are_missing_are_named_together():
    _, detail = refused(check_sealed, policy(), TASK)
    both = " and ".join(f'{name} = "{key}"' for name, key in PINS.items())
    assert f"its policy needs {both}, if these are the service's" in detail


@pytest.mark.parametrize("name", PINS)
def test_another_key_than_the_policy_has(name):
    other = {"server_key": OTHER.sealing.public, "signing_key": OTHER.signing.public}
    ending, detail = refused(check_sealed, policy(**{**PINS, name: other[name]}), TASK)
    assert (ending, detail) == (Ending.REFUSED, f"the run has another {name} than its policy")


def test_a_device_that_seals_sends_nothing_plain():
    ending, detail = refused(check_sealed, policy(**PINS), PLAIN)
    assert (ending, "takes no sealed reports" in detail) == (Ending.REFUSED, True)


def signed(seconds=0, keys=KEYS):
    return keys.signing.sign(int(time.time()) + seconds, **PARTS)


def test_parts_that_were_signed_together():
    check_signed(signed(), PINS["signing_key"], PARTS)
    for seconds in (-FRESH_SECONDS + 60, FRESH_SECONDS - 60):
        check_signed(signed(seconds), PINS["signing_key"], PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_was_not_signed_is_named(part):
    changed = {**PARTS, part: b"other"}
    ending, detail = refused(check_signed, signed(), PINS["signing_key"], changed)
    assert (ending, f"has not signed the {part} " in detail) == (Ending.REFUSED, True)


@pytest.mark.parametrize("data", [signed(keys=OTHER), signed()[:-1], b""])
def test_a_signature_that_is_none(data):
    ending, detail = refused(check_signed, data, PINS["signing_key"], PARTS)
    assert (ending, "the signature of the round is not right" in detail) == (Ending.REFUSED, True)


@pytest.mark.parametrize(
    ("seconds", "told"), [(-3 * FRESH_SECONDS, "3 hours old"), (3 * FRESH_SECONDS, "3 hours ahead")]
)
def test_an_old_signature_is_for_nobody(seconds, told):
    """A relay holds no device at an earlier round; a wrong clock is no refusal, and is named."""
    ending, detail = refused(check_signed, signed(seconds), PINS["signing_key"], PARTS)
    assert (ending, told in detail) == (Ending.UNREACHABLE, True)
