"""Linear models with an ℓ2 regulariser, for two classes, for several, and for numbers.

The losses are logistic, support vector machine, least squares and Huber.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_finite

Loss = Literal["logistic", "svm", "squared", "huber"]
CLASSIFYING = ("logistic", "svm")
REGRESSING = ("squared", "huber")
HUBER, SQUARED = 0.2, 2.0
"""The residuals beyond which regression losses grow linearly. Targets and predictions lie in
[−1, 1], so residuals are at most 2."""


def check_loss(
    loss: object, reg: object, name: str = "loss", known: tuple[str, ...] = CLASSIFYING
) -> None:
    """Refuse an unknown loss or a negative λ; ``name`` is the caller's name for the loss."""
    if loss not in known:
        raise InvalidArgument(name, loss, " or ".join(repr(one) for one in known))
    if check_finite("reg", reg) < 0:
        raise InvalidArgument("reg", reg, "a finite number ≥ 0")


@final
@dataclass(frozen=True)
class LinearModel:
    """mean of loss(y, x·w) + λ/2 ‖w‖², with labels y = ±1 or regression targets y in [−1, 1].

    An intercept is one more feature, always 1. "squared" is ½(x·w − y)² up to a residual of 2,
    "huber" up to 0.2; both are linear beyond.

    >>> model = LinearModel("svm", reg=0.0)
    >>> model.gradient(np.zeros(2), np.array([[1.0, 2.0]]), np.array([1]))
    array([-1., -2.])
    """

    loss: Loss = "logistic"
    reg: float = 1e-4

    def __post_init__(self) -> None:
        check_loss(self.loss, self.reg, known=(*CLASSIFYING, *REGRESSING))

    def slopes(self, margins: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
        """Derivative of each record's loss with respect to x·w."""
        if self.loss in REGRESSING:
            most = HUBER if self.loss == "huber" else SQUARED
            return np.clip(np.asarray(margins - y, dtype=np.float64), -most, most)
        product = y * margins
        if self.loss == "svm":
            return np.where(product < 1, -y, 0.0).astype(np.float64)
        return np.asarray(-y * _sigmoid(-product), dtype=np.float64)

    def gradient(self, w: NDArray[Any], X: Any, y: NDArray[Any]) -> NDArray[np.float64]:
        """Mean gradient (d,) of records X (n, d)."""
        slopes = self.slopes(np.asarray(X @ w), y)
        mean: NDArray[np.float64] = np.asarray(X.T @ slopes) / len(y) + self.reg * w
        return mean

    def losses(self, margins: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
        """The loss of each record, without the regulariser."""
        if self.loss in REGRESSING:
            residuals = np.abs((margins.T - y).T)
            near = np.minimum(residuals, HUBER if self.loss == "huber" else SQUARED)
            return np.asarray(near * (residuals - near / 2))
        product = (y * margins.T).T if margins.ndim > 1 else y * margins
        if self.loss == "svm":
            return np.maximum(0.0, 1.0 - product)
        return np.logaddexp(0.0, -product)

    def objective(self, w: NDArray[Any], X: Any, y: NDArray[Any]) -> float:
        """The regularised mean loss."""
        return float(np.mean(self.losses(np.asarray(X @ w), y)) + self.reg / 2 * float(w @ w))


def predict(margins: NDArray[np.float64]) -> NDArray[np.int8]:
    """Labels ±1; a margin of zero is +1."""
    return np.where(margins >= 0, 1, -1).astype(np.int8)


def _sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


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
        """Derivative (n, C) of each record's loss with respect to its margins (n, C)."""
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

    def gradient(self, w: NDArray[Any], X: Any, y: NDArray[np.integer]) -> NDArray[np.float64]:
        """Mean gradient (C·d,), row after row, of records X (n, d) at weights w (C·d,)."""
        rows = w.reshape(-1, X.shape[1])
        slopes = self.slopes(np.asarray(X @ rows.T), y)
        mean: NDArray[np.float64] = slopes.T @ X / len(y) + self.reg * rows
        return mean.reshape(-1)

    @staticmethod
    def _rivals(
        margins: NDArray[Any], y: NDArray[np.integer]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Each record's wrong class of largest margin, and 1 + that margin − the right class's."""
        rows, others = np.arange(len(y)), np.array(margins, dtype=np.float64)
        others[rows, y] = -np.inf
        rival = others.argmax(axis=1)
        return rival, 1.0 + others[rows, rival] - margins[rows, y]


def softmax(margins: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities (n, C) of margins (n, C)."""
    e = np.exp(np.asarray(margins, dtype=np.float64) - margins.max(axis=1, keepdims=True))
    probabilities: NDArray[np.float64] = e / e.sum(axis=1, keepdims=True)
    return probabilities
