"""Cross-validation: k folds × repeats, in parallel over runs.

Runs go through `in_parallel`: threads on one machine, and a cluster where a sweep outgrows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.models import LinearModel, Loss
from fedsel._internal.progress import in_parallel, note
from fedsel._internal.random import philox_key
from fedsel.errors import InvalidArgument, check_count
from fedsel.server._step import History
from fedsel.simulation._clients import Population
from fedsel.simulation._judges import EvaluationSet
from fedsel.simulation._rounds import Evaluate, Training, train

FOLDS, RUN, VALIDATION = 11, 12, 13
"""Purposes of random streams: who is in which fold, the seed of a run, and who validates."""

FIFTHS = 5


@dataclass(frozen=True)
class Score:
    """One run of a cross-validation."""

    repeat: int
    fold: int
    accuracy: float
    loss: float


@dataclass(frozen=True)
class Scores:
    """All runs of a cross-validation, in order."""

    runs: tuple[Score, ...]

    @property
    def accuracy(self) -> float:
        """Mean accuracy over all runs."""
        return float(np.mean([s.accuracy for s in self.runs]))

    @property
    def deviation(self) -> float:
        """Standard deviation of a repeat's mean accuracy; of the runs where there is one repeat."""
        repeats = sorted({s.repeat for s in self.runs})
        means = [np.mean([s.accuracy for s in self.runs if s.repeat == r]) for r in repeats]
        values = means if len(means) > 1 else [s.accuracy for s in self.runs]
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


_SPLITTING = Lock()


def split(clients: int, folds: int, seed: int, repeat: int) -> tuple[NDArray[np.int64], ...]:
    """The members of each fold, a random partition of the clients."""
    with _SPLITTING:  # runs that begin at the same time share one
        return _split(clients, folds, seed, repeat)


@lru_cache(maxsize=4)
def _split(clients: int, folds: int, seed: int, repeat: int) -> tuple[NDArray[np.int64], ...]:
    from fedsel.sampling._kernels import native

    order = np.arange(clients, dtype=np.int64)
    native.shuffle(order, philox_key(seed, FOLDS), repeat)
    return tuple(np.array_split(order, folds))


def cross_validate(
    training: Training,
    population: Population,
    *,
    loss: Loss = "logistic",
    folds: int = 5,
    repeats: int = 10,
    jobs: int = 1,
    advance: Callable[[int], object] | None = None,
) -> Scores:
    """Mean accuracy on held-out clients over ``folds`` × ``repeats`` runs.

    Every run has a seed of its own, derived from (training.seed, repeat, fold): the result does
    not depend on ``jobs``. A cross-validation is a simulation, and needs a seed: the scores of one
    client's several runs are nothing to publish anyway.
    """
    if check_count("folds", folds, least=2) > population.clients:
        raise InvalidArgument("folds", folds, f"at most {population.clients} (clients)")
    check_count("repeats", repeats)
    _seed_of(training)
    runs = [(repeat, fold) for repeat in range(repeats) for fold in range(folds)]
    calls = ((training, population, folds, repeat, fold, loss) for repeat, fold in runs)
    work = in_parallel(one_run, calls, jobs)
    scores = []
    with note("cross-validation", len(runs)) as tell:
        for score in work:
            scores.append(score)
            (advance or tell)(1)
    return Scores(tuple(scores))


def one_run(
    training: Training,
    population: Population,
    folds: int,
    repeat: int,
    fold: int,
    loss: Loss = "logistic",
) -> Score:
    """Train on all folds but one, judge on that one."""
    history = one_history(training, population, folds, repeat, fold, loss, evaluate="end")
    return Score(repeat, fold, history.accuracy, history.rounds[-1].loss)


def one_history(
    training: Training,
    population: Population,
    folds: int,
    repeat: int,
    fold: int,
    loss: Loss = "logistic",
    evaluate: Evaluate = "rounds",
) -> History:
    """The history of one run of a cross-validation."""
    parts = split(population.clients, folds, _seed_of(training), repeat)
    members = np.concatenate([part for i, part in enumerate(parts) if i != fold])
    test = _judges(population, parts[fold])
    seeded = _seeded(training, repeat, fold)
    some = replace(population, members=members)
    return train(seeded, some, test, loss=loss, evaluate=evaluate)


def held_out_run(
    training: Training, population: Population, run: int, loss: Loss = "logistic"
) -> dict[str, float]:
    """Accuracy on a validation fifth and on the test fifth after training on the other three.

    The result also has more measures of the same model on the test fifth (`measures`).

    The test fifth is the same in every run, and no run validates or trains on it: what is chosen
    by the validation leaves it untouched. The validation fifth is drawn anew in each run.
    """
    members, validation, test = fifths(population.clients, _seed_of(training), run)
    some = replace(population, members=members)
    history = train(_seeded(training, run, FIFTHS), some, loss=loss, evaluate="end")
    found, model = {}, LinearModel(loss, training.reg)
    for name, clients in (("validation", validation), ("test", test)):
        judges = _judges(population, clients)
        if history.preparation is not None:
            judges = judges.prepared(history.preparation)
        found[name] = float(judges.judge(history.weights[None], model)[0][0])
    return {**found, **measures(judges.margins(history.weights), judges.labels)}


def fifths(
    clients: int, seed: int, run: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The clients that train (three fifths), validate and test in a run of `held_out_run`."""
    from fedsel.sampling._kernels import native

    test, *others = split(clients, FIFTHS, seed, 0)
    rest = np.concatenate(others)
    native.shuffle(rest, philox_key(seed, VALIDATION), run)
    return rest[len(test) :], rest[: len(test)], test


def _judges(population: Population, clients: NDArray[np.int64]) -> EvaluationSet:
    return EvaluationSet(population.X, population.y, population.all_records_of(clients))


def _seeded(training: Training, repeat: int, fold: int) -> Training:
    low, high = philox_key(_seed_of(training), RUN, repeat, fold)
    return replace(training, seed=low | high << 32)


def _seed_of(training: Training) -> int:
    if training.seed is None:
        raise InvalidArgument("training.seed", None, "an integer ≥ 0: the folds depend on it")
    return training.seed


def measures(margins: NDArray[np.float64], labels: NDArray[np.int8]) -> dict[str, float]:
    """Balanced accuracy, AUC and log loss of margins (n,) for labels ±1.

    Balanced accuracy is the mean of the accuracies of both classes; AUC the share of pairs of a
    positive and a negative that are in the right order, ties as one half. Both are 1/2 where a
    class is missing.

    >>> measures(np.array([-2.0, -1.0, 0.5, 3.0]), np.array([-1, 1, -1, 1]))["auc"]
    0.75
    """
    positive = labels > 0
    hits = (margins >= 0) == positive
    both = bool(positive.any() and not positive.all())
    balanced = float((hits[positive].mean() + hits[~positive].mean()) / 2) if both else 0.5
    return {
        "balanced": balanced,
        "auc": _area(margins, positive) if both else 0.5,
        "log_loss": float(np.mean(np.logaddexp(0.0, -labels * margins))),
    }


def _area(margins: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Mann and Whitney's statistic over the number of pairs."""
    _, place, counts = np.unique(margins, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[place]  # from 1; those that tie share the mean
    wins = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return float(wins / (positive.sum() * (~positive).sum()))
