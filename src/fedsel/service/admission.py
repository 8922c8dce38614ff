"""Who may take part: invitations, signed tokens that are traded for one report a round.

A token is a JSON Web Token (PyJWT, HS256): a random name of 128 bits, what it is for and for which
run. It says nothing of the device that has it or of its data. The service keeps no tokens and no
names: a report is stored beside a keyed hash of name and round, so that rows of different rounds
cannot be matched without the key.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from typing import Literal, NamedTuple, final

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument
from fedsel.service.task import Invitations

with needed("service", "fedsel.service"):
    import jwt

Kind = Literal["device", "gateway"]
KEY_VARIABLE = "FEDSEL_SERVICE_KEY"
"""The secret that signs invitations, in hexadecimal, where it is not to lie in the database."""
_ALGORITHM = "HS256"
_LEAST_NAME, _MOST_TOKEN = 16, 1024
NAME_BYTES = 16


class Guest(NamedTuple):
    """Whom a token stands for."""

    kind: Kind
    name: bytes


@final
class Admission:
    """Makes invitations for a run and recognises them.

    >>> door = Admission(bytes(32), bytes(16), "signed")
    >>> door.guest(door.invite("device")).kind
    'device'
    >>> door.guest("made up") is None
    True
    """

    def __init__(self, key: bytes, run: bytes, invitations: Invitations) -> None:
        key = key_of_environment() or key
        self._signing = hashlib.blake2b(run, key=key, person=b"fedsel-invite").digest()
        self._hashing = hashlib.blake2b(run, key=key, person=b"fedsel-names").digest()
        self._run, self._open = run.hex(), invitations == "open"

    def invite(self, kind: Kind, days: float | None = None) -> str:
        """A new token; without an end unless it has so many days."""
        claims: dict[str, object] = {
            "sub": secrets.token_urlsafe(16),
            "aud": self._run,
            "kind": kind,
        }
        if days is not None:
            claims["exp"] = int(time.time() + 86_400 * days)
        return jwt.encode(claims, self._signing, algorithm=_ALGORITHM)

    def guest(self, token: str) -> Guest | None:
        """Whom a token stands for; None if it is no invitation to this run.

        In an open task a device's token is any name of its own, of 16 letters at least.
        """
        if len(token) > _MOST_TOKEN:
            return None
        try:
            claims = jwt.decode(
                token,
                self._signing,
                algorithms=[_ALGORITHM],
                audience=self._run,
                options={"require": ["sub", "aud"]},
            )
        except jwt.InvalidTokenError:
            if self._open and len(token) >= _LEAST_NAME and "." not in token:
                return Guest("device", token.encode())
            return None
        kind = claims.get("kind")
        if kind not in ("device", "gateway"):
            return None
        return Guest(kind, str(claims["sub"]).encode())

    def name(self, guest: Guest, number: int) -> bytes:
        """What is stored of a guest in a round: a hash that only the key's holder can compute."""
        what = number.to_bytes(8, "little") + guest.kind[0].encode() + guest.name
        return hashlib.blake2b(what, key=self._hashing, digest_size=NAME_BYTES).digest()


def key_of_environment() -> bytes | None:
    """The secret of the environment, if it has one."""
    text = os.environ.get(KEY_VARIABLE)
    if not text:
        return None
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < 32:
        raise InvalidArgument(KEY_VARIABLE, "what it is", "at least 64 hexadecimal digits")
    return key[:64]
