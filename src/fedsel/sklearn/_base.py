"""The common base of the estimators: public scales, private rounds, coefficients, statement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from fedsel.advising import warn_about_clients
from fedsel.auto import PublicFacts, PublicRecords, RunPlan, model_of, plan_run
from fedsel.data.partition import Clients, by_groups
from fedsel.errors import InvalidArgument, check_positive
from fedsel.measuring import Measured, Measurement, Recalibration, measuring_clients
from fedsel.preparation import FeatureScale, Preparation, PublicMeans
from fedsel.preparation._plan import unlearnt
from fedsel.recipe import AUTO
from fedsel.simulation import Training
from fedsel.simulation._account import spend
from fedsel.simulation._measuring import measured, told_apart
from fedsel.sklearn import _measuring, _models, _parameters, _tables
from fedsel.sklearn._fitting import Examples, Task, factors_of, seed_of_wave, train_wave
from fedsel.sklearn._parameters import LinearParameters
from fedsel.statements._fits import fit_statement, warn_about_seed
from fedsel.tracking import Callbacks, Tracking
from fedsel.wire import Model, RecordPipeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_DENSE = 1 << 28
"""A sparse X is centred, and so made dense, only up to this many bytes."""


class FederatedLinear(LinearParameters):
    """A linear model fitted to private reports of clients: rows of X, or groups of rows."""

    @abstractmethod
    def _fit(
        self,
        X: Any,
        y: Any,
        groups: Any,
        eval_set: tuple[Any, Any] | None,
        sample_weight: Any,
        **wave: Any,
    ) -> Self:
        """Check the estimator's own arguments, and call `_fit_wave` with ``wave``."""

    def fit(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        sample_weight: Any = None,
        public_X: Any = None,
        callbacks: Callbacks | None = None,
    ) -> Self:
        """Train on the clients: rows of X, or groups of rows with the same value in ``groups``.

        ``eval_set`` = (X, y), not from the clients, evaluates the model after every round.
        ``sample_weight`` (n,) weighs the loss of each record, up to ``weight_bound``.
        ``public_X`` are unlabelled public rows. They provide undeclared bounds and the preparation
        of the records, and cost no ε (`fedsel.preparation`). ``callbacks`` are called after every
        round (`fedsel.tracking`).
        """
        given = (X, y, groups, eval_set, sample_weight)
        return self._tracked(callbacks, *given, first=True, only=True, public_X=public_X)

    def _tracked(self, callbacks: Callbacks | None, *given: Any, **wave: Any) -> Self:
        tracking = Tracking(callbacks)
        self._fit(*given, tracking=tracking, **wave)
        tracking.end(self.history_)
        return self

    # --- fitting --------------------------------------------------------------------------------

    def _fit_wave(
        self,
        X: Any,
        task: Task,
        groups: Any,
        eval_set: Examples | None,
        *,
        first: bool,
        only: bool = False,
        public_X: Any = None,
        tracking: Tracking | None = None,
        read: tuple[str, ...] = (),
    ) -> None:
        """Train on a wave of clients; ``only`` if no other wave follows.

        ``read`` names bounds other than the features' that were read from the records.
        """
        rows = None if public_X is None else _parameters.public_rows(self, public_X, first)
        if first and self.public_mean is not None:
            _parameters.check_public_means(self, rows)
        if groups is not None:
            check_consistent_length(X, groups)
        clients = None if groups is None else by_groups(groups)
        everyone = X.shape[0] if clients is None else clients.n
        count = everyone - measuring_clients(self.measure, everyone)
        scale, seed = self._scale(X, first, rows), self._seed(first)
        fit, records = self._plan(X, count, scale, task, first, rows)
        solution, recipe, batch = fit.solution, fit.recipe, self._batch(count)
        told = records.known(fit, self.epochs * count)
        known = self.preparation_ if not first else told or self._unprepared(scale, task)
        used = scale.apply(X)
        judges = None if eval_set is None else replace(eval_set, X=scale.apply(eval_set.X))
        _parameters.warn_about_solution(solution)
        if only and rows is None:  # waves add up, and public rows compensate for some noise
            warn_about_clients(
                solution,
                fit.facts,
                clients=count,
                epochs=self.epochs,
                classes=None if task.regression else fit.facts.classes,
                grouped=clients is not None,
            )
        if seed is not None:
            warn_about_seed("random_state", solution.privacy)
        waves, rate = 1 if first else self.n_waves_ + 1, float(recipe.learning_rate)
        training = Training(
            solution,
            rate,
            batch,
            reg=recipe.reg,
            seed=seed_of_wave(seed, waves),
            averaging=float(recipe.averaging),
            plan=fit.preparation,
        )
        trains, measures = told_apart(np.arange(everyone), self.measure, training.fresh_order)
        past = [] if first else self.history_.rounds
        if tracking:
            run = training.run_of(type(self).__name__, count, recipe)
            tracking.start(run, after=past[-1].round if past else 0)
        asked = _measuring.asked_of(self, task, len(measures), recipe.epsilon)
        # All checks have passed, so the state of a fitted model may change now.
        spent = spend(X, _measuring.dearest(solution, asked, recipe.epsilon))
        if self.verbose:
            print(  # noqa: T201
                f"wave {waves}: {count} clients in {fit.facts.rounds} rounds of {batch},"
                f" d = {solution.dim},\n  {solution.name}, learning rate {rate:.4g}"
            )
        start = None if first else self._weights.copy()
        history = train_wave(
            training,
            task,
            used,
            known,
            clients=clients,
            members=trains,
            test=judges,
            start=start,
            tracking=tracking,
        )
        if not first:
            later = [replace(r, round=r.round + past[-1].round) for r in history.rounds]
            history = replace(history, rounds=[*past, *later])
        self.seed_, self.n_waves_, self.n_clients_ = seed, waves, everyone
        self.recipe_, self.solution_ = recipe, solution
        self.learning_rate_, self.batch_, self.spent_ = rate, batch, spent
        self.feature_range_ = np.stack([scale.low, scale.high])
        if first:
            self.n_public_ = 0 if rows is None else int(rows.shape[0])
            self.n_public_means_ = 0 if records.means is None else int(records.means.given.sum())
        self.preparation_ = history.preparation or known
        self.history_ = history
        self.privacy_ = fit_statement(
            solution,
            released="coef_, intercept_, history_ without eval_set, and predictions",
            grouped=clients is not None,
            read=("the features",) * (not self._bounded and not self.n_public_) + read,
            declared=_tables.declared_by(self.schema_),
            seeded=seed is not None,
            prepared=fit.preparation is not None and fit.preparation.rounds > 0,
            public_rows=self.n_public_,
            public_means=self.n_public_means_,
            fewest_reports=history.fewest_reports,
            measured=len(measures),
            measured_at=float(recipe.epsilon or 0),
        )
        self._adopt_measured(
            task.model(history.weights, RecordPipeline(scale, self.preparation_)),
            lambda model: self._measured(X, task, clients, measures, model, asked, training.seed),
        )
        if self.verbose:
            print(self.privacy_, f"Spent in this process: ε = {spent:.6g} or more.", sep="\n")  # noqa: T201

    def _adopt_measured(self, model: Model, measure: Callable[[Model], Measurement | None]) -> None:
        """Measure the trained model, and predict with it, or with what ``threshold`` makes of it.

        A later wave goes on from the weights as they were trained.
        """
        self._weights = model.weights
        self.measurement_ = measure(model)
        self.recalibration_ = self._recalibration
        if self.recalibration_ is not None:
            model = _measuring.recalibrated(model, self.recalibration_)
        self._adopt(model)

    def _measured(
        self,
        X: Any,
        task: Task,
        groups: Clients | None,
        measures: NDArray[np.int64],
        model: Model,
        asked: Measured | None,
        seed: int | None,
    ) -> Measurement | None:
        """What the clients that did not train say about the model, one record of each."""
        if asked is None:
            return None
        weights, epsilon = _measuring.typical_weights(model), self.recipe_.epsilon or 0
        answer = _measuring.answering(model, X, task, groups, seed)
        return measured(asked, answer, measures, weights, epsilon, seed=seed)

    @property
    def _recalibration(self) -> Recalibration | None:
        """The recalibration that ``threshold`` asks for."""
        if self.measurement_ is None or self.threshold is None:
            return None
        return _measuring.recalibration_of(self.measurement_, self.threshold)

    def _plan(
        self, X: Any, count: int, scale: FeatureScale, task: Task, first: bool, rows: Any = None
    ) -> tuple[RunPlan, PublicRecords]:
        """Decide everything automatic, from public quantities only."""
        batch, intercept = self._batch(count), bool(self.fit_intercept)
        asked = self._recipe()
        of_norm_one = self._unit_norm or task.regression  # each record, or a typical one
        can = first and intercept and of_norm_one
        if first and not can:
            refused = [n for n in ("spread", "centre") if getattr(asked, n) not in (AUTO, 0.0)]
            if refused:
                wanted = '"auto" or 0 without an intercept, or where records keep their norm'
                raise InvalidArgument(refused[0], getattr(asked, refused[0]), wanted)
        means = None
        if first and self.public_mean is not None:
            names = getattr(self, "feature_names_in_", None)
            means = PublicMeans.of(self.public_mean, scale, names)
        records = PublicRecords(
            scale,
            means,
            None if rows is None else scale.apply(rows),
            # Bounds read from the records cannot be too wide.
            loose=None if self._bounded else (False,) * X.shape[1],
            unit=self._unit_norm,
            intercept=intercept,
            dense=not hasattr(X, "tocsr") or 4 * X.shape[0] * X.shape[1] <= _MOST_DENSE,
            learnable=can,
        )
        facts = PublicFacts(
            dim=(X.shape[1] + intercept) * task.columns,
            clients=batch,
            rounds=self.epochs * -(-count // batch),
            norm=1.0 if of_norm_one else None,
            features=X.shape[1] + intercept,
            classes=max(2, task.columns),
            model=model_of(task.loss),
            intercept=intercept,
        )
        return plan_run(asked, facts, records), records

    def _batch(self, count: int) -> int:
        """The number of clients of a round."""
        return max(1, round(self.batch_fraction * count))

    def _scale(self, X: Any, first: bool, rows: Any = None) -> FeatureScale:
        declared = None
        if self._bounded:
            bounds = self.feature_range if self.schema_ is None else self.schema_.scale
            names = getattr(self, "feature_names_in_", None)
            declared = FeatureScale.declared(bounds, X.shape[1], names)
        if rows is not None:
            return FeatureScale.read(rows) if declared is None else declared.completed(rows)
        if not first and (declared is None or not declared.known.all()):
            return FeatureScale(*self.feature_range_)
        if declared is None:
            _parameters.warn_about_bounds()
        return declared or FeatureScale.read(X)

    @property
    def _bounded(self) -> bool:
        """Whether bounds of the features were declared, or declared to be private."""
        return self.feature_range is not None or self.schema_ is not None

    def _unprepared(self, scale: FeatureScale, task: Task) -> Preparation:
        """The preparation without anything learnt about the records."""
        if task.regression:
            plain = unlearnt(len(scale.low), unit=False)
            return plain if self.fit_intercept else replace(plain, intercept=0.0)
        intercept, unit = 1.0 if self.fit_intercept else 0.0, self._unit_norm
        typical = unlearnt(len(scale.low), unit=unit).factor if unit else 1.0
        return Preparation.plain(len(scale.low), intercept=intercept, unit=unit, factor=typical)

    def _factors(
        self, n: int, sample_weight: Any, of_classes: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64] | None, tuple[str, ...]]:
        """The factor in [0, 1] of each record's loss (None for 1), and the bounds read for it."""
        bound = self.weight_bound
        if bound is not None:
            check_positive("weight_bound", bound)
        elif sample_weight is not None:
            _parameters.warn_about_bounds("weight_bound", "the weights", "a number")
        read = ("the weights",) * (sample_weight is not None and bound is None)
        return factors_of(n, sample_weight, bound, of_classes), read

    def _pair(self, eval_set: tuple[Any, Any]) -> tuple[Any, Any]:
        try:
            X, y = eval_set
        except (TypeError, ValueError):
            raise InvalidArgument("eval_set", type(eval_set).__name__, "a pair (X, y)") from None
        return _tables.validated(self, X, y, reset=False)

    # --- the fitted model -----------------------------------------------------------------------

    def _adopt(self, model: Model) -> None:
        """Predict with this model."""
        self._model = model
        self.coef_, self.intercept_ = model.linear
        if model.regression:
            low, high = self.target_range_ = model.target_range
            half = (high - low) / 2
            self.coef_ = half * self.coef_[0]
            self.intercept_ = np.asarray((low + high) / 2 + half * self.intercept_[0])

    def save_model(self, path: str | Path) -> None:
        """Write the model to a file, which holds all that a prediction needs.

        `fedsel.load_model` reads it.
        """
        check_is_fitted(self)
        _models.model_of(self).save(path)

    def to_onnx(self, path: str | Path) -> None:
        """Write the model as an ONNX graph, which other programs predict with.

        `fedsel.wire.Model.to_onnx` says what the graph takes and gives.
        """
        check_is_fitted(self)
        _models.model_of(self).to_onnx(path)

    def _first_wave(self) -> bool:
        """Whether `partial_fit` begins; a model that was loaded cannot go on."""
        if hasattr(self, "_model") and not hasattr(self, "n_waves_"):
            allowed = "called on the estimator that was fitted: a model file holds no rounds"
            raise InvalidArgument("partial_fit", "a loaded model", allowed)
        return not hasattr(self, "n_waves_")

    def _margins(self, X: Any) -> NDArray[np.float64]:
        """The margins (n, columns) of the rows of X."""
        check_is_fitted(self)
        return self._model.margins_of(_tables.rows_of(self, X))

    def plot_history(self, axes: Axes | None = None) -> Axes:
        """Draw accuracy against rounds (with an eval_set), or the bits sent."""
        from fedsel._internal import plotting

        check_is_fitted(self)
        return plotting.history(self.history_.rounds, self.solution_.name, axes)

    def plot_measurement(self, axes: Sequence[Axes] | None = None) -> tuple[Axes, ...]:
        """Draw the metrics of ``measurement_`` with their intervals, and beside them a curve.

        The curve is the calibration of a classifier, or the mean error of a regressor by target.
        Where there is none, one of the axes is enough.
        """
        from fedsel._internal import plotting

        check_is_fitted(self)
        found: Measurement | None = getattr(self, "measurement_", None)
        if found is None:
            allowed = "above 0 in the fit that is drawn, with two clients or more"
            raise InvalidArgument("measure", self.measure, allowed)
        return plotting.measurement(found, axes)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "_model" not in state:
            _parameters.check_may_leave()
        return {name: value for name, value in state.items() if name != "spent_"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.schema is None
        tags.input_tags.allow_nan = self.schema is not None
        return tags
