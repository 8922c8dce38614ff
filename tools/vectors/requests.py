"""Requests: the bytes of good ones with what they say, and bad ones with what is wrong."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from fedsel.errors import InvalidArgument
from fedsel.recipe import Recipe
from fedsel.wire import Intent, InvalidMessage, Request, UnknownVersion, check_sendable
from tools.vectors.encoding import Case, request_fields
from tools.vectors.reports import private_names

ABOUT = (
    "Bytes of requests. Good ones have the fields that they say; bad ones the reason with which a "
    "device refuses them, whatever its policy, and what is wrong with them."
)

_RUN = bytes(range(0x80, 0x90))
_HEAD = 29
_OFFSETS = {
    "solution": 0,
    "numerator": 24,
    "denominator": 32,
    "dim": 40,
    "epochs": 48,
    "mu": 52,
    "k kind": 60,
    "k": 61,
    "clip": 69,
    "momentum": 77,
    "ratio": 85,
    "seed": 93,
    "learning_rate": 101,
    "rho": 109,
    "words": 117,
    "bases": 121,
}
"""Where the fields of a recipe begin."""

ANSWERS = (
    *((2, 1, None, None), (128, 2, None, None), (8192, 8191, None, None), (65_536, 1, None, None)),
    *((6, 1, 7, 3), (65_536, 16, 65_537, 32_768), (2, 1, 131_071, 21_845)),
)
"""M, k, v and e of BR, each as large as it may be."""


def cases() -> Iterator[Case]:
    """Every case."""
    for shows, request in _good():
        encoded = request.encode()
        yield {"shows": shows, "request": encoded.hex(), "fields": request_fields(request)}
    for shows, data in _bad():
        yield {"shows": shows, "request": data.hex(), "reason": _reason(data)}


def _reason(data: bytes) -> str:
    try:
        check_sendable(Request.decode(data).recipe)
    except UnknownVersion:
        return "VERSION"
    except (InvalidMessage, InvalidArgument):
        return "MALFORMED"
    raise AssertionError("a request that is meant to be bad is understood")


def recipe(name: str = "PS-PM", **changes: Any) -> Recipe:
    """A recipe that all devices understand."""
    given: dict[str, Any] = {
        "epsilon": Fraction(9, 2),
        "dim": 123,
        "epochs": 3,
        "mu": 0.1,
        "k": 0.1,
        "clip": 0.5,
        "momentum": 0.25,
        "ratio": 0.5,
        "seed": 11,
        "learning_rate": 0.3,
        "rho": 0.8,
        "words": None,
        "bases": None,
        **changes,
    }
    return Recipe(name, **given)


def _good() -> Iterator[tuple[str, Request]]:
    for name in private_names():
        changes = {"k": 2} if name == "BR" else {}
        yield f"version 1: {name}", Request(_RUN, 2, 7, recipe(name, **changes))
    most = (1 << 32) - 1
    extremes = recipe("J", dim=1 << 32, epochs=most, k=1 << 32, seed=(1 << 64) - 1, rho=5e-324)
    yield "version 1: the largest numbers", Request(bytes(16), most - 1, most, extremes)
    smallest = recipe(
        "RC",
        epsilon=Fraction(1, (1 << 64) - 1),
        dim=1,
        k=1,
        words=1,
        clip=5e-324,
        momentum=-1.7976931348623157e308,
        ratio=5e-324,
        learning_rate=1.7976931348623157e308,
        rho=None,
        seed=0,
    )
    yield "version 1: the smallest numbers, no radius", Request(b"\xff" * 16, 0, 0, smallest)
    yield "version 1: k of 1.0 is all", Request(_RUN, 0, 0, recipe(k=1.0))
    yield "version 1: a momentum of −0.0", Request(_RUN, 0, 0, recipe(momentum=-0.0))
    for bases in (1, 16, 65536):
        yield f"version 2: {bases} bases", Request(_RUN, 0, 0, recipe("RJ", bases=bases))
    yield "version 2: bases also where they do not matter", Request(_RUN, 0, 1, recipe(bases=2))
    texts = (
        ("Improve the keyboard's suggestions", "Example Ltd, Vienna"),
        ("a purpose alone", ""),
        ("", "a recipient alone"),
        ("Schlafqualität für Zürich: Ω ≤ 5 %", "病院"),
        ("p" * 200, "r" * 100),
        ("ä" * 100, "€" * 33),
        ("e\u0323\u0302\u0331".encode().decode(), "😀 is not of Unicode 3.2"),
    )
    for purpose, recipient in texts[:-1]:
        stated = Intent(purpose, recipient)
        yield "version 3: what for, and for whom", Request(_RUN, 1, 2, recipe(), stated)
    stated = Intent("with bases, too", "Example Ltd")
    yield "version 3: with bases", Request(_RUN, 1, 2, recipe("RJ", bases=16), stated)
    for dim, k, words, bases in ANSWERS:
        blocks = check_sendable(recipe("BR", dim=dim, k=k, words=words, bases=bases))
        yield f"BR with {dim:,} answers", Request(_RUN, 1, 2, blocks)


def _bad() -> Iterator[tuple[str, bytes]]:
    good = Request(_RUN, 2, 7, recipe()).encode()
    based = Request(_RUN, 2, 7, recipe("RJ", bases=16)).encode()
    stated = Request(_RUN, 2, 7, recipe(), Intent("for this", "for us")).encode()
    yield "empty", b""
    yield "the magic alone", good[:4]
    yield "magic and version alone", good[:5]
    yield "one byte short", good[:-1]
    yield "one byte too long", good + b"\0"
    yield "two requests", good + good
    yield "longer than any request", good + bytes(400)
    yield "another magic", b"FSRR" + good[4:]
    for version in (0, 4, 255):
        yield f"version {version}", _with(good, 4, bytes([version]))
    yield "an unknown version, and nothing else", b"FSRQ\x09"
    yield "version 2 without bases", _with(good, 4, b"\x02")
    yield "version 1 with bases", _with(based, 4, b"\x01")
    yield "version 3 that states nothing", good[:4] + b"\x03" + good[5:29] + b"\0\0" + good[29:]
    yield "version 3 without an intent", _with(good, 4, b"\x03")
    yield "version 1 with an intent", _with(stated, 4, b"\x01")
    yield "epoch of the recipe's epochs", _with(good, 21, struct.pack("<I", 3))
    yield from _bad_recipes(good, based)
    yield from _bad_texts(stated)
    yield from _bad_answers()


def _with(data: bytes, at: int, part: bytes) -> bytes:
    return data[:at] + part + data[at + len(part) :]


def _bad_recipes(good: bytes, based: bytes) -> Iterator[tuple[str, bytes]]:
    def put(field: str, layout: str, value: Any, data: bytes = good) -> bytes:
        return _with(data, _HEAD + _OFFSETS[field], struct.pack("<" + layout, value))

    for name in ("PS-PN", "ps-pm", "", "RJ2", "NP", "PS", "PrivUnit", "SignDS"):
        encoded = put("solution", "24s", name.encode())
        if name in ("NP", "PS", "PrivUnit", "SignDS"):
            continue  # understood, and refused by every policy: see policies.json
        yield f"solution {name!r}", encoded
    yield "solution that is not ASCII", put("solution", "24s", "PS-PMé".encode())
    yield "a byte after the name's zeros", put("solution", "24s", b"PS-PM\0\0x")
    yield "ε of 0", put("numerator", "Q", 0)
    yield "ε over 0", put("denominator", "Q", 0)
    yield (
        "ε not in lowest terms",
        _with(good, _HEAD + _OFFSETS["numerator"], struct.pack("<QQ", 18, 4)),
    )
    yield "ε above 500", _with(good, _HEAD + _OFFSETS["numerator"], struct.pack("<QQ", 501, 1))
    yield "dim of 0", put("dim", "Q", 0)
    yield "dim above 2^32", put("dim", "Q", (1 << 32) + 1)
    yield "epochs of 0", put("epochs", "I", 0)
    for value in (1.0, -0.1, float("nan"), float("inf")):
        yield f"mu of {value}", put("mu", "d", value)
    yield "a kind of k that is none", put("k kind", "B", 2)
    for value in (0.0, 1.5, -0.1, float("nan")):
        yield f"a share k of {value}", put("k", "d", value)
    counted = Request(_RUN, 0, 0, recipe(k=7)).encode()
    yield "a count k of 0", put("k", "Q", 0, counted)
    yield "a count k above dim", put("k", "Q", 124, counted)
    for field in ("clip", "learning_rate"):
        for value in (0.0, -1.0, float("nan"), float("inf")):
            yield f"{field} of {value}", put(field, "d", value)
    for value in (float("nan"), float("-inf")):
        yield f"momentum of {value}", put("momentum", "d", value)
    for value in (0.0, 1.0000000000000002, float("nan")):
        yield f"ratio of {value}", put("ratio", "d", value)
    for value in (-0.0, -1.0, float("nan"), float("inf")):
        yield f"rho of {value}", put("rho", "d", value)
    for value in (0, 65537):
        yield f"bases of {value}", put("bases", "I", value, based)


def _bad_texts(stated: bytes) -> Iterator[tuple[str, bytes]]:
    rest = stated[_HEAD + 9 + 7 :]

    def put(purpose: bytes, recipient: bytes = b"for us") -> bytes:
        texts = bytes([len(purpose)]) + purpose + bytes([len(recipient)]) + recipient
        return stated[:_HEAD] + texts + rest

    yield "a purpose longer than 200 bytes", put(b"p" * 201)
    yield "a recipient longer than 100 bytes", put(b"for this", b"r" * 101)
    yield "a purpose of 201 bytes of UTF-8", put("ä".encode() * 100 + b"x")
    yield "a purpose that is not UTF-8", put(b"\xff\xfe")
    yield "an overlong encoding", put(b"\xc0\xaf")
    yield "a surrogate", put(b"\xed\xa0\x80")
    yield "a text cut off by the end", stated[:_HEAD] + b"\xc8" + stated[_HEAD + 1 :]
    for shows, text in (
        ("a new line", "two\nlines"),
        ("a tab", "a\ttab"),
        ("NUL", "a\0b"),
        ("a no-break space", "a\u00a0b"),
        ("a zero-width space", "a\u200bb"),
        ("a right-to-left override", "a\u202eb"),
        ("a soft hyphen", "a\u00adb"),
        ("a variation selector", "a\ufe0fb"),
        ("a blank braille pattern", "a\u2800b"),
        ("a Hangul filler", "a\u3164b"),
        ("a private character", "a\ue000b"),
        ("a character younger than Unicode 3.2", "a\U0001f600b"),
        ("a space at the beginning", " a"),
        ("a space at the end", "a "),
        ("two spaces", "a  b"),
        ("not in normal form C", "u\u0308"),
        ("a mark at the beginning", "\u0323a"),
        ("a mark on a space", "a \u0323b"),
        ("five marks on a letter", "q\u0323\u0324\u0325\u0326\u0327"),
    ):
        yield f"a purpose with {shows}", put(text.encode())


def _bad_answers() -> Iterator[tuple[str, bytes]]:
    """Bytes of requests whose blocks of answers no device can make."""
    for shows, dim, k, words, bases in (
        ("a share of the answers", 6, 0.5, None, None),
        ("a share of the answers, all of them", 6, 1.0, 7, 3),
        ("one answer", 1, 1, None, None),
        ("blocks of all answers", 6, 6, None, None),
        ("65,537 answers", 65_537, 1, None, None),
        ("65,537 answers, and as many words", 65_537, 1, 65_537, 4),
        ("2^32 answers, half of them in a block", 1 << 32, 1 << 31, None, None),
        ("8,385 subsets", 130, 2, None, None),
        ("8,385 subsets, large ones", 130, 128, None, None),
        ("12,870 subsets", 16, 8, None, None),
        ("fewer words than answers", 6, 1, 5, 2),
        ("words that are no prime", 6, 1, 9, 2),
        ("words that are even", 6, 1, 8, 7),
        ("two words", 2, 1, 2, 1),
        ("words of 131,101", 6, 1, 131_101, 2),
        ("bases without words", 6, 1, None, 3),
        ("bases of 1", 6, 1, 7, 1),
        ("bases that do not divide", 6, 1, 7, 4),
        ("bases as many as words", 6, 1, 7, 7),
        ("k of all bases", 6, 3, 7, 3),
        ("k above the bases", 6, 5, 7, 3),
        ("more members than 2^20", 65_536, 17, 65_537, 32_768),
        ("more slots than 2^32", 6, 1, 131_071, 65_535),
        ("2^32 and 2^16 slots", 6, 1, 65_537, 65_536),
    ):
        made = recipe("BR", dim=dim, k=k, words=words, bases=bases)
        yield f"BR with {shows}", Request(_RUN, 2, 7, made).encode()
