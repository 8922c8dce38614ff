"""Cross-validation: k folds × repeats, in parallel over runs.

Runs go through joblib: threads on one machine (the kernel releases the GIL and the data is
shared), and whatever cluster a joblib backend speaks to (Dask, Ray) where a sweep outgrows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedsel.engine.history import Test
from fedsel.engine.train import Population, Training, train
from fedsel.errors import InvalidArgument, check_count
from fedsel.random import key_of

FOLDS, RUN = 11, 12
"""Purposes of random streams: who is in which fold, and the seed of a run."""


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


@lru_cache(maxsize=4)
def split(clients: int, folds: int, seed: int, repeat: int) -> tuple[NDArray[np.int64], ...]:
    """The members of each fold, a random partition of the clients."""
    from fedsel.engine.kernel import shuffle

    order = np.arange(clients, dtype=np.int64)
    shuffle(order, key_of(seed, FOLDS), repeat)
    return tuple(np.array_split(order, folds))


def cross_validate(
    training: Training,
    population: Population,
    *,
    folds: int = 5,
    repeats: int = 10,
    jobs: int = 1,
    advance: Callable[[int], object] = abs,
) -> Scores:
    """Mean accuracy on held-out clients over ``folds`` × ``repeats`` runs.

    Every run has a seed of its own, derived from (training.seed, repeat, fold): the result does
    not depend on ``jobs``.
    """
    from joblib import Parallel, delayed

    if check_count("folds", folds, least=2) > population.clients:
        raise InvalidArgument("folds", folds, f"at most the {population.clients} clients")
    check_count("repeats", repeats)
    runs = [(repeat, fold) for repeat in range(repeats) for fold in range(folds)]
    work = Parallel(n_jobs=jobs, prefer="threads", return_as="generator")(
        delayed(one_run)(training, population, folds, repeat, fold) for repeat, fold in runs
    )
    scores = []
    for score in work:
        scores.append(score)
        advance(1)
    return Scores(tuple(scores))


def one_run(
    training: Training, population: Population, folds: int, repeat: int, fold: int
) -> Score:
    """Train on all folds but one, judge on that one."""
    parts = split(population.clients, folds, training.seed, repeat)
    members = np.concatenate([part for i, part in enumerate(parts) if i != fold])
    held_out = records_of_clients(population, parts[fold])
    low, high = key_of(training.seed, RUN, repeat, fold)
    seeded = replace(training, seed=low | high << 32)
    test = Test(population.X, population.y, held_out)
    history = train(seeded, replace(population, members=members), test, evaluate="end")
    return Score(repeat, fold, history.accuracy, history.rounds[-1].loss)


def records_of_clients(population: Population, clients: NDArray[np.int64]) -> NDArray[np.int64]:
    """The records that these clients hold."""
    if population.starts is None or population.order is None:
        return clients
    spans = [population.order[population.starts[c] : population.starts[c + 1]] for c in clients]
    return np.concatenate(spans)
