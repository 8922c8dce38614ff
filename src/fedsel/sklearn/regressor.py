"""FedSelRegressor: a linear regression that no client trusts with its record."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from fedsel.errors import Epsilon, InvalidArgument
from fedsel.models import REGRESSING, check_loss
from fedsel.recipe import RECOMMENDED
from fedsel.sklearn import leaks
from fedsel.sklearn.base import FederatedLinear
from fedsel.sklearn.fitting import Examples, Regression


class FedSelRegressor(RegressorMixin, FederatedLinear):  # type: ignore[misc]
    """Federated linear regression under local differential privacy.

    Every row of X, or every group of rows, is a client, and sends ``epochs`` private reports on the
    gradient of its loss; the model is computed from the reports alone.

    Parameters
    ----------
    epsilon
        Total ε of a client in one fit, over all epochs.
    loss
        "squared", or "huber", which outliers move less.
    target_range
        (low, high), public bounds of y, to which clients clip. None reads them from y, and warns:
        that is not private.
    feature_range
        Public bounds of the features, as in `FedSelClassifier`.
    spread, centre
        Which rounds learn where records lie, as in `FedSelClassifier`. Records keep their norm, up
        to one public factor.
    public_mean
        None, or published means of features, in their units: {name: mean} for a DataFrame, {column
        number: mean}, or an array with NaN where none is known. The share of a level is its mean.
        They tell the centre of these features without a round and without ε; rounds learn
        that of the others. Needs ``feature_range``.
    weight_bound
        The public bound of ``sample_weight``, as in `FedSelClassifier`.
    solution
        As in `FedSelClassifier`, and so are all that follow.
    epochs, verbose
        Reports of a client; whether to tell what is done.
    batch_fraction, k, clip, momentum, reg
        Numbers.
    learning_rate, averaging, mu
        Numbers, or "auto".
    rho
        The public radius.
    words
        Codewords of RC.
    bases
        Rotated bases of RJ.
    fit_intercept
        Whether to learn an intercept.
    random_state
        None for a model that may be released.

    Attributes
    ----------
    coef_
        Slopes (d,), as in scikit-learn. Features are clipped to their bounds in prediction too;
        coef_ holds within the bounds.
    intercept_
        The constant, as in scikit-learn.
    target_range_
        The bounds of y that were used; predictions lie within them.
    privacy_
        What a fit costs a client. This and all other attributes are as in `FedSelClassifier`; the
        accuracy of a round in ``history_`` is R² here.

    Examples
    --------
    >>> X = np.linspace(-0.9, 0.9, 4000)[:, None]
    >>> model = FedSelRegressor(epsilon=8.0, feature_range=(-1, 1), target_range=(0, 10))
    >>> model.fit(X, 5 + 4 * X[:, 0]).score(X, 5 + 4 * X[:, 0]) > 0.9
    True
    """

    target_range_: tuple[float, float]

    def __init__(
        self,
        *,
        epsilon: Epsilon = 2.0,
        solution: str = RECOMMENDED,
        loss: Literal["squared", "huber"] = "squared",
        epochs: int = 1,
        batch_fraction: float = 0.01,
        learning_rate: float | Literal["auto"] = "auto",
        averaging: float | Literal["auto"] = "auto",
        rho: float | Literal["auto"] | None = "auto",
        words: int | None = None,
        bases: int | Literal["auto"] | None = "auto",
        mu: float | Literal["auto"] = "auto",
        k: float = 0.1,
        clip: float = 1.0,
        momentum: float = 0.0,
        reg: float = 1e-4,
        fit_intercept: bool = True,
        feature_range: tuple[Any, Any] | Literal["private"] | None = None,
        target_range: tuple[float, float] | None = None,
        spread: float | Literal["auto"] = "auto",
        centre: float | Literal["auto"] = "auto",
        public_mean: Any = None,
        weight_bound: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.solution = solution
        self.loss = loss
        self.epochs = epochs
        self.batch_fraction = batch_fraction
        self.learning_rate = learning_rate
        self.averaging = averaging
        self.rho = rho
        self.words = words
        self.bases = bases
        self.mu = mu
        self.k = k
        self.clip = clip
        self.momentum = momentum
        self.reg = reg
        self.fit_intercept = fit_intercept
        self.feature_range = feature_range
        self.target_range = target_range
        self.spread = spread
        self.centre = centre
        self.public_mean = public_mean
        self.weight_bound = weight_bound
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        sample_weight: Any = None,
        public_X: Any = None,
    ) -> Self:
        """Train on the clients: rows of X, or groups of rows with the same value in ``groups``.

        ``eval_set`` = (X, y), not of the clients, judges the model after every round.
        ``sample_weight`` (n,) weighs the loss of each record, up to ``weight_bound``.
        ``public_X`` are rows of the same features that everybody may know, without their numbers:
        they give the bounds that are not declared, centre, spread and norm of the records, and cost
        no ε (`fedsel.preparation.public`).
        """
        return self._fit(
            X, y, groups, eval_set, sample_weight, first=True, only=True, public_X=public_X
        )

    def partial_fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Go on training with a new wave of clients, each of whom reports ``epochs`` times.

        The clients must be others than before: those who come again lose ε again.
        """
        first = not hasattr(self, "n_waves_")
        return self._fit(X, y, groups, eval_set, sample_weight, first=first)

    def _fit(
        self,
        X: Any,
        y: Any,
        groups: Any,
        eval_set: tuple[Any, Any] | None,
        sample_weight: Any,
        *,
        first: bool,
        only: bool = False,
        public_X: Any = None,
    ) -> Self:
        self._check_parameters()
        check_loss(self.loss, self.reg, "loss", REGRESSING)
        X, y = self._validated(X, y, reset=first, y_numeric=True)
        low, high = self._bounds(y, first)
        judges = None
        if eval_set is not None:
            shown, own = self._pair(eval_set)
            judges = Examples(shown, _scaled(own, low, high))
        factors = self._factors(len(y), sample_weight)
        task = Regression(_scaled(y, low, high), self.loss, factors)
        read = ("the target",) * (self.target_range is None)
        read += self._bounds_of_weights(sample_weight)
        self._fit_wave(
            X, task, groups, judges, first=first, only=only, public_X=public_X, read=read
        )
        self.target_range_ = (low, high)
        half = (high - low) / 2
        self.coef_ = half * self.coef_[0]
        self.intercept_ = np.asarray((low + high) / 2 + half * self.intercept_[0])
        return self

    def _bounds(self, y: Any, first: bool) -> tuple[float, float]:
        if self.target_range is None:
            if not first:
                return self.target_range_
            leaks.warn_about_bounds("target_range", "the target")
            low, high = float(np.min(y)), float(np.max(y))
            return (low, high) if low < high else (low - 1, high + 1)
        allowed = "(low, high), finite numbers with low < high"
        try:
            low, high = (float(bound) for bound in self.target_range)
        except (TypeError, ValueError):
            raise InvalidArgument("target_range", self.target_range, allowed) from None
        if not (np.isfinite([low, high]).all() and low < high):
            raise InvalidArgument("target_range", self.target_range, allowed)
        return low, high

    @property
    def unit_norm(self) -> bool:
        """Numbers change with the norm of a record."""
        return False

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number of each row, within the target's bounds."""
        inside = np.clip(self._margins(X)[:, 0], -1.0, 1.0)
        low, high = self.target_range_
        return (low + high) / 2 + (high - low) / 2 * inside

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self._poor_score
        return tags


def _scaled(y: Any, low: float, high: float) -> NDArray[np.float64]:
    """Targets on [−1, 1], clipped to it."""
    return np.clip((2 * np.asarray(y, dtype=np.float64) - low - high) / (high - low), -1.0, 1.0)
