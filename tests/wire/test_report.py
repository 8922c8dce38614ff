"""Reports on the wire: of one length, of one run, judged alike; sealed by RFC 9180 to the byte."""

import hashlib
import hmac
import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsel import InvalidArgument, Reports
from fedsel._internal.extras import MissingExtra
from fedsel._internal.random import stream
from fedsel.server import ServerKey
from fedsel.wire import (
    ReportFormat,
    Request,
    Sealing,
)
from fedsel.wire._report import ADDED_BYTES, _suite
from tests.wire.support import complete
from tests.wire.test_messages import PRIVATE, RUN

NOTHING = Reports([-1], [0])


@pytest.mark.parametrize("name", PRIVATE)
def test_reports_have_one_length_whatever_they_say(name):
    recipe = complete(name, epsilon=8.0, dim=20, epochs=1, k=4)
    form, made = Request(RUN, 0, 0, recipe).format, recipe.build()
    for client in range(20):
        gradient = np.sin(np.arange(20) * (client + 1))
        said, _ = made.encode(gradient, np.zeros(20), stream(0, 0, client))
        data = form.encode(5, said)
        assert len(data) == form.size == 8 + 8 * form.picks
        assert form.decode(data) == (5, said)
        batch = form.decode_many(data)
        assert batch.valid.all()
        assert batch.round.tolist() == [5]
        assert batch.reports == Reports.of([said])
        assert batch.reports.pairs() == said.pairs()


def test_one_pick_of_four_billion_dimensions_takes_sixteen_bytes():
    form = ReportFormat(RUN, slots=1 << 32, symbols=1 << 17, bottom=True)
    assert form.size == 16
    largest = Reports([(1 << 32) - 1], [(1 << 17) - 1])
    assert form.decode(form.encode(3, largest)) == (3, largest)
    assert form.decode(form.encode(3, NOTHING)) == (3, NOTHING)
    assert len(form.encode(3, NOTHING)) == 16
    assert NOTHING.pairs() == [()]


FORMATS = [
    ReportFormat(RUN, slots=10, symbols=4),
    ReportFormat(RUN, slots=10, symbols=4, bottom=True),
    ReportFormat(RUN, slots=10, symbols=300, picks=3),
    ReportFormat(RUN, slots=1 << 32, symbols=1 << 16, bottom=True),
]


small = st.integers(0, 12) | st.sampled_from([(1 << 32) - 1, 1 << 16])


@settings(max_examples=200)
@given(st.sampled_from(FORMATS), st.lists(small, min_size=8, max_size=8), st.binary(max_size=40))
def test_reports_one_by_one_and_many_at_once_are_judged_alike(form, numbers, noise):
    head = form.encode(0, Reports(range(form.picks), [0] * form.picks))[:4]
    words = struct.pack("<7I", *numbers[: form.size // 4 - 1], *[0] * (8 - form.size // 4))
    for data in (head + words[: form.size - 4], noise, noise.ljust(form.size, b"\0")[: form.size]):
        one = form.decode(data)
        if one is None:
            if len(data) == form.size:
                assert not form.decode_many(data).valid.any()
            continue
        number, report = one
        (pairs,) = report.pairs()
        assert form.encode(number, report) == data
        assert all(j < form.slots and s < form.symbols for j, s in pairs)
        assert len({j for j, _ in pairs}) == len(pairs) in (form.picks, 0 if form.bottom else -1)
        batch = form.decode_many(data)
        assert batch.valid.all()
        assert batch.round.tolist() == [number]
        assert batch.reports == Reports.of([report])


def test_a_report_of_another_run_is_none():
    one, other = (ReportFormat(run, slots=10, symbols=4) for run in (RUN, bytes(16)))
    assert other.decode(one.encode(0, Reports([1], [2]))) is None
    assert one.decode(bytearray(one.encode(0, Reports([1], [2])))) is None


def test_bottom_is_no_report_where_the_law_has_none():
    with_bottom = ReportFormat(RUN, slots=10, symbols=4, bottom=True)
    without = ReportFormat(RUN, slots=10, symbols=4)
    assert without.decode(with_bottom.encode(0, NOTHING)) is None
    with pytest.raises(struct.error):
        without.encode(0, NOTHING)
    with pytest.raises(InvalidArgument):
        ReportFormat(RUN, 10, 4, picks=2, bottom=True)


GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "sealed.json").read_text())
KEY = ServerKey.generate()
REPORT = bytes(range(16))


def extract(salt, suite, label, ikm):
    return hmac.digest(salt, b"HPKE-v1" + suite + label + ikm, "sha256")


def expand(secret, suite, label, info, length):
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    blocks, block = b"", b""
    for i in range(-(-length // 32)):
        block = hmac.digest(secret, block + labelled + bytes([i + 1]), "sha256")
        blocks += block
    return blocks[:length]


def opened_by_the_standard(content, private, info):
    """Decryption of RFC 9180 in base mode, from its text: X25519, HKDF-SHA256, AES-GCM."""
    enc, ciphertext = content[:32], content[32:]
    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x02"
    shared = private.exchange(X25519PublicKey.from_public_bytes(enc))
    context = enc + private.public_key().public_bytes_raw()
    secret = expand(extract(b"", kem, b"eae_prk", shared), kem, b"shared_secret", context, 32)
    schedule = b"\0" + extract(b"", suite, b"psk_id_hash", b"")
    schedule += extract(b"", suite, b"info_hash", info)
    mixed = extract(secret, suite, b"secret", b"")
    key = expand(mixed, suite, b"key", schedule, 32)
    nonce = expand(mixed, suite, b"base_nonce", schedule, 12)
    return AESGCM(key).decrypt(nonce, ciphertext, b"")


def test_messages_are_what_the_standard_says():
    sealing = Sealing(b"a request", KEY.public)
    label = b"fedsel sealed report 1"
    assert sealing.tag == hashlib.sha256(label + bytes.fromhex(KEY.public) + b"a request").digest()
    message = sealing.seal(REPORT)
    assert message[:33] == b"\x01" + sealing.tag
    assert opened_by_the_standard(message[33:], KEY._private, sealing.tag) == REPORT


@pytest.mark.parametrize("case", GOLDEN["messages"])
def test_recorded_messages_open(case):
    private = X25519PrivateKey.from_private_bytes(bytes.fromhex(GOLDEN["private_key"]))
    key = ServerKey(private)
    assert key.public == GOLDEN["public_key"]
    sealing = Sealing(bytes.fromhex(case["request"]), key.public)
    message, report = bytes.fromhex(case["message"]), bytes.fromhex(case["report"])
    tag, content = Sealing.split(message)
    assert tag == sealing.tag
    assert sealing.unseal(content, private) == report
    assert opened_by_the_standard(content, private, tag) == report


def test_all_messages_have_one_length_and_none_repeats():
    sealing = Sealing(b"a request", KEY.public)
    messages = {sealing.seal(report) for report in (REPORT, REPORT, bytes(16), b"\xff" * 16)}
    assert len(messages) == 4
    assert {len(message) for message in messages} == {33 + 48 + 16}


def test_a_message_opens_for_its_request_and_its_key_alone():
    sealing = Sealing(b"a request", KEY.public)
    tag, content = Sealing.split(sealing.seal(REPORT))
    assert sealing.unseal(content, KEY._private) == REPORT
    other = ServerKey.generate()
    assert Sealing(b"another", KEY.public).unseal(content, KEY._private) is None
    assert Sealing(b"a request", other.public).unseal(content, other._private) is None
    assert Sealing(b"a request", other.public).unseal(content, KEY._private) is None
    assert len({s.tag for s in (sealing, Sealing(b"another", KEY.public))} | {tag}) == 2
    for i in range(len(content)):
        changed = content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :]
        assert sealing.unseal(changed, KEY._private) is None
    for short in (b"", content[:-1], content[:47], content + b"!", bytes(64)):
        assert sealing.unseal(short, KEY._private) is None


def test_what_is_no_message_has_no_parts():
    message = Sealing(b"a request", KEY.public).seal(REPORT)
    assert Sealing.split(message) is not None
    for wrong in (b"", message[:80], b"\x02" + message[1:], bytearray(message), None, 5, "text"):
        assert Sealing.split(wrong) is None
    shortest = Sealing(b"a request", KEY.public).seal(b"")
    assert len(shortest) == 33 + ADDED_BYTES == 81
    assert Sealing.split(shortest) == (shortest[1:33], shortest[33:])


@pytest.mark.parametrize("request_", ["a request", bytearray(b"a request"), None, 5])
def test_a_request_is_bytes(request_):
    with pytest.raises(InvalidArgument, match=r"^request = "):
        Sealing(request_, KEY.public)


@pytest.mark.parametrize(
    "key",
    ["", "ab", "AB" * 32, "ab" * 31 + "ag", "ab" * 33, None, 7, bytes(32)],
)
def test_what_is_no_key_is_refused(key):
    with pytest.raises(InvalidArgument, match=r"^server_key = .*64 hexadecimal digits"):
        Sealing(b"", key)


def test_a_key_with_which_every_secret_is_zero_is_refused():
    with pytest.raises(InvalidArgument, match=r"^server_key = .*: must be a public key"):
        Sealing(b"", "00" * 32).check()


def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.hpke", None)
    _suite.cache_clear()
    with pytest.raises(MissingExtra, match=r"sealed reports: .* 'fedsel\[shuffling\]'"):
        Sealing(b"", KEY.public).check()
