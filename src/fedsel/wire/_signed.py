"""What a service signs of a round, so that whoever passes it on cannot change it.

    magic      4 bytes    FSSR
    version    1 byte     1
    time       8 bytes    seconds since 1970
    digests    4·32 bytes SHA-256 of the task, the request, the weights and the preparation,
                          each as the bytes that the service gives
    signature  64 bytes   Ed25519 of "fedsel signed round 1" and all bytes before it

The request names run and round, so parts of two rounds do not fit one signature. Integers are
little-endian.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any, Self, final

from fedsel._internal.extras import needed
from fedsel.wire._request import InvalidMessage

_MAGIC, _VERSION = b"FSSR", 1
_LABEL = b"fedsel signed round 1"
_LAYOUT = struct.Struct("<4sBQ32s32s32s32s")
SIGNED_BYTES = _LAYOUT.size + 64
"""The length of every signed round."""
_DIGESTS = ("task", "request", "weights", "preparing")


@final
@dataclass(frozen=True)
class SignedRound:
    """A service's word, at a time, on the digests of all that devices of a round work on.

    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> own = Ed25519PrivateKey.generate()
    >>> parts = {"task": b"{}", "request": b"r", "weights": b"w", "preparing": b"null"}
    >>> signed = SignedRound.sign(own, 1_800_000_000, **parts)
    >>> key = own.public_key().public_bytes_raw().hex()
    >>> SignedRound.verify(signed, key).covers(weights=b"w", request=b"r")
    True
    >>> SignedRound.verify(signed, key).covers(weights=b"other")
    False
    """

    time: int
    task: bytes
    request: bytes
    weights: bytes
    preparing: bytes

    @classmethod
    def sign(
        cls,
        private: Any,
        time: int,
        *,
        task: bytes,
        request: bytes,
        weights: bytes,
        preparing: bytes,
    ) -> bytes:
        """The bytes of a signed round, by an Ed25519 key."""
        content = cls(time, *map(digest_of, (task, request, weights, preparing)))._content
        return content + bytes(private.sign(_LABEL + content))

    @property
    def _content(self) -> bytes:
        digests = (getattr(self, name) for name in _DIGESTS)
        return _LAYOUT.pack(_MAGIC, _VERSION, self.time, *digests)

    @classmethod
    def verify(cls, data: object, key: str) -> Self:
        """What was signed by the holder of this key; all else raises `InvalidMessage`."""
        if not isinstance(data, bytes) or len(data) != SIGNED_BYTES:
            raise InvalidMessage("not a signed round")
        content, signature = data[: _LAYOUT.size], data[_LAYOUT.size :]
        magic, version, *parts = _LAYOUT.unpack(content)
        if (magic, version) != (_MAGIC, _VERSION):
            raise InvalidMessage("not a signed round")
        with needed("shuffling", "signed rounds"):
            from cryptography.exceptions import InvalidSignature
        try:
            _public(key).verify(signature, _LABEL + content)
        except InvalidSignature:
            raise InvalidMessage("signed by another key") from None
        return cls(*parts)

    def covers(self, **parts: bytes) -> bool:
        """Whether these are the task, request, weights or preparing that was signed."""
        return all(getattr(self, name) == digest_of(part) for name, part in parts.items())


def digest_of(part: bytes) -> bytes:
    """What is signed of a part."""
    return hashlib.sha256(part).digest()


def _public(key: str) -> Any:
    with needed("shuffling", "signed rounds"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
