"""The compressed solution (…-RP): one coordinate of a public random projection of the gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, InvalidData, check_count, check_positive, check_vectors
from fedsel.mechanisms import Value, certify
from fedsel.random import Entropy, public_generator
from fedsel.sampling.device import SYSTEM, draw_symbol
from fedsel.solutions.base import (
    Alphabet,
    Privacy,
    Solution,
    Vector,
    alphabet_of,
    bits_for,
)


@final
@dataclass(frozen=True)
class Projected(Solution):
    """z = Φᵀg with a public Gaussian Φ (d × q, variance 1/q); a random z_j is perturbed, times q.

    The server recovers the mean with the pseudo-inverse of Φᵀ. (Shin et al. 2018.)

    >>> from fedsel.mechanisms import Duchi
    >>> rp = Projected("Duchi-RP", dim=30, epochs=1, value=Duchi(1.0), ratio=0.1)
    >>> rp.q, rp.matrix.shape, rp.bits
    (3, (3, 30), 3)
    """

    value: Value | None = None
    budget: Fraction | None = None
    ratio: float = 0.1
    clip: float = 1.0
    seed: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.value, Value):
            raise InvalidArgument("value", self.value, "a Value mechanism")
        if not 0 < self.ratio <= 1:
            raise InvalidArgument("ratio", self.ratio, "in (0, 1]")
        check_positive("clip", self.clip)
        check_count("seed", self.seed, least=0)

    @property
    def q(self) -> int:
        """The compressed dimension."""
        return max(1, int(Fraction(repr(self.ratio)) * self.dim))

    @property
    def matrix(self) -> NDArray[np.float32]:
        """Φᵀ (q, d): public, the same on every client and on the server."""
        return _projection(self.dim, self.q, self.seed)

    @property
    def privacy(self) -> Privacy:
        assert self.value is not None  # noqa: S101
        return Privacy(self.budget, certify(self.value).ratio, self.epochs, self.note)

    @property
    def bits(self) -> int:
        assert self.value is not None  # noqa: S101
        return bits_for(self.q) + bits_for(self.value.symbols)

    @property
    def alphabet(self) -> Alphabet:
        assert self.value is not None  # noqa: S101
        return alphabet_of(self.value, self.q, self.q * self.clip)

    def expand(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        update: NDArray[np.float64] = self.recovery @ totals
        return update

    def encode(
        self, gradient: Vector, residual: Vector, entropy: Entropy = SYSTEM
    ) -> tuple[tuple[tuple[int, int], ...], Vector]:
        """A coordinate of the projection, drawn at random, and its symbol; no residual is used."""
        assert self.value is not None  # noqa: S101
        step = check_vectors("gradient", gradient, ndim=1)
        if len(step) != self.dim:
            raise InvalidData(f"gradient: must have {self.dim} entries")
        j = entropy.below(self.q)
        z = float(np.dot(self.matrix[j].astype(np.float64), step.astype(np.float64)))
        t = max(-self.clip, min(self.clip, z)) / self.clip
        return ((j, draw_symbol(self.value.law, t, entropy)),), residual

    def decode(self, messages: Sequence[object]) -> NDArray[np.float64]:
        assert self.value is not None  # noqa: S101
        total = np.zeros(self.q)
        pairs = np.array(messages, dtype=np.int64).reshape(-1, 2)
        np.add.at(total, pairs[:, 0], self.q * self.clip * self.value.decode(pairs[:, 1]))
        mean: NDArray[np.float64] = self.recovery @ (total / max(1, len(pairs)))
        return mean

    @property
    def recovery(self) -> NDArray[np.float64]:
        """The pseudo-inverse of Φᵀ (d, q), by which the server recovers the mean."""
        return _inverse(self.dim, self.q, self.seed)


@lru_cache(maxsize=8)
def _projection(d: int, q: int, seed: int) -> NDArray[np.float32]:
    drawn = public_generator(seed, "projection").standard_normal((q, d))
    matrix: NDArray[np.float32] = (drawn / math.sqrt(q)).astype(np.float32)
    matrix.flags.writeable = False
    return matrix


@lru_cache(maxsize=8)
def _inverse(d: int, q: int, seed: int) -> NDArray[np.float64]:
    inverse: NDArray[np.float64] = np.linalg.pinv(_projection(d, q, seed).astype(np.float64))
    return np.ascontiguousarray(inverse)
