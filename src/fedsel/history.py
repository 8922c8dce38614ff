"""What a training run leaves behind, round by round."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsel.preparation.record import Preparation


@dataclass(frozen=True)
class Round:
    """The model after one round, on the test data, and what the clients have spent and sent."""

    round: int
    epoch: int
    epsilon: float
    bits: int
    reports: int
    accuracy: float = math.nan
    loss: float = math.nan

    @property
    def misclassification(self) -> float:
        return 1 - self.accuracy


@dataclass
class History:
    """All rounds of a run and the weights at its end.

    Where the draws were ``seeded``, who knows or guesses the seed can undo the noise: the weights
    of such a simulation are not for release. The seed itself is not kept. ``preparation`` is what
    clients did with their records, as far as it was learnt from reports.
    """

    rounds: list[Round] = field(default_factory=list)
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    seeded: bool = False
    preparation: Preparation | None = None

    @property
    def accuracy(self) -> float:
        """Accuracy at the end."""
        return self.rounds[-1].accuracy

    def table(self) -> list[dict[str, float]]:
        """One row a round."""
        return [{**vars(r), "misclassification": r.misclassification} for r in self.rounds]
