"""Advice before a question is asked: how exact the answers of so many clients will be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from fedsel._internal.display import counted, shown
from fedsel._internal.progress import note
from fedsel.errors import Epsilon, InvalidArgument, check_count, check_positive
from fedsel.measuring import (
    Tally,
    clients_for,
    expected_error,
    half_width,
    least_clients,
    question_recipe,
)
from fedsel.measuring._tally import LEVEL, deviations
from fedsel.mechanisms.central import DELTA, CentralGuarantee
from fedsel.mechanisms.central._budget import proved_budget
from fedsel.mechanisms.central._guarantee import check_delta
from fedsel.recipe import decimal
from fedsel.solutions import Solution
from fedsel.solutions._blocks import MOST_ANSWERS
from fedsel.wire import Category, Number, Question, Schema
from fedsel.wire._question import BINS, KINDS, Kind

GOALS = (0.01, 0.05)
"""The half-widths for which advice says how many clients would do, in parts of the range."""


@final
@dataclass(frozen=True)
class QuestionAdvice:
    """How exact ``clients`` answer a question of ``answers`` answers (1: a mean), at ε each.

    ``error`` is the standard deviation of a share where all answers are equally common, or of a
    mean at the worst, in parts of the range; an interval of ``level`` reaches ``half_width`` to
    either side. A report has ``bits``: ``report`` says what it is. ``needed`` has the clients that
    would do for half-widths of 0.01 and 0.05, and with fewer than ``least`` nothing can be said.
    ``below_median`` is, for quantiles, the half-width of the share below the median. For a central
    goal ``guarantee`` is proved, and ``without`` is the advice without a shuffler.
    """

    kind: Kind
    answers: int
    clients: int
    epsilon: float
    error: float
    half_width: float
    level: float
    bits: int
    report: str
    least: int
    needed: dict[float, int]
    below_median: float | None = None
    guarantee: CentralGuarantee | None = None
    without: QuestionAdvice | None = None

    @property
    def enough(self) -> bool:
        """Whether anything can be said of so many answers."""
        return self.clients >= self.least

    @property
    def sentences(self) -> tuple[str, ...]:
        """Say it in sentences."""
        what = "A mean" if self.answers == 1 else f"The share of one of {self.answers:,} answers"
        reach = f"an interval of {100 * self.level:g} % reaches ± {self._points(self.half_width)}"
        goals = [f"{n:,} for ± {self._points(goal)}" for goal, n in self.needed.items()]
        said = [
            f"{what} from {self.clients:,} clients at ε = {self.epsilon:g} is off by"
            f" {self._points(self.error)} (standard deviation); {reach}.",
            f"A report has {counted(self.bits, 'bit')}: {self.report}.",
            f"Clients that would do: {', '.join(goals)}.",
        ]
        if self.below_median is not None:
            reach = self._points(self.below_median)
            said.append(
                f"The share below the median is known to ± {reach}: with fewer bins better."
            )
        if not self.enough:
            said.append(
                f"So few clients can say nothing: {self.least:,} or more would do, or a larger ε."
            )
        if self.guarantee is not None and self.without is not None:
            alone = self.without
            said.append(f"This takes a shuffler. Proved: {self.guarantee}.")
            said.append(
                f"Without a shuffler ε is {alone.epsilon:g}, and an interval reaches"
                f" ± {alone._points(alone.half_width)}."
            )
        return tuple(said)

    def _points(self, part: float) -> str:
        digits = 2 if part < 0.01 else 1
        if part in GOALS:
            digits = 0
        if self.answers == 1:
            return f"{shown(100 * part, digits)} % of the range"
        unit = "point" if part == GOALS[0] else "points"
        return f"{shown(100 * part, digits)} percentage {unit}"

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        found = asdict(self)
        found["needed"] = {f"{goal:g}": n for goal, n in self.needed.items()}
        found["without"] = None if self.without is None else self.without.as_dict()
        return {**found, "enough": self.enough, "sentences": list(self.sentences)}


def advise_question(
    question: Question | str,
    *,
    levels: int | None = None,
    clients: int,
    epsilon: Epsilon | None = None,
    central: float | None = None,
    delta: float | None = None,
    level: float = LEVEL,
) -> QuestionAdvice:
    """Say which error to expect of a question that ``clients`` answer.

    The question is a `Question` or its kind; a kind needs ``levels``, the number of its answers
    (two for a count, none for a mean). Pass ``epsilon``, what a client spends, or ``central``, the
    ε of shuffled reports at ``delta`` (1e-6), for which the largest local ε is found.

    >>> advice = advise_question("histogram", levels=20, clients=5000, epsilon=1.0)
    >>> round(advice.half_width, 3), advice.bits, advice.least, advice.enough
    (0.051, 8, 222, True)
    """
    kind, answers = _asked(question, levels)
    count = check_count("clients", clients)
    deviations(level)
    if (epsilon is None) == (central is None):
        allowed = "a number > 0, unless a central ε is given"
        if epsilon is not None:
            raise InvalidArgument("central", central, "omitted if the local ε is given")
        raise InvalidArgument("epsilon", epsilon, allowed)
    if central is None:
        if delta is not None:
            raise InvalidArgument("delta", delta, "omitted without a central ε")
        return _advice(kind, answers, count, decimal("epsilon", epsilon), level)
    goal = check_positive("central", central)
    wanted = DELTA if delta is None else check_delta(delta)
    with note("searching the local budget", 1):
        local, proved = proved_budget(
            lambda each: _solution(answers, decimal("epsilon", each)),
            epsilon=goal,
            delta=wanted,
            reports=count,
        )
    alone = _advice(kind, answers, count, decimal("central", goal), level)
    exact = decimal("epsilon", local)
    return _advice(kind, answers, count, exact, level, guarantee=proved, without=alone)


def _asked(question: Question | str, levels: int | None) -> tuple[Kind, int]:
    """The kind of a question, and the number of its answers."""
    if isinstance(question, Question):
        if levels is not None:
            raise InvalidArgument("levels", levels, "omitted beside a Question, which has them")
        return question.kind, question.count
    if question not in KINDS:
        raise InvalidArgument("question", question, f"one of {', '.join(KINDS)}")
    kind: Kind = question
    if kind in ("mean", "count"):
        if levels is not None:
            raise InvalidArgument("levels", levels, f"omitted for a {kind}")
        return kind, 1 if kind == "mean" else 2
    if levels is None and kind == "quantiles":
        return kind, BINS[kind]
    return kind, check_count("levels", levels, least=2, most=MOST_ANSWERS)


def _solution(answers: int, epsilon: Fraction) -> Solution:
    """The solution of a question with so many answers."""
    if answers == 1:
        return question_recipe(Question("mean", Schema({"value": Number(-1, 1)})), epsilon).build()
    levels = Category(tuple(str(answer) for answer in range(answers)))
    return question_recipe(Question("histogram", Schema({"value": levels})), epsilon).build()


def _advice(
    kind: Kind, answers: int, clients: int, epsilon: Fraction, level: float, **central: Any
) -> QuestionAdvice:
    solution = _solution(answers, epsilon)
    return QuestionAdvice(
        kind=kind,
        answers=answers,
        clients=clients,
        epsilon=float(epsilon),
        error=expected_error(solution, clients),
        half_width=half_width(solution, clients, level),
        level=level,
        bits=solution.bits,
        report=_report(solution),
        least=least_clients(solution),
        needed={goal: clients_for(solution, goal, level) for goal in GOALS},
        below_median=_below_median(solution, clients, level) if kind == "quantiles" else None,
        **central,
    )


def _report(solution: Solution) -> str:
    """What a report is, in words."""
    blocks = solution.transform.blocks
    if blocks is None:
        return f"one of {solution.alphabet.symbols} values"
    if blocks.block_size == 1:
        return "one answer"
    number = f"{blocks.size * blocks.bases:,} blocks"
    return f"one of {number}, each of {blocks.block_size} of {blocks.answers} answers"


def _below_median(solution: Solution, clients: int, level: float) -> float:
    """The half-width of the share of half of the answers, all being equally common."""
    own, other = Tally(solution, np.zeros(solution.transform.places, np.int64), 0).coins
    equal = round(clients * (other + (own - other) / solution.dim))
    tally = Tally(solution, np.full(solution.transform.places, equal), clients)
    found = tally.linear((np.arange(solution.dim) < solution.dim // 2).astype(float), level)
    return (found.high - found.low) / 2
