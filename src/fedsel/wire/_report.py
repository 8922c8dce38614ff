"""The bytes of a report: one format encodes on the device and decodes on the server.

    version  1 byte      1
    run      3 bytes     the first of SHA-256 of the run's name
    round    4 bytes
    then for each pick
      slot       4 bytes
      symbol     4 bytes   2^32 − 1 with slot 0 is ⊥

All integers are little-endian. The length depends on public parameters alone: 16 bytes with one
pick, ⊥ included.

A sealed report can be opened by the server alone, whoever carries it:

    version  1 byte     1
    tag      32 bytes   SHA-256 of "fedsel sealed report 1", the server's key and the request
    sealed   48 bytes more than the report

Sealed is by HPKE (RFC 9180): base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM,
``info`` the tag, no further data; the 32 bytes of the encapsulated key come first. The length
depends on public parameters alone, like the length of the report.

The tag is what reports must have in common to be shuffled together. It holds the whole request and
the key: a client that was asked in another way than the others, or was given another key, could be
told from them, and has another tag. A report opens under the tag that it was sealed with alone.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument, check_kind
from fedsel.mechanisms._reports import BOTTOM, Reports
from fedsel.solutions import Solution

RUN_BYTES = 16
_VERSION = 1
_NOTHING = (1 << 32) - 1
_TAG_BYTES = 3


class Batch(NamedTuple):
    """What a buffer holds: which of n reports are valid (n,), their rounds (n,), and them."""

    valid: NDArray[np.bool_]
    round: NDArray[np.int64]
    reports: Reports


@final
@dataclass(frozen=True)
class ReportFormat:
    """Reports of ``picks`` pairs with a slot and a symbol below these bounds.

    >>> form = ReportFormat(bytes(16), slots=100, symbols=411, picks=1, bottom=True)
    >>> form.size, form.encode(7, Reports([99], [410])).hex()
    (16, '0137470807000000630000009a010000')
    >>> number, report = form.decode(form.encode(8, Reports([-1], [0])))
    >>> number, report.pairs()
    (8, [()])
    """

    run: bytes
    slots: int
    symbols: int
    picks: int = 1
    bottom: bool = False

    def __post_init__(self) -> None:
        if self.bottom and self.picks > 1:
            raise InvalidArgument("picks", self.picks, "1 if a report may be ⊥")

    @classmethod
    def of(cls, solution: Solution, run: bytes) -> ReportFormat:
        """The format of a private solution's reports in a run."""
        alphabet = solution.alphabet
        if alphabet.plain:
            raise InvalidArgument("solution", solution.name, "a private solution")
        return cls(run, alphabet.slots, alphabet.symbols, alphabet.picks, alphabet.abstains)

    @property
    def size(self) -> int:
        """The length of every report in bytes."""
        return 8 + 8 * self.picks

    @cached_property
    def _head(self) -> bytes:
        return bytes([_VERSION]) + hashlib.sha256(self.run).digest()[:_TAG_BYTES]

    @cached_property
    def _layout(self) -> struct.Struct:
        return struct.Struct("<4sI" + "II" * self.picks)

    @cached_property
    def _columns(self) -> np.dtype[np.void]:
        pairs = ("pairs", "<u4", (self.picks, 2))
        return np.dtype([("head", "<u4"), ("round", "<u4"), pairs])

    def encode(self, number: int, report: Reports) -> bytes:
        """The report of one client in round ``number``."""
        slots, symbols = report.slot.tolist(), report.symbol.tolist()
        if self.bottom and slots == [BOTTOM]:
            slots, symbols = [0], [_NOTHING]
        pairs = (x for pair in zip(slots, symbols, strict=True) for x in pair)
        return self._layout.pack(self._head, number, *pairs)

    def decode(self, data: object) -> tuple[int, Reports] | None:
        """Round and report of these bytes, or None if they are no report of this format."""
        parts = self._read(data)
        return None if parts is None else (parts[0], Reports(parts[1], parts[2]))

    def round_of(self, data: object) -> int | None:
        """The round of a report, or None if these bytes are none: `decode` without its arrays."""
        parts = self._read(data)
        return None if parts is None else parts[0]

    def _read(self, data: object) -> tuple[int, list[int], list[int]] | None:
        if not isinstance(data, bytes) or len(data) != self.size:
            return None
        head, number, *numbers = self._layout.unpack(data)
        if head != self._head:
            return None
        slots, symbols = numbers[::2], numbers[1::2]
        if self.bottom and slots == [0] and symbols == [_NOTHING]:
            return number, [BOTTOM], [0]
        known = max(slots) < self.slots and max(symbols) < self.symbols
        if not known or len(set(slots)) < self.picks:
            return None
        return number, slots, symbols

    def decode_many(self, data: bytes | bytearray | memoryview) -> Batch:
        """Every report of a buffer of whole reports: the fast twin of `decode`."""
        rows = np.frombuffer(data, dtype=self._columns)
        slot = rows["pairs"][:, :, 0].astype(np.int64)
        symbol = rows["pairs"][:, :, 1].astype(np.int64)
        known = ((slot < self.slots) & (symbol < self.symbols)).all(axis=1)
        if self.picks > 1:
            ordered = np.sort(slot, axis=1)
            known &= (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
        elif self.bottom:
            nothing = (symbol[:, 0] == _NOTHING) & (slot[:, 0] == 0)
            slot[nothing], symbol[nothing] = BOTTOM, 0
            known |= nothing
        valid = known & (rows["head"] == int.from_bytes(self._head, "little"))
        return Batch(valid, rows["round"].astype(np.int64), Reports(slot, symbol))


KEY_BYTES = 32
TAG_BYTES = 32
ADDED_BYTES = 32 + 16
"""What sealing adds to a report: the encapsulated key and the authentication tag."""
_SEALED_VERSION = b"\x01"
_LABEL = b"fedsel sealed report 1"
_HEX = frozenset("0123456789abcdef")


def check_public_key(name: str, key: object) -> str:
    """A public key, of X25519 or Ed25519, as 64 hexadecimal digits."""
    if not isinstance(key, str) or len(key) != 2 * KEY_BYTES or not set(key) <= _HEX:
        allowed = f"{2 * KEY_BYTES} hexadecimal digits, in lower case"
        raise InvalidArgument(name, key, allowed)
    return key


class Sealed(NamedTuple):
    """The two parts of a message that a shuffler reads: the tag, and what it cannot open."""

    tag: bytes
    content: bytes


@final
@dataclass(frozen=True)
class Sealing:
    """How the reports that answer ``request`` are sealed for the server whose key this is.

    ``server_key`` is public, 64 digits as `fedsel.server.ServerKey.public` gives them.

    >>> from fedsel.server import ServerKey
    >>> key = ServerKey.generate()
    >>> sealing = Sealing(b"a request", key.public)
    >>> message = sealing.seal(b"sixteen bytes...")
    >>> len(message), Sealing.split(message).tag == sealing.tag
    (97, True)
    """

    request: bytes
    server_key: str

    def __post_init__(self) -> None:
        check_kind("request", self.request, bytes)
        check_public_key("server_key", self.server_key)

    @cached_property
    def tag(self) -> bytes:
        """What reports must have in common to be shuffled together."""
        return hashlib.sha256(_LABEL + bytes.fromhex(self.server_key) + self.request).digest()

    @cached_property
    def _public(self) -> Any:
        with needed("shuffling", "sealed reports"):
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        return X25519PublicKey.from_public_bytes(bytes.fromhex(self.server_key))

    def seal(self, report: bytes) -> bytes:
        """The message that carries a report; each call gives other bytes of the same length."""
        return (
            _SEALED_VERSION
            + self.tag
            + bytes(_suite().encrypt(report, self._public, info=self.tag))
        )

    def unseal(self, content: bytes, private: Any) -> bytes | None:
        """The report, or None if this was not sealed so, for this key and request."""
        with needed("shuffling", "sealed reports"):
            from cryptography.exceptions import InvalidTag
        try:
            return bytes(_suite().decrypt(content, private, info=self.tag))
        except InvalidTag:
            return None

    @staticmethod
    def split(message: object) -> Sealed | None:
        """Tag and sealed content of a message, or None if it is none."""
        head = len(_SEALED_VERSION) + TAG_BYTES
        if not isinstance(message, bytes) or len(message) < head + ADDED_BYTES:
            return None
        if not message.startswith(_SEALED_VERSION):
            return None
        return Sealed(message[len(_SEALED_VERSION) : head], message[head:])

    def check(self) -> None:
        """Raise unless reports can be sealed so: here, and for this key."""
        try:
            self.seal(b"")
        except ValueError:  # a point with which every secret is zero
            raise InvalidArgument("server_key", self.server_key, "a public key") from None


@cache
def _suite() -> Any:
    with needed("shuffling", "sealed reports"):
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
