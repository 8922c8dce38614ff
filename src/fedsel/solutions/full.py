"""NP: the whole gradient in the clear, the non-private baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import check_vectors
from fedsel.random import Entropy
from fedsel.sampling.device import SYSTEM
from fedsel.solutions.base import Privacy, Solution, Vector


@final
@dataclass(frozen=True)
class Full(Solution):
    """Every entry of the gradient, as it is.

    >>> Full("NP", dim=100, epochs=1).bits
    3200
    """

    @property
    def privacy(self) -> Privacy:
        return Privacy(None, None, self.epochs, "not private: the whole gradient leaves as it is")

    @property
    def bits(self) -> int:
        return 32 * self.dim

    def encode(
        self,
        gradient: Vector,
        residual: Vector,
        entropy: Entropy = SYSTEM,  # noqa: ARG002
    ) -> tuple[Vector, Vector]:
        return check_vectors("gradient", gradient, ndim=1), residual

    def decode(self, messages: Sequence[object]) -> NDArray[np.float64]:
        mean: NDArray[np.float64] = np.mean(np.asarray(messages, dtype=np.float64), axis=0)
        return mean
