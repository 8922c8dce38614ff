"""Rotated bases: public random signs, then a Walsh–Hadamard transform, in O(d log d).

One rotation gives M = 2^⌈log₂ d⌉ codewords. At a large ε these are too few to be close to an
update, so several rotations are joined (`rotations_for`). If many clients have similar updates, one
basis biases their mean towards its own codewords. With several ``bases`` in a round, one of which
each report uses at random, the biases average out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import public_bits
from fedsel.errors import check_count
from fedsel.mechanisms._base import Vector
from fedsel.mechanisms._decimals import best_top
from fedsel.solutions._privacy import Influence
from fedsel.solutions._transforms import Doubles, Transform

MOST_CODEWORDS = 1 << 22
"""The most codewords of one basis, because a client ranks them all."""
MOST_ROTATIONS, FEW_CODEWORDS = 64, 1 << 13
"""The most rotations of one basis; more are allowed as long as they have few codewords."""
FEWEST_RAISED, FINELY = 1.9, 16
"""The smallest acceptable best k of a codebook, as a real number: the best k of FINELY times as
many codewords over FINELY. At a best k near 1 the error of unbiased reports is 6 to 11 % above a
sphere's, here 5 % (`benchmarks/one_symbol_error.py`; more if d is 16)."""
MOST_BASES = 1 << 16


@final
@dataclass(frozen=True)
class Rotated(Transform):
    """``bases`` sets of codewords, each the union of ``rotations`` rotated bases.

    Every round has its own signs, so that distortions of a basis also average out over rounds.

    Proof: docs/proofs/transforms.md, T3–T5.

    >>> rotated = Rotated(dim=5, seed=1)
    >>> v = np.array([1.0, 2.0, 0.0, -1.0, 0.5])
    >>> np.allclose(rotated.combine(rotated.values(v)), v)
    True
    >>> several = Rotated(dim=5, seed=1, rotations=2, bases=3)
    >>> several.size, several.slots
    (16, 48)
    """

    name: ClassVar[str] = "rotated"
    slots_are: ClassVar[str] = "directions of a rotated basis"
    per_round: ClassVar[bool] = True
    seed: int = 0
    round: int = 0
    rotations: int = 1
    bases: int = 1
    basis: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("seed", self.seed, least=0)
        check_count("round", self.round, least=0)
        check_count("rotations", self.rotations)
        check_count("bases", self.bases, most=MOST_BASES)
        check_count("basis", self.basis, least=0, most=self.bases - 1)

    @property
    def width(self) -> int:
        """The codewords of one rotation: d, padded to a power of two."""
        return width_for(self.dim)

    @property
    def size(self) -> int:
        return self.rotations * self.width

    @property
    def rms_correlation(self) -> float:
        """The correlation of the padded basis, over which scores spread the norm of the update."""
        return 1 / math.sqrt(self.width)

    @property
    def length(self) -> float:
        """The rms norm of a codeword, padded to a power of two and then cut to d entries."""
        return math.sqrt(self.dim / self.width)

    def signs(self, basis: int, rotation: int) -> NDArray[np.float32]:
        """The public random signs (d,) of one rotation."""
        number = basis * self.rotations + rotation
        return _signs(self.dim, self.seed, self.purpose(self.round, number))

    @staticmethod
    def purpose(number: int, rotation: int = 0) -> str:
        """The label of the public bits of a rotation in a round."""
        return f"signs of round {number}" + (f", rotation {rotation}" if rotation else "")

    def in_round(self, number: int) -> Self:
        return self if number == self.round else replace(self, round=number)

    def in_basis(self, number: int) -> Self:
        return self if number == self.basis else replace(self, basis=number)

    def scores(self, vectors: Vector) -> Vector:
        parts = []
        for rotation in range(self.rotations):
            padded = np.zeros((*vectors.shape[:-1], self.width), dtype=vectors.dtype)
            padded[..., : self.dim] = vectors * self.signs(self.basis, rotation)
            parts.append(hadamard(padded))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def codeword(self, slot: int) -> Vector:
        """A codeword: entry i of row j is negative if i and j share an odd number of bits."""
        rotation, row = divmod(slot, self.width)
        shared = np.bitwise_count(np.arange(self.dim) & row) & 1
        signs = self.signs(self.basis, rotation)
        return np.asarray((1.0 - 2.0 * shared) * signs / math.sqrt(self.width))

    def values(self, vector: Vector) -> Doubles:
        return np.asarray(self.scores(vector.astype(np.float64)) / math.sqrt(self.width))

    def combine(self, means: Doubles) -> Doubles:
        """Combine rotation by rotation, basis by basis, so that every server rounds alike."""
        rows = np.asarray(means, dtype=np.float64).reshape(self.bases * self.rotations, self.width)
        update = np.zeros(self.dim)
        for number, row in enumerate(rows):
            if row.any():
                signs = self.signs(*divmod(number, self.rotations))
                update += hadamard(row)[: self.dim] * signs / math.sqrt(self.width)
        return update

    def influence(self, picks: int = 1) -> Influence:
        """`influence_of` in closed form: entries ±1/√width, a singular value of √(all rotations).

        It covers all bases, because a hostile client can choose any of them.
        """
        norm = min(picks * self.length, math.sqrt(picks * self.bases * self.rotations))
        return Influence(picks / math.sqrt(self.width), norm)


def width_for(dim: int) -> int:
    """The power of two at d or above.

    >>> width_for(100), width_for(128)
    (128, 128)
    """
    return 1 << (dim - 1).bit_length()


@lru_cache(maxsize=256)
def rotations_for(epsilon: Fraction, dim: int) -> int:
    """The number of rotations with which the error of reports of ε is near a sphere's.

    With few codewords the best k is 1 although less than one would be optimal. So rotations are
    doubled until the best k is near 2, within the limits of a device.

    >>> [rotations_for(Fraction(e), 128) for e in (1, 4, 8, 10, 12)]
    [1, 1, 4, 16, 64]
    """
    rotations, width = 1, width_for(dim)
    few = min(FEW_CODEWORDS // width, 1 << min(dim, 16))  # a small cube has no more signs
    most = min(max(MOST_ROTATIONS, few), MOST_CODEWORDS // width)
    while rotations < most and not _has_room(epsilon, rotations * width):
        rotations *= 2
    return rotations


def _has_room(epsilon: Fraction, size: int) -> bool:
    """Whether the best k of ``size`` codewords is near 2, or near half of them."""
    return best_top(epsilon, FINELY * size) >= FINELY * min(FEWEST_RAISED, size / 2)


def rotated(dim: int, seed: int, epsilon: Fraction, bases: int | None) -> Rotated:
    """The transform of RJ: ``bases`` with as many rotations as ε needs; None is one rotation.

    >>> several = rotated(100, 0, Fraction(10), 16)
    >>> several.bases, several.rotations
    (16, 16)
    """
    if bases is None:
        return Rotated(dim, seed)
    return Rotated(dim, seed, rotations=rotations_for(epsilon, dim), bases=bases)


def hadamard(x: Vector) -> Vector:
    """The Walsh–Hadamard transform of the last axis, a power of two long, not normalised.

    >>> hadamard(np.array([1.0, 0.0, 2.0, 0.0]))
    array([ 3.,  3., -1., -1.])
    """
    # Each step, one pass over memory, moves neighbours to the same place of two halves. After all
    # steps the order is the natural one again.
    half, room = x.shape[-1] // 2, (np.empty_like(x), np.empty_like(x))
    for step in range(half.bit_length()):
        first, second, target = x[..., ::2], x[..., 1::2], room[step % 2]
        np.add(first, second, out=target[..., :half])
        np.subtract(first, second, out=target[..., half:])
        x = target
    return x


@lru_cache(maxsize=64)
def _signs(dim: int, seed: int, purpose: str) -> NDArray[np.float32]:
    """+1 for each byte whose top bit is set, else −1; low bytes of a word first."""
    random_words = public_bits(seed, purpose).random_raw(-(-dim // 8))
    top = random_words.astype("<u8").view(np.uint8)[:dim] >> 7
    signs = 2 * top.astype(np.float32) - 1
    signs.flags.writeable = False
    return signs
