"""Why a server asks and who gets what it learns: two short texts that a request may carry.

    purpose    1 byte, and so many bytes of UTF-8 (0 … 200)
    recipient  1 byte, and so many bytes of UTF-8 (0 … 100)

Both are claims of the server, public, and shown to people. So they hold letters, marks, digits,
punctuation and symbols with single spaces between them, and nothing that cannot be seen. Which
characters these are is fixed by Unicode 3.2, whatever the version of Python: two devices never
judge one text differently.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any, final

from fedsel.errors import InvalidArgument, check_kind

MOST_BYTES = {"purpose": 200, "recipient": 100}
"""Bytes of UTF-8 of the two texts, at most."""
MOST_INTENT_BYTES = sum(1 + most for most in MOST_BYTES.values())
_UNICODE: Any = unicodedata.ucd_3_2_0
_VISIBLE = frozenset("LMNPS")
# Of these kinds, but drawn as nothing: two texts that look alike must be one text.
_BLANK = frozenset("\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | frozenset(
    chr(code)
    for first, last in ((0x180B, 0x180D), (0xFE00, 0xFE0F))
    for code in range(first, last + 1)
)
_MOST_MARKS = 4
"""Marks above and below one letter; more would be drawn over what stands beside the text."""


@final
@dataclass(frozen=True)
class Intent:
    """The ``purpose`` of a run and the ``recipient`` of what is learnt; empty where not stated.

    >>> intent = Intent("Improve the keyboard's suggestions", "Example Ltd, Vienna")
    >>> Intent.decode(intent.encode()) == intent, bool(intent), bool(Intent())
    (True, True, False)
    >>> Intent("two\\nlines")
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: purpose = 'two\\nlines': must be without '\\n': letters, ...
    """

    purpose: str = ""
    recipient: str = ""

    def __post_init__(self) -> None:
        for name in MOST_BYTES:
            check_text(name, getattr(self, name))

    def __bool__(self) -> bool:
        return bool(self.purpose or self.recipient)

    def encode(self) -> bytes:
        """Both texts, each after its length."""
        texts = (getattr(self, name).encode() for name in MOST_BYTES)
        return b"".join(bytes([len(text)]) + text for text in texts)

    @classmethod
    def decode(cls, data: bytes) -> Intent:
        """The intent of these bytes; anything else raises a ValueError."""
        intent, rest = cls.read(data)
        if rest:
            raise ValueError("not an intent")
        return intent

    @classmethod
    def read(cls, data: bytes) -> tuple[Intent, bytes]:
        """The intent that bytes begin with, and what follows; a ValueError where there is none."""
        texts = []
        for _ in MOST_BYTES:
            end = 1 + data[0] if data else 0
            if not 0 < end <= len(data):
                raise ValueError("not an intent")
            texts.append(data[1:end].decode("utf-8"))
            data = data[end:]
        return cls(*texts), data


def check_text(name: str, value: object, field: str | None = None) -> str:
    """A text that a person may be shown as it is; ``field`` says which limit it has.

    >>> check_text("recipients", "Ein Krankenhaus in Zürich", "recipient")
    'Ein Krankenhaus in Zürich'
    """
    check_kind(name, value, str)
    text, most = str(value), MOST_BYTES[field or name]
    if len(text) > most or len(text.encode("utf-8", "replace")) > most:
        raise InvalidArgument(name, value, f"at most {most} bytes of UTF-8")
    for character in text:
        if not is_visible(character):
            allowed = f"without {character!r}: letters, digits, punctuation, symbols and spaces"
            raise InvalidArgument(name, value, allowed)
    if text != text.strip(" ") or "  " in text:
        raise InvalidArgument(name, value, "without spaces at its ends or two in a row")
    if _UNICODE.normalize("NFC", text) != text:
        raise InvalidArgument(name, value, "in normal form: unicodedata.normalize('NFC', …)")
    if not _has_few_marks(text):
        raise InvalidArgument(name, value, f"with at most {_MOST_MARKS} marks on a letter")
    return text


def is_visible(character: str) -> bool:
    """Whether a text may have it: what can be seen, and the space."""
    kind: str = _UNICODE.category(character)
    return character == " " or (kind[0] in _VISIBLE and character not in _BLANK)


def is_mark(character: str) -> bool:
    """Whether it is drawn on the character before."""
    kind: str = _UNICODE.category(character)
    return kind[0] == "M"


def _has_few_marks(text: str) -> bool:
    """Whether each mark stands on something, and no more than a few on the same."""
    room = 0
    for character in text:
        if not is_mark(character):
            room = 0 if character == " " else _MOST_MARKS
        elif room == 0:
            return False
        else:
            room -= 1
    return True
