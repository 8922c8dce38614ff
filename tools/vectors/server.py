"""The server: from the reports of a round to their totals, the mean update and the next weights."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from fedsel._internal.random import stream
from fedsel.mechanisms._reports import Reports
from fedsel.preparation import advanced
from fedsel.recipe import Recipe
from fedsel.server._step import ServerState, StepRule, step
from fedsel.wire import Request
from tools.vectors.encoding import Case, integers, recipe_fields
from tools.vectors.updates import plan_fields, plans

ABOUT = (
    "Reports of a round, their totals in integers, the mean update that they stand for, the step "
    "of the weights and their average, what rounds that prepare teach, and the shares of answers."
)
CLOSE = 1e-9
_RUN = bytes(range(16))
_CLIENTS = 7


def cases() -> Iterator[Case]:
    """Every case."""
    for name in ("PM", "HM", "RS-OW", "PS-PM", "EXP-HM", "PE-Duchi", "J", "UJ", "RJ"):
        yield _trained(name)
    yield _trained("RJ", bases=3, averaging=2.0, reg=0.1)
    yield _trained("FJ", averaging=2.0, reg=0.1)
    yield _trained("FJ", dim=65, k=1)
    yield _trained("PM", epsilon=Fraction(15), averaging=3.0)
    yield _trained("PS-PM-O", reg=0.1)
    yield from _learnt()
    yield from _shares()


def _recipe(name: str, **changes: Any) -> Recipe:
    given: dict[str, Any] = {
        "epsilon": Fraction(3),
        "dim": 6,
        "mu": 0.2,
        "k": 2,
        "clip": 0.75,
        "learning_rate": 0.3,
        "averaging": 0.0,
        "rho": 1.5,
        "bases": None,
        "seed": 7,
        **changes,
    }
    return Recipe(name, **given)


def _trained(name: str, **changes: Any) -> Case:
    """Three rounds of a server; in the second nobody reports."""
    recipe = _recipe(name, **changes)
    solution, rule = recipe.build(), StepRule.of(recipe)
    state = ServerState.begin(np.linspace(-1, 1, solution.dim))
    form = Request(_RUN, 0, 0, recipe).format
    nothing = np.zeros(solution.dim, dtype=np.float32)
    rounds = []
    for number in range(3):
        turned, messages = solution.in_round(number), []
        totals = turned.totals()
        for client in range(0 if number == 1 else _CLIENTS):
            update = (np.arange(solution.dim) - client % 3 - 1.5).astype(np.float32) / 4
            report, _ = turned.encode(update, nothing, stream(26, number, client))
            messages.append(form.encode(number, report).hex())
            totals.add(Reports.of([report]))
        mean = turned.expand(totals.mean())
        state = step(state, rule, turned, totals)
        rounds.append(
            {
                "round": number,
                "reports": messages,
                "sums": [integers(row) for row in totals.sums],
                "mean": mean.tolist(),
                "weights": state.weights.tolist(),
                "average": state.average.tolist(),
            }
        )
    return {
        "kind": "rounds",
        "recipe": recipe_fields(recipe),
        "averaging": recipe.averaging,
        "reg": recipe.reg,
        "rate": rule.rate,
        "decay": rule.decay,
        "units": solution.alphabet.units.tolist(),
        "start": np.linspace(-1, 1, solution.dim).tolist(),
        "rounds": rounds,
        "tolerance": CLOSE,
    }


def _learnt() -> Iterator[Case]:
    for plan in plans():
        state = plan.begin
        for number in range(plan.rounds):
            mean = plan.radius * (np.arange(plan.dim) % 3 - 0.75) / 4
            before, state = state, advanced(plan, state, number, mean, 40_000)
            yield {
                "kind": "learnt",
                "plan": plan_fields(plan.to_dict()),
                "round": number,
                "before": before.preparation.to_dict(),
                "total_before": before.total.tolist(),
                "reports_before": before.reports,
                "mean": mean.tolist(),
                "reports": 40_000,
                "after": state.preparation.to_dict(),
                "tolerance": CLOSE,
            }


def _shares() -> Iterator[Case]:
    """What a server makes of answers; of none, too."""
    for dim, k, words, bases in (
        (2, 1, None, None),
        (6, 2, None, None),
        (6, 1, 7, 3),
        (9, 3, 31, 10),
    ):
        recipe = _recipe("BR", dim=dim, k=k, words=words, bases=bases, rho=None)
        solution, nothing = recipe.build(), np.zeros(dim, dtype=np.float32)
        form = Request(_RUN, 0, 0, recipe).format
        for clients in (0, 1, 20):
            totals, messages = solution.totals(), []
            for client in range(clients):
                answer = np.eye(dim, dtype=np.float32)[client % 3 % dim]
                report, _ = solution.encode(answer, nothing, stream(27, 0, client))
                messages.append(form.encode(0, report).hex())
                totals.add(Reports.of([report]))
            yield {
                "kind": "shares",
                "recipe": recipe_fields(recipe),
                "unit": float(solution.alphabet.units[0]),
                "reports": messages,
                "sums": integers(totals.sums[0]),
                "shares": solution.expand(totals.mean()).tolist(),
                "tolerance": CLOSE,
            }
