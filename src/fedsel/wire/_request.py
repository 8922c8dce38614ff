"""A request: what a server asks of a device in one round. The weights travel beside it.

    magic      4 bytes    FSRQ
    version    1 byte     1; 2 with a number of bases; 3 with a purpose or a recipient
    run        16 bytes
    epoch      4 bytes
    round      4 bytes
    intent                in version 3 alone
    recipe                to the end, of either length in version 3

The recipe says what devices must know of it:

    solution       24 bytes   ASCII, padded with zeros
    epsilon        8 + 8      numerator and denominator
    dim            8
    epochs         4
    mu             8          float
    k              1 + 8      0 and a count, or 1 and a share (float)
    clip, momentum, ratio     8 each, floats
    seed           8
    learning_rate  8          float
    rho            8          float, 0 for none
    words          4          0 for none
    bases          4          only where it is given: in requests of version 2

What the server does alone (the average, λ) is not in it, nor which rounds prepare: their reports
are like all others. All integers are little-endian and unsigned.

The intent says why the server asks and who receives the results:

    purpose    1 byte, and so many bytes of UTF-8 (0 … 200)
    recipient  1 byte, and so many bytes of UTF-8 (0 … 100)

Both are claims of the server, public, and shown to people. So they hold letters, marks, digits,
punctuation and symbols with single spaces between them, and nothing that cannot be seen. Unicode
3.2 fixes which characters these are, whatever the version of Python: two devices never judge one
text differently.
"""

from __future__ import annotations

import struct
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from fedsel.errors import InvalidArgument, check_count, check_kind
from fedsel.mechanisms._selection import Share, Top
from fedsel.recipe import PRIVATE, Recipe
from fedsel.solutions import entry
from fedsel.wire._report import RUN_BYTES, ReportFormat

MOST_TEXT_BYTES = {"purpose": 200, "recipient": 100}
"""Bytes of UTF-8 of the two texts, at most."""
MOST_INTENT_BYTES = sum(1 + most for most in MOST_TEXT_BYTES.values())
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
        for name in MOST_TEXT_BYTES:
            check_text(name, getattr(self, name))

    def __bool__(self) -> bool:
        return bool(self.purpose or self.recipient)

    def encode(self) -> bytes:
        """Write both texts, each after its length."""
        texts = (getattr(self, name).encode() for name in MOST_TEXT_BYTES)
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
        for _ in MOST_TEXT_BYTES:
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
    text, most = str(value), MOST_TEXT_BYTES[field or name]
    if len(text) > most or len(text.encode("utf-8", "replace")) > most:
        raise InvalidArgument(name, value, f"at most {most} bytes of UTF-8")
    for character in text:
        if not is_visible(character):
            allowed = f"without {character!r}: letters, digits, punctuation, symbols and spaces"
            raise InvalidArgument(name, value, allowed)
    if text != text.strip(" ") or "  " in text:
        raise InvalidArgument(name, value, "without spaces at its ends and without two in a row")
    if _UNICODE.normalize("NFC", text) != text:
        raise InvalidArgument(name, value, "in normal form: unicodedata.normalize('NFC', …)")
    if not _has_few_marks(text):
        raise InvalidArgument(name, value, f"with at most {_MOST_MARKS} marks on a letter")
    return text


def is_visible(character: str) -> bool:
    """Whether a text may have the character: what can be seen, and the space."""
    kind: str = _UNICODE.category(character)
    return character == " " or (kind[0] in _VISIBLE and character not in _BLANK)


def is_mark(character: str) -> bool:
    """Whether the character is drawn on the one before."""
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


_WORD = 1 << 64
_RECIPE = struct.Struct("<24sQQQIdB8sdddQddI")
_COUNT, _SHARE = 0, 1
_BASES = struct.Struct("<I")

RECIPE_BYTES = _RECIPE.size
LONG_RECIPE_BYTES = RECIPE_BYTES + _BASES.size
"""The length of a recipe without and with a number of bases."""
MOST_SLOTS = 1 << 32
"""Slots that the four bytes of a report can tell apart."""
MOST_PROJECTED = 1 << 24
"""Entries of a public projection or codebook that a device is asked to hold at most."""


def check_sendable(recipe: Recipe) -> Recipe:
    """The recipe, if devices can be asked for it: private, decided, and of a size they can hold."""
    epsilon = recipe.epsilon
    if not isinstance(epsilon, Fraction):
        raise InvalidArgument("solution", recipe.solution, PRIVATE)
    if max(epsilon.numerator, epsilon.denominator) >= _WORD:
        raise InvalidArgument("epsilon", epsilon, "a ratio of integers of 64 bits")
    recipe.require("learning_rate")
    if entry(recipe.solution).answers and isinstance(recipe.k, float):
        allowed = "a count: fedsel.resolve_auto chooses the blocks of answers"
        raise InvalidArgument("k", recipe.k, allowed)
    solution = recipe.build()
    # Before anything of that size is made.
    if solution.transform.entries > MOST_PROJECTED:
        raise InvalidArgument(
            "dim", recipe.dim, f"smaller: a public matrix may have {MOST_PROJECTED} entries"
        )
    if solution.transform.slots > MOST_SLOTS:
        raise InvalidArgument("bases", recipe.bases, f"fewer: at most {MOST_SLOTS} slots in all")
    if not solution.private:
        raise InvalidArgument("solution", recipe.solution, PRIVATE)
    return recipe


def encode_recipe(recipe: Recipe) -> bytes:
    """The bytes of a recipe that `check_sendable` accepts."""
    recipe.require("dim", "learning_rate")
    recipe = recipe.with_unused_zeroed
    counted = not isinstance(recipe.k, float)
    epsilon = Fraction(recipe.epsilon or 0)
    packed = _RECIPE.pack(
        recipe.solution.encode("ascii"),
        epsilon.numerator,
        epsilon.denominator,
        recipe.dim,
        recipe.epochs,
        recipe.mu,
        _COUNT if counted else _SHARE,
        struct.pack("<Q", recipe.k) if counted else struct.pack("<d", recipe.k),
        recipe.clip,
        recipe.momentum,
        recipe.ratio,
        recipe.seed,
        recipe.learning_rate,
        recipe.rho or 0.0,  # never 0 itself: that stands for none
        recipe.words or 0,
    )
    return packed if recipe.bases is None else packed + _BASES.pack(recipe.bases)


def decode_recipe(data: bytes) -> Recipe:
    """The recipe of these bytes; anything else raises a ValueError.

    Nothing of size ``dim`` is built.

    >>> recipe = Recipe("PS-PM", 2.0, dim=100, learning_rate=0.5, mu=0.1, averaging=0.0)
    >>> decode_recipe(encode_recipe(recipe)) == recipe.with_unused_zeroed
    True
    """
    if len(data) not in (RECIPE_BYTES, LONG_RECIPE_BYTES):
        raise ValueError("not a recipe")
    name, numerator, denominator, dim, epochs, mu, kind, k, *rest = _RECIPE.unpack_from(data)
    clip, momentum, ratio, seed, learning_rate, rho, codewords = rest
    if denominator == 0 or kind not in (_COUNT, _SHARE):
        raise ValueError("not a recipe")
    top: Top = struct.unpack("<Q" if kind == _COUNT else "<d", k)[0]
    recipe = Recipe(
        solution=name.rstrip(b"\0").decode("ascii"),
        epsilon=Fraction(numerator, denominator),
        dim=dim,
        epochs=epochs,
        learning_rate=learning_rate,
        averaging=0.0,
        rho=rho if rho != 0 else None,
        mu=mu,
        k=top if kind == _COUNT else Share(top),
        clip=clip,
        momentum=momentum,
        ratio=ratio,
        words=codewords or None,
        bases=_BASES.unpack_from(data, RECIPE_BYTES)[0] if len(data) > RECIPE_BYTES else None,
        seed=seed,
        spread=0.0,
        centre=0.0,
    )
    if encode_recipe(recipe) != data:  # one recipe, one encoding
        raise ValueError("not a recipe")
    return recipe


_MAGIC = b"FSRQ"
_HEAD = struct.Struct("<4sB16sII")
_MOST = (1 << 32) - 1

REQUEST_BYTES = _HEAD.size + RECIPE_BYTES
"""The length of every request of version 1. One of version 2 ends with a number of bases."""
MOST_REQUEST_BYTES = _HEAD.size + MOST_INTENT_BYTES + LONG_RECIPE_BYTES
"""No request is longer."""
_PLAIN, _WITH_BASES, _WITH_INTENT = 1, 2, 3
_VERSIONS = (_PLAIN, _WITH_BASES, _WITH_INTENT)
_NOTHING_STATED = Intent()


class InvalidMessage(ValueError):
    """Bytes that are no message of this protocol; what they were is not repeated."""


class UnknownVersion(InvalidMessage):
    """A message of a version that is not spoken here."""


@final
@dataclass(frozen=True)
class Request:
    """A report is asked for in ``round`` of a run, which belongs to ``epoch`` of its recipe.

    ``run`` is 16 random bytes that name the run. Rounds count through all epochs. ``intent`` is
    the purpose of the run and the recipient of its results, as the server states them.

    >>> recipe = Recipe("PM", epsilon=1.0, dim=8, mu=0.1, rho=None, learning_rate=1.0)
    >>> request = Request(bytes(16), epoch=0, round=3, recipe=recipe)
    >>> Request.decode(request.encode()) == request
    True
    """

    run: bytes
    epoch: int
    round: int
    recipe: Recipe
    intent: Intent = _NOTHING_STATED

    def __post_init__(self) -> None:
        check_kind("run", self.run, bytes)
        check_kind("recipe", self.recipe, Recipe)
        check_kind("intent", self.intent, Intent)
        object.__setattr__(self, "recipe", self.recipe.wire_part)
        if len(self.run) != RUN_BYTES:
            raise InvalidArgument("run", self.run, f"{RUN_BYTES} bytes")
        check_count("round", self.round, least=0, most=_MOST)
        check_count("epoch", self.epoch, least=0, most=self.recipe.epochs - 1)

    @property
    def format(self) -> ReportFormat:
        """The format of its reports."""
        return ReportFormat.of(self.recipe.build(), self.run)

    @property
    def version(self) -> int:
        """The lowest version that can say it: one request, one encoding."""
        if self.intent:
            return _WITH_INTENT
        return _PLAIN if self.recipe.bases is None else _WITH_BASES

    def encode(self) -> bytes:
        """The request in bytes."""
        head = _HEAD.pack(_MAGIC, self.version, self.run, self.epoch, self.round)
        intent = self.intent.encode() if self.intent else b""
        return head + intent + encode_recipe(self.recipe)

    @classmethod
    def decode(cls, data: object) -> Request:
        """The request of these bytes; all else raises `InvalidMessage`, which says no more."""
        if not isinstance(data, bytes | bytearray | memoryview) or len(data) > MOST_REQUEST_BYTES:
            raise InvalidMessage("not a request")
        data = bytes(data)
        version = data[len(_MAGIC)] if len(data) > len(_MAGIC) else None
        if data.startswith(_MAGIC) and version is not None and version not in _VERSIONS:
            raise UnknownVersion("a request of another version")
        request = _decoded(data) if len(data) >= REQUEST_BYTES else None
        if request is None:
            raise InvalidMessage("not a request")
        return request


def _decoded(data: bytes) -> Request | None:
    magic, version, run, epoch, number = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        return None
    rest, intent = data[_HEAD.size :], _NOTHING_STATED
    try:
        if version == _WITH_INTENT:
            intent, rest = Intent.read(rest)
        request = Request(run, epoch, number, decode_recipe(rest), intent)
    except (ValueError, OverflowError):
        return None
    return request if request.version == version else None
