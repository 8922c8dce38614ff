"""What an estimator asks the clients that measure its model, and what it makes of the answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsel.data.partition import Clients
from fedsel.errors import Epsilon, InvalidArgument
from fedsel.measuring import Measured, Measurement, Recalibration, answer_recipe
from fedsel.measuring._recalibration import BOLD, CAUTIOUS, FEWEST_BINS
from fedsel.solutions import Privacy, Solution
from fedsel.wire import Model

if TYPE_CHECKING:
    from fedsel.sklearn._base import FederatedLinear
    from fedsel.sklearn._classifier import FedSelClassifier
    from fedsel.sklearn._fitting import Task

Numbers = NDArray[np.int64]
THRESHOLDS = (None, "private", "auto")


def check_threshold(classifier: FedSelClassifier, classes: int) -> None:
    """Refuse a threshold that nothing could set, or that would undo another choice."""
    given = classifier.threshold
    if given not in THRESHOLDS:
        raise InvalidArgument("threshold", given, 'None, "private" or "auto"')
    if given is None:
        return
    if not classifier.measure:
        wanted = "None without measure: it follows from what some clients measure (measure=0.1)"
        raise InvalidArgument("threshold", given, wanted)
    if classes != 2:
        raise InvalidArgument("threshold", given, f"None with {classes} classes: it is for two")
    if classifier.model != "logistic":
        wanted = f"None with model={classifier.model!r}, which has no probabilities"
        raise InvalidArgument("threshold", given, wanted)
    for name in ("class_prior", "class_weight"):
        if getattr(classifier, name) is not None:
            raise InvalidArgument("threshold", given, f"None beside {name}, which it would undo")


def asked_of(
    estimator: FederatedLinear, task: Task, clients: int, epsilon: Epsilon | None
) -> Measured | None:
    """What so many clients are asked about a model; a threshold needs scores by bins."""
    if not clients or epsilon is None:
        return None
    classes = 0 if task.regression else max(2, task.columns)
    asked = Measured.planned(classes, clients, epsilon, linear=not task.regression)
    if estimator.threshold is None or asked.bins >= FEWEST_BINS:
        return asked
    return replace(asked, bins=FEWEST_BINS, spread=True)


def dearest(solution: Solution, asked: Measured | None, epsilon: Epsilon | None) -> Privacy:
    """The most that a client of a fit loses, whether it trains or measures."""
    if asked is None or epsilon is None:
        return solution.privacy
    answers = (answer_recipe(count, epsilon).build().privacy for count in asked.counts)
    return max(solution.privacy, *answers, key=lambda privacy: privacy.total)


def answering(
    model: Model, X: Any, task: Task, groups: Clients | None, seed: int | None
) -> Callable[[Numbers], tuple[NDArray[np.float64], NDArray[Any]]]:
    """The margins and the label of one record of each client, drawn from its own."""
    picked = np.random.default_rng(seed)

    def answer(clients: Numbers) -> tuple[NDArray[np.float64], NDArray[Any]]:
        rows = clients
        if groups is not None:
            own = [picked.choice(groups.records(client)) for client in clients.tolist()]
            rows = np.array(own, dtype=np.int64)
        return model.margins_of(X[rows]), task.targets[rows].astype(np.float64)

    return answer


def typical_weights(model: Model) -> NDArray[np.float64]:
    """Weights whose norm is as large as margins may be: records may have a norm of their own."""
    prepared = None if model.pipeline is None else model.pipeline.preparation
    norm = 1.0 if prepared is None or prepared.unit else math.sqrt(prepared.size) / 2
    return norm * model.weights


def recalibration_of(found: Measurement, threshold: str) -> Recalibration | None:
    """What a measurement makes of the scores; with "auto" None where it makes nothing of them."""
    if threshold == "private":
        return found.recalibration(BOLD)
    cautious = found.recalibration(CAUTIOUS)
    return cautious if cautious is not None and cautious.moves else None


def recalibrated(model: Model, found: Recalibration) -> Model:
    """The model whose log-odds are scale·score + offset, for a record of typical norm.

    Where records are divided by their norm the offset is, too, as an intercept would be: the
    decision stays linear in x.
    """
    log_prior = np.array([found.offset / 2, -found.offset / 2])
    return replace(model, weights=found.scale * model.weights, log_prior=log_prior)
