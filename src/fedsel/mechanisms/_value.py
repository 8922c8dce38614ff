"""Private, unbiased reports of one number in [−1, 1]: Duchi, PM, HM, OW, and the identity."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.exact import WEIGHT_BUDGET, decimal_context, exp_lower, nearest_decay
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_epsilon
from fedsel.mechanisms._base import Value
from fedsel.mechanisms._laws import INPUT_STEPS, SymbolLaw, Window

HYBRID_THRESHOLD = 0.609352
"""Below this ε HM is Duchi alone."""

MOST_CELLS = 1 << 15
"""The finest grid: a symbol fits into 16 bits."""

LEAST_EPSILON = 1e-12
"""Below this an integer law cannot tell values apart."""

_DECIMALS = decimal_context(40)
_ALL_PAIRS = 1024
_NEIGHBOURS = 2


def private_window(epsilon: Epsilon, G: int, W: int) -> Window:
    """The window of width W on G cells with integer weights H/L ≤ e^ε, as close as 59 bits allow.

    Proof: docs/proofs/values.md, W6.

    >>> w = private_window(1.0, G=256, W=155)
    >>> 1 - 1e-12 < w.H / w.L / math.e <= 1
    True
    """
    growth = exp_lower(epsilon)
    low = max(1, math.floor(WEIGHT_BUDGET / (W * growth + G)))
    high = min(math.floor(growth * low), (WEIGHT_BUDGET - G * low) // W)
    return Window(G=G, W=W, L=low, H=high)


@dataclass(frozen=True)
class _PrivateValue(Value):
    epsilon: Epsilon

    def __post_init__(self) -> None:
        epsilon = check_epsilon("epsilon", self.epsilon)
        if epsilon < LEAST_EPSILON:
            raise InvalidArgument("epsilon", self.epsilon, f"at least {LEAST_EPSILON}")
        object.__setattr__(self, "epsilon", epsilon)


@final
@dataclass(frozen=True)
class Duchi(_PrivateValue):
    """One bit: ±B with B = (e^ε+1)/(e^ε−1). Var = B² − t². (Duchi et al. 2018.)

    Proof: docs/proofs/values.md, W7.

    >>> round(Duchi(epsilon=1.0).worst_variance, 3)
    4.683
    """

    name: ClassVar[str] = "Duchi"

    def build_law(self) -> SymbolLaw:
        return SymbolLaw((private_window(self.epsilon, G=1, W=1),))


@dataclass(frozen=True)
class _GridValue(_PrivateValue):
    """A mechanism on PM's grid of ``grid`` cells; by default their number depends on ε."""

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
            doublings = 2 * max(0, math.ceil((Fraction(self.epsilon) - 2) / 2))
            cells = 256 << min(doublings, 7)
        width = max(1, nearest_decay(cells, Fraction(self.epsilon) / 2))
        return private_window(self.epsilon, G=cells, W=width)


@final
@dataclass(frozen=True)
class Piecewise(_GridValue):
    """PM on a grid: Var = t²/(h−1) + (h+3)/(3(h−1)²), h = e^(ε/2). (Wang et al. 2019.)

    The grid keeps the worst case within 0.3 % of the continuous PM's up to ε = 8.

    Proof: docs/proofs/values.md, W8.

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

    Proof: docs/proofs/values.md, W9.

    >>> round(Hybrid(epsilon=2.0).worst_variance, 2)
    1.04
    """

    name: ClassVar[str] = "HM"

    def build_law(self) -> SymbolLaw:
        duchi = private_window(self.epsilon, G=1, W=1)
        if self.epsilon <= HYBRID_THRESHOLD:
            return SymbolLaw((duchi,))
        # The coin does not depend on the data: rounding it costs no privacy.
        tails = max(1, nearest_decay(1 << 32, Fraction(self.epsilon) / 2))
        return SymbolLaw((self.piecewise_window(), duchi), coins=((1 << 32) - tails, tails))


@final
@dataclass(frozen=True)
class OptimalWindow(_PrivateValue):
    """OW: the window (G, W) with the least worst-case variance at ε, found by exact search.

    It needs a handful of symbols, has a smaller worst case than HM for ε ≥ 2, and equals Duchi for
    small ε.

    Proof: docs/proofs/values.md, W10.

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

    No certificate: docs/proofs/values.md, W11.

    >>> Identity().variance(0.25)
    0.0
    """

    name: ClassVar[str] = "Identity"

    def build_law(self) -> SymbolLaw:
        # A window of one symbol holds all weight, on the grid to which inputs are rounded.
        return SymbolLaw((Window(G=INPUT_STEPS, W=1, L=0, H=1),))


@final
@dataclass(frozen=True)
class Unperturbed(Value):
    """The number itself, as a float of any size, for NP-RS, NP-K and PS. Not private.

    No certificate: docs/proofs/values.md, W11.

    >>> Unperturbed().private
    False
    """

    name: ClassVar[str] = "Unperturbed"
    plain: ClassVar[bool] = True

    def build_law(self) -> SymbolLaw:
        raise InvalidArgument("value", self, "a private value: plain numbers have no law")

    def loss_ratio(self, d: int | None = None) -> Fraction | None:  # noqa: ARG002
        return None

    def variance(self, t: float | Fraction) -> float:  # noqa: ARG002
        return 0.0

    def describe(self, d: int | None = None) -> list[str]:  # noqa: ARG002
        return []


@lru_cache(maxsize=128)
def least_variance_window(epsilon: Epsilon, largest: int = MOST_CELLS) -> Window:
    """The window with the least worst-case variance.

    The candidates are all W ≤ G ≤ 1024 and, up to ``largest`` cells, the widths next to the best
    ratio W/G ≈ (2e^(−ε))^(1/3) of a fine grid. They are compared in floats first; those within 1e-9
    of the best are then compared in rationals, and the fewest symbols win a tie. Floats are right
    to 1e-12 here, so every machine makes the same choice.
    """
    few = min(_ALL_PAIRS, largest)
    small_cells, small_widths = np.tril_indices(few)
    ratio = _best_ratio(Fraction(epsilon))
    large_cells = np.arange(few + 1, largest + 1)
    around = np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1)
    large_widths = np.maximum(1, np.rint(large_cells * ratio).astype(int)[:, None] + around)
    cells = np.concatenate([small_cells + 1, np.repeat(large_cells, len(around))])
    widths = np.concatenate([small_widths + 1, large_widths.ravel()])
    worst = _worst_variance(float(epsilon), cells.astype(float), widths.astype(float))
    close = np.flatnonzero(worst <= worst.min() * (1 + 1e-9))
    windows = (private_window(epsilon, int(cells[i]), int(widths[i])) for i in close)
    return min(windows, key=lambda w: (w.variance(w.worst_input), w.symbols))


def _best_ratio(epsilon: Fraction) -> float:
    """The float nearest to (2e^(−ε))^(1/3), computed in decimals: the same on every machine."""
    with decimal.localcontext(_DECIMALS):
        exact = Decimal(epsilon.numerator) / epsilon.denominator
        return float(((Decimal(2).ln() - exact) / 3).exp())


def _worst_variance(
    epsilon: float, cells: NDArray[np.float64], widths: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`Window.variance` at `Window.worst_input` for many windows, in floating point.

    Written with 1/η = 1 + δ to avoid cancellation at a large ε.
    """
    symbols = cells + widths
    # L/H: e^−ε, or what 59 bits allow.
    inverse = np.maximum(math.exp(-epsilon), widths / WEIGHT_BUDGET)
    inside = widths * (1 - inverse)
    delta = inverse * symbols / inside
    eta = inside / (widths + cells * inverse)
    spread = eta * (widths**2 - 1) + inverse * symbols / (widths + cells * inverse) * (
        symbols**2 - 1
    )
    b = spread / (3 * (eta * cells) ** 2)
    low, step = 1 - 2 / cells, 1 / cells
    beyond = np.minimum(delta * (1 - step), step)  # from the cell's middle to the worst input
    t = 1 - step + beyond
    worst: NDArray[np.float64] = (
        delta * ((low + 1) * t - low) + (step + beyond) * (step - beyond) + b
    )
    return worst
