"""The bytes of a sealed report: only the server can open it, whoever carries it.

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
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, final

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument, check_kind

KEY_BYTES = 32
TAG_BYTES = 32
ADDED_BYTES = 32 + 16
"""What sealing adds to a report: the encapsulated key and the authentication tag."""
_VERSION = b"\x01"
_LABEL = b"fedsel sealed report 1"
_HEX = frozenset("0123456789abcdef")


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
        key: object = self.server_key
        if not isinstance(key, str) or len(key) != 2 * KEY_BYTES or not set(key) <= _HEX:
            allowed = f"{2 * KEY_BYTES} hexadecimal digits, in lower case"
            raise InvalidArgument("server_key", key, allowed)

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
        return _VERSION + self.tag + bytes(_suite().encrypt(report, self._public, info=self.tag))

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
        head = len(_VERSION) + TAG_BYTES
        if not isinstance(message, bytes) or len(message) < head + ADDED_BYTES:
            return None
        if not message.startswith(_VERSION):
            return None
        return Sealed(message[len(_VERSION) : head], message[head:])

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
