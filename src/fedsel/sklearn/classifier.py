"""FedSelClassifier: a linear classifier that no client trusts with its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from fedsel.auto import Setting, reports_directions, resolved
from fedsel.data.partition import Clients, by_groups
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_finite
from fedsel.models.linear import LinearModel, check_loss
from fedsel.models.multiclass import softmax
from fedsel.recipe import RECOMMENDED, Recipe
from fedsel.simulation import History, Training
from fedsel.simulation.leaks import spend, warn_about_seed
from fedsel.sklearn import leaks, privacy
from fedsel.sklearn.features import FeatureScale
from fedsel.sklearn.fitting import Examples, codes_of, seed_of_wave, train_wave
from fedsel.solutions.registry import PLAIN, canonical

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _is_logistic(classifier: FedSelClassifier) -> bool:
    if classifier.model != "logistic":
        raise AttributeError(f"model = {classifier.model!r} has no probabilities")
    return True


class FedSelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Federated logistic regression or linear SVM under local differential privacy.

    Every row of X, or every group of rows, is a client, and sends ``epochs`` private reports; the
    model is computed from the reports alone. With C > 2 classes a client still has one budget and
    sends one report: on the gradient of the softmax (or multi-class hinge) loss, a vector of C·d
    entries. One-versus-rest would need C reports of ε/C each.

    Parameters
    ----------
    epsilon : total ε of a client in one fit, over all epochs.
    solution : how a client reports, by name: "RJ", "PS-PM", "PM", "NP" …
        (`fedsel.solutions.registry`).
    model : "logistic" or "svm".
    epochs : how often each client reports.
    batch_fraction : the share of the clients that report in one round.
    learning_rate : a number, or "auto": from public quantities alone.
    averaging : the power p of the average of the weights over the rounds, t^p in round t; 0 takes
        the last weights, "auto" is 3 with the automatic learning rate, else 0.
    unit_norm : whether clients divide their record, its 1 for the intercept included, by its norm:
        that changes no sign of a margin. "auto" does so for the solutions that report a direction:
        J, RJ, RC and the baselines.
    rho : the public radius ρ of J, RJ and RC, "auto", or None to report directions alone.
    words : the number of codewords of RC.
    bases : the rotated bases of RJ in a round, "auto" (64 over all), or None: one rotation.
    mu : the selection's share of ε, or "auto" (hyper-parameters-free).
    k : the top dimensions of a selection, a count or a share.
    clip : values are clipped to [−clip, clip]. 1 loses nothing with the logistic loss.
    momentum : the clients' momentum; without effect if epochs = 1.
    reg : λ of the ℓ2 regulariser.
    fit_intercept : whether to learn an intercept.
    feature_range : (low, high), numbers or one for each feature: public bounds, to which clients
        clip. None reads them from X, and warns: that is not private.
    random_state : None draws every report from the operating system: for models that may be
        released. A seed or a RandomState repeats a simulation, and warns: who knows or guesses it
        can undo the noise.
    verbose : 1 tells what is done.

    Attributes
    ----------
    classes_, coef_, intercept_, n_features_in_, feature_names_in_ : as in scikit-learn. Features
        are clipped to their bounds in prediction too; coef_ holds within the bounds.
    privacy_ : the exact ε of a report and of all, and what it covers and what not.
    history_ : one entry a round; with accuracy and loss if an ``eval_set`` was given.
    spent_ : the ε of one record over all fits of this process up to this one, as far as records
        were recognised (`fedsel.simulation.account`). It is not pickled: which records come again
        is known to who holds them.
    recipe_, solution_, learning_rate_, batch_, seed_, feature_range_, n_clients_, n_waves_ : what
        was used; seed_ is None where the operating system decided.

    >>> X, y = np.array([[-1.0], [1.0]] * 500), np.array(["no", "yes"] * 500)
    >>> model = FedSelClassifier(epsilon=4.0, feature_range=(-1, 1)).fit(X, y)
    >>> model.predict([[-0.5], [0.5]]).tolist(), round(model.privacy_.total, 9)
    (['no', 'yes'], 4.0)
    """

    classes_: NDArray[Any]
    n_waves_: int
    history_: History
    seed_: int | None
    _weights: NDArray[np.float64]

    def __init__(
        self,
        *,
        epsilon: Epsilon = 2.0,
        solution: str = RECOMMENDED,
        model: Literal["logistic", "svm"] = "logistic",
        epochs: int = 1,
        batch_fraction: float = 0.01,
        learning_rate: float | Literal["auto"] = "auto",
        averaging: float | Literal["auto"] = "auto",
        unit_norm: bool | Literal["auto"] = "auto",
        rho: float | Literal["auto"] | None = "auto",
        words: int | None = None,
        bases: int | Literal["auto"] | None = "auto",
        mu: float | Literal["auto"] = "auto",
        k: float = 0.1,
        clip: float = 1.0,
        momentum: float = 0.0,
        reg: float = 1e-4,
        fit_intercept: bool = True,
        feature_range: tuple[Any, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.solution = solution
        self.model = model
        self.epochs = epochs
        self.batch_fraction = batch_fraction
        self.learning_rate = learning_rate
        self.averaging = averaging
        self.unit_norm = unit_norm
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
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, groups: Any = None, eval_set: tuple[Any, Any] | None = None
    ) -> Self:
        """Train on the clients: rows of X, or groups of rows with the same value in ``groups``.

        ``eval_set`` = (X, y), not of the clients, judges the model after every round.
        """
        return self._fit_wave(X, y, None, groups, eval_set, first=True)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | None = None,
        groups: Any = None,
        eval_set: tuple[Any, Any] | None = None,
    ) -> Self:
        """Go on training with a new wave of clients, each of whom reports ``epochs`` times.

        The clients must be others than before: those who come again lose ε again. ``classes``
        names all classes, at the first wave; without it they are those of y.
        """
        first = not hasattr(self, "n_waves_")
        return self._fit_wave(X, y, classes, groups, eval_set, first=first)

    def _fit_wave(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | None,
        groups: Any,
        eval_set: tuple[Any, Any] | None,
        *,
        first: bool,
    ) -> Self:
        self._check_parameters()
        X, y = validate_data(
            self, X, y, reset=first, accept_sparse="csr", dtype=(np.float64, np.float32)
        )
        labels, codes = self._coded(y, classes, first)
        clients = None if groups is None else self._clients(groups, X)
        count = X.shape[0] if clients is None else clients.n
        batch = max(1, round(self.batch_fraction * count))
        features = X.shape[1] + bool(self.fit_intercept)
        columns = 1 if len(labels) == 2 else len(labels)
        rounds = self.epochs * -(-count // batch)
        setting = Setting(
            dim=features * columns,
            clients=batch,
            rounds=rounds,
            norm=1.0 if self._unit_norm else None,
            features=features,
            classes=len(labels),
        )
        recipe = resolved(self._recipe(), setting)
        solution = recipe.build()
        scale, seed = self._scale(X, first), self._seed(first)
        used = Examples(self._records(X, scale), codes)
        judges = None if eval_set is None else self._judges(eval_set, labels, scale)
        leaks.warn_about_solution(solution)
        leaks.warn_about_caller(solution.privacy.total)
        if seed is not None:
            warn_about_seed("random_state", solution.privacy, stacklevel=3)
        # From here on everything is checked, and the state of a fitted model may be touched.
        spent = spend(X, solution.privacy, stacklevel=3)
        waves, rate = 1 if first else self.n_waves_ + 1, float(recipe.learning_rate)
        training = Training(
            solution,
            LinearModel(self.model, recipe.reg),
            rate,
            batch,
            seed=seed_of_wave(seed, waves),
            averaging=float(recipe.averaging),
        )
        if self.verbose:
            self._say(
                f"wave {waves}: {count} clients in {rounds} rounds of {batch}, d = {solution.dim},"
            )
            self._say(f"  {solution.name}, learning rate {rate:.4g}")
        start = None if first else self._weights
        history = train_wave(training, columns, used, clients, judges, start)
        if not first:
            past = self.history_.rounds
            later = [replace(r, round=r.round + past[-1].round) for r in history.rounds]
            history = replace(history, rounds=[*past, *later])
        self.classes_, self.seed_, self.n_waves_, self.n_clients_ = labels, seed, waves, count
        self.recipe_, self.solution_ = recipe, solution
        self.learning_rate_, self.batch_, self.spent_ = rate, batch, spent
        self.feature_range_ = np.stack([scale.low, scale.high])
        self.history_, self._weights = history, history.weights
        self.privacy_ = privacy.statement(
            solution,
            grouped=clients is not None,
            bounds_read=self.feature_range is None,
            seeded=seed is not None,
        )
        self._set_coefficients(scale, columns)
        if self.verbose:
            self._say(f"{self.privacy_}\nSpent in this process: ε = {spent:.6g} or more.")
        return self

    def _recipe(self) -> Recipe:
        """The public parameters as they were given; what is wrong in them is refused here."""
        names = ("epsilon", "solution", "epochs", "learning_rate", "averaging", "rho", "words")
        more = ("bases", "mu", "k", "clip", "momentum", "reg")
        return Recipe(**{name: getattr(self, name) for name in (*names, *more)})

    def _check_parameters(self) -> None:
        self._recipe()
        check_loss(self.model, self.reg, "model")
        if not 0 < check_finite("batch_fraction", self.batch_fraction) <= 1:
            raise InvalidArgument("batch_fraction", self.batch_fraction, "in (0, 1]")
        if self.unit_norm not in (True, False, "auto"):
            raise InvalidArgument("unit_norm", self.unit_norm, 'True, False or "auto"')
        check_count("verbose", int(self.verbose), least=0)

    @property
    def _unit_norm(self) -> bool:
        """Whether clients divide their record by its norm: where a report is a direction."""
        if self.unit_norm == "auto":
            return reports_directions(canonical(self.solution))
        return bool(self.unit_norm)

    def _records(self, X: Any, scale: FeatureScale) -> Any:
        """Records as clients use them."""
        return scale.apply(X, intercept=self.fit_intercept, unit=self._unit_norm)

    def _coded(
        self, y: NDArray[Any], classes: Sequence[Any] | None, first: bool
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes, and y as their numbers."""
        check_classification_targets(y)
        labels = self.classes_ if not first else np.unique(y if classes is None else classes)
        if not first and classes is not None and not np.array_equal(np.unique(classes), labels):
            raise InvalidArgument("classes", list(classes), "those of the first wave")
        if len(labels) < 2:
            raise InvalidArgument("y", f"{len(labels)} class", "of at least two classes")
        return labels, codes_of("y", y, labels, "one of classes_")

    @staticmethod
    def _clients(groups: Any, X: Any) -> Clients:
        check_consistent_length(X, groups)
        return by_groups(groups)

    def _scale(self, X: Any, first: bool) -> FeatureScale:
        if self.feature_range is not None:
            return FeatureScale.of(self.feature_range, X.shape[1])
        if not first:
            return FeatureScale(*self.feature_range_)
        leaks.warn_about_bounds()
        return FeatureScale.read(X)

    def _seed(self, first: bool) -> int | None:
        if not first:
            return self.seed_
        if self.random_state is None:
            return None
        if isinstance(self.random_state, Integral):
            return check_count("random_state", self.random_state, least=0)
        return int(check_random_state(self.random_state).randint(2**31))

    def _judges(
        self, eval_set: tuple[Any, Any], labels: NDArray[Any], scale: FeatureScale
    ) -> Examples:
        try:
            X, y = eval_set
        except (TypeError, ValueError):
            raise InvalidArgument("eval_set", type(eval_set).__name__, "a pair (X, y)") from None
        X, y = validate_data(
            self, X, y, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32)
        )
        codes = codes_of("eval_set", y, labels, "labelled as y is")
        return Examples(self._records(X, scale), codes)

    def _set_coefficients(self, scale: FeatureScale, columns: int) -> None:
        """coef_ and intercept_ on the scale of X."""
        weights = self._weights.reshape(columns, -1)
        self.coef_ = weights[:, : len(scale.low)] * scale.factor
        constant = weights[:, -1] if self.fit_intercept else np.zeros(columns)
        self.intercept_ = constant - self.coef_ @ scale.centre

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Margins: (n,) for two classes, positive for ``classes_[1]``; else (n, C)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32))
        scale = FeatureScale(*self.feature_range_)
        weights = self._weights.reshape(len(self.coef_), -1)
        used = self._records(X, scale)
        margins = np.asarray(used @ weights.T, dtype=np.float64)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        margins = self.decision_function(X)
        codes = (margins >= 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        predicted: NDArray[Any] = self.classes_[codes]
        return predicted

    @available_if(_is_logistic)  # type: ignore[untyped-decorator, unused-ignore]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (n, C) of the classes, with model="logistic"."""
        margins = self.decision_function(X)
        if margins.ndim == 1:
            margins = np.stack([np.zeros_like(margins), margins], axis=1)
        return softmax(margins)

    def plot_history(self, axes: Axes | None = None) -> Axes:
        """Accuracy against the rounds (with an eval_set), or the bits sent."""
        from fedsel import plotting

        check_is_fitted(self)
        return plotting.history(self.history_.rounds, self.solution_.name, axes)

    def plot_privacy_accuracy(
        self,
        X: Any,
        y: Any,
        X_test: Any,
        y_test: Any,
        *,
        epsilons: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
        solutions: Sequence[str] | None = None,
        groups: Any = None,
        repeats: int = 3,
        axes: Axes | None = None,
    ) -> Axes:
        """Test accuracy against ε, from fits of clones of this estimator.

        A means to plan with public or simulated data: on private clients every point costs its ε,
        of which a warning tells the sum.
        """
        from fedsel import plotting
        from fedsel.sklearn.sweep import sweep

        names = [self.solution] if solutions is None else list(solutions)
        rows = sweep(self, (X, y, groups), (X_test, y_test), epsilons, names, repeats)
        return plotting.accuracy_against_epsilon(rows, axes)

    def _say(self, text: str) -> None:
        print(text)  # noqa: T201

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "n_waves_" not in state:
            leaks.warn_about_leaving()
        return {name: value for name, value in state.items() if name != "spent_"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # A few hundred clients at a usual ε are too few; without privacy they are not.
        tags.classifier_tags.poor_score = self.solution not in PLAIN
        return tags
