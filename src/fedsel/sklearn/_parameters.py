"""The common parameters of both estimators, their checks, and warnings about privacy leaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    PrivacyLeakWarning,
    RepeatedFitWarning,
    check_count,
    check_epsilon,
    check_finite,
    warn_user,
)
from fedsel.measuring import Measurement, Recalibration
from fedsel.preparation import Preparation
from fedsel.recipe import AUTO, RECOMMENDED, Auto, Recipe
from fedsel.simulation import History
from fedsel.simulation._account import OPEN
from fedsel.sklearn._tables import rows_of
from fedsel.solutions import Solution, entry
from fedsel.statements._fits import PrivacyStatement
from fedsel.wire import Model, Schema

_RECIPE = (
    *("epsilon", "solution", "epochs", "learning_rate", "averaging", "rho", "words", "bases"),
    *("mu", "k", "clip", "momentum", "reg", "spread", "centre", "measure"),
)


class _Fitted(BaseEstimator):  # type: ignore[misc]
    """The attributes that a fit sets, described in `FedSelClassifier`."""

    classes_: NDArray[Any]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    target_range_: tuple[float, float]
    privacy_: PrivacyStatement
    history_: History
    spent_: float
    recipe_: Recipe
    solution_: Solution
    learning_rate_: float
    batch_: int
    seed_: int | None
    feature_range_: NDArray[np.float64]
    schema_: Schema | None = None
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    n_clients_: int
    n_public_: int
    n_public_means_: int
    n_waves_: int
    preparation_: Preparation
    measurement_: Measurement | None
    recalibration_: Recalibration | None
    _model: Model
    _weights: NDArray[np.float64]


@dataclass(kw_only=True, eq=False, repr=False)
class LinearParameters(_Fitted):
    """The parameters of both estimators, described in `FedSelClassifier`."""

    epsilon: Epsilon = 2.0
    solution: str = RECOMMENDED
    epochs: int = 1
    batch_fraction: float = 0.01
    learning_rate: float | Auto = AUTO
    averaging: float | Auto = AUTO
    rho: float | Auto | None = AUTO
    words: int | None = None
    bases: int | Auto | None = AUTO
    mu: float | Auto = AUTO
    k: float = 0.1
    clip: float = 1.0
    momentum: float = 0.0
    reg: float = 1e-4
    fit_intercept: bool = True
    feature_range: Any = None
    schema: Schema | Mapping[str, Any] | str | Path | None = None
    spread: float | Auto = AUTO
    centre: float | Auto = AUTO
    public_mean: Any = None
    measure: float = 0.0
    weight_bound: float | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0

    @property
    def _unit_norm(self) -> bool:
        """Whether clients divide their record by its norm; "auto": if reports are directions."""
        if self.unit_norm == "auto":
            return entry(self.solution).unit_records
        return bool(self.unit_norm)

    def _recipe(self) -> Recipe:
        """The recipe of the given parameters; wrong ones are refused."""
        return Recipe(**{name: getattr(self, name) for name in _RECIPE})

    def _check_parameters(self) -> None:
        self._recipe()
        if not 0 < check_finite("batch_fraction", self.batch_fraction) <= 1:
            raise InvalidArgument("batch_fraction", self.batch_fraction, "in (0, 1]")
        if self.unit_norm not in (True, False, "auto"):
            raise InvalidArgument("unit_norm", self.unit_norm, 'True, False or "auto"')
        check_count("verbose", int(self.verbose), least=0)

    def _seed(self, first: bool) -> int | None:
        if not first:
            return self.seed_
        if self.random_state is None:
            return None
        if isinstance(self.random_state, Integral):
            return check_count("random_state", self.random_state, least=0)
        return int(check_random_state(self.random_state).randint(2**31))


def search_cost(
    epsilon: Epsilon, *, candidates: int = 1, splits: int = 5, refit: bool = True
) -> float:
    """The ε that a search with k-fold cross-validation costs a client, if all fits are private.

    A client is in all but one training split of each candidate, and in the refit. In addition,
    scores on its held-out records are computed in the clear.

    >>> search_cost(2.0, candidates=3, splits=5)
    26.0
    """
    fits = check_count("candidates", candidates) * (check_count("splits", splits, least=2) - 1)
    return float(check_epsilon("epsilon", epsilon)) * (fits + bool(refit))


def public_rows(estimator: BaseEstimator, public_X: Any, first: bool) -> Any:
    """The public rows as an array (m, d) or CSR, with the features of the estimator."""
    if not first:
        raise InvalidArgument("public_X", "rows", "set in the first wave of clients only")
    rows = rows_of(estimator, public_X, "public_X")
    if rows.shape[0] < 2:
        raise InvalidArgument("public_X", f"{rows.shape[0]} row", "at least 2 rows")
    return rows


def check_public_means(estimator: BaseEstimator, rows: Any) -> None:
    """Refuse public means that cannot be used."""
    name, means = "public_mean", estimator.public_mean
    if rows is not None:
        raise InvalidArgument(name, means, "omitted with public_X, whose rows give the centre")
    if estimator.feature_range is None and estimator.schema_ is None:
        wanted = "omitted unless feature_range or schema is set: it needs public bounds"
        raise InvalidArgument(name, means, wanted)
    if not estimator.fit_intercept:
        wanted = "omitted with fit_intercept=False: centred records need an intercept"
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


def check_may_leave() -> None:
    """Warn that fits in another process are not counted; refuse while an account is open."""
    if OPEN:
        raise RuntimeError(
            "an account is open, and fits in another process cannot be counted: use n_jobs=1 or"
            ' joblib.parallel_config("threading")'
        )
    warn_user(
        "an estimator that is not fitted is pickled, as n_jobs=2 does for another process: its fits"
        " and their warnings stay there and are not counted here. Every fit costs its clients ε:"
        " fedsel.sklearn.search_cost(…).",
        RepeatedFitWarning,
    )
