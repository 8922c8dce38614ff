"""Public codebooks of directions: coordinates, a rotated basis, random directions.

A client ranks the signed codewords by their inner product with its update; the server adds up
codewords. Both ends know the codebook from public parameters. Scores may be wrong in their last
bits: that costs accuracy at most, never privacy, because a rank law is private whatever it ranks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_count
from fedsel.random import public_generator

Vector = NDArray[np.floating]
MOST_ENTRIES = 1 << 28
"""The largest random codebook: codewords × dimensions."""


@dataclass(frozen=True)
class Codebook(ABC):
    """M codewords of ``dim`` entries and norm 1; with their signs 2M."""

    name: ClassVar[str]
    dim: int

    def __post_init__(self) -> None:
        check_count("dim", self.dim)

    @property
    @abstractmethod
    def size(self) -> int:
        """M, how many codewords there are."""

    @property
    @abstractmethod
    def spread(self) -> float | None:
        """√E⟨codeword, direction⟩² over all directions; None where updates are not to be dense."""

    @abstractmethod
    def scores(self, vectors: Vector) -> Vector:
        """Inner products of the codewords with vectors (…, d), times any constant > 0."""

    @abstractmethod
    def combine(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ totals_j · codeword_j, for totals (M,)."""


@final
@dataclass(frozen=True)
class Coordinates(Codebook):
    """e_1 … e_d: for sparse updates.

    >>> Coordinates(3).combine(np.array([1.0, 0.0, -2.0]))
    array([ 1.,  0., -2.])
    """

    name: ClassVar[str] = "coordinates"

    @property
    def size(self) -> int:
        return self.dim

    @property
    def spread(self) -> None:
        return None

    def scores(self, vectors: Vector) -> Vector:
        return vectors

    def combine(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        return totals


@final
@dataclass(frozen=True)
class Rotated(Codebook):
    """Random signs from a public seed, then a Walsh–Hadamard transform: O(d log d).

    Every round has signs of its own: what one basis makes of an update, others do not.

    >>> book = Rotated(dim=5, seed=1)
    >>> v = np.array([1.0, 2.0, 0.0, -1.0, 0.5], dtype=np.float32)
    >>> np.allclose(book.combine(book.scores(v).astype(float) / book.size**0.5), v)
    True
    """

    name: ClassVar[str] = "rotated"
    seed: int = 0
    round: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("seed", self.seed, least=0)
        check_count("round", self.round, least=0)

    @property
    def size(self) -> int:
        return 1 << (self.dim - 1).bit_length()

    @property
    def signs(self) -> NDArray[np.float32]:
        """The public random signs (d,)."""
        return _signs(self.dim, self.seed, self.round)

    @property
    def spread(self) -> float:
        """Of the padded basis, whose M scores share the norm of the update."""
        return 1 / math.sqrt(self.size)

    def scores(self, vectors: Vector) -> Vector:
        padded = np.zeros((*vectors.shape[:-1], self.size), dtype=vectors.dtype)
        padded[..., : self.dim] = vectors * self.signs
        return hadamard(padded)

    def combine(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        turned = hadamard(np.asarray(totals, dtype=np.float64))[: self.dim]
        return np.asarray(turned * self.signs / math.sqrt(self.size), dtype=np.float64)


def hadamard(x: Vector) -> Vector:
    """The Walsh–Hadamard transform of the last axis, a power of two long, not normalised.

    >>> hadamard(np.array([1.0, 0.0, 2.0, 0.0]))
    array([ 3.,  3., -1., -1.])
    """
    shape, half = x.shape, 1
    while half < shape[-1]:
        pairs = x.reshape(*shape[:-1], -1, 2, half)
        first, second = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([first + second, first - second], axis=-2).reshape(shape)
        half *= 2
    return x


@final
@dataclass(frozen=True)
class RandomDirections(Codebook):
    """M independent directions from a public seed: with many, as good as a continuous sphere.

    >>> RandomDirections(dim=3, words=8, seed=0).scores(np.ones(3)).shape
    (8,)
    """

    name: ClassVar[str] = "random directions"
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
    def matrix(self) -> NDArray[np.float32]:
        """The codewords (M, d)."""
        return _directions(self.dim, self.words, self.seed)

    @property
    def spread(self) -> float:
        return 1 / math.sqrt(self.dim)

    def scores(self, vectors: Vector) -> Vector:
        found: Vector = vectors.astype(np.float32) @ self.matrix.T
        return found

    def combine(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = totals @ self.matrix.astype(np.float64)
        return result


@lru_cache(maxsize=8)
def _signs(dim: int, seed: int, number: int) -> NDArray[np.float32]:
    drawn = public_generator(seed, f"signs of round {number}").integers(0, 2, dim, dtype=np.int8)
    signs = (2 * drawn - 1).astype(np.float32)
    signs.flags.writeable = False
    return signs


@lru_cache(maxsize=4)
def _directions(dim: int, words: int, seed: int) -> NDArray[np.float32]:
    drawn = public_generator(seed, "directions").standard_normal((words, dim))
    matrix: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    matrix = matrix.astype(np.float32)
    matrix.flags.writeable = False
    return matrix
