"""Transforms of an update (d,) into scores (M,): coordinates, directions, projections.

A score is the inner product with a public codeword, which both ends derive from public parameters.
Rounding errors of scores may cost accuracy, never privacy: a mechanism is private for any scores.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import public_generator
from fedsel.errors import InvalidArgument, check_count
from fedsel.mechanisms._base import Codebook, Vector
from fedsel.mechanisms._decimals import upper_sum
from fedsel.mechanisms._reports import Adder
from fedsel.solutions._privacy import Influence, influence_of

if TYPE_CHECKING:
    from fedsel.solutions._blocks import Blocks

Doubles = NDArray[np.float64]
Array = TypeVar("Array", NDArray[np.float32], NDArray[np.float64])
MOST_ENTRIES = 1 << 28
"""The largest random codebook: codewords × dimensions."""
LEAST_SINGULAR = 1 / 32
"""A projection's singular values below this share of 1 + √(d/q) are not inverted."""


@dataclass(frozen=True)
class Transform(ABC):
    """M public codewords of ``dim`` entries, one for each slot.

    There may be several ``bases`` of M codewords; a report uses one of them at random.
    """

    name: ClassVar[str]
    slots_are: ClassVar[str] = "codewords"
    """What slots are, in words."""
    identity: ClassVar[bool] = False
    """Whether the scores are the entries of the update."""
    per_round: ClassVar[bool] = False
    """Whether each round has its own codewords."""
    shares_codewords: ClassVar[bool] = True
    """Whether the reports of a round share codewords, which can bias their mean."""
    dim: int

    def __post_init__(self) -> None:
        check_count("dim", self.dim)

    @property
    @abstractmethod
    def size(self) -> int:
        """M, the number of codewords from which a mechanism chooses."""

    @property
    def bases(self) -> int:
        """The number of sets of codewords in a round."""
        return 1

    @property
    def slots(self) -> int:
        """The number of slots of all bases."""
        return self.bases * self.size

    @property
    def rms_correlation(self) -> float | None:
        """√E⟨codeword, direction⟩² over all directions; None if slots are coordinates."""
        return None

    @property
    def codebook(self) -> Codebook | None:
        """The `Codebook` for a mechanism; None if slots are coordinates."""
        return None if self.rms_correlation is None else self

    def top_sum(self, k: int) -> float:
        """Expected sum of the k largest |⟨codeword, direction⟩|, over `rms_correlation`.

        It assumes normal scores.
        """
        return upper_sum(k, self.size)

    @property
    def adder(self) -> Adder | None:
        """The object that adds up reports; None if totals have one place for each slot."""
        return None

    @property
    def places(self) -> int:
        """The number of entries of a round's totals."""
        return self.slots

    @property
    def blocks(self) -> Blocks | None:
        """The design of its slots, if they are blocks of answers."""
        return None

    @property
    def length(self) -> float:
        """The rms norm of the vector to which `combine` maps one slot."""
        return 1.0

    @property
    def entries(self) -> int:
        """The size of the public matrix that both ends hold; 0 if there is none."""
        return 0

    def in_round(self, number: int) -> Self:  # noqa: ARG002
        """The transform of a round. Rounds are numbered through all epochs."""
        return self

    def in_basis(self, number: int) -> Self:  # noqa: ARG002
        """The transform restricted to one of its bases."""
        return self

    def with_fewer_bases(self, count: int) -> Self:  # noqa: ARG002
        """The transform with ``count`` of its bases, for enumerations."""
        return self

    @abstractmethod
    def scores(self, vectors: Vector) -> Vector:
        """Inner products of the codewords with vectors (…, d), times any constant > 0."""

    @abstractmethod
    def codeword(self, slot: int) -> Vector:
        """One codeword (d,)."""

    @abstractmethod
    def combine(self, means: Doubles) -> Doubles:
        """Convert the means of all totals (places,) to an update (d,)."""

    def influence(self, picks: int = 1) -> Influence:
        """The influence on an update of ``picks`` pairs ±1 in distinct slots of any basis."""
        slots = self.slots
        ones = (np.bincount([j], minlength=slots).astype(np.float64) for j in range(slots))
        return influence_of(np.array([self.combine(one) for one in ones]), picks)

    def value(self, vector: Vector, slot: int) -> float:
        """The inner product with one codeword, in double precision."""
        with np.errstate(over="ignore", invalid="ignore"):
            product = np.dot(self.codeword(slot).astype(np.float64), vector.astype(np.float64))
        return float(product)

    def values(self, vector: Vector) -> Doubles:
        """All inner products, in double precision."""
        return np.array([self.value(vector, j) for j in range(self.size)])

    def without(self, vector: Vector, slot: int) -> Vector:
        """Remove the part along a codeword, as after sending its slot.

        The result stays finite on overflow: a residual that is not would silence its client.
        """
        word = self.codeword(slot).astype(np.float64)
        share = self.value(vector, slot) / float(word @ word)
        with np.errstate(over="ignore", invalid="ignore"):
            rest = (vector.astype(np.float64) - share * word).astype(vector.dtype)
        return np.asarray(np.nan_to_num(rest))


@final
@dataclass(frozen=True)
class Coordinates(Transform):
    """The coordinates e_1 … e_d: an update is its own scores.

    Proof: docs/proofs/transforms.md, T2.

    >>> Coordinates(3).combine(np.array([1.0, 0.0, -2.0]))
    array([ 1.,  0., -2.])
    """

    name: ClassVar[str] = "coordinates"
    slots_are: ClassVar[str] = "entries"
    identity: ClassVar[bool] = True

    @property
    def size(self) -> int:
        return self.dim

    def scores(self, vectors: Vector) -> Vector:
        return vectors

    def codeword(self, slot: int) -> Vector:
        word = np.zeros(self.dim)
        word[slot] = 1
        return word

    def combine(self, means: Doubles) -> Doubles:
        return means

    def influence(self, picks: int = 1) -> Influence:
        return Influence(1.0, math.sqrt(picks))

    def value(self, vector: Vector, slot: int) -> float:
        return float(vector[slot])

    def values(self, vector: Vector) -> Doubles:
        return vector.astype(np.float64)

    def without(self, vector: Vector, slot: int) -> Vector:
        rest = vector.copy()
        rest[slot] = 0
        return rest


class _Matrix(Transform):
    """Codewords that are rows of a public matrix."""

    @property
    @abstractmethod
    def matrix(self) -> NDArray[np.float32]:
        """The codewords (M, d)."""

    @property
    @abstractmethod
    def recovery(self) -> Doubles:
        """The vector (M, d) that each slot adds to the combined update."""

    @property
    def entries(self) -> int:
        return self.size * self.dim

    def codeword(self, slot: int) -> Vector:
        return np.asarray(self.matrix[slot])

    def scores(self, vectors: Vector) -> Vector:
        products: Vector = vectors.astype(np.float32) @ self.matrix.T
        return products

    def combine(self, means: Doubles) -> Doubles:
        """Combine row by row, so that every server rounds alike."""
        total = np.zeros(self.dim)
        rows = self.recovery
        for slot in np.flatnonzero(means).tolist():
            total += means[slot] * rows[slot]
        return total

    def influence(self, picks: int = 1) -> Influence:
        return influence_of(self.recovery, picks)


@final
@dataclass(frozen=True)
class RandomDirections(_Matrix):
    """M independent directions from a public seed. Many of them approximate the whole sphere.

    Proof: docs/proofs/transforms.md, T4, T6.

    >>> RandomDirections(dim=3, words=8, seed=0).scores(np.ones(3)).shape
    (8,)
    """

    name: ClassVar[str] = "random directions"
    slots_are: ClassVar[str] = "directions of a random codebook"
    words: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("seed", self.seed, least=0)
        if check_count("words", self.words) * self.dim > MOST_ENTRIES:
            raise InvalidArgument(
                "words", self.words, f"at most 2^28/dim = {MOST_ENTRIES // self.dim}"
            )

    @property
    def size(self) -> int:
        return self.words

    @property
    def rms_correlation(self) -> float:
        return 1 / math.sqrt(self.dim)

    @property
    def matrix(self) -> NDArray[np.float32]:
        return _directions(self.dim, self.words, self.seed)

    @property
    def recovery(self) -> Doubles:
        return _wide_directions(self.dim, self.words, self.seed)


def default_codewords(dim: int) -> int:
    """M of RC: the power of two at 8·d or above, at most 2^13.

    >>> default_codewords(100), default_codewords(5000)
    (1024, 8192)
    """
    return min(1 << 13, 1 << (8 * dim - 1).bit_length())


@final
@dataclass(frozen=True)
class Projection(_Matrix):
    """z = Φᵀg with a public Gaussian Φ (d × q, variance 1/q), q = ratio·d. (Shin et al. 2018.)

    The server recovers an update with the pseudo-inverse of Φᵀ. Singular values below 1/32 of
    1 + √(d/q), about the largest, are not inverted, so no report is enlarged more than 16 times.
    Such values occur at ratios near 1, where Φ is nearly square; their directions are lost.

    Proof: docs/proofs/transforms.md, T7.

    >>> Projection(dim=30, ratio=0.1).matrix.shape
    (3, 30)
    >>> Projection(dim=100, ratio=0.5).rank, Projection(dim=100, ratio=1.0).rank
    (50, 96)
    """

    name: ClassVar[str] = "projection"
    slots_are: ClassVar[str] = "coordinates of a random projection"
    ratio: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.ratio <= 1:
            raise InvalidArgument("ratio", self.ratio, "in (0, 1]")
        check_count("seed", self.seed, least=0)

    @property
    def size(self) -> int:
        """q, the compressed dimension."""
        return max(1, int(Fraction(repr(self.ratio)) * self.dim))

    @property
    def length(self) -> float:
        inverse = np.ascontiguousarray(self.recovery.T)
        return float(np.linalg.norm(inverse)) / math.sqrt(self.size)

    @property
    def matrix(self) -> NDArray[np.float32]:
        """Φᵀ (q, d)."""
        return _projection(self.dim, self.size, self.seed)

    @property
    def recovery(self) -> Doubles:
        """The pseudo-inverse of Φᵀ, transposed: (q, d)."""
        return _inverse(self.dim, self.size, self.seed)[0]

    @property
    def rank(self) -> int:
        """The number of directions that the server recovers: q, or fewer near ratio 1."""
        return _inverse(self.dim, self.size, self.seed)[1]


@lru_cache(maxsize=4)
def _directions(dim: int, codewords: int, seed: int) -> NDArray[np.float32]:
    drawn = public_generator(seed, "directions").standard_normal((codewords, dim))
    return _sealed((drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32))


@lru_cache(maxsize=4)
def _wide_directions(dim: int, codewords: int, seed: int) -> Doubles:
    return _sealed(_directions(dim, codewords, seed).astype(np.float64))


@lru_cache(maxsize=8)
def _projection(d: int, q: int, seed: int) -> NDArray[np.float32]:
    drawn = public_generator(seed, "projection").standard_normal((q, d))
    return _sealed((drawn / math.sqrt(q)).astype(np.float32))


@lru_cache(maxsize=8)
def _inverse(d: int, q: int, seed: int) -> tuple[Doubles, int]:
    """The recovery of a projection, and the number of singular values that it inverts."""
    left, values, right = np.linalg.svd(
        _projection(d, q, seed).astype(np.float64), full_matrices=False
    )
    kept = values > LEAST_SINGULAR * (1 + math.sqrt(d / q))
    inverted = np.divide(1, values, out=np.zeros(q), where=kept)
    inverse: Doubles = right.T @ (inverted[:, None] * left.T)
    return _sealed(np.ascontiguousarray(inverse.T)), int(np.count_nonzero(kept))


def _sealed(array: Array) -> Array:
    array.flags.writeable = False
    return array
