"""What a mechanism is: a frozen set of public parameters with one law, from which all else follows.

A mechanism holds no data, no generator and no state. To add one, subclass `Selection`, `Value` or
`ReportMechanism` as a frozen dataclass and define its law; the rest is derived from the law.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import Epsilon, InvalidArgument, check_count
from fedsel.mechanisms._certificate import Blanket
from fedsel.mechanisms._drawing import Entropy
from fedsel.mechanisms._laws import RankLaw, SymbolLaw
from fedsel.mechanisms._reports import Alphabet, Reports

MAX_DIMENSION = 1 << 32
Vector = NDArray[np.floating]
ReportLaw = dict[tuple[tuple[int, int], ...], Fraction]
"""The exact probability of each report, as its (slot, symbol) pairs: none are ⊥."""


class Mechanism(ABC):
    """What all mechanisms share."""

    name: ClassVar[str]
    """The paper's abbreviation."""
    published: ClassVar[bool] = False
    """True for a mechanism kept as its paper prints it although its true ε exceeds the claim."""
    scalar: ClassVar[bool] = False
    """True for a mechanism that reports one number, so that no dimension d matters."""

    @property
    def claimed(self) -> Epsilon:
        """The ε that the mechanism claims: its parameter, or infinity where it has none."""
        epsilon: Epsilon = getattr(self, "epsilon", math.inf)
        return epsilon

    @property
    def private(self) -> bool:
        return self.claimed != math.inf

    @abstractmethod
    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """Largest ratio of the probabilities of an output for two inputs; None if infinite."""

    def blanket(self, d: int | None = None) -> Blanket:  # noqa: ARG002
        """The two inputs that are hardest to hide among shuffled reports.

        A mechanism of your own needs it for `fedsel.amplify` alone.
        """
        raise InvalidArgument("mechanism", self, "private, with a blanket")

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """The mechanisms that it is composed of: itself, where it is not composed."""
        return (self,)

    def favoured(self, d: int) -> int | None:  # noqa: ARG002
        """k, how many of d slots it favours equally; None where there is no such number."""
        return None

    def describe(self, d: int | None = None) -> list[str]:  # noqa: ARG002
        """Lines for people who want to know more than its ε, for d slots."""
        return []


class Selection(Mechanism):
    """A private choice of one dimension: a law over ranks, by magnitude, with ⊥ allowed.

    The privacy loss is ln(max/min) of the law, because every dimension can hold every rank.
    """

    @abstractmethod
    def build_law(self, d: int) -> RankLaw:
        """The law over the ranks of d dimensions."""

    def law(self, d: int) -> RankLaw:
        """The law over the ranks of d dimensions, built once."""
        return _cached_law(self, check_count("d", d, most=MAX_DIMENSION))

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """max/min of the law.

        Every dimension can hold every rank; ties get a mean of weights; ⊥ is the same for all.
        """
        weights = self.law(check_count("d", d)).weights
        smallest = int(weights.min())
        return Fraction(int(weights.max()), smallest) if smallest else None

    def blanket(self, d: int | None = None) -> Blanket:
        """Two opposite orders."""
        return Blanket.of_ranks(self.law(check_count("d", d)))

    def top(self, d: int) -> int:  # noqa: ARG002
        """k, the number of dimensions that count as top ones among d."""
        return 1

    def describe(self, d: int | None = None) -> list[str]:
        law, k = self.law(check_count("d", d)), self.top(check_count("d", d))
        # The top k are one run of equal weights, or (EXP) k is 1.
        hit = float(k * law.probability(0))
        return [
            f"selection: k = {k}, hits the top k with probability {hit:.6g} "
            f"(at random {k / law.d:.6g}), P[⊥] = {float(law.bottom_probability):.6g}"
        ]


@lru_cache(maxsize=8)
def _cached_law(selection: Selection, d: int) -> RankLaw:
    law = selection.build_law(d)
    if law.d != d:
        raise ValueError(f"{selection!r} builds a law over {law.d} ranks for d = {d}")
    return law


class Value(Mechanism):
    """A private, unbiased report of a number t in [−1, 1] as one integer symbol."""

    scalar: ClassVar[bool] = True
    plain: ClassVar[bool] = False
    """True where numbers leave as they are: then there is no law of symbols."""

    @abstractmethod
    def build_law(self) -> SymbolLaw:
        """The law of the symbol given t."""

    @property
    def law(self) -> SymbolLaw:
        """The law of the symbol given t, built once."""
        return _cached_symbol_law(self)

    def loss_ratio(self, d: int | None = None) -> Fraction | None:  # noqa: ARG002
        """The largest H/L.

        Symbol 0 of a window is inside it for cell 0 and outside for cell G; the public coin
        cancels; an input between two cells is a mixture of them, never worse.
        """
        windows = self.law.windows
        if any(w.L == 0 for w in windows):
            return None
        return max(Fraction(w.H, w.L) for w in windows)

    def blanket(self, d: int | None = None) -> Blanket:  # noqa: ARG002
        """The numbers −1 and 1."""
        return Blanket.of_symbols(self.law)

    @property
    def symbols(self) -> int:
        """How many symbols there are: 0 … symbols−1."""
        return self.law.symbols

    @property
    def cells(self) -> int:
        """The input grid is t = −1 + 2·cell/cells for cell in 0 … cells."""
        return self.law.cells

    def weights(self, cell: int) -> tuple[int, ...]:
        """Integer weight of each symbol for an input cell."""
        return self.law.weights(check_count("cell", cell, least=0, most=self.cells))

    def decode(self, symbols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Unbiased values of symbols."""
        return self.law.decode(symbols)

    @property
    def decode_table(self) -> NDArray[np.float64]:
        """The value of every symbol."""
        return self.decode(np.arange(self.symbols))

    def variance(self, t: float | Fraction) -> float:
        """Variance of the decoded value at t, computed in rationals."""
        if not -1 <= t <= 1:
            raise InvalidArgument("t", t, "in [−1, 1]")
        return float(self.law.variance(Fraction(t)))

    @property
    def worst_input(self) -> float:
        """A t in [−1, 1] with the largest variance."""
        return float(self.law.worst_input)

    @property
    def worst_variance(self) -> float:
        """The largest variance over t in [−1, 1]."""
        return float(self.law.variance(self.law.worst_input))

    @property
    def bound(self) -> float:
        """The largest magnitude that a decoded value can have."""
        return float(self.law.bound)

    def describe(self, d: int | None = None) -> list[str]:  # noqa: ARG002
        return [
            f"value: {self.symbols} symbols, worst-case variance {self.worst_variance:.6g}, "
            f"output within ±{self.bound:.6g}"
        ]


@lru_cache(maxsize=128)
def _cached_symbol_law(value: Value) -> SymbolLaw:
    return value.build_law()


class Scores(Protocol):
    """What a mechanism may ask of a client's transformed update."""

    @property
    def size(self) -> int:
        """M, the number of slots."""
        ...

    def all(self) -> Vector:
        """The scores (M,) by which slots are ranked: finite, right up to a common factor > 0."""
        ...

    def value(self, slot: int) -> float:
        """The value to report at a slot, in double precision."""
        ...

    def values(self) -> NDArray[np.float64]:
        """The values to report at every slot."""
        ...

    def norm(self) -> float:
        """The norm of the update itself."""
        ...


class Codebook(Protocol):
    """What a mechanism may ask of the codewords that its scores are inner products with."""

    @property
    def rms_correlation(self) -> float | None:
        """√E⟨codeword, direction⟩² over all directions."""
        ...

    def top_sum(self, k: int) -> float:
        """E of the sum of the k largest |⟨codeword, direction⟩|, over `rms_correlation`."""
        ...


class ReportMechanism(Mechanism):
    """A report on a vector of ``size`` = M scores: ``picks`` pairs (slot, symbol), or ⊥.

    `loss_ratio` is the privacy of one report, over all vectors and all reports; `report_law` is the
    readable twin of `draw`.
    """

    certified: ClassVar[bool] = True
    """False for a mechanism in floating point, which no certificate covers."""
    decays_at_server: ClassVar[bool] = False
    """Whether the server alone applies the regulariser λw, which is public.

    Where reports follow the order of scores, clients must not add it: in data with few distinct
    values a tiny λw would decide the order of ties, and so act as a large one.
    """
    picks: int = 1
    """How many slots a report names."""
    whole: ClassVar[bool] = False
    """Whether a report holds all entries at once; then it needs `Coordinates`."""

    @abstractmethod
    def unit(self, size: int, codebook: Codebook | None = None) -> float:
        """What the smallest step of a symbol stands for on the scale of the update.

        ``codebook`` is None where the scores are coordinates or projections.
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
        """Exact probability of each report; ``values`` are what is reported, if not ``vector``."""

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


class WholeVector(ReportMechanism):
    """A report of all entries, as floats: it has no law of symbols, and no certificate."""

    whole: ClassVar[bool] = True

    def alphabet(self, size: int, codebook: Codebook | None = None) -> Alphabet:  # noqa: ARG002
        return Alphabet.of_numbers(size, size, 1.0)

    def report_law(
        self,
        vector: Sequence[Fraction],  # noqa: ARG002
        values: Sequence[Fraction] | None = None,  # noqa: ARG002
    ) -> ReportLaw:
        raise InvalidArgument("mechanism", self, "private: numbers have no law of symbols")

    def bits(self, size: int) -> int:
        return 32 * size


def bits_for(choices: int) -> int:
    """Bits that tell this many choices apart.

    >>> bits_for(100), bits_for(1)
    (7, 0)
    """
    return (choices - 1).bit_length()
