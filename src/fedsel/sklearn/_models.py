"""Model files: what a fitted estimator saves, and an estimator from what was saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsel.device._models import read_model
from fedsel.errors import InvalidArgument
from fedsel.wire import Model, Number, Schema

if TYPE_CHECKING:
    from fedsel.sklearn._base import FederatedLinear
    from fedsel.sklearn._classifier import FedSelClassifier
    from fedsel.sklearn._regressor import FedSelRegressor


def load_model(
    source: str | Path, *, ca: str | Path | None = None, timeout: float = 10.0
) -> FedSelClassifier | FedSelRegressor:
    """A fitted estimator from a model file, or from a service by its URL.

    ``source`` is what `save_model` wrote, the address of a service (``https://example.org``) or of
    a model file; ``ca`` names a file of certificates for https, ``timeout`` the seconds in which
    the service has to answer. The estimator predicts as the one that was saved, to the bit, and has
    its ``coef_``, ``intercept_``, ``classes_`` and feature names. With named columns it takes
    tables (``schema``), else rows of numbers. It cannot be trained on: a file has no rounds.
    """
    from fedsel.sklearn._classifier import FedSelClassifier
    from fedsel.sklearn._regressor import FedSelRegressor

    model = read_model(source, ca=ca, patience=timeout)
    if model.schema is None or model.pipeline is None:
        allowed = "a model of records: devices brought updates of their own, so it has weights only"
        raise InvalidArgument("model", str(source), allowed)
    scale, preparation = model.pipeline.scale, model.pipeline.preparation
    loss: Any = model.loss
    loaded: FedSelClassifier | FedSelRegressor
    if model.regression:
        loaded = FedSelRegressor(loss=loss, target_range=model.target_range)
    else:
        loaded = FedSelClassifier(model=loss)
        loaded.classes_ = np.array(model.classes)
    loaded.fit_intercept = preparation.intercept > 0
    loaded._adopt(model)
    loaded.preparation_, loaded.feature_range_ = preparation, np.stack([scale.low, scale.high])
    loaded.n_features_in_ = model.schema.feature_count
    if model.schema.named:
        loaded.schema = loaded.schema_ = model.schema
        loaded.feature_names_in_ = np.array(model.schema.features, dtype=object)
    return loaded


def model_of(estimator: FederatedLinear) -> Model:
    """The model of a fitted estimator as it is saved."""
    model = estimator._model
    if not hasattr(estimator, "n_waves_"):  # it was loaded
        return model
    labels = None if model.regression else tuple(estimator.classes_.tolist())
    statement = estimator.privacy_
    about = {
        "solution": estimator.solution_.name,
        "epsilon": statement.total if statement.private else None,
        "seeded": statement.seeded,
        "rounds": len(estimator.history_.rounds),
        "finished": True,
        "clients": estimator.n_clients_,
        "waves": estimator.n_waves_,
    }
    return replace(model, schema=_schema(estimator, labels), classes=labels, about=about)


def _schema(estimator: FederatedLinear, labels: Sequence[Any] | None) -> Schema:
    """The schema of the estimator's records, with what it learnt about labels."""
    schema = estimator.schema_ or Schema(_columns(estimator))
    if labels is None:
        return replace(schema, target_range=estimator.target_range_)
    if schema.classes is not None:
        return schema
    try:
        return replace(schema, classes=tuple(map(_text, labels)))
    except InvalidArgument:  # the labels of a table cannot be read by texts such as ""
        return schema


def _columns(estimator: FederatedLinear) -> Any:
    """Named columns of numbers where features have names, else how many there are."""
    names, bounds = getattr(estimator, "feature_names_in_", None), estimator.feature_range_
    if names is not None:
        return {name: _number(*ends) for name, ends in zip(names, bounds.T, strict=True)}
    if np.abs(bounds).max() > Number().limits[1]:
        allowed = f"within ±{Number().limits[1]:.0f} in a model file of columns without names"
        raise InvalidArgument("feature_range", float(np.abs(bounds).max()), allowed)
    return estimator.n_features_in_


def _number(low: float, high: float) -> Number:
    # The pipeline has the bounds of a feature that cannot vary.
    private = low == high or (low, high) == Number().limits
    return Number() if private else Number(low, high)


def _text(label: Any) -> Any:
    """A label as the cell of a table has it."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label).lower() if isinstance(label, bool) else str(label)
