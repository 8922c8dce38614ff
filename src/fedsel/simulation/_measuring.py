"""Simulated clients that measure a model instead of training it: see `fedsel.measuring`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsel._internal.random import Streams, philox_key
from fedsel.errors import Epsilon
from fedsel.measuring import (
    Measured,
    Measurement,
    Tally,
    answer_recipe,
    measurement,
    measuring_clients,
)
from fedsel.sampling.answers import report_answers
from fedsel.wire._model_question import ModelQuestion

Numbers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Answering = Callable[[Numbers], tuple[Doubles, NDArray[Any]]]
"""From the numbers of clients to the margins and the label of one record of each."""

MEASURE = 15
"""The purpose of the streams by which clients measure, and of the order that says who does."""


def told_apart(members: Numbers, measure: float, order: int) -> tuple[Numbers, Numbers]:
    """The members that train and those that measure, by a secret or seeded ``order``.

    >>> trains, measures = told_apart(np.arange(10), 0.2, order=0)
    >>> len(trains), len(measures), sorted([*trains, *measures]) == list(range(10))
    (8, 2, True)
    """
    from fedsel.sampling._kernels import native

    count = measuring_clients(measure, len(members))
    if not count:
        return members, members[:0]
    mixed = members.copy()
    native.shuffle(mixed, philox_key(order, MEASURE), 0)
    return np.sort(mixed[count:]), mixed[:count]


def measured(
    asked: Measured,
    answering: Answering,
    clients: Numbers,
    weights: Doubles,
    epsilon: Epsilon,
    *,
    seed: int | None = None,
) -> Measurement | None:
    """What these clients say about the model, each with one report at ε; None without clients.

    Without a seed every report is drawn from the operating system.
    """
    exact = Fraction(repr(epsilon)) if isinstance(epsilon, float) else Fraction(epsilon)
    questions: list[ModelQuestion] = []
    tallies: list[Tally] = []
    ends = (np.cumsum(asked.shares)[:-1] * len(clients)).round().astype(np.int64)
    for number, some in enumerate(np.split(clients, ends)):
        spread = tallies[0] if tallies and asked.spread else None
        question = asked.question(number, weights, spread)
        solution = answer_recipe(question.count, exact).build()
        totals = solution.totals()
        if len(some):
            answers = question.answers(*answering(some))
            streams = None if seed is None else Streams(seed, 0, some, MEASURE, number)
            totals.add(report_answers(solution, answers, streams, missing=True))
        questions.append(question)
        tallies.append(Tally.of(solution, totals))
    return measurement(questions, tallies, epsilon=exact)
