"""A request: what a server asks of a device in one round. The weights travel beside it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import final

from fedsel.errors import InvalidArgument, check_count, check_kind
from fedsel.recipe import Recipe
from fedsel.wire.recipe import LONG_RECIPE_BYTES, RECIPE_BYTES, decode_recipe, encode_recipe
from fedsel.wire.report import RUN_BYTES, ReportFormat

_MAGIC = b"FSRQ"
_HEAD = struct.Struct("<4sB16sII")
_MOST = (1 << 32) - 1

REQUEST_BYTES = _HEAD.size + RECIPE_BYTES
"""The length of every request of version 1. One of version 2 ends with a number of bases."""
_LENGTHS = {1: REQUEST_BYTES, 2: _HEAD.size + LONG_RECIPE_BYTES}


class InvalidMessage(ValueError):
    """Bytes that are no message of this protocol; what they were is not repeated."""


class UnknownVersion(InvalidMessage):
    """A message of a version that is not spoken here."""


@final
@dataclass(frozen=True)
class Request:
    """A report is asked for in ``round`` of a run, which belongs to ``epoch`` of its recipe.

    ``run`` is 16 random bytes that name the run. Rounds count through all epochs.

    >>> recipe = Recipe("PM", epsilon=1.0, dim=8, mu=0.1, rho=None, learning_rate=1.0)
    >>> request = Request(bytes(16), epoch=0, round=3, recipe=recipe)
    >>> Request.decode(request.encode()) == request
    True
    """

    run: bytes
    epoch: int
    round: int
    recipe: Recipe

    def __post_init__(self) -> None:
        check_kind("run", self.run, bytes)
        check_kind("recipe", self.recipe, Recipe)
        object.__setattr__(self, "recipe", self.recipe.for_devices)
        if len(self.run) != RUN_BYTES:
            raise InvalidArgument("run", self.run, f"{RUN_BYTES} bytes")
        check_count("round", self.round, least=0, most=_MOST)
        check_count("epoch", self.epoch, least=0, most=self.recipe.epochs - 1)

    @property
    def format(self) -> ReportFormat:
        """The format of its reports."""
        return ReportFormat.of(self.recipe.build(), self.run)

    def encode(self) -> bytes:
        """The request in bytes."""
        version = 1 if self.recipe.bases is None else 2
        head = _HEAD.pack(_MAGIC, version, self.run, self.epoch, self.round)
        return head + encode_recipe(self.recipe)

    @classmethod
    def decode(cls, data: object) -> Request:
        """The request of these bytes; all else raises `InvalidMessage`, which says no more."""
        if not isinstance(data, bytes | bytearray | memoryview) or len(data) > 2 * REQUEST_BYTES:
            raise InvalidMessage("not a request")
        data = bytes(data)
        version = data[len(_MAGIC)] if len(data) > len(_MAGIC) else 0
        if version not in _LENGTHS and data.startswith(_MAGIC) and len(data) > len(_MAGIC):
            raise UnknownVersion("a request of another version")
        request = _decoded(data) if len(data) == _LENGTHS.get(version) else None
        if request is None:
            raise InvalidMessage("not a request")
        return request


def _decoded(data: bytes) -> Request | None:
    magic, _, run, epoch, number = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        return None
    try:
        return Request(run, epoch, number, decode_recipe(data[_HEAD.size :]))
    except (ValueError, OverflowError):
        return None
