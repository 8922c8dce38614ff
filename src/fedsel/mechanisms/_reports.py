"""Reports, the only thing that crosses the trust boundary, and how the server adds them up.

A report holds integers drawn from a certified law or, if a solution is not private, the numbers
themselves. Integer sums do not depend on the order of arrival, and the sums of several servers can
be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.errors import InvalidArgument, check_kind

BOTTOM = -1
"""The slot of ⊥, a report that abstains."""


@final
@dataclass(frozen=True, eq=False)
class Reports:
    """What clients send: slots and symbols, (picks,) for one client, (n, picks) for n of them.

    A slot is a coordinate or a codeword, or −1 for ⊥ (with symbol 0). Symbols are integers, or the
    numbers themselves (float64) if a solution is not private.

    >>> many = Reports.of([Reports([3], [1]), Reports([-1], [0])])
    >>> many.slot.shape, many.pairs()
    ((2, 1), [((3, 1),), ()])
    """

    slot: NDArray[np.int64]
    symbol: NDArray[Any]

    def __init__(self, slot: ArrayLike, symbol: ArrayLike) -> None:
        object.__setattr__(self, "slot", np.asarray(slot, dtype=np.int64))
        symbols = np.asarray(symbol)
        if symbols.dtype.kind != "O":  # an enumeration's draws stay undecided
            kind = np.float64 if symbols.dtype.kind == "f" else np.int64
            symbols = symbols.astype(kind, copy=False)
        object.__setattr__(self, "symbol", symbols)
        if self.slot.shape != self.symbol.shape or self.slot.ndim not in (1, 2):
            raise InvalidArgument("symbol", self.symbol.shape, f"of shape {self.slot.shape}")

    @classmethod
    def of(cls, reports: Iterable[Reports]) -> Self:
        """Stack the reports of many clients, one row each."""
        rows = list(reports)
        if not rows:
            return cls(np.empty((0, 1), np.int64), np.empty((0, 1), np.int64))
        return cls(np.stack([r.slot for r in rows]), np.stack([r.symbol for r in rows]))

    @property
    def clients(self) -> int:
        """The number of clients."""
        return 1 if self.slot.ndim == 1 else len(self.slot)

    def moved(self, places: int) -> Reports:
        """Shift all slots except ⊥ by an offset."""
        return Reports(np.where(self.slot == BOTTOM, BOTTOM, self.slot + places), self.symbol)

    def rows(self, which: NDArray[np.integer]) -> Reports:
        """The reports of some of the clients."""
        return Reports(self.slot[which], self.symbol[which])

    def pairs(self) -> list[tuple[tuple[int, Any], ...]]:
        """The (slot, symbol) pairs of each client, none for ⊥."""
        slots, symbols = np.atleast_2d(self.slot), np.atleast_2d(self.symbol)
        rows = zip(slots.tolist(), symbols.tolist(), strict=True)
        return [tuple(p for p in zip(*row, strict=True) if p[0] != BOTTOM) for row in rows]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Reports)
            and np.array_equal(self.slot, other.slot)
            and np.array_equal(self.symbol, other.symbol)
        )

    __hash__ = None  # type: ignore[assignment]


@final
@dataclass(frozen=True, eq=False)
class Alphabet:
    """The set of possible reports, and how to add them up.

    A report is ``picks`` pairs (slot, symbol), or ⊥ if it ``abstains``. Symbols are grouped in
    consecutive windows: window w begins with symbol offsets[w], which adds the integer first[w] to
    its slot's sum for that window, and each further symbol adds ``stride`` more. A slot's total is
    Σ sums · ``units`` over windows. A ``plain`` report holds numbers, each multiplied by units[0],
    instead of symbols; it is not private.
    """

    slots: int
    symbols: int
    picks: int
    abstains: bool
    offsets: NDArray[np.int64]
    first: NDArray[np.int64]
    stride: int
    units: NDArray[np.float64]
    plain: bool = False

    @classmethod
    def of_numbers(cls, slots: int, picks: int, scale: float, *, abstains: bool = False) -> Self:
        """The alphabet of plain reports, which are not private."""
        nothing = np.empty(0, dtype=np.int64)
        return cls(slots, 0, picks, abstains, nothing, nothing, 0, np.array([scale]), plain=True)

    def steps(self, symbols: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Window and step of each symbol, computed without a table of up to 2^31 symbols."""
        if symbols.size and not 0 <= symbols.min() <= symbols.max() < self.symbols:
            raise InvalidArgument("symbols", symbols, f"integers in 0 … {self.symbols - 1}")
        window = np.searchsorted(self.offsets, symbols, side="right") - 1
        return window, self.first[window] + self.stride * (symbols - self.offsets[window])

    @property
    def bound(self) -> float:
        """The largest magnitude that one pair adds to a total."""
        if self.plain:
            return float("inf")
        ends = np.append(self.offsets[1:], self.symbols) - 1
        window, steps = self.steps(np.concatenate([self.offsets, ends]))
        return float(np.abs(steps * self.units[window]).max())


class Adder(Protocol):
    """A transform that adds up reports itself, because a slot is not one place of the totals."""

    @property
    def places(self) -> int:
        """The number of entries of the totals."""
        ...

    def add(
        self,
        sums: NDArray[Any],
        window: NDArray[np.int64],
        slot: NDArray[np.int64],
        steps: NDArray[np.int64],
    ) -> None:
        """Add the steps of slots, each in its window, to sums (windows, places)."""
        ...

    def codewords(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """What one step of each slot (n,) adds: (n, places)."""
        ...


@final
class Totals:
    """The sums of a round's reports, and the number of clients in them (`Solution.totals`).

    >>> from fedsel import solution
    >>> joint = solution("J", epsilon=1.0, dim=3)
    >>> totals = joint.totals()
    >>> totals.add(Reports([[1], [1], [2]], [[0], [0], [1]]))
    >>> totals.count, totals.sums.tolist()
    (3, [[0, 2, -1]])
    """

    def __init__(self, alphabet: Alphabet, adder: Adder | None = None) -> None:
        self.alphabet, self.count, self._adder = alphabet, 0, adder
        shape = (len(alphabet.units), alphabet.slots if adder is None else adder.places)
        kind = np.float64 if alphabet.plain else np.int64
        self.sums: NDArray[Any] = np.zeros(shape, dtype=kind)

    def add(self, reports: Reports) -> None:
        """Add the reports of one or many clients."""
        alphabet = self.alphabet
        slot, symbol = reports.slot.ravel(), reports.symbol.ravel()
        sent = slot != BOTTOM
        slot, symbol = slot[sent], symbol[sent]
        if alphabet.plain:
            np.add.at(self.sums, (0, slot), symbol)
        else:
            window, steps = alphabet.steps(symbol)
            if self._adder is None:
                np.add.at(self.sums, (window, slot), steps)
            else:
                self._adder.add(self.sums, window, slot, steps)
        self.count += reports.clients

    def merge(self, other: Totals) -> None:
        """Add the sums of another server."""
        check_kind("other", other, Totals)
        if other.sums.shape != self.sums.shape:
            raise InvalidArgument("other", other.sums.shape, f"sums of shape {self.sums.shape}")
        self.sums += other.sums
        self.count += other.count

    def clear(self) -> None:
        """Set all sums to zero."""
        self.sums[:] = 0
        self.count = 0

    def mean(self) -> NDArray[np.float64]:
        """The mean over the clients at each slot; zeros without a report."""
        return slot_means(self.sums, self.alphabet.units, self.count)


def slot_means(
    sums: NDArray[Any], units: Sequence[float] | NDArray[np.float64], count: int
) -> NDArray[np.float64]:
    """Σ units · sums / count, window by window, so that every server rounds alike."""
    total: NDArray[np.float64] = units[0] * sums[0].astype(np.float64)
    for unit, row in zip(units[1:], sums[1:], strict=True):
        total += unit * row.astype(np.float64)
    return total / max(1, count)
