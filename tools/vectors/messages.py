"""Messages: the bytes of reports, good and bad, and the texts that a request may carry."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedsel.mechanisms._reports import Reports
from fedsel.wire import (
    InvalidMessage,
    ReportFormat,
    Request,
    Sealing,
    Shuffled,
    ShuffleRule,
    SignedRound,
)
from fedsel.wire._request import is_mark, is_visible
from tools.vectors.encoding import Case, rational
from tools.vectors.requests import recipe

ABOUT = (
    "Bytes of reports in a format, with round and pairs or null where they are no report; the "
    "characters that a purpose and a recipient may have; sealed reports; signed rounds, with time "
    "and parts or the reason why they are none; what people are told of a run that is shuffled."
)
_RUN = bytes(16)


def cases() -> Iterator[Case]:
    """Every case."""
    for form in (
        ReportFormat(_RUN, slots=100, symbols=411),
        ReportFormat(_RUN, slots=100, symbols=411, bottom=True),
        ReportFormat(_RUN, slots=8, symbols=2, picks=3),
        ReportFormat(b"\xff" * 16, slots=1 << 32, symbols=2),
        ReportFormat(_RUN, slots=21, symbols=1),
    ):
        for shows, data in _messages(form):
            yield _case(form, shows, data)
    for kind, belongs in (("visible", is_visible), ("marks", is_mark)):
        yield {"kind": kind, "ranges": _ranges(belongs)}
    yield from _sealed()
    yield from _signed()
    yield from _shuffled()


def _case(form: ReportFormat, shows: str, data: bytes) -> Case:
    decoded = form.decode(data)
    return {
        "kind": "report",
        "shows": shows,
        "run": form.run.hex(),
        "slots": form.slots,
        "symbols": form.symbols,
        "picks": form.picks,
        "abstains": form.bottom,
        "report": data.hex(),
        "round": None if decoded is None else decoded[0],
        "pairs": None if decoded is None else [list(pair) for pair in decoded[1].pairs()[0]],
    }


def _messages(form: ReportFormat) -> Iterator[tuple[str, bytes]]:
    slots = list(range(form.picks))
    good = form.encode(7, Reports(slots, [0] * form.picks))
    last = [form.slots - 1 - j for j in slots]
    yield "good", good
    yield (
        "the last slots, symbols and round",
        form.encode((1 << 32) - 1, Reports(last, [form.symbols - 1] * form.picks)),
    )
    if form.bottom:
        yield "⊥", form.encode(3, Reports([-1], [0]))
    nothing = struct.pack("<II", 0, (1 << 32) - 1)
    yield "the bytes of ⊥", good[:8] + nothing * form.picks
    yield "⊥ with another slot", good[:8] + struct.pack("<II", 1, (1 << 32) - 1) * form.picks
    yield "empty", b""
    yield "one byte short", good[:-1]
    yield "one byte too long", good + b"\0"
    yield "version 0", b"\0" + good[1:]
    yield "version 2", b"\x02" + good[1:]
    yield "of another run", good[:1] + b"abc" + good[4:]
    if form.slots < 1 << 32:
        yield "a slot too far", good[:8] + struct.pack("<I", form.slots) + good[12:]
    yield "a symbol too far", good[:12] + struct.pack("<I", form.symbols) + good[16:]
    if form.picks > 1:
        yield "a slot twice", good[:16] + good[8:16] + good[24:]


_PRIVATE_KEY = bytes(range(32))
_SERVER_KEY = "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f"
_SEALED = (
    "092d805119e1376be7297401d67eed8e441a64775d954969760e10fa51cd247d05f2780ee8438979660070217ea9"
    "f0090166d8eddeafe2036deb7f0f71423b37"
)
"""Sealed once for the key above: another time gives other bytes, all of which must open."""


def _sealed() -> Iterator[Case]:
    for number in (7, 8):
        request = Request(bytes(range(0x80, 0x90)), 2, number, recipe()).encode()
        tag = Sealing(request, _SERVER_KEY).tag.hex()
        case = {"kind": "sealed", "request": request.hex(), "server_key": _SERVER_KEY, "tag": tag}
        if number == 7:
            report = "01374708070000000000000000000000"
            message = f"01{tag}{_SEALED}"
            opened = {"private_key": _PRIVATE_KEY.hex(), "message": message, "report": report}
            case = {**case, **opened}
        yield case


def _signed() -> Iterator[Case]:
    own, other = (Ed25519PrivateKey.from_private_bytes(bytes([byte]) * 32) for byte in (2, 3))
    key = own.public_key().public_bytes_raw().hex()
    parts = {
        "task": b"{}",
        "request": Request(bytes(range(0x80, 0x90)), 2, 7, recipe()).encode(),
        "weights": bytes(range(48)),
        "preparing": b"null",
    }
    for time in (0, 1_800_000_000):
        message = SignedRound.sign(own, time, **parts)
        texts = {name: part.hex() for name, part in parts.items()}
        shows = f"signed at {time}"
        yield {
            "kind": "signed",
            "shows": shows,
            "key": key,
            "message": message.hex(),
            "time": time,
            **texts,
        }
    last = bytes([message[-1] ^ 1])
    for shows, wrong in (
        ("empty", b""),
        ("one byte short", message[:-1]),
        ("one byte too long", message + b"\0"),
        ("another magic", b"FSRQ" + message[4:]),
        ("version 2", message[:4] + b"\x02" + message[5:]),
        ("another time", message[:5] + b"\x01" + message[6:]),
        ("other weights", message[:77] + bytes(32) + message[109:]),
        ("a bit of the signature", message[:-1] + last),
        ("signed by another key", SignedRound.sign(other, 0, **parts)),
        ("signed without the label", message[:-64] + own.sign(message[:-64])),
    ):
        yield {
            "kind": "signed",
            "shows": shows,
            "key": key,
            "message": wrong.hex(),
            "reason": _why(wrong, key),
        }


def _shuffled() -> Iterator[Case]:
    for n_min, dishonest, delta, epsilon, local in (
        (6667, 0.1, 1e-6, 0.2, Fraction(4)),
        (2, 0.0, 1e-100, 0.0, Fraction(1, 3)),
        (3, 0.999, 0.5, 12345.6, Fraction(99_995, 10_000)),
        ((1 << 32) - 1, 1e-7, 2.50001e-7, 0.00099995, Fraction(1, 1 << 36)),
        (1000, 0.0315, 0.9999999, 99999.5, Fraction(500)),
        (10, 0.3, 9.9999e-9, 5e-324, Fraction(7, 70_000)),
    ):
        shuffled = Shuffled(ShuffleRule(n_min, dishonest, delta), epsilon, _SERVER_KEY, _SERVER_KEY)
        yield {
            "kind": "shuffled",
            "values": shuffled.to_dict(),
            "local": rational(local),
            "said": shuffled.said(local),
            "condition": shuffled.condition,
        }


def _why(message: bytes, key: str) -> str | None:
    try:
        SignedRound.verify(message, key)
    except InvalidMessage as error:
        return str(error)
    return None


def _ranges(belongs: Callable[[str], bool]) -> list[list[int]]:
    """First and last code points of all that belongs, surrogates left out."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if 0xD800 <= code <= 0xDFFF or not belongs(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return ranges
