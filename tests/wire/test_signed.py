"""What a service signs of a round: all of it at once, and nothing that was changed passes."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedsel.wire import InvalidMessage, SignedRound
from fedsel.wire._signed import SIGNED_BYTES

PARTS = {"task": b"{}", "request": b"request", "weights": bytes(16), "preparing": b"null"}
TIME = 1_800_000_000


@pytest.fixture(scope="module")
def own():
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def key(own):
    return own.public_key().public_bytes_raw().hex()


@pytest.fixture(scope="module")
def signed(own):
    return SignedRound.sign(own, TIME, **PARTS)


def test_what_was_signed_is_read_again(signed, key):
    read = SignedRound.verify(signed, key)
    assert (len(signed), read.time) == (SIGNED_BYTES, TIME)
    assert read.covers(**PARTS)
    assert read.covers()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_was_changed_is_not_covered(signed, key, part):
    read = SignedRound.verify(signed, key)
    assert not read.covers(**{**PARTS, part: PARTS[part] + b" "})
    others = {name: value for name, value in PARTS.items() if name != part}
    assert not read.covers(**{part: next(iter(others.values()))})  # nor is one part another


@pytest.mark.parametrize("place", range(SIGNED_BYTES))
def test_no_byte_can_be_changed(signed, key, place):
    changed = bytearray(signed)
    changed[place] ^= 1
    with pytest.raises(InvalidMessage):
        SignedRound.verify(bytes(changed), key)


@pytest.mark.parametrize("data", [b"", b"FSSR", bytes(SIGNED_BYTES), None, "text"])
def test_what_is_no_signed_round(data, key):
    with pytest.raises(InvalidMessage, match="not a signed round"):
        SignedRound.verify(data, key)


def test_other_lengths_and_other_keys(signed, key):
    for data in (signed[:-1], signed + b"\0"):
        with pytest.raises(InvalidMessage, match="not a signed round"):
            SignedRound.verify(data, key)
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    with pytest.raises(InvalidMessage, match="signed by another key"):
        SignedRound.verify(signed, other)


def test_a_signature_of_the_same_bytes_for_something_else_does_not_count(own, signed, key):
    """The key signs rounds under a label of their own."""
    content = signed[:-64]
    with pytest.raises(InvalidMessage, match="another key"):
        SignedRound.verify(content + own.sign(content), key)
