"""Linear models: ℓ2-regularised logistic regression and support vector machine (hinge loss)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_finite

Loss = Literal["logistic", "svm"]


def check_loss(loss: object, reg: object, name: str = "loss") -> None:
    """Refuse a loss or a λ that no model has; ``name`` is what the caller calls the loss."""
    if loss not in ("logistic", "svm"):
        raise InvalidArgument(name, loss, "'logistic' or 'svm'")
    if check_finite("reg", reg) < 0:
        raise InvalidArgument("reg", reg, "a finite number ≥ 0")


@final
@dataclass(frozen=True)
class LinearModel:
    """mean of loss(y, x·w) + λ/2 ‖w‖², with labels y = ±1.

    An intercept is one more feature that is always 1.

    >>> model = LinearModel("svm", reg=0.0)
    >>> model.gradient(np.zeros(2), np.array([[1.0, 2.0]]), np.array([1]))
    array([-1., -2.])
    """

    loss: Loss = "logistic"
    reg: float = 1e-4

    def __post_init__(self) -> None:
        check_loss(self.loss, self.reg)

    def slopes(self, margins: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
        """Derivative of the loss by x·w, for each record."""
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
