"""Checks of public rows and means, and warnings about what no ε covers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from fedsel.errors import InvalidArgument, PrivacyLeakWarning, RepeatedFitWarning, warn_user
from fedsel.solutions import Solution
from fedsel.solutions._registry import entry


def public_rows(estimator: BaseEstimator, public_X: Any, first: bool) -> Any:
    """The public rows as an array (m, d) or CSR, with the features of the estimator."""
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


def check_public_means(estimator: BaseEstimator, rows: Any) -> None:
    """Refuse public means that could not be used."""
    name, means = "public_mean", estimator.public_mean
    if rows is not None:
        raise InvalidArgument(name, means, "left out with public_X, whose rows tell the centre")
    if estimator.feature_range is None:
        wanted = 'given with feature_range, (low, high) or "private": without, no bounds are public'
        raise InvalidArgument(name, means, wanted)
    if not estimator.fit_intercept:
        wanted = "left out with fit_intercept=False: a centre would be an intercept"
        raise InvalidArgument(name, means, wanted)


def warn_about_solution(solution: Solution) -> None:
    """Warn about a solution that is less private than its parameters suggest."""
    privacy = solution.privacy
    if entry(solution.name).plain or privacy.within_budget:
        return
    cost = f"loses ε = {privacy.per_report:.3g} a report" if privacy.ratio else "is not private"
    if not privacy.certified:
        cost = "has no certificate"
    warn_user(
        f"solution = {solution.name!r} {cost}, whatever epsilon says: {privacy.note}",
        PrivacyLeakWarning,
    )


def warn_about_bounds(
    name: str = "feature_range", of: str = "the features", give: str = "(low, high)"
) -> None:
    """Warn that bounds were read from the records."""
    warn_user(
        f"{name} is None: the bounds of {of} were read from the records, which is not private. Give"
        f" {name}={give}, known without the records.",
        PrivacyLeakWarning,
    )


def warn_about_leaving() -> None:
    """Warn that an estimator goes to where its fits cannot be counted."""
    warn_user(
        "an estimator that is not fitted is pickled, as n_jobs=2 does for another process: its fits"
        " and their warnings stay there and are not counted here. Every fit costs its clients ε:"
        " fedsel.sklearn.search_cost(…).",
        RepeatedFitWarning,
    )
