"""Tallies of given tables: exact ones, and those of drawn reports."""

import numpy as np

from fedsel._internal.random import Streams
from fedsel.measuring import Tally, answer_recipe
from fedsel.sampling.answers import report_answers

MANY = 10**12


def exact_tally(table, epsilon=4.0, count=MANY):
    """A tally whose raw shares are those of the table, up to rounding of so many reports."""
    shares = np.asarray(table, dtype=np.float64).ravel()
    solution = answer_recipe(len(shares), epsilon).build()
    empty = Tally(solution, np.zeros(solution.transform.places, dtype=np.int64), 0)
    own, other = empty.coins
    held = np.zeros(solution.transform.places)
    held[: len(shares)] = other + shares * (own - other)
    held[len(shares) :] = other
    return Tally(solution, np.rint(held * count).astype(np.int64), count)


def drawn_tally(table, epsilon, n, seed):
    """The tally of n people, drawn by the table, who report at ε."""
    shares = np.asarray(table, dtype=np.float64).ravel()
    draw = np.random.default_rng(seed)
    answers = draw.choice(len(shares), size=n, p=shares)
    solution = answer_recipe(len(shares), epsilon).build()
    totals = solution.totals()
    totals.add(report_answers(solution, answers, Streams(seed, 0, np.arange(n), 77)))
    return Tally.of(solution, totals)
