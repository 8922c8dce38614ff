"""The bytes of a report: one format encodes on the device and decodes on the server.

    version  1 byte      1
    run      3 bytes     the first of SHA-256 of the run's name
    round    4 bytes
    then for each pick
      dimension  4 bytes
      symbol     4 bytes   2^32 − 1 with dimension 0 is ⊥

All integers are little-endian. The length depends on public parameters alone: 16 bytes with one
pick, ⊥ included.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.mechanisms.laws import BOTTOM
from fedsel.solutions import Solution

Pair = tuple[int, int]
"""(dimension, symbol)."""

RUN_BYTES = 16
_VERSION = 1
_NOTHING = (1 << 32) - 1
_TAG_BYTES = 3


class Batch(NamedTuple):
    """Many reports: valid (n,), round (n,), and (n, picks) dimensions (−1 for ⊥) and symbols."""

    valid: NDArray[np.bool_]
    round: NDArray[np.int64]
    dimension: NDArray[np.int64]
    symbol: NDArray[np.int64]


@final
@dataclass(frozen=True)
class ReportFormat:
    """Reports of ``picks`` pairs with a dimension and a symbol below these bounds.

    >>> form = ReportFormat(bytes(16), dimensions=100, symbols=411, picks=1, bottom=True)
    >>> form.size, form.encode(7, [(99, 410)]).hex()
    (16, '0137470807000000630000009a010000')
    >>> form.decode(form.encode(7, [(99, 410)])), form.decode(form.encode(8, []))
    ((7, ((99, 410),)), (8, ()))
    """

    run: bytes
    dimensions: int
    symbols: int
    picks: int = 1
    bottom: bool = False

    def __post_init__(self) -> None:
        if self.bottom and self.picks > 1:
            raise InvalidArgument("picks", self.picks, "1 where ⊥ is possible")

    @classmethod
    def of(cls, solution: Solution, run: bytes) -> ReportFormat:
        """The format of a private solution's reports in a run."""
        says = solution.alphabet
        if says is None:
            raise InvalidArgument("solution", solution.name, "a private solution")
        return cls(run, says.slots, says.symbols, says.picks, says.abstains)

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

    def encode(self, number: int, pairs: Sequence[Pair]) -> bytes:
        """The report of round ``number``; no pairs are ⊥."""
        sent: Sequence[Pair] = pairs
        if not pairs and self.bottom:
            sent = ((0, _NOTHING),)
        return self._layout.pack(self._head, number, *(x for pair in sent for x in pair))

    def decode(self, data: object) -> tuple[int, tuple[Pair, ...]] | None:
        """Round and pairs of a report, or None if this is no report of this format."""
        if not isinstance(data, bytes) or len(data) != self.size:
            return None
        head, number, *numbers = self._layout.unpack(data)
        if head != self._head:
            return None
        if self.picks == 1:
            dimension, symbol = numbers
            if dimension < self.dimensions and symbol < self.symbols:
                return number, ((dimension, symbol),)
            is_bottom = self.bottom and dimension == 0 and symbol == _NOTHING
            return (number, ()) if is_bottom else None
        dimensions, symbols = numbers[::2], numbers[1::2]
        known = max(dimensions) < self.dimensions and max(symbols) < self.symbols
        if not known or len(set(dimensions)) < self.picks:
            return None
        return number, tuple(zip(dimensions, symbols, strict=True))

    def decode_many(self, data: bytes | bytearray | memoryview) -> Batch:
        """Every report of a buffer of whole reports: the fast twin of `decode`."""
        rows = np.frombuffer(data, dtype=self._columns)
        dimension = rows["pairs"][:, :, 0].astype(np.int64)
        symbol = rows["pairs"][:, :, 1].astype(np.int64)
        known = ((dimension < self.dimensions) & (symbol < self.symbols)).all(axis=1)
        if self.picks > 1:
            ordered = np.sort(dimension, axis=1)
            known &= (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
        elif self.bottom:
            nothing = (symbol[:, 0] == _NOTHING) & (dimension[:, 0] == 0)
            dimension[nothing], symbol[nothing] = BOTTOM, 0
            known |= nothing
        valid = known & (rows["head"] == int.from_bytes(self._head, "little"))
        return Batch(valid, rows["round"].astype(np.int64), dimension, symbol)
