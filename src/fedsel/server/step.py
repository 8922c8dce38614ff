"""The server's step: one pure function from a state and a round's reports to the next state.

Simulator, trainer, estimator, aggregator and Flower strategy all step by it; the compiled rounds of
the simulator equal it to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fedsel.preparation import Plan, PlanState, advanced
from fedsel.recipe import Recipe
from fedsel.reports import Totals
from fedsel.solutions.base import Solution

Doubles = NDArray[np.float64]


@final
@dataclass(frozen=True)
class StepRule:
    """What the server does with a mean: the rate, λ of the decay that it applies, the average.

    ``decay`` is that of w ← w − decay·w before each step: α·λ where the server alone regularises.
    """

    rate: float
    decay: float = 0.0
    averaging: float = 0.0

    @classmethod
    def of(cls, recipe: Recipe) -> StepRule:
        """The rule of a recipe in which nothing is automatic any more."""
        recipe.require("learning_rate", "averaging")
        solution = recipe.build()
        decay = float(recipe.learning_rate) * recipe.reg if solution.decays_at_server else 0.0
        return cls(recipe.rate, decay, float(recipe.averaging))


@final
@dataclass(frozen=True, eq=False)
class ServerState:
    """The weights (d,) that clients work on, their average over the rounds, and the rounds done.

    The average is the model: free post-processing that takes noise away. Without one it is the
    weights themselves.
    """

    weights: Doubles
    average: Doubles
    rounds: int = 0

    @classmethod
    def begin(cls, weights: Doubles) -> ServerState:
        """Before the first round."""
        start = np.array(weights, dtype=np.float64)
        return cls(start, start, 0)


def step(
    state: ServerState,
    rule: StepRule,
    solution: Solution,
    totals: Totals,
    scales: Doubles | None = None,
) -> ServerState:
    """End a round: decode its totals, decay, step and average.

    ``solution`` is that of the round (`Solution.in_round`); ``scales`` (d,) are what clients have
    divided their updates by. A round without reports changes no weight.

    >>> from fedsel import Reports, solution
    >>> plain = solution("NP", dim=2)
    >>> totals = plain.totals()
    >>> totals.add(Reports([[0, 1], [0, 1]], [[1.0, 2.0], [3.0, 4.0]]))
    >>> step(ServerState.begin(np.zeros(2)), StepRule(rate=0.5), plain, totals).weights
    array([-1. , -1.5])
    """
    weights = state.weights
    if totals.count:
        mean = solution.expand(totals.mean())
        weights = stepped(weights, rule, mean if scales is None else mean * scales)
    return averaged(state, rule, weights)


def prepare(
    state: ServerState,
    learnt: PlanState,
    plan: Plan,
    rule: StepRule,
    solution: Solution,
    totals: Totals,
) -> tuple[ServerState, PlanState]:
    """End a round that prepares: what its reports tell is learnt, and no weight changes."""
    mean = solution.expand(totals.mean())
    after = advanced(plan, learnt, state.rounds, mean, totals.count)
    return averaged(state, rule, state.weights), after


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
    rounds = state.rounds + 1
    if rule.averaging == 0 or rounds == 1:
        return ServerState(weights, weights, rounds)
    share = (rule.averaging + 1) / (rounds + rule.averaging)
    return ServerState(weights, state.average + share * (weights - state.average), rounds)
