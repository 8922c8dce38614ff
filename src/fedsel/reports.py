"""Reports: the only thing that crosses the trust boundary."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsel.mechanisms.laws import BOTTOM


class Report(NamedTuple):
    """What one client sends: a dimension (or ⊥ = −1) and a symbol (0 with ⊥)."""

    dimension: int
    symbol: int


ABSTAIN = Report(BOTTOM, 0)


class Reports(NamedTuple):
    """What n clients send: dimensions (n,) and symbols (n,)."""

    dimension: NDArray[np.int64]
    symbol: NDArray[np.int64]
