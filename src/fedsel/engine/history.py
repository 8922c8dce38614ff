"""What a training run leaves behind, round by round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel.models.linear import LinearModel, predict


@dataclass(frozen=True)
class Round:
    """The model after one round, on the test data, and what the clients have spent and sent."""

    round: int
    epoch: int
    accuracy: float
    misclassification: float
    loss: float
    epsilon: float
    bits: int
    reports: int


@dataclass
class History:
    """All rounds of a run and the weights at its end."""

    rounds: list[Round] = field(default_factory=list)
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @property
    def accuracy(self) -> float:
        """Accuracy at the end."""
        return self.rounds[-1].accuracy

    def table(self) -> list[dict[str, float]]:
        """One row a round."""
        return [vars(r) for r in self.rounds]


@dataclass(frozen=True)
class Test:
    """Records that judge a model."""

    __test__ = False  # not a test of pytest's

    X: Any
    y: NDArray[np.int8]

    def judge(
        self, weights: NDArray[np.float64], model: LinearModel
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Accuracy and regularised loss of each row of weights (rounds, d)."""
        margins = np.asarray(self.X @ weights.T.astype(np.float32), dtype=np.float64)
        hits = predict(margins) == self.y[:, None]
        losses = model.losses(margins, self.y)
        penalty = model.reg / 2 * np.einsum("rd,rd->r", weights, weights)
        return hits.mean(axis=0), losses.mean(axis=0) + penalty
