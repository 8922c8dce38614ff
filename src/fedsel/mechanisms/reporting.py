"""A mechanism on a vector of M scores: what it reports, what that costs, how it is added up."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsel.mechanisms.base import Mechanism
from fedsel.mechanisms.drawing import Entropy
from fedsel.reports import Alphabet, Reports

Vector = NDArray[np.floating]
ReportLaw = dict[tuple[tuple[int, int], ...], Fraction]
"""The exact probability of each report, as its (slot, symbol) pairs: none are ⊥."""


class Scores(Protocol):
    """What a mechanism may ask of a client's transformed update."""

    @property
    def size(self) -> int:
        """M, how many slots there are."""
        ...

    def all(self) -> Vector:
        """The scores (M,) by which slots are ranked: finite, right up to a common factor > 0."""
        ...

    def value(self, slot: int) -> float:
        """What is to be reported at a slot, in double precision."""
        ...

    def values(self) -> NDArray[np.float64]:
        """What is to be reported at every slot."""
        ...

    def norm(self) -> float:
        """The norm of the update itself."""
        ...


class Codebook(Protocol):
    """What a mechanism may ask of the codewords that its scores are inner products with."""

    @property
    def spread(self) -> float | None:
        """√E⟨codeword, direction⟩² over all directions."""
        ...

    def top_sum(self, k: int) -> float:
        """E of the sum of the k largest |⟨codeword, direction⟩|, over the spread."""
        ...


class PlainScores:
    """A vector whose entries are their own scores and values."""

    def __init__(self, vector: Vector) -> None:
        self._vector = vector

    @property
    def size(self) -> int:
        return len(self._vector)

    def all(self) -> Vector:
        return self._vector

    def value(self, slot: int) -> float:
        return float(self._vector[slot])

    def values(self) -> NDArray[np.float64]:
        return self._vector.astype(np.float64)

    def norm(self) -> float:
        return norm(self._vector)


def norm(vector: Vector) -> float:
    """‖vector‖, in double precision; infinite where it overflows."""
    wide = vector.astype(np.float64)
    with np.errstate(over="ignore"):
        return math.sqrt(float(wide @ wide))


class ReportMechanism(Mechanism):
    """A report on a vector of ``size`` = M scores: ``picks`` pairs (slot, symbol), or ⊥.

    Subclass it as a frozen dataclass of public parameters. `loss_ratio` is the privacy of one
    report, over all vectors and all reports; `report_law` the readable twin of `draw`.
    """

    certified: ClassVar[bool] = True
    """False for a mechanism in floating point, which no certificate covers."""
    decays_at_server: ClassVar[bool] = False
    """Whether the server alone applies the regulariser λw, which is public.

    Where reports follow the order of scores, clients must not add it: data with few distinct
    values tie, and then a tiny λw would decide the order of the ties and act as a large one.
    """
    picks: int = 1
    """How many slots a report tells of."""
    whole: ClassVar[bool] = False
    """Whether a report speaks of all entries at once, and so of coordinates only."""

    @abstractmethod
    def unit(self, size: int, codebook: Codebook | None = None) -> float:
        """What the smallest step of a symbol stands for on the scale of the update.

        ``codebook`` holds the codewords that the scores are inner products with
        (`fedsel.solutions.transforms`), None for coordinates and projections.
        """

    @abstractmethod
    def alphabet(self, size: int, codebook: Codebook | None = None) -> Alphabet:
        """What a report can say, and what its symbols add to a total."""

    @abstractmethod
    def draw(self, scores: Scores, entropy: Entropy, /) -> Reports:
        """One client's report."""

    @abstractmethod
    def report_law(
        self, vector: Sequence[Fraction], values: Sequence[Fraction] | None = None
    ) -> ReportLaw:
        """Exact probability of each report on a vector; ``values`` are to be told, if others."""

    @abstractmethod
    def noise_power(self, size: int) -> float:
        """E of the sum of squares that the report of a zero vector adds, in squared units."""

    def bits(self, size: int) -> int:
        """The length of a report in bits."""
        alphabet = self.alphabet(size)
        per_symbol = 32 if alphabet.plain else bits_for(alphabet.symbols)
        return alphabet.picks * (bits_for(alphabet.slots + alphabet.abstains) + per_symbol)

    def report_norm(self, entry: float, size: int) -> float:  # noqa: ARG002
        """The norm of a report without its noise where entries are ``entry`` times the clip."""
        return 0.0

    def mean_norm(self, entry: float, size: int, dim: int) -> float:  # noqa: ARG002
        """The norm of the mean of such reports, for updates of ``dim`` entries."""
        return entry * math.sqrt(dim)


def bits_for(choices: int) -> int:
    """Bits that tell this many choices apart.

    >>> bits_for(100), bits_for(1)
    (7, 0)
    """
    return (choices - 1).bit_length()
