"""Invitations of a task, made while its service runs or before it has begun."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from typing import Literal, NamedTuple, final, get_args

from fedsel._internal.extras import needed
from fedsel.errors import InvalidArgument

with needed("service", "fedsel.service"):
    import jwt


from collections.abc import Iterator
from pathlib import Path

from fedsel.device._connection import check_address
from fedsel.errors import check_positive
from fedsel.server import FolderInUse
from fedsel.service._store import key_of_environment, open_store
from fedsel.service._task import Task
from fedsel.service._training import opened
from fedsel.service.relay._config import RelayConfig
from fedsel.service.relay._state import begun

Kind = Literal["device", "gateway", "relay"]
_ALGORITHM = "HS256"
_LEAST_NAME, _MOST_TOKEN = 16, 1024
NAME_BYTES = 16


class Participant(NamedTuple):
    """The holder of a token."""

    kind: Kind
    name: bytes


@final
class Invitations:
    """Makes invitations for a run and recognises them.

    >>> run = Invitations(bytes(32), bytes(16))
    >>> run.participant(run.invite("device")).kind
    'device'
    >>> run.participant("made up") is None
    True
    """

    def __init__(self, key: bytes, run: bytes, *, open_to_all: bool = False) -> None:
        key = key_of_environment() or key
        self._signing = hashlib.blake2b(run, key=key, person=b"fedsel-invite").digest()
        self._hashing = hashlib.blake2b(run, key=key, person=b"fedsel-names").digest()
        self._run, self._open = run.hex(), open_to_all

    def invite(self, kind: Kind, days: float | None = None) -> str:
        """Make a new token, valid for ``days`` or without end."""
        claims: dict[str, object] = {
            "sub": secrets.token_urlsafe(16),
            "aud": self._run,
            "kind": kind,
        }
        if days is not None:
            claims["exp"] = int(time.time() + 86_400 * days)
        return jwt.encode(claims, self._signing, algorithm=_ALGORITHM)

    def participant(self, token: str) -> Participant | None:
        """The holder of a token; None if it is no invitation to this run.

        In an open task a device names itself, with at least 16 letters.
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
                return Participant("device", token.encode())
            return None
        kind: Kind | None = claims.get("kind")
        if kind is None or kind not in get_args(Kind):
            return None
        return Participant(kind, str(claims["sub"]).encode())

    def name(self, participant: Participant, number: int) -> bytes:
        """The stored name of a participant in a round: only the key's holder can compute it."""
        what = number.to_bytes(8, "little") + participant.kind[0].encode() + participant.name
        return hashlib.blake2b(what, key=self._hashing, digest_size=NAME_BYTES).digest()


MOST_DAYS = 36_500


def invitations(
    task: Task | RelayConfig,
    store: str | Path,
    count: int,
    kind: Kind = "device",
    days: float | None = None,
) -> Iterator[str]:
    """Make ``count`` new tokens; the run begins with the first one if it is new."""
    if days is not None and check_positive("days", days) > MOST_DAYS:
        raise InvalidArgument("days", days, f"at most {MOST_DAYS}")
    run = invitations_of(task, store)
    return (run.invite(kind, days) for _ in range(count))


def invitations_of(task: Task | RelayConfig, store: str | Path) -> Invitations:
    """The invitations of a task or a relay; its run begins if it is new."""
    # The running service has the folder, but others may read the key beside it.
    kept = open_store(store, alone=False)
    try:
        if not kept.choose(task.name):
            names = kept.names()
            kept.close()
            try:
                kept = open_store(store)
            except FolderInUse:
                allowed = f"in the store, which has {', '.join(map(repr, names))}"
                remedy = "end the service that uses the store, then invite: the run begins with it"
                raise InvalidArgument("task", task.name, f"{allowed}; {remedy}") from None
        if isinstance(task, Task):
            run, open_to_all = opened(task, kept).run, task.invitations == "open"
        else:
            run, open_to_all = bytes.fromhex(begun(task, kept).run), False
        return Invitations(kept.key(), run, open_to_all=open_to_all)
    finally:
        kept.close()


def relay_settings(task: Task, store: str | Path, service: str) -> str:
    """The file of a relay for a shuffled task, with an invitation to that relay: a secret."""
    if task.shuffle is None:
        raise InvalidArgument("task", task.name, "one with shuffle")
    check_address("service", service)
    token = invitations_of(task, store).invite("relay")
    kept = open_store(store, alone=False)
    try:
        kept.choose(task.name)
        state = opened(task, kept)
    finally:
        kept.close()
    names = ("server_key", "signing_key")
    keys = {name: getattr(state.shuffled, name) for name in names}
    values = {"name": task.name, "service": service, "run": state.run.hex(), **keys, "token": token}
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    return "\n".join([*lines, ""])
