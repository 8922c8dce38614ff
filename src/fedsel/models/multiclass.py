"""Linear models of several classes: softmax regression and the multi-class SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedsel.models.linear import Loss, check_loss


@final
@dataclass(frozen=True)
class MulticlassModel:
    """mean of loss(y, W·x) + λ/2 ‖W‖² with one row of W (C, d) for each class y = 0 … C−1.

    "logistic" is the softmax cross-entropy; "svm" is max(0, 1 + max_{c≠y} w_c·x − w_y·x).
    (Crammer & Singer 2001.)

    >>> model = MulticlassModel("logistic", reg=0.0)
    >>> model.slopes(np.zeros((1, 4)), np.array([2]))
    array([[ 0.25,  0.25, -0.75,  0.25]])
    """

    loss: Loss = "logistic"
    reg: float = 1e-4

    def __post_init__(self) -> None:
        check_loss(self.loss, self.reg)

    def slopes(self, margins: NDArray[Any], y: NDArray[np.integer]) -> NDArray[np.float64]:
        """Derivative (n, C) of each record's loss by its margins (n, C)."""
        rows = np.arange(len(y))
        if self.loss == "logistic":
            slopes = softmax(margins)
            slopes[rows, y] -= 1.0
            return slopes
        rival, gap = self._rivals(margins, y)
        slopes = np.zeros(margins.shape)
        slopes[rows, rival] = gap > 0
        slopes[rows, y] = -1.0 * (gap > 0)
        return slopes

    def losses(self, margins: NDArray[Any], y: NDArray[np.integer]) -> NDArray[np.float64]:
        """The loss of each record, without the regulariser."""
        if self.loss == "svm":
            return np.maximum(0.0, self._rivals(margins, y)[1])
        shifted = margins - margins.max(axis=1, keepdims=True)
        normalised = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(y)), y]
        return np.asarray(normalised, dtype=np.float64)

    @staticmethod
    def _rivals(
        margins: NDArray[Any], y: NDArray[np.integer]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The strongest wrong class of each record, and 1 + its margin − that of the right one."""
        rows, others = np.arange(len(y)), np.array(margins, dtype=np.float64)
        others[rows, y] = -np.inf
        rival = others.argmax(axis=1)
        return rival, 1.0 + others[rows, rival] - margins[rows, y]


def softmax(margins: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities (n, C) of margins (n, C)."""
    e = np.exp(np.asarray(margins, dtype=np.float64) - margins.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = e / e.sum(axis=1, keepdims=True)
    return probabilities
