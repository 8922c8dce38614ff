"""Private, unbiased reports of one number in [−1, 1]: Duchi, PM, HM, OW, and the identity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

import numpy as np

from fedsel.errors import Epsilon, InvalidArgument, check_count, check_epsilon
from fedsel.exact import WEIGHT_BUDGET, exp_lower
from fedsel.mechanisms.base import Value
from fedsel.mechanisms.laws import INPUT_STEPS, SymbolLaw, Window

HYBRID_THRESHOLD = 0.609352
"""Below this ε HM is Duchi alone."""

MOST_CELLS = 1 << 15
"""The finest grid: a symbol fits into 16 bits."""

_LARGEST_SEARCHED = 1024


def private_window(epsilon: Epsilon, G: int, W: int) -> Window:
    """The window on G cells of width W with integer weights H/L ≤ e^ε, as close as 59 bits allow.

    >>> w = private_window(1.0, G=256, W=155)
    >>> 1 - 1e-12 < w.H / w.L / math.e <= 1
    True
    """
    growth = exp_lower(epsilon)
    low = max(1, math.floor(WEIGHT_BUDGET / (W * growth + G)))
    high = min(math.floor(growth * low), (WEIGHT_BUDGET - G * low) // W)
    if high <= low:
        raise InvalidArgument("epsilon", epsilon, "large enough for a value to be told (≥ 1e-12)")
    return Window(G=G, W=W, L=low, H=high)


@dataclass(frozen=True)
class _PrivateValue(Value):
    epsilon: Epsilon

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon("epsilon", self.epsilon))

    @property
    def claimed(self) -> Epsilon:
        return self.epsilon


@final
@dataclass(frozen=True)
class Duchi(_PrivateValue):
    """One bit: ±B with B = (e^ε+1)/(e^ε−1). Var = B² − t². (Duchi et al. 2018.)

    >>> round(Duchi(epsilon=1.0).worst_variance, 3)
    4.683
    """

    name: ClassVar[str] = "Duchi"

    def build_law(self) -> SymbolLaw:
        return SymbolLaw((private_window(self.epsilon, G=1, W=1),))


@dataclass(frozen=True)
class _GridValue(_PrivateValue):
    """A mechanism on the grid of PM; ``grid`` cells, by default as many as ε asks for."""

    grid: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grid is not None:
            object.__setattr__(self, "grid", check_count("grid", self.grid, most=MOST_CELLS))

    def piecewise_window(self) -> Window:
        """PM's window, W = round(G e^(−ε/2)), fine enough for PM's variance within 0.3 % to ε = 8.

        The window narrows as e^(−ε/2), so the number of cells grows with ε.
        """
        if self.grid is not None:
            cells = self.grid
        else:
            doublings = 2 * max(0, math.ceil((float(self.epsilon) - 2) / 2))
            cells = 256 << min(doublings, 7)
        width = max(1, round(cells * math.exp(-float(self.epsilon) / 2)))
        return private_window(self.epsilon, G=cells, W=width)


@final
@dataclass(frozen=True)
class Piecewise(_GridValue):
    """PM on a grid: Var = t²/(h−1) + (h+3)/(3(h−1)²), h = e^(ε/2). (Wang et al. 2019.)

    The grid keeps the worst case within 0.3 % of the continuous PM's up to ε = 8.

    >>> round(Piecewise(epsilon=2.0).variance(0), 2)
    0.65
    """

    name: ClassVar[str] = "PM"

    def build_law(self) -> SymbolLaw:
        return SymbolLaw((self.piecewise_window(),))


@final
@dataclass(frozen=True)
class Hybrid(_GridValue):
    """HM: PM with probability 1 − e^(−ε/2), else Duchi. (Wang et al. 2019.)

    Below ε = 0.609352 it is Duchi alone.

    >>> round(Hybrid(epsilon=2.0).worst_variance, 2)
    1.04
    """

    name: ClassVar[str] = "HM"

    def build_law(self) -> SymbolLaw:
        duchi = private_window(self.epsilon, G=1, W=1)
        if self.epsilon <= HYBRID_THRESHOLD:
            return SymbolLaw((duchi,))
        # The coin does not depend on the data: rounding it costs no privacy.
        heads = round(-math.expm1(-float(self.epsilon) / 2) * (1 << 32))
        return SymbolLaw((self.piecewise_window(), duchi), coins=(heads, (1 << 32) - heads))


@final
@dataclass(frozen=True)
class OptimalWindow(_PrivateValue):
    """OW: the window (G, W) with the least worst-case variance at ε, found by exact search.

    A handful of symbols; below HM's worst case for ε ≥ 2 and equal to Duchi for small ε.

    >>> ow = OptimalWindow(epsilon=4.0)
    >>> ow.law.windows[0].G, ow.law.windows[0].W, round(ow.worst_variance, 3)
    (9, 3, 0.159)
    """

    name: ClassVar[str] = "OW"

    def build_law(self) -> SymbolLaw:
        return SymbolLaw((least_variance_window(self.epsilon),))


@final
@dataclass(frozen=True)
class Identity(Value):
    """The value itself, to 31 bits. Not private: the loss is infinite.

    >>> Identity().variance(0.25)
    0.0
    """

    name: ClassVar[str] = "Identity"

    @property
    def claimed(self) -> Epsilon:
        return math.inf

    def build_law(self) -> SymbolLaw:
        # All weight inside a window of one symbol, on the grid that inputs are rounded to.
        return SymbolLaw((Window(G=INPUT_STEPS, W=1, L=0, H=1),))


@lru_cache(maxsize=128)
def least_variance_window(epsilon: Epsilon, largest: int = _LARGEST_SEARCHED) -> Window:
    """The window with the least worst-case variance among all with W ≤ G ≤ ``largest``.

    All pairs are compared in floating point; those that come within 1e-9 of the best are then
    compared exactly, in rationals, and the one with the fewest symbols wins a tie.
    """
    pairs = _candidates(float(epsilon), largest)
    windows = (private_window(epsilon, G, W) for G, W in pairs)
    return min(windows, key=lambda w: (w.variance(w.worst_input), w.symbols))


def _candidates(epsilon: float, largest: int) -> list[tuple[int, int]]:
    """All (G, W) whose worst variance, in floating point, is within 1e-9 of the least."""
    inverse = math.exp(-epsilon)
    cells = np.arange(1.0, largest + 1)[:, None]
    width = np.arange(1.0, largest + 1)[None, :]
    with np.errstate(all="ignore"):
        symbols = cells + width
        eta = width * -math.expm1(-epsilon) / (width + cells * inverse)
        spread = eta * (width**2 - 1) + (1 - eta) * (symbols**2 - 1)
        a, b = 1 / eta, spread / (3 * (eta * cells) ** 2)
        # The outermost cell, as in Window.worst_input.
        low = 1 - 2 / cells
        t = np.clip(a * (low + 1) / 2, low, 1.0)
        worst = a * ((low + 1) * t - low) + b - t**2
    worst[width > cells] = np.inf
    close = np.argwhere(worst <= worst.min() * (1 + 1e-9))
    return [(int(g) + 1, int(w) + 1) for g, w in close]
