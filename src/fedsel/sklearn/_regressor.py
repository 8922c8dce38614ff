"""FedSelRegressor: a linear regression under local differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from fedsel._internal.models import REGRESSING, check_loss
from fedsel.errors import InvalidArgument
from fedsel.sklearn import _parameters, _tables
from fedsel.sklearn._base import FederatedLinear
from fedsel.sklearn._fitting import Examples, Regression
from fedsel.solutions import entry
from fedsel.tracking import Callbacks


@dataclass(kw_only=True, eq=False, repr=False)
class FedSelRegressor(RegressorMixin, FederatedLinear):  # type: ignore[misc]
    """Federated linear regression under local differential privacy.

    Every row of X, or every group of rows, is a client and sends ``epochs`` private reports on the
    gradient of its loss; the model is computed from the reports alone.

    Parameters
    ----------
    loss
        "squared", or "huber", which outliers move less. With FJ both give nearly the same, because
        it clips long updates at ρ.
    target_range
        Public bounds (low, high) of y, to which clients clip. None reads them from y, which is not
        private, and warns.
    epsilon, solution, epochs, batch_fraction, learning_rate, averaging, rho, words, bases, mu, k
        As in `FedSelClassifier`.
    clip, momentum, reg, fit_intercept, feature_range, weight_bound, random_state, verbose
        As in `FedSelClassifier`.
    schema
        As in `FedSelClassifier`; its ``target_range`` replaces the parameter.
    measure
        As in `FedSelClassifier`: the bins of the target and of its distance from the prediction.
    spread, centre, public_mean
        As in `FedSelClassifier`, but records keep their norm up to one public factor.

    Attributes
    ----------
    coef_
        Slopes (d,), valid within the bounds: predictions clip features, too.
    intercept_
        The constant.
    target_range_
        The bounds of y that were used; predictions lie within them.
    measurement_
        R², mean error and root mean squared error on the scale of ``target_range`` as [−1, 1], and
        the mean error by target; None where nobody measured.
    history_
        One entry for each round; its accuracy is R². All other attributes are as in
        `FedSelClassifier`.

    Examples
    --------
    >>> X = np.linspace(-0.9, 0.9, 4000)[:, None]
    >>> model = FedSelRegressor(epsilon=8.0, feature_range=(-1, 1), target_range=(0, 10))
    >>> model.fit(X, 5 + 4 * X[:, 0]).score(X, 5 + 4 * X[:, 0]) > 0.9
    True
    """

    loss: Literal["squared", "huber"] = "squared"
    target_range: tuple[float, float] | None = None

    def partial_fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        sample_weight: Any = None,
        callbacks: Callbacks | None = None,
    ) -> Self:
        """Continue training with a wave of new clients; a returning client spends ε again."""
        first = self._first_wave()
        return self._tracked(callbacks, X, y, groups, eval_set, sample_weight, first=first)

    def _fit(
        self,
        X: Any,
        y: Any,
        groups: Any,
        eval_set: tuple[Any, Any] | None,
        sample_weight: Any,
        **wave: Any,
    ) -> Self:
        first = wave["first"]
        self._check_parameters()
        check_loss(self.loss, self.reg, "loss", REGRESSING)
        if first:
            self.schema_ = _tables.schema_of(self, "classes")
        X, y = _tables.validated(self, X, y, reset=first, y_numeric=True)
        low, high = self._bounds(y, first)
        judges = None
        if eval_set is not None:
            shown, own = self._pair(eval_set)
            judges = Examples(shown, _scaled(own, low, high))
        factors, read = self._factors(len(y), sample_weight)
        task = Regression(_scaled(y, low, high), (low, high), self.loss, factors)
        read = ("the target",) * (self._declared_target is None) + read
        self._fit_wave(X, task, groups, judges, read=read, **wave)
        return self

    def _bounds(self, y: Any, first: bool) -> tuple[float, float]:
        given = self._declared_target
        if given is None:
            if not first:
                return self.target_range_
            _parameters.warn_about_bounds("target_range", "the target")
            low, high = float(np.min(y)), float(np.max(y))
            return (low, high) if low < high else (low - 1, high + 1)
        allowed = "(low, high), finite numbers with low < high"
        try:
            low, high = (float(bound) for bound in given)
        except (TypeError, ValueError):
            raise InvalidArgument("target_range", given, allowed) from None
        if not (np.isfinite([low, high]).all() and low < high):
            raise InvalidArgument("target_range", given, allowed)
        return low, high

    @property
    def _declared_target(self) -> tuple[float, float] | None:
        of_schema = None if self.schema_ is None else self.schema_.target_range
        if of_schema is not None and self.target_range is not None:
            allowed = "omitted beside schema, which has the bounds of the target"
            raise InvalidArgument("target_range", self.target_range, allowed)
        return of_schema or self.target_range

    @property
    def unit_norm(self) -> bool:
        """False: dividing a record by its norm would change its number."""
        return False

    @property
    def threshold(self) -> None:
        """None: numbers have no threshold."""
        return

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the number of each row, within the target's bounds."""
        margins = self._margins(X)
        return self._model.targets_of(margins)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = not entry(self.solution).plain  # for 300 clients
        return tags


def _scaled(y: Any, low: float, high: float) -> NDArray[np.float64]:
    """Scale targets to [−1, 1] and clip them."""
    return np.clip((2 * np.asarray(y, dtype=np.float64) - low - high) / (high - low), -1.0, 1.0)
