"""Purpose and recipient of a run: which texts there are, and the one way in which they travel."""

import json
import struct
import unicodedata
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsel import InvalidArgument
from fedsel.wire import Intent, InvalidMessage, Request, UnknownVersion, encode_recipe
from fedsel.wire._request import (
    MOST_INTENT_BYTES,
    MOST_REQUEST_BYTES,
    MOST_TEXT_BYTES,
    REQUEST_BYTES,
)
from tests.wire.support import complete
from tests.wire.test_messages import check_request

RUN = bytes(range(16))
HEAD = 29
GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "requests.json").read_text(encoding="utf-8")
)
INTENT = Intent("Improve the keyboard's suggestions", "Example Ltd, Vienna")
UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")
GOOD_TEXTS = [
    "a",
    "Tastaturvorschläge verbessern (Juli – September)",
    "Προβλέψεις πληκτρολογίου",
    "改进输入法",
    "सुझाव",  # marks that a letter needs
    "50 % < 1 & [b] =1+1 $x$ ../.. {} ; -- '\" \\n",  # does nothing, wherever it is shown
    "p" * 100,
    "é" * 50,
    "z" + "\u0335" * 4,
    "a\u180a",  # the neighbour of what is not seen
]
BAD_TEXTS = [
    "two\nlines",
    "a\ttab",
    "\x1b[31mred",
    "nul\0",
    "del\x7f",
    "c1\x9b31m",
    "rtl\u202eover",
    "isolate\u2066d",
    "zero\u200bwidth",
    "joiner\u200d",
    "bom\ufeff",
    "soft\u00adhyphen",
    "line\u2028separator",
    "no\u00a0break",
    "wide\u3000space",
    "hangul\u3164filler",
    "braille\u2800blank",
    "variation\ufe0f",
    "first\ufe00variation",
    "free\u180bvariations",
    "free\u180cvariations",
    "free\u180dvariations",
    "private\ue000",
    "lone\ud800surrogate",
    "tag\U000e0041",
    "grapheme\u034fjoiner",
    " first",
    "last ",
    "two  spaces",
    "e\u0301",  # é in two characters
    "\u212b",  # a sign that is Å, and comes after it
    "\u0301mark first",
    "mark after a \u0301space",
    "z" + "\u0335" * 5,
]


def request(intent=INTENT, bases=None, epsilon=Fraction(9, 2)):
    recipe = complete(
        "RJ", epsilon=epsilon, dim=8, epochs=3, rho=0.5, bases=bases, seed=7, learning_rate=0.3
    )
    return Request(RUN, 1, 4, recipe, intent)


@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_requests_have_the_bytes_that_were_recorded(case):
    """Requests of versions 1 and 2 were recorded before there was a purpose."""
    asked = request(Intent(case["purpose"], case["recipient"]), case["bases"])
    assert asked.version == case["version"]
    assert asked.encode().hex() == case["request"]
    assert Request.decode(bytes.fromhex(case["request"])) == asked
    assert str(asked.recipe.charge) == case["charge"]


@pytest.mark.parametrize("bases", [None, 3])
def test_version_3_is_an_earlier_one_with_two_texts_before_the_recipe(bases):
    """Written down here a second time, from the description of the format."""
    earlier = request(Intent(), bases).encode()
    texts = b"".join(
        struct.pack("B", len(text.encode())) + text.encode()
        for text in (INTENT.purpose, INTENT.recipient)
    )
    expected = earlier[:4] + b"\3" + earlier[5:HEAD] + texts + earlier[HEAD:]
    assert request(INTENT, bases).encode() == expected
    assert earlier[4] == (1 if bases is None else 2)


@pytest.mark.parametrize("text", GOOD_TEXTS)
def test_texts_that_people_can_read_make_the_way_and_back(text):
    for intent in (Intent(text), Intent("", text), Intent(text, text)):
        assert Intent.decode(intent.encode()) == intent
        assert Request.decode(request(intent).encode()).intent == intent
        assert bool(intent)


@pytest.mark.parametrize("text", BAD_TEXTS, ids=[ascii(text) for text in BAD_TEXTS])
@pytest.mark.parametrize("name", ["purpose", "recipient"])
def test_what_cannot_be_seen_is_refused_by_name_and_on_the_wire(name, text):
    with pytest.raises(InvalidArgument, match=f"^{name} = "):
        Intent(**{name: text})
    written = text.encode("utf-8", "surrogatepass")
    plain = bytes([len(written)]) + written
    texts = plain + b"\0" if name == "purpose" else b"\0" + plain
    data = request(Intent("x")).encode()
    data = data[:HEAD] + texts + data[HEAD + 3 :]
    with pytest.raises(InvalidMessage, match=r"^not a request$"):
        Request.decode(data)


@pytest.mark.parametrize(("name", "most"), MOST_TEXT_BYTES.items())
def test_the_longest_texts(name, most):
    for text in ("x" * most, "é" * (most // 2)):
        assert getattr(Intent(**{name: text}), name) == text
    for text in ("x" * (most + 1), "é" * (most // 2 + 1), "x" * 10**6, "\ud800" * (most + 1)):
        with pytest.raises(InvalidArgument, match=f"^{name} = .*at most {most} bytes"):
            Intent(**{name: text})
    longest = Intent("é" * 100, "x" * 100)
    assert len(longest.encode()) == MOST_INTENT_BYTES
    data = request(longest, bases=3).encode()
    assert len(data) == MOST_REQUEST_BYTES
    assert Request.decode(data).intent == longest
    with pytest.raises(InvalidMessage):
        Request.decode(data + b"\0")


def test_a_length_that_a_byte_holds_and_a_text_must_not_have():
    """201 bytes of purpose fit the byte before them; they are refused all the same."""
    data = request(Intent("x")).encode()
    for purpose, recipient in ((b"x" * 201, b""), (b"", b"x" * 101)):
        texts = bytes([len(purpose)]) + purpose + bytes([len(recipient)]) + recipient
        with pytest.raises(InvalidMessage):
            Request.decode(data[:HEAD] + texts + data[HEAD + 3 :])


@pytest.mark.parametrize("value", [None, 7, b"bytes", ["a"]])
def test_what_is_no_text(value):
    with pytest.raises(InvalidArgument, match=r"^recipient = .*a str"):
        Intent("x", value)
    with pytest.raises(InvalidArgument, match=r"^intent = "):
        replace(request(), intent=value)


def test_an_intent_is_not_changed_afterwards():
    with pytest.raises(FrozenInstanceError):
        INTENT.purpose = "another"
    assert not Intent()
    assert Intent() == Intent("", "")


def test_one_request_has_one_encoding():
    """Nothing stated is version 1 or 2; what is stated is not; nothing is left over."""
    plain, stated = request(Intent()).encode(), request().encode()
    as_version_3 = plain[:4] + b"\3" + plain[5:HEAD] + b"\0\0" + plain[HEAD:]
    with_bases = request(Intent(), bases=3).encode()
    for data in (
        as_version_3,
        plain[:4] + b"\2" + plain[5:],
        plain[:4] + b"\3" + plain[5:],
        with_bases[:4] + b"\1" + with_bases[5:],
        stated[:4] + b"\1" + stated[5:],
        stated[:4] + b"\2" + stated[5:],
        stated + b"\0",
        stated + struct.pack("<I", 0),
        stated[:-1],
        stated[: HEAD + 5],
    ):
        with pytest.raises(InvalidMessage, match=r"^not a request$"):
            Request.decode(data)
    with pytest.raises(UnknownVersion):
        Request.decode(stated[:4] + b"\4" + stated[5:])


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\1", b"\5ab\0", b"\1a\1", b"\1a\1bc", b"\2\xff\xfe\0"]
)
def test_what_is_no_intent(data):
    with pytest.raises(ValueError, match=r"not an intent|codec can't decode"):
        Intent.decode(data)


def test_neither_price_nor_format_depend_on_what_is_said():
    said, unsaid = request(), request(Intent())
    assert said.recipe == unsaid.recipe
    assert said.recipe.charge == unsaid.recipe.charge == Fraction(3, 2)
    assert said.format == unsaid.format
    assert encode_recipe(said.recipe) == encode_recipe(unsaid.recipe)


def test_characters_are_those_of_one_version_of_unicode():
    """A letter of a later one is refused, however new the Python is: devices agree."""
    newer = "\u1e9e"  # ẞ came with Unicode 5.1
    assert unicodedata.category(newer) == "Lu"
    with pytest.raises(InvalidArgument, match=r"^purpose = "):
        Intent(newer)


def test_no_character_is_taken_that_cannot_be_seen():
    unseen = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) in UNSEEN]
    assert len(unseen) > 200
    for character in unseen:
        with pytest.raises(InvalidArgument, match=r"^purpose = "):
            Intent(f"a{character}a" if character != " " else " ")


@settings(max_examples=150)
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_texts_are_refused_or_make_the_way_and_back(purpose, recipient):
    try:
        intent = Intent(purpose, recipient)
    except InvalidArgument:
        return
    assert Intent.decode(intent.encode()) == intent
    assert all(text.isprintable() for text in (purpose, recipient))
    assert unicodedata.normalize("NFC", purpose) == purpose


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(5, REQUEST_BYTES + 20), st.integers(0, 255)), max_size=4),
    st.integers(0, 3),
)
def test_a_changed_request_is_another_request_or_none(changes, cut):
    data = bytearray(request(bases=3).encode())
    for place, value in changes:
        data[place] = value
    del data[len(data) - cut :]
    check_request(bytes(data))
