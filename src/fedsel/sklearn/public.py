"""Public rows and means that a user gives beside the clients' records."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from fedsel.errors import InvalidArgument


def checked(estimator: BaseEstimator, public_X: Any, first: bool) -> Any:
    """The rows as an array (m, d) or CSR, with the features that the estimator has seen."""
    if not first:
        raise InvalidArgument("public_X", "rows", "given with the first wave of clients alone")
    rows = check_array(
        public_X, accept_sparse="csr", dtype=(np.float64, np.float32), input_name="public_X"
    )
    if rows.shape[1] != estimator.n_features_in_:
        wanted = f"{estimator.n_features_in_} features, as X"
        raise InvalidArgument("public_X", f"{rows.shape[1]} features", wanted)
    if rows.shape[0] < 2:
        raise InvalidArgument("public_X", f"{rows.shape[0]} row", "at least 2 rows")
    validate_data(estimator, public_X, reset=False, skip_check_array=True)  # names of features
    return rows


def check_means(estimator: BaseEstimator, rows: Any) -> None:
    """Refuse means that nothing could be done with."""
    name, means = "public_mean", estimator.public_mean
    if rows is not None:
        raise InvalidArgument(name, means, "left out with public_X, whose rows tell the centre")
    if estimator.feature_range is None:
        wanted = 'given with feature_range, (low, high) or "private": without, no bounds are public'
        raise InvalidArgument(name, means, wanted)
    if not estimator.fit_intercept:
        wanted = "left out with fit_intercept=False: a centre would be an intercept"
        raise InvalidArgument(name, means, wanted)
