"""Linear models with an ℓ2 regulariser: logistic, support vector machine, least squares, Huber."""

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
"""The residuals beyond which the losses of a regression grow linearly; targets lie in [−1, 1], so
that least squares has no larger ones within them."""


def check_loss(
    loss: object, reg: object, name: str = "loss", known: tuple[str, ...] = CLASSIFYING
) -> None:
    """Refuse a loss or a λ that no model has; ``name`` is what the caller calls the loss."""
    if loss not in known:
        raise InvalidArgument(name, loss, " or ".join(repr(one) for one in known))
    if check_finite("reg", reg) < 0:
        raise InvalidArgument("reg", reg, "a finite number ≥ 0")


@final
@dataclass(frozen=True)
class LinearModel:
    """mean of loss(y, x·w) + λ/2 ‖w‖², with labels y = ±1, or targets y in [−1, 1] of a regression.

    An intercept is one more feature that is always 1. "squared" is ½(x·w − y)² up to a residual of
    2, "huber" the same up to one of 0.2; both are linear beyond.

    >>> model = LinearModel("svm", reg=0.0)
    >>> model.gradient(np.zeros(2), np.array([[1.0, 2.0]]), np.array([1]))
    array([-1., -2.])
    """

    loss: Loss = "logistic"
    reg: float = 1e-4

    def __post_init__(self) -> None:
        check_loss(self.loss, self.reg, known=(*CLASSIFYING, *REGRESSING))

    def slopes(self, margins: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
        """Derivative of the loss by x·w, for each record."""
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
