"""The base classes of mechanisms: frozen public parameters with a law that implies all else.

A mechanism holds no data, no generator and no state. To add one, subclass `Selection`, `Value` or
`ReportMechanism` as a frozen dataclass and define its law.
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
"""Maps each report, as its (slot, symbol) pairs, to its exact probability. ⊥ has no pairs."""


class Mechanism(ABC):
    """The interface that all mechanisms share."""

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
        """The two inputs that are hardest to hide among shuffled reports, for `fedsel.amplify`."""
        raise InvalidArgument("mechanism", self, "a private mechanism that defines `blanket`")

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """The mechanisms of which it is composed, or itself alone."""
        return (self,)

    def favoured(self, d: int) -> int | None:  # noqa: ARG002
        """The number k of slots, among d, that it favours equally; None if there is none."""
        return None

    def describe(self, d: int | None = None) -> list[str]:  # noqa: ARG002
        """Describe the mechanism on d slots in a few lines of text."""
        return []


class Selection(Mechanism):
    """A private choice of one dimension: a law over ranks, by magnitude, with ⊥ allowed.

    The privacy loss is ln(max/min) of the law, because every dimension can hold every rank.
    """

    @abstractmethod
    def build_law(self, d: int) -> RankLaw:
        """The law over the ranks of d dimensions."""

    def law(self, d: int) -> RankLaw:
        """The cached law over the ranks of d dimensions."""
        return _cached_law(self, check_count("d", d, most=MAX_DIMENSION))

    def loss_ratio(self, d: int | None = None) -> Fraction | None:
        """max/min of the law: ties get mean weights, and ⊥ is equally likely for all inputs."""
        weights = self.law(check_count("d", d)).weights
        smallest = int(weights.min())
        return Fraction(int(weights.max()), smallest) if smallest else None

    def blanket(self, d: int | None = None) -> Blanket:
        """The blanket of two vectors with opposite ranks."""
        return Blanket.of_ranks(self.law(check_count("d", d)))

    def top(self, d: int) -> int:  # noqa: ARG002
        """The number k of dimensions, among d, that count as the top."""
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
    """True if numbers are sent unchanged. Such a mechanism has no law of symbols."""

    @abstractmethod
    def build_law(self) -> SymbolLaw:
        """The law of the symbol given t."""

    @property
    def law(self) -> SymbolLaw:
        """The cached law of the symbol given t."""
        return _cached_symbol_law(self)

    def loss_ratio(self, d: int | None = None) -> Fraction | None:  # noqa: ARG002
        """The largest H/L of a window.

        Symbol 0 is inside the window of cell 0 and outside that of cell G. The public coin cancels,
        and an input between two cells mixes their laws, which is never worse.
        """
        windows = self.law.windows
        if any(w.L == 0 for w in windows):
            return None
        return max(Fraction(w.H, w.L) for w in windows)

    def blanket(self, d: int | None = None) -> Blanket:  # noqa: ARG002
        """The blanket of the inputs −1 and 1."""
        return Blanket.of_symbols(self.law)

    @property
    def symbols(self) -> int:
        """The number of symbols, which are 0 … symbols−1."""
        return self.law.symbols

    @property
    def cells(self) -> int:
        """The number of cells of the input grid t = −1 + 2·cell/cells, cell in 0 … cells."""
        return self.law.cells

    def weights(self, cell: int) -> tuple[int, ...]:
        """Integer weight of each symbol for an input cell."""
        return self.law.weights(check_count("cell", cell, least=0, most=self.cells))

    def decode(self, symbols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Decode symbols to unbiased values."""
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
    """The view of a client's transformed update that a mechanism reads."""

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
    """The facts about the codewords behind the scores that a mechanism needs."""

    @property
    def rms_correlation(self) -> float | None:
        """√E⟨codeword, direction⟩² over all directions."""
        ...

    def top_sum(self, k: int) -> float:
        """E of the sum of the k largest |⟨codeword, direction⟩|, over `rms_correlation`."""
        ...


class ReportMechanism(Mechanism):
    """A mechanism that reports ``picks`` pairs (slot, symbol), or ⊥, on ``size`` = M scores.

    `loss_ratio` covers one report, over all vectors and all reports. `report_law` is the readable
    twin of `draw`.
    """

    certified: ClassVar[bool] = True
    """False for a mechanism that draws floats, which no certificate covers."""
    decays_at_server: ClassVar[bool] = False
    """Whether the server alone applies the regulariser λw, which is public.

    Where reports follow the order of scores, clients must not add it: in data with few distinct
    values a tiny λw would decide the order of ties, and so act as a large one.
    """
    picks: int = 1
    """The number of slots in a report."""
    whole: ClassVar[bool] = False
    """Whether a report holds all entries. Such a mechanism requires `Coordinates`."""

    @abstractmethod
    def unit(self, size: int, codebook: Codebook | None = None) -> float:
        """The value of a symbol's smallest step, on the scale of the update.

        ``codebook`` is None if the scores are coordinates or projections.
        """

    @abstractmethod
    def alphabet(self, size: int, codebook: Codebook | None = None) -> Alphabet:
        """The possible reports, and what each symbol adds to a total."""

    @abstractmethod
    def draw(self, scores: Scores, entropy: Entropy, /) -> Reports:
        """Draw one client's report."""

    @abstractmethod
    def report_law(
        self, vector: Sequence[Fraction], values: Sequence[Fraction] | None = None
    ) -> ReportLaw:
        """Exact probability of each report on ``values``, ranked by ``vector``."""

    @abstractmethod
    def noise_power(self, size: int) -> float:
        """Expected sum of squares, in squared units, that the report of a zero vector adds."""

    def bits(self, size: int) -> int:
        """The length of a report in bits."""
        alphabet = self.alphabet(size)
        per_symbol = 32 if alphabet.plain else bits_for(alphabet.symbols)
        return alphabet.picks * (bits_for(alphabet.slots + alphabet.abstains) + per_symbol)

    def report_norm(self, entry: float, size: int) -> float:  # noqa: ARG002
        """The noise-free norm of a report on entries of ``entry`` times the clip."""
        return 0.0

    def mean_norm(self, entry: float, size: int, dim: int) -> float:  # noqa: ARG002
        """The norm of the mean of such reports, for updates of ``dim`` entries."""
        return entry * math.sqrt(dim)


class WholeVector(ReportMechanism):
    """A report of all entries as floats. It has no law of symbols and no certificate."""

    whole: ClassVar[bool] = True

    def alphabet(self, size: int, codebook: Codebook | None = None) -> Alphabet:  # noqa: ARG002
        return Alphabet.of_numbers(size, size, 1.0)

    def report_law(
        self,
        vector: Sequence[Fraction],  # noqa: ARG002
        values: Sequence[Fraction] | None = None,  # noqa: ARG002
    ) -> ReportLaw:
        raise InvalidArgument("mechanism", self, "a private mechanism: plain numbers have no law")

    def bits(self, size: int) -> int:
        return 32 * size


def bits_for(choices: int) -> int:
    """The number of bits that encode one of ``choices``.

    >>> bits_for(100), bits_for(1)
    (7, 0)
    """
    return (choices - 1).bit_length()
