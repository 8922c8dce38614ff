"""Fresh bases: every report uses its own codewords, so that shared ones cannot bias the mean.

A report names its basis, a number that the device draws independently of its data. Both ends
generate the codewords from that number and a public key of the round:

- d ≥ 64: blocks of w = 2^m ≥ d codewords, each block the first d columns of H·D₃·H·D₂·H·D₁ (or of
  two factors, see `mixings_for`), with its own signs D and the Walsh–Hadamard transform H.
- d < 64: single codewords, whose entries are nearly normal integers.

Totals scale every codeword to about the same length, `LENGTH`, by an integer factor. So totals are
integers in the coordinates of the update.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.extras import native
from fedsel._internal.random import public_bits
from fedsel.errors import InvalidArgument, check_count
from fedsel.mechanisms._base import Vector
from fedsel.solutions._caps import (
    FEWEST_CODEWORDS,
    MOST_CODEWORDS,
    SMALL,
    codewords_for,
    cosines_of_top,
    mixings_for,
)
from fedsel.solutions._privacy import Influence
from fedsel.solutions._rotated import hadamard, width_for
from fedsel.solutions._transforms import Doubles, Transform

Words = NDArray[np.uint32]
Integers = NDArray[np.int64]

ALL_SLOTS = 1 << 32
"""Bases times codewords: as many as the four bytes of a report can address."""
LENGTH = 1 << 32
"""The length of a codeword in totals, up to the rounding of its factor."""
_AT_ONCE = 1 << 21
"""Entries of codewords in memory at a time, without compiled kernels."""


@final
@dataclass(frozen=True)
class Fresh(Transform):
    """``bases`` sets of ``words`` codewords; a report uses one of the sets at random.

    A block of codewords is mixed ``factors`` times; 0 means that codewords are drawn one by one.

    Proof: docs/proofs/transforms.md, T11, T12.

    >>> fresh = fresh_for(Fraction(2), dim=100, seed=1)
    >>> fresh.size, fresh.slots == 2**32
    (128, True)
    >>> word = fresh.codeword(5)
    >>> round(float(np.linalg.norm(word)) / LENGTH, 5)
    1.0
    """

    name: ClassVar[str] = "fresh bases"
    slots_are: ClassVar[str] = "directions in all bases"
    per_round: ClassVar[bool] = True
    shares_codewords: ClassVar[bool] = False
    words: int = FEWEST_CODEWORDS
    factors: int = 0
    seed: int = 0
    round: int = 0
    basis: int = 0
    fewer: int | None = None
    """A smaller number of bases, for enumerations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("words", self.words, most=MOST_CODEWORDS)
        if self.factors not in ((0,) if self.dim < SMALL else (2, 3)):
            allowed = "0 for fewer than 64 entries, else 2 or 3"
            raise InvalidArgument("factors", self.factors, allowed)
        if self.words % self.width:
            raise InvalidArgument("words", self.words, f"a multiple of {self.width}")
        check_count("seed", self.seed, least=0)
        check_count("round", self.round, least=0)
        check_count("basis", self.basis, least=0, most=self.bases - 1)

    @property
    def size(self) -> int:
        return self.words

    @property
    def bases(self) -> int:
        """The number of bases: as many as a report can address, a power of two."""
        return ALL_SLOTS // width_for(self.size) if self.fewer is None else self.fewer

    def with_fewer_bases(self, count: int) -> Self:
        return replace(self, fewer=count)

    @property
    def width(self) -> int:
        """The codewords of one block; 1 if they are drawn one by one."""
        return 1 if self.dim < SMALL else width_for(self.dim)

    @property
    def adder(self) -> Self:
        """This transform: totals are sums of codewords, in the coordinates of the update."""
        return self

    @property
    def places(self) -> int:
        return self.dim

    @property
    def rms_correlation(self) -> float:
        return LENGTH / math.sqrt(self.dim)

    @property
    def length(self) -> float:
        return float(LENGTH)

    def top_sum(self, k: int) -> float:
        """Codewords are drawn independently, or in blocks that are nearly so."""
        cosines = cosines_of_top(k, self.size, self.dim, max(self.dim, self.width))
        return cosines * math.sqrt(self.dim)

    def in_round(self, number: int) -> Self:
        return self if number == self.round else replace(self, round=number)

    def in_basis(self, number: int) -> Self:
        return self if number == self.basis else replace(self, basis=number)

    def scores(self, vectors: Vector) -> Vector:
        """Inner products with the codewords of the basis, in the vectors' own precision."""
        if self.factors:
            return _rotated_scores(self._states(np.array([self.basis])), vectors, self)
        words, scale = _drawn(self._states(np.array([self.basis])), self, np.arange(self.size))
        kind = vectors.dtype.type
        total = np.zeros((*vectors.shape[:-1], self.size), dtype=vectors.dtype)
        for i in range(self.dim):
            total += words[0, :, i].astype(kind) * vectors[..., i : i + 1]
        return np.asarray(total * scale[0].astype(kind))

    def codeword(self, slot: int) -> Vector:
        """One codeword, scaled as in totals: integers, in double precision."""
        slots = np.array([self.basis * self.size + slot])
        return np.asarray(self.codewords(slots)[0], dtype=np.float64)

    def codewords(self, slots: Integers) -> Integers:
        """The codewords (n, d) of slots (n,) of any basis, times their factor."""
        basis, slot = np.divmod(slots, self.size)
        states = self._states(basis)
        if self.factors:
            words, scale = _rotated(states, self, slot)
        else:
            many, scales = _drawn(states, self, slot[:, None])
            words, scale = many[:, 0], scales[:, 0]
        return np.asarray(words * scale[:, None])

    def add(self, sums: NDArray[Any], window: Integers, slot: Integers, steps: Integers) -> None:
        """Add ``steps`` times each report's codeword to the sums (windows, d) of its window."""
        if native is not None and len(sums) == 1:
            held = np.ascontiguousarray(sums[0])
            numbers = (self.dim, self.size, self.bases, self.width, self.factors)
            native.add_codewords(numbers, key_of_round(self.seed, self.round), slot, steps, held)
            sums[0] = held
            return
        most = max(1, _AT_ONCE // max(self.dim, self.width))
        for first in range(0, len(slot), most):
            part = slice(first, first + most)
            rows = self.codewords(slot[part]) * steps[part, None]
            for w in range(len(sums)):
                sums[w] += rows[window[part] == w].sum(axis=0)

    def combine(self, means: Doubles) -> Doubles:
        return means

    def influence(self, picks: int = 1) -> Influence:
        """A codeword may have all of its length in one entry; its factor is rounded."""
        longest = (
            self.width ** (self.factors / 2) if self.factors else (1 << 22) * math.sqrt(self.dim)
        )
        bound = picks * (LENGTH + longest / 2)
        return Influence(bound, bound)

    def _states(self, basis: Integers) -> Words:
        """The state at which each basis's random words begin."""
        low, high = (np.uint32(word) for word in key_of_round(self.seed, self.round))
        return hashed(hashed(basis.astype(np.uint32) ^ low) ^ high)


def fresh_for(epsilon: Fraction, dim: int, seed: int) -> Fresh:
    """The transform with the codewords and factors that reports of ε need."""
    return Fresh(dim, codewords_for(epsilon, dim), mixings_for(epsilon, dim), seed)


@lru_cache(maxsize=1024)
def key_of_round(seed: int, number: int) -> tuple[int, int]:
    """The two public words (32 bits each) that determine all bases of a round."""
    word = int(public_bits(seed, f"bases of round {number}").random_raw())
    return word & 0xFFFFFFFF, word >> 32


def hashed(x: Words) -> Words:
    """A bijective hash of 32 bits.

    >>> hashed(np.array([0, 1, 2], dtype=np.uint32)).tolist()
    [0, 114555507, 229111015]
    """
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x21F0AAAD)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0xD35A2D97)
    return np.asarray(x ^ (x >> np.uint32(15)))


def _words(states: Words, places: Integers) -> Words:
    """The random words (n, m) of n bases at places (m,) or (n, m)."""
    return hashed(states[:, None] + places.astype(np.uint32) * np.uint32(0x9E3779B9))


def _factor(words: Integers) -> Integers:
    """LENGTH over the norm of each vector (…, d), rounded; 0 for a zero vector."""
    squares = np.einsum("...i,...i->...", words, words, dtype=np.int64).astype(np.float64)
    nearest = np.floor(LENGTH / np.sqrt(np.maximum(squares, 1.0)) + 0.5)
    return np.asarray(np.where(squares > 0, nearest, 0.0).astype(np.int64))


def _drawn(states: Words, fresh: Fresh, slots: Integers) -> tuple[Integers, Integers]:
    """d < SMALL: codewords (n, m, d) at slots (m,), or (n, m), and their factors (n, m).

    An entry is twice the sum of 48 random bits, less 24, with 16 fractional bits: normal except for
    a fourth cumulant of −1/24, on a grid fine enough for every cap.
    """
    first = 2 * (slots[..., None] * fresh.dim + np.arange(fresh.dim))
    flat = first.reshape(*first.shape[:-2], -1)
    bits = np.bitwise_count(_words(states, flat)).astype(np.int64)
    more = _words(states, flat + 1)
    bits += np.bitwise_count(more >> np.uint32(16))
    fine = (more & np.uint32(0xFFFF)).astype(np.int64)
    entries = (bits - 24) * (1 << 17) + 2 * fine - 0xFFFF
    words = entries.reshape(len(states), -1, fresh.dim)
    return words, _factor(words)


def _signs(states: Words, fresh: Fresh, block: Integers) -> NDArray[np.int32]:
    """±1 (n, factors, width): − where a bit is set, the lowest bit of each word first."""
    words = fresh.factors * fresh.width // 32
    drawn = _words(states, block[:, None] * words + np.arange(words)).astype("<u4")
    bits = np.unpackbits(drawn.view(np.uint8), axis=1, bitorder="little")
    return (1 - 2 * bits.astype(np.int32)).reshape(len(states), fresh.factors, fresh.width)


def _rotated_scores(state: Words, vectors: Vector, fresh: Fresh) -> Vector:
    """Block after block: pad with zeros, then signs and transform, once for each factor."""
    parts = []
    for block in range(fresh.size // fresh.width):
        x = np.zeros((*vectors.shape[:-1], fresh.width), dtype=vectors.dtype)
        x[..., : fresh.dim] = vectors
        for signs in _signs(state, fresh, np.array([block]))[0].astype(vectors.dtype):
            x = hadamard(x * signs)
        parts.append(x)
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _rotated(states: Words, fresh: Fresh, slots: Integers) -> tuple[Integers, Integers]:
    """d ≥ SMALL: codewords (n, d) at one slot of each basis (n,), and their factors (n,).

    Row j of H·D₃·H·D₂·H·D₁ is D₁·H·D₂·H·D₃ times row j of H.
    """
    block, row = np.divmod(slots, fresh.width)
    signs = _signs(states, fresh, block)
    shared = np.bitwise_count(np.arange(fresh.width) & row[:, None]) & 1
    x = (1 - 2 * shared.astype(np.int32)) * signs[:, -1]
    for factor in reversed(range(fresh.factors - 1)):
        x = hadamard(x) * signs[:, factor]
    words = x[:, : fresh.dim].astype(np.int64)
    return words, _factor(words)
