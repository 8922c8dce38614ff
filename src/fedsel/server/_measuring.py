"""The rounds of a run that ask instead of training: about its model, or about people.

A measuring round belongs to a run of its own (`measuring_run`), whose recipe is that of a question:
a client that measures spends its whole ε on one report, and no device can be led from one recipe to
another within a run. The last rounds of each epoch measure, question after question.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument
from fedsel.measuring import Measured, Measurement, Tally, answer_recipe, measurement
from fedsel.mechanisms._reports import Totals
from fedsel.recipe import Recipe
from fedsel.wire import Intent, Question, encode_recipe, measuring_run
from fedsel.wire._contract import Measures
from fedsel.wire._model_question import ModelQuestion
from fedsel.wire._report import RUN_BYTES

Doubles = NDArray[np.float64]
_USEFUL = 0.1
"""The reach of an accuracy's interval from which on people are told that it says little."""


def measuring_rounds(measure: float, rounds_per_epoch: int, epochs: int = 1) -> int:
    """How many rounds of an epoch measure: at least one, and one is left to train.

    A client measures once, so the share of the clients that measure is spread over the epochs.

    >>> measuring_rounds(0.1, 20), measuring_rounds(0.1, 100, epochs=5), measuring_rounds(0.1, 5)
    (2, 2, 1)
    """
    if not measure:
        return 0
    if rounds_per_epoch < 2:
        allowed = "at least 2 with measure: one that trains, and one that measures"
        raise InvalidArgument("rounds_per_epoch", rounds_per_epoch, allowed)
    rounds = math.floor(measure * rounds_per_epoch / epochs + 0.5)
    return min(rounds_per_epoch - 1, max(1, rounds))


@final
@dataclass(frozen=True)
class Measuring:
    """Which of the rounds of an epoch measure what: ``rounds`` of them, at ``epsilon`` a report."""

    measured: Measured
    rounds: int
    epsilon: Fraction

    @classmethod
    def planned(
        cls, recipe: Recipe, rounds_per_epoch: int, clients: int, classes: int, *, linear: bool
    ) -> Self | None:
        """As a recipe asks for it, with so many clients in an epoch; None if it does not."""
        rounds = measuring_rounds(recipe.measure, rounds_per_epoch, recipe.epochs)
        if not rounds:
            return None
        epsilon = Fraction(recipe.epsilon or 0)
        reports = clients * rounds // rounds_per_epoch
        measured = Measured.planned(classes, reports, epsilon, linear=linear, rounds=rounds)
        return cls(measured, rounds, epsilon)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The number of the question of each measuring round of an epoch."""
        return self.measured.numbers(self.rounds)

    @cached_property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipe of each question."""
        return tuple(answer_recipe(count, self.epsilon) for count in self.measured.counts)

    @property
    def announced(self) -> Measures:
        """What devices are told of it beforehand."""
        return Measures(self.rounds, float(self.epsilon), self.measured.counts)

    def said(self, clients: int, rounds_per_epoch: int) -> str:
        """What is to be expected with so many clients in an epoch, for people."""
        devices = clients * self.rounds // rounds_per_epoch
        told = f"about {devices:,} devices measure the model in an epoch and do not train"
        if self.measured.classes != 2:
            return told
        reach = self.measured.reach(devices, self.epsilon)
        told += f"; its accuracy will be known to ± {100 * reach:.1f} points"
        if reach < _USEFUL:
            return told
        needed = self.measured.clients_for(_USEFUL, self.epsilon)
        return f"{told}, which says little: for ± {100 * _USEFUL:.0f} points it takes {needed:,}"

    def number(self, place: int, rounds_per_epoch: int) -> int | None:
        """The number of the question of a round, by its place in the epoch; None if it trains."""
        first = rounds_per_epoch - self.rounds
        return None if place < first else self.numbers[place - first]

    def to_dict(self) -> dict[str, Any]:
        """The plan in plain values."""
        return {"rounds": self.rounds, "epsilon": str(self.epsilon), **vars(self.measured)}

    @classmethod
    def of_dict(cls, values: dict[str, Any]) -> Self:
        """The plan of plain values."""
        known = {k: v for k, v in values.items() if k not in ("rounds", "epsilon")}
        return cls(Measured(**known), values["rounds"], Fraction(values["epsilon"]))


@final
@dataclass(frozen=True, eq=False)
class Answered:
    """The sums of the reports that answered a question of an epoch, and how many there were.

    ``question`` is what was asked of a model; None for a question about people.
    """

    epoch: int
    number: int
    sums: NDArray[np.int64]
    count: int
    question: ModelQuestion | None = None

    def totals(self, recipe: Recipe) -> Totals:
        """The totals of these reports, which are of the recipe."""
        totals = recipe.build().totals()
        totals.sums += self.sums
        totals.count = self.count
        return totals

    def plus(self, totals: Totals) -> Answered:
        """The same with a round's reports."""
        return replace(self, sums=self.sums + totals.sums, count=self.count + totals.count)

    def about(self) -> dict[str, Any]:
        """All but the sums, in plain values."""
        question = None if self.question is None else self.question.to_dict()
        return {
            "epoch": self.epoch,
            "number": self.number,
            "count": self.count,
            "question": question,
        }

    @classmethod
    def of(cls, about: dict[str, Any], sums: NDArray[np.int64]) -> Self:
        """The answers of plain values and sums."""
        question = about["question"]
        known = None if question is None else ModelQuestion.of_dict(question)
        return cls(about["epoch"], about["number"], sums, about["count"], known)


def with_round(
    answered: Sequence[Answered],
    epoch: int,
    number: int,
    totals: Totals,
    question: ModelQuestion | None = None,
) -> tuple[Answered, ...]:
    """The answers so far, and those of another round."""
    last = answered[-1] if answered else None
    if last is not None and (last.epoch, last.number) == (epoch, number):
        return (*answered[:-1], last.plus(totals))
    return (*answered, Answered(epoch, number, totals.sums.copy(), totals.count, question))


def tally_of(answered: Answered, recipe: Recipe) -> Tally:
    """What the answers to a question say together."""
    return Tally(recipe.build(), answered.sums[0], answered.count)


def measurements(measuring: Measuring, answered: Sequence[Answered]) -> dict[int, Measurement]:
    """What was measured in each epoch that had a report of it."""
    found: dict[int, Measurement] = {}
    for epoch in sorted({one.epoch for one in answered}):
        own = [one for one in answered if one.epoch == epoch and one.question is not None]
        questions = [one.question for one in own if one.question is not None]
        tallies = [tally_of(one, measuring.recipes[one.number]) for one in own]
        made = measurement(questions, tallies, epsilon=measuring.epsilon)
        if made is not None and made.metrics:
            found[epoch] = made
    return found


def asking_run(question: Question, recipe: Recipe, intent: Intent) -> bytes:
    """The run of a question: the same for the same question, recipe and intent."""
    parts = (question.encode(), encode_recipe(recipe), intent.encode())
    digest = hashlib.sha256(b"fedsel asking")
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.digest()[:RUN_BYTES]


def run_of(run: bytes, number: int | None) -> bytes:
    """The run that a round's reports belong to: the run itself, or that of a question."""
    return run if number is None else measuring_run(run, number)
