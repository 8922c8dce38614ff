"""The server's step: one pure function from a state and a round's reports to the next state.

Simulator, trainer, estimator, aggregator, service and Flower strategy all use it. The compiled
rounds of the simulator equal it to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import Epsilon, InvalidArgument
from fedsel.mechanisms._reports import Totals
from fedsel.preparation import Plan, PlanState, Preparation, advanced
from fedsel.recipe import Recipe
from fedsel.solutions import Privacy
from fedsel.solutions._solution import Solution

if TYPE_CHECKING:
    from fedsel.mechanisms.central import CentralGuarantee
    from fedsel.server._checkpoint import RoundRecord

Doubles = NDArray[np.float64]

CONFIDENCE = 1.5
"""A way lowers the loss if the reports show that by this many standard errors."""
_PLACES = np.linspace(0, 1, 101)


@final
@dataclass(frozen=True)
class StepRule:
    """Who multiplies by the learning rate α and who applies λ: the server, or every client.

    The server steps by w ← w − decay·w − rate·mean, and the model averages the weights by the power
    ``averaging``. Clients multiply their update by ``factor`` and add ``client_reg``·w to it.
    """

    rate: float
    decay: float = 0.0
    averaging: float = 0.0
    factor: float = 1.0
    client_reg: float = 0.0

    @classmethod
    def for_solution(
        cls, solution: Solution, learning_rate: float, reg: float = 0.0, averaging: float = 0.0
    ) -> StepRule:
        """The rule that the solution asks for: …-O has α inside, one-symbol ones λ at the server.

        >>> from fedsel import solution
        >>> StepRule.for_solution(solution("FJ", epsilon=1.0, dim=3), 0.5, reg=0.1).decay
        0.05
        """
        inside, at_server = solution.rate_inside, solution.decays_at_server
        return cls(
            rate=1.0 if inside else learning_rate,
            decay=learning_rate * reg if at_server else 0.0,
            averaging=averaging,
            factor=learning_rate if inside else 1.0,
            client_reg=0.0 if at_server else reg,
        )

    @classmethod
    def of(cls, recipe: Recipe) -> StepRule:
        """The rule of a recipe in which nothing is automatic any more."""
        recipe.require("learning_rate", "averaging")
        rate, averaging = float(recipe.learning_rate), float(recipe.averaging)
        return cls.for_solution(recipe.build(), rate, recipe.reg, averaging)


@final
@dataclass(frozen=True, eq=False)
class ServerState:
    """The weights (d,) that clients work on, their average over the rounds, and the rounds done.

    The average is the model: post-processing that removes noise for free. Without averaging it
    equals the weights. With a ``course`` the model is where the reports confirm the way from the
    start to the average. ``learnt`` is what the rounds that prepare have found out about records.
    """

    weights: Doubles
    average: Doubles
    rounds: int = 0
    course: Course | None = None
    learnt: PlanState | None = None

    @classmethod
    def begin(cls, weights: Doubles, plan: Plan | None = None) -> ServerState:
        """The state before the first round."""
        start = np.array(weights, dtype=np.float64)
        return cls(start, start, learnt=None if plan is None else plan.begin)

    @property
    def model(self) -> Doubles:
        """The weights to publish; training goes on from ``weights``."""
        return self.average if self.course is None else self.course.confirmed(self.average)

    @property
    def preparation(self) -> Preparation | None:
        """What devices do with their records, as far as it is learnt; None without a plan."""
        return None if self.learnt is None else self.learnt.preparation


@final
@dataclass(frozen=True, eq=False)
class Leg:
    """A round with reports: its weights (d,) before and after, and the noise of its step.

    ``variance`` is the variance of each entry: one number, or (d,).
    """

    begin: Doubles
    end: Doubles
    variance: Doubles | float

    @property
    def variances(self) -> Doubles:
        return np.broadcast_to(self.variance, self.begin.shape)


@final
@dataclass(frozen=True, eq=False)
class Course:
    """The rounds since a start that is worth keeping: it was trained on public data.

    Noise moves the weights even where the data would not. On the way from the start to the average,
    at start + c·way, the loss has about the slope a + b·c. Each round reports it at its own
    weights: step·way, with the known noise that is both in the step and in the way taken out. A
    line through these slopes tells c: where a·c + b·c²/2 + ``CONFIDENCE`` standard errors is least
    in [0, 1]. This is post-processing of the public means.

    ``in_weights`` (T,) and ``in_average`` (T,) are how much of each leg's step the two contain.

    >>> course = Course(np.zeros(1))
    >>> for begin, end in ((0.0, -1.0), (-1.0, 0.0)):  # the slope is 1 at 0 and -1 at -1
    ...     course = course.then(Leg(np.array([begin]), np.array([end]), 0.0)).averaged(0.5)
    >>> course.confirmed(np.array([-1.0]))
    array([-0.5])
    """

    start: Doubles
    legs: tuple[Leg, ...] = ()
    in_weights: Doubles = field(default_factory=lambda: np.zeros(0))
    in_average: Doubles = field(default_factory=lambda: np.zeros(0))

    def then(self, leg: Leg) -> Course:
        """The course after a round, before the average takes part in it."""
        ones, none = np.append(self.in_weights, 1.0), np.append(self.in_average, 0.0)
        return Course(self.start, (*self.legs, leg), ones, none)

    def averaged(self, share: float) -> Course:
        """The course once the average has moved towards the weights by this share."""
        moved = self.in_average + share * (self.in_weights - self.in_average)
        return replace(self, in_average=moved)

    def confirmed(self, average: Doubles) -> Doubles:
        """The weights (d,) between start and average that the reports confirm."""
        way = average - self.start
        if not self.legs or not way.any():
            return average
        begins = np.stack([leg.begin for leg in self.legs])
        steps = begins - np.stack([leg.end for leg in self.legs])
        noise = np.array([leg.variances.sum() for leg in self.legs])
        slopes = steps @ way + self.in_average * noise
        # Most of the way may be noise itself: what two rounds have in common counts in both.
        squares = 2 * np.array([leg.variances @ way**2 for leg in self.legs])
        places = (begins - self.start) @ way / (way @ way)
        fit = np.linalg.pinv(np.stack([np.ones_like(places), places], axis=1))
        if fit[1] @ slopes < 0:  # a loss that bends down is noise: its slope is the mean one
            fit = np.stack([np.full_like(places, 1 / len(places)), np.zeros_like(places)])
        terms = np.stack([_PLACES, _PLACES**2 / 2])
        errors = np.sqrt((((fit * squares) @ fit.T @ terms) * terms).sum(axis=0))
        loss = fit @ slopes @ terms + CONFIDENCE * errors
        confirmed: Doubles = self.start + _PLACES[int(np.argmin(loss))] * way
        return confirmed


def step(
    state: ServerState,
    rule: StepRule,
    solution: Solution,
    totals: Totals,
    scales: Doubles | None = None,
    *,
    plan: Plan | None = None,
) -> ServerState:
    """End a round: decode its totals, then decay, step and average, or learn about the records.

    ``solution`` is the one of this round (`Solution.in_round`); ``scales`` (d,) are what clients
    have divided their updates by; in the rounds that ``plan`` prepares no weight changes. Neither
    does one in a round without reports.

    >>> from fedsel import Reports, solution
    >>> plain = solution("NP", dim=2)
    >>> totals = plain.totals()
    >>> totals.add(Reports([[0, 1], [0, 1]], [[1.0, 2.0], [3.0, 4.0]]))
    >>> step(ServerState.begin(np.zeros(2)), StepRule(rate=0.5), plain, totals).weights
    array([-1. , -1.5])
    """
    if plan is not None and state.learnt is not None and state.rounds < plan.rounds:
        mean = solution.expand(totals.mean())
        learnt = advanced(plan, state.learnt, state.rounds, mean, totals.count)
        return replace(averaged(state, rule, state.weights), learnt=learnt)
    if not totals.count:
        return averaged(state, rule, state.weights)
    mean = solution.expand(totals.mean())
    weights = stepped(state.weights, rule, mean if scales is None else mean * scales)
    if state.course is not None:
        variance = (rule.rate * solution.noise) ** 2 / (totals.count * solution.dim)
        leg = Leg(state.weights, weights, variance if scales is None else variance * scales**2)
        state = replace(state, course=state.course.then(leg))
    return averaged(state, rule, weights)


def stepped(weights: Doubles, rule: StepRule, mean: Doubles) -> Doubles:
    """w ← w − decay·w, then w ← w − rate·mean."""
    if rule.decay:
        weights = weights - rule.decay * weights
    return weights - rule.rate * mean


def averaged(state: ServerState, rule: StepRule, weights: Doubles) -> ServerState:
    """The state after a round that ends with these weights.

    Round t counts about as t^p in the average (Shamir and Zhang 2013): the noise of single steps
    cancels out, the start is forgotten.

    >>> state, rule = ServerState.begin(np.zeros(1)), StepRule(1.0, averaging=1.0)
    >>> for w in (0.0, 3.0, 6.0):
    ...     state = averaged(state, rule, np.array([w]))
    >>> state.average
    array([4.])
    """
    rounds, course = state.rounds + 1, state.course
    share, average = 1.0, weights
    if rule.averaging and rounds > 1:
        share = (rule.averaging + 1) / (rounds + rule.averaging)
        average = state.average + share * (weights - state.average)
    course = None if course is None else course.averaged(share)
    return replace(state, weights=weights, average=average, rounds=rounds, course=course)


@dataclass(frozen=True)
class Round:
    """The model after one round, on the test data, and what the clients have spent and sent."""

    round: int
    epoch: int
    epsilon: float
    bits: int
    reports: int
    accuracy: float = math.nan
    loss: float = math.nan

    @property
    def misclassification(self) -> float:
        return 1 - self.accuracy


@dataclass
class History:
    """All rounds of a run and the weights at its end.

    Where the draws were ``seeded``, anyone who has the seed can undo the noise: the weights
    of such a simulation are not for release. The seed itself is not kept. ``preparation`` is what
    clients did with their records, as far as it was learnt from reports. ``fewest_reports`` is how
    many the smallest round had, of those that had any, and ``epochs_heard`` how many epochs had
    some, whether they are listed or not; ``privacy`` is the solution's.
    """

    rounds: list[Round] = field(default_factory=list)
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    seeded: bool = False
    preparation: Preparation | None = None
    fewest_reports: int = 0
    epochs_heard: int = 0
    privacy: Privacy | None = None

    @classmethod
    def of_records(
        cls,
        records: Iterable[RoundRecord],
        per_report: Epsilon,
        bits: int,
        scores: Mapping[int, tuple[float, float]],
    ) -> Self:
        """The history that a server's records tell, without weights.

        ε is the most that a client has spent: ``per_report`` for each epoch that has had a report.
        ``scores`` has accuracy and loss by the number of a round, from 1; not of every round.

        >>> from fedsel.server import RoundRecord
        >>> records = [RoundRecord(n, n // 2, taken, 0, 0, 0) for n, taken in enumerate([3, 0, 0])]
        >>> [row.epsilon for row in History.of_records(records, 0.5, 40, {}).rounds]
        [0.5, 0.5, 0.5]
        """
        rounds, heard = [], set[int]()
        for one in records:
            if one.accepted:
                heard.add(one.epoch)
            spent, sent = float(per_report * len(heard)), bits * one.accepted
            known = scores.get(one.round + 1, (math.nan, math.nan))
            rounds.append(Round(one.round + 1, one.epoch, spent, sent, one.accepted, *known))
        fewest = min((row.reports for row in rounds if row.reports), default=0)
        return cls(rounds, fewest_reports=fewest, epochs_heard=len(heard))

    def central(self, *, delta: float | None = None) -> CentralGuarantee:
        """The central guarantee that the reports would have if each round were shuffled.

        For a client of the smallest round, which others hide least, over the epochs that had
        reports. Nobody shuffles here: the ε of the rounds is what holds as it is.
        """
        if self.privacy is None or not self.fewest_reports:
            raise InvalidArgument("history", "empty", "a history with at least one report")
        return self.privacy.central(
            reports=self.fewest_reports, delta=delta, epochs=self.epochs_heard
        )

    @property
    def accuracy(self) -> float:
        """The accuracy after the last round."""
        return self.rounds[-1].accuracy

    def table(self) -> list[dict[str, float]]:
        """The rounds as rows of a table."""
        return [{**vars(r), "misclassification": r.misclassification} for r in self.rounds]
