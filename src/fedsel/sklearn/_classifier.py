"""FedSelClassifier: a linear classifier under local differential privacy."""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from fedsel._internal.models import check_loss
from fedsel._internal.plotting import Point
from fedsel.errors import (
    InvalidArgument,
    RepeatedFitWarning,
    check_count,
    check_epsilon,
    check_positive,
    warn_user,
)
from fedsel.sklearn import _tables
from fedsel.sklearn._base import FederatedLinear
from fedsel.sklearn._fitting import Classification, Examples, codes_of
from fedsel.sklearn._measuring import check_threshold
from fedsel.solutions import entry
from fedsel.tracking import Callbacks
from fedsel.wire import Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _is_logistic(classifier: FedSelClassifier) -> bool:
    if classifier.model != "logistic":
        raise AttributeError(f"model = {classifier.model!r} has no probabilities")
    return True


@dataclass(kw_only=True, eq=False, repr=False)
class FedSelClassifier(ClassifierMixin, FederatedLinear):  # type: ignore[misc]
    """Federated logistic regression or linear SVM under local differential privacy.

    Every row of X, or every group of rows, is a client and sends ``epochs`` private reports; the
    model is computed from the reports alone. With C > 2 classes a client still sends one report,
    on the gradient of the softmax (or multi-class hinge) loss, a vector of C·d entries.

    Parameters
    ----------
    epsilon
        Total ε of a client in one fit, over all epochs.
    solution
        How a client reports, by name: "FJ", "PS-PM", "PM", "NP" … (`fedsel.solutions.names`).
    model
        "logistic" or "svm".
    epochs
        How often each client reports.
    batch_fraction
        The share of the clients that report in one round.
    learning_rate
        A number, or "auto": from public quantities alone.
    averaging
        The power p of the average of the weights over the rounds, t^p in round t; 0 takes the last
        weights, "auto" is 3 with the automatic learning rate, else 0.
    unit_norm
        Whether clients divide their record, including the 1 for the intercept, by its norm, which
        changes no sign of a margin. "auto" does so for solutions that report a direction.
    rho
        The public radius ρ of FJ, J, RJ and RC, "auto", or None to report directions alone.
    words
        The number of codewords of RC.
    bases
        The rotated bases of RJ in a round, "auto" (64 in all), or None for one rotation.
    mu
        The selection's share of ε, or "auto".
    k
        The top dimensions of a selection, a count or a share.
    clip
        Values are clipped to [−clip, clip]. 1 loses nothing with the logistic loss.
    momentum
        The clients' momentum; without effect if epochs = 1.
    reg
        λ of the ℓ2 regulariser.
    fit_intercept
        Whether to learn an intercept.
    feature_range
        Public bounds (low, high), numbers or one for each feature, to which clients clip.
        "private" learns them in the first four tenths of the rounds (docs/preparation.md says what
        that costs). None reads them from X, which is not private, and warns. By name for a
        DataFrame: {"age": (0, 100), "income": "private"}.
    schema
        None, or what is public about a table: a `fedsel.Schema`, its plain values, or the path of
        its TOML file. X is then a table as it is (pandas, polars, Arrow, a list of records by
        name), with texts, dates and empty cells; bounds and, where it has them, classes come from
        the schema.
    spread, centre
        The share of the rounds in which clients report on their record instead of a gradient, to
        learn the records' spread and centre (`fedsel.preparation`). "auto" spends rounds only if
        bounds may be too wide or off centre and there are many clients.
    public_mean
        None, or published means of features in their units: {name: mean} for a DataFrame, {column
        number: mean}, or an array with NaN for unknown means. Rounds learn only the centre of the
        other features. Needs ``feature_range``.
    class_weight
        None, or a public weight > 0 for each class, {label: weight}. "balanced" is refused: the
        shares of the classes are private.
    class_prior
        None, or the public share of each class, {label: share}: decisions are made as if all
        classes were equally frequent. This happens after training and costs no ε. If missing one
        class costs c times as much as missing another, divide its share by c.
    threshold
        None decides for the class of the larger probability. "private" first sets probabilities,
        and with them the decision, by what the clients of ``measure`` say of the scores: the scale
        and offset whose gain in log loss is largest, less its standard error. "auto" takes two of
        them off, and mostly changes the model only for the better. For two classes, with
        ``measure`` and model="logistic", and without ``class_prior`` or ``class_weight``.
    measure
        The share of the clients, such as 0.1, that measure the finished model instead of training
        it: each with one report at ``epsilon`` on one of its records, which says in which public
        bin its score lies and which class it has. ``measurement_`` is what they say together.
    weight_bound
        The public bound of ``sample_weight``, to which clients clip. None reads it from the
        weights, which is not private, and warns.
    random_state
        None uses the operating system's randomness, as models that may be released require. A seed
        or a RandomState makes a simulation repeatable and warns, because anyone who knows it can
        undo the noise.
    verbose
        1 prints progress.

    Attributes
    ----------
    classes_
        The labels, sorted; declared classes whether they occur or not.
    coef_
        Slopes (1, d) for two classes, else (C, d), valid within the bounds: predictions clip
        features, too.
    intercept_
        Constants (1,) or (C,).
    privacy_
        The exact ε of a report and of all reports, what it covers and what it does not.
    history_
        One entry for each round, with accuracy and loss if an ``eval_set`` was given.
    spent_
        The largest ε that one record has spent in all fits of this process up to this one, as far
        as records were recognised. It is not pickled. `fedsel.FitAccount` counts all fits.
    recipe_
        All parameters as they were used, with a number for everything automatic.
    solution_
        The solution by which clients reported.
    learning_rate_
        α, as it was used.
    batch_
        Clients of a round.
    seed_
        The seed, or None where the operating system drew.
    feature_range_
        The bounds that were used: (2, d).
    n_features_in_
        As in scikit-learn, and so is ``feature_names_in_``. With a schema both are about the
        encoded features, as ``coef_`` is ("age", "job=cook").
    schema_
        The schema that was used, its classes in the order of ``classes_``; or None.
    n_clients_
        Clients of the last wave.
    n_waves_
        How many waves of clients were fitted.
    n_public_
        Public rows that were given.
    n_public_means_
        Features whose public mean was given.
    preparation_
        What clients do with a record on the scale of ``feature_range_``, learnt from reports or
        from public rows and means.
    measurement_
        What the clients of ``measure`` in the last wave say: ``metrics`` by name with intervals,
        ``shares`` of the classes, ``confusion``, ``calibration`` (`fedsel.measuring.Measurement`).
        None where nobody measured. It is about the model before ``threshold`` moved anything.
    recalibration_
        The ``scale`` and ``offset`` by which ``threshold`` changed the scores of typical records,
        and the measured ``gain`` in log loss; None where it changed nothing.

    Examples
    --------
    >>> X, y = np.array([[-1.0], [1.0]] * 500), np.array(["no", "yes"] * 500)
    >>> model = FedSelClassifier(epsilon=4.0, feature_range=(-1, 1)).fit(X, y)
    >>> model.predict([[-0.5], [0.5]]).tolist(), round(model.privacy_.total, 9)
    (['no', 'yes'], 4.0)
    """

    model: Literal["logistic", "svm"] = "logistic"
    unit_norm: bool | Literal["auto"] = "auto"
    class_weight: Mapping[Any, float] | None = None
    class_prior: Mapping[Any, float] | None = None
    threshold: Literal["private", "auto"] | None = None

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | None = None,
        groups: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        sample_weight: Any = None,
        callbacks: Callbacks | None = None,
    ) -> Self:
        """Continue training with a wave of new clients; a returning client spends ε again.

        ``classes`` lists all classes with the first wave; otherwise they are read from y.
        """
        first = self._first_wave()
        given = (X, y, groups, eval_set, sample_weight)
        return self._tracked(callbacks, *given, first=first, classes=classes)

    def _fit(
        self,
        X: Any,
        y: Any,
        groups: Any,
        eval_set: tuple[Any, Any] | None,
        sample_weight: Any,
        *,
        classes: Sequence[Any] | None = None,
        **wave: Any,
    ) -> Self:
        first = wave["first"]
        self._check_parameters()
        check_loss(self.model, self.reg, "model")
        if first:
            self.schema_ = _tables.schema_of(self, "target_range")
        X, y = _tables.validated(self, X, y, reset=first)
        labels, codes = self._coded(y, classes, first)
        check_threshold(self, len(labels))
        judges = None
        if eval_set is not None:
            shown, own = self._pair(eval_set)
            judges = Examples(shown, self._codes("eval_set", own, labels, "labelled as y is"))
        prior = self._of_classes("class_prior", labels)
        weights = self._of_classes("class_weight", labels)
        # Divided by the largest declared weight, because the classes in this wave are private.
        own = None if weights is None else (weights / weights.max())[codes]
        factors, read = self._factors(len(codes), sample_weight, own)
        logs = None if prior is None else np.log(prior)
        task = Classification(codes, len(labels), self.model, factors, logs)
        self._fit_wave(X, task, groups, judges, read=read, **wave)
        self.classes_ = labels
        return self

    def _of_classes(self, name: str, labels: NDArray[Any]) -> NDArray[np.float64] | None:
        """The public weight or share of each class, in the order of the labels."""
        given = getattr(self, name)
        if given is None:
            return None
        allowed = f"a number > 0 for each class: {{label: {name.removeprefix('class_')}}}"
        if isinstance(given, str):
            allowed += "; the shares of the classes are private, so none follow from them"
        if not isinstance(given, Mapping) or set(given) != set(labels):
            raise InvalidArgument(name, given, allowed)
        return np.array([check_positive(f"{name}[{c!r}]", given[c]) for c in labels])

    def _coded(
        self, y: NDArray[Any], classes: Sequence[Any] | None, first: bool
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes, and y as their numbers."""
        if self._declared is None:
            _tables.check_labels(y)
        if not first:
            labels = self.classes_
        elif self._declared is None:
            labels = np.unique(y if classes is None else classes)
        else:
            self.schema_ = _tables.with_sorted_classes(self._declared, y)
            labels = _tables.labels_like(self.schema_, y)
        if classes is not None and not np.array_equal(np.unique(classes), labels):
            where = "schema" if first else "first wave"
            raise InvalidArgument("classes", list(classes), f"the classes of the {where}")
        if len(labels) < 2:
            raise InvalidArgument("y", f"{len(labels)} class", "of at least two classes")
        return labels, self._codes("y", y, labels, "one of classes_")

    def _codes(
        self, name: str, y: NDArray[Any], labels: NDArray[Any], allowed: str
    ) -> NDArray[np.int64]:
        if self._declared is None:
            return codes_of(name, y, labels, allowed)
        return _tables.codes_by(self._declared, name, y)

    @property
    def _declared(self) -> Schema | None:
        """The schema, if it has classes."""
        return self.schema_ if self.schema_ and self.schema_.classes else None

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Margins: (n,) for two classes, positive for ``classes_[1]``; else (n, C)."""
        margins = self._margins(X)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        margins = self._margins(X)
        predicted: NDArray[Any] = self.classes_[self._model.codes_of(margins)]
        return predicted

    @available_if(_is_logistic)  # type: ignore[untyped-decorator, unused-ignore]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (n, C) of the classes, with model="logistic"."""
        margins = self._margins(X)
        return self._model.probabilities_of(margins)

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
        """Draw test accuracy against ε, from fits of clones of this estimator.

        Plan with public or simulated data: on private clients every point costs its ε, and a
        warning names the sum.
        """
        from fedsel._internal import plotting

        names = [self.solution] if solutions is None else list(solutions)
        points = _accuracies(self, (X, y, groups), (X_test, y_test), epsilons, names, repeats)
        return plotting.accuracy_against_epsilon(points, axes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = not entry(self.solution).plain  # for 300 clients
        return tags


def _accuracies(
    estimator: FedSelClassifier,
    clients: tuple[Any, Any, Any],
    test: tuple[Any, Any],
    epsilons: Sequence[float],
    solutions: Sequence[str],
    repeats: int,
) -> list[Point]:
    """Mean and deviation of the score for each solution and ε, over fits of clones."""
    check_count("repeats", repeats)
    levels = [{"epsilon": float(check_epsilon("epsilons", e))} for e in epsilons]
    points = [
        (known.name, level)
        for known in map(entry, solutions)
        for level in ([{}] if known.plain else levels)
    ]
    seeds: list[int | None] = [None] * repeats
    if estimator.random_state is not None:  # the same at every ε, which makes curves comparable
        first = int(check_random_state(estimator.random_state).randint(2**30))
        seeds = list(range(first, first + repeats))
    if len(points) * repeats > 1:
        plain = repeats * sum(not level for _, level in points)
        cost = repeats * sum(level.get("epsilon", 0.0) for _, level in points)
        warn_user(
            f"the same clients are fitted {len(points) * repeats} times: together this costs them"
            f" ε = {cost:.4g}{f' and {plain} fits without privacy' * bool(plain)}, and scores on"
            " test records are computed in the clear. Plan with public or simulated data.",
            RepeatedFitWarning,
        )

    def point(name: str, level: dict[str, float]) -> Point:
        X, y, groups = clients
        model = clone(estimator).set_params(solution=name, **level)
        scores = [
            clone(model).set_params(random_state=seed).fit(X, y, groups=groups).score(*test)
            for seed in seeds
        ]
        deviation = statistics.stdev(scores) if repeats > 1 else 0.0
        return Point(name, level.get("epsilon"), statistics.fmean(scores), deviation)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedFitWarning)  # said above for all points together
        return [point(*which) for which in points]
