"""A client's update as the device reads it: d finite numbers, however it was computed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel._internal.models import REGRESSING, LinearModel, MulticlassModel
from fedsel.errors import InvalidArgument, InvalidData, check_kind, check_vectors
from fedsel.preparation import Plan, Preparation

Update = Callable[[NDArray[np.floating]], ArrayLike] | ArrayLike
"""A client's update (its gradient): a function of the weights, or the vector itself."""
LinearUpdate = Callable[[NDArray[np.floating]], NDArray[np.floating]]
FloatSettings = Mapping[str, Any]
"""What `numpy.geterr` says and `numpy.errstate` takes."""

_LOG = logging.getLogger("fedsel.device")
_LARGEST = float(np.finfo(np.float32).max)


def evaluated(
    update: Update, weights: NDArray[np.floating], dim: int, settings: FloatSettings
) -> NDArray[np.float32]:
    """The update as d finite float32; zeros where there is none, because silence would tell.

    The update is the program's own code: it runs under the program's own floating-point settings.
    """
    try:
        with np.errstate(**settings):
            value: Any = update(weights) if callable(update) else update
        array = None if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
        fits = array is not None and array.shape == (dim,) and array.dtype.kind in "fiub"
        finite = saturated(np.asarray(array)) if fits else None
    except KeyboardInterrupt:
        raise
    except BaseException:  # also sys.exit, a cancelled task, a panic of native code
        finite = None
    if finite is None:
        # No exception and no detail: they may hold what the update was computed from.
        _LOG.warning("the update failed or is no vector of d real numbers: zeros were used")
        return saturated(np.zeros(dim))  # in the same time
    return finite


def saturated(values: NDArray[Any], factor: float = 1.0) -> NDArray[np.float32]:
    """Finite float32 of numbers times a factor: NaN becomes 0, what is too large the largest."""
    scaled = values.astype(np.float64) * factor
    finite = np.nan_to_num(scaled, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
    return np.clip(finite, -_LARGEST, _LARGEST).astype(np.float32)


@final
class LinearRecords:
    """The records of one device, on their public scale, [−1, 1]; without an intercept.

    ``update(round, preparation)`` is the update for `Client.answer`: the records' place in a round
    that prepares, their gradient in all others. Plan and preparation are public, and come from the
    server beside the weights. λ of ``model`` is what the device adds itself: 0 where the server
    does (`Solution.decays_at_server`). y is −1 or +1; a class number 0 … C−1 for a
    `MulticlassModel`, whose update has C rows, one after another; or for a regression ("squared",
    "huber") a number on its public scale, [−1, 1].

    >>> from fedsel.preparation import Preparation
    >>> records = LinearRecords([[0.5, -1.0]], [1], LinearModel(reg=0.0))
    >>> plain = Preparation.plain(2, unit=False)
    >>> records.update(0, plain)(np.zeros(3)).tolist()
    [-0.25, 0.5, -0.5]
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        model: LinearModel | MulticlassModel | None = None,
        plan: Plan | None = None,
    ) -> None:
        self._X = np.clip(check_vectors("X", X, ndim=2), -1.0, 1.0)
        self._model = LinearModel(reg=0.0) if model is None else model
        check_kind("model", self._model, LinearModel, MulticlassModel)
        self._y = _targets(y, len(self._X), self._model)
        if plan is not None:
            check_kind("plan", plan, Plan)
            if plan.features != self._X.shape[1]:
                raise InvalidArgument("plan.features", plan.features, "as many as X has")
        self._plan = plan

    def update(self, number: int, preparation: Preparation) -> LinearUpdate:
        """What to report in a round: a function of the weights, for the client to call."""
        check_kind("preparation", preparation, Preparation)
        plan = self._plan
        if plan is not None and plan.stage(number) != "training":
            return lambda _: plan.vector(number, self._X, preparation)
        return lambda w: self._model.gradient(w, preparation.records(self._X), self._y)


def _targets(y: ArrayLike, records: int, model: LinearModel | MulticlassModel) -> NDArray[Any]:
    """Labels, or numbers within their public scale; no message holds any of them."""
    if model.loss in REGRESSING:
        numbers = np.clip(check_vectors("y", y, ndim=1), -1.0, 1.0)
        if len(numbers) != records:
            raise InvalidData("y: must be one number for each record")
        return np.asarray(numbers, dtype=np.float64)
    labels = np.asarray(y)
    if isinstance(model, MulticlassModel):
        one_each = labels.shape == (records,) and labels.dtype.kind in "fiu"
        if not one_each or not ((labels >= 0) & (labels % 1 == 0)).all():
            raise InvalidData("y: must be a class number, 0 or more, one for each record")
        return labels.astype(np.int64)
    if labels.shape != (records,) or not np.isin(labels, (-1, 1)).all():
        raise InvalidData("y: must be −1 or +1, one for each record")
    return labels.astype(np.int8)
