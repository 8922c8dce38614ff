"""A request: what a server asks of a device in one round. The weights travel beside it.

magic      4 bytes    FSRQ
version    1 byte     1; 2 with a number of bases; 3 with a purpose or a recipient
run        16 bytes
epoch      4 bytes
round      4 bytes
intent                in version 3 alone (`fedsel.wire.intent`)
recipe                to the end (`fedsel.wire.recipe`), of either length in version 3
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import final

from fedsel.errors import InvalidArgument, check_count, check_kind
from fedsel.recipe import Recipe
from fedsel.wire.intent import MOST_INTENT_BYTES, Intent
from fedsel.wire.recipe import LONG_RECIPE_BYTES, RECIPE_BYTES, decode_recipe, encode_recipe
from fedsel.wire.report import RUN_BYTES, ReportFormat

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
    what the server says about the run: its purpose, and who gets what is learnt.

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
        object.__setattr__(self, "recipe", self.recipe.for_devices)
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
