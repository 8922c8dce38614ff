"""The plan of a run: everything that is fixed before the first report, for every front end.

A front end passes the requested parameters (`Recipe`) and what is public about the run
(`PublicFacts`) and about the records (`PublicRecords`); `plan_run` decides the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, final

from fedsel.auto._numbers import PublicFacts, reported_norm, resolve_auto, resolve_rate
from fedsel.errors import InvalidArgument
from fedsel.preparation import (
    FeatureScale,
    Plan,
    Preparation,
    PublicMeans,
    for_network,
    of_rows,
    shaped,
)
from fedsel.preparation._plan import ENTRY, OCTAVES, REACH, Pass
from fedsel.recipe import AUTO, Recipe
from fedsel.solutions import Solution, entry

PASSES = 7
"""The most alternating passes over spread and origin if no range is known."""


@final
@dataclass(frozen=True, eq=False)
class PublicRecords:
    """What is public about the records of clients.

    ``scale`` holds their declared bounds, ``means`` published means of features, and ``rows``
    (m, d) public records on that scale. ``loose`` marks features whose range may be far too wide,
    by default those of ``scale``. Clients divide records by their norm if ``unit``, and add an
    ``intercept``. The first rounds may learn more about ``learnable`` records; records that are not
    ``dense`` are never centred. Without ``mixed`` clients are told no matrix.
    """

    scale: FeatureScale
    means: PublicMeans | None = None
    rows: Any = None
    loose: tuple[bool, ...] | None = None
    unit: bool = True
    intercept: bool = True
    dense: bool = True
    learnable: bool = True
    mixed: bool = True

    @property
    def wide(self) -> tuple[bool, ...]:
        """The features whose range may be too wide."""
        return self.scale.loose if self.loose is None else self.loose

    def add_to(self, facts: PublicFacts) -> PublicFacts:
        """Add to the facts what remains to be learnt about the records."""
        offset, octaves = left_to_learn(self.scale, self.means)
        return replace(
            facts,
            offset=self.learnable and self.dense and offset,
            loose=octaves if self.learnable and any(self.wide) else 0,
        )

    def known(self, run: RunPlan, reports: float) -> Preparation | None:
        """The part of the preparation that is known before any round.

        ``reports`` is the number of reports in the whole run.
        """
        network, noise = run.facts.model == "network", 0.0
        if self.rows is not None and (network or run.facts.norm is not None):
            told = of_rows(
                self.rows,
                loose=self.scale.loose,
                unit=self.unit and not network,
                # Without an intercept a centre would act as one. A huge sparse X must stay sparse.
                centred=self.intercept and self.dense,
                intercept=self.intercept and not network,
            )
            # The clip of other solutions says nothing of how long a network's gradients are.
            comparable = not network or entry(run.recipe.solution).unit_records
            if self.dense and self.mixed and comparable:
                noise = noise_of_mean(run.recipe, run.solution, reports)
            return (for_network if network else shaped)(told, self.rows, noise)
        if self.means is None or run.facts.norm is not None or network:
            return None
        intercept = 1.0 if self.intercept else 0.0
        plain = Preparation.plain(len(self.scale.low), intercept=intercept, unit=False)
        return replace(plain, centre=self.means.centre(plain.spread))


@final
@dataclass(frozen=True, eq=False)
class RunPlan:
    """The decisions: the recipe in numbers, its solution, and the rounds that prepare."""

    facts: PublicFacts
    recipe: Recipe
    solution: Solution
    preparation: Plan | None = None


def plan_run(
    asked: Recipe,
    facts: PublicFacts,
    records: PublicRecords | None = None,
    *,
    solution: Solution | None = None,
) -> RunPlan:
    """Decide everything automatic, from public quantities only.

    If a ``solution`` is given, only the rate and the average of ``asked`` are decided.

    >>> bounds = PublicRecords(FeatureScale.of((0, 1), 3))
    >>> run = plan_run(Recipe(epsilon=4.0), PublicFacts(4, 100, 100, norm=1.0), bounds)
    >>> run.recipe.rho, run.preparation.centre_rounds
    (0.4, 10)
    """
    check_trains(asked)
    if records is not None:
        facts = records.add_to(facts)
        if not records.learnable:
            asked = replace(asked, spread=0.0, centre=0.0)
        if records.rows is not None:
            asked = without_preparation(asked)
    if solution is None:
        recipe = resolve_auto(asked, facts)
        solution = recipe.build()
    else:
        recipe = resolve_rate(asked, solution, facts)
    if records is None or records.rows is not None:
        return RunPlan(facts, recipe, solution)
    network = facts.model == "network"
    plan = plan_for(
        recipe,
        solution,
        loose=records.wide,
        rounds=facts.rounds // recipe.epochs,
        octaves=records.scale.octaves,
        unit=records.unit,
        network=network,
        known=records.means if network or facts.norm is not None else None,
    )
    return RunPlan(facts, recipe, solution, plan)


def check_trains(asked: Recipe) -> None:
    """Refuse a solution whose reports are answers to a question.

    >>> check_trains(Recipe("BR", epsilon=1.0))
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: solution = 'BR': must be one that trains, such as FJ, ...
    """
    if entry(asked.solution).answers:
        allowed = "one that trains, such as FJ, PS-PM or PM; this one asks a question: fedsel.ask"
        raise InvalidArgument("solution", asked.solution, allowed)


def plan_for(
    recipe: Recipe,
    solution: Solution,
    *,
    loose: tuple[bool, ...],
    rounds: int,
    octaves: int = OCTAVES,
    unit: bool = True,
    network: bool = False,
    known: PublicMeans | None = None,
) -> Plan | None:
    """The preparing rounds among the ``rounds`` of an epoch; None if there are none.

    ``loose`` marks features whose range may be too wide. Records have an intercept, except those of
    a network, which has its own. If public means are ``known`` there is a plan in any case,
    possibly of no rounds.

    >>> recipe = resolve_auto(Recipe(epsilon=1.0), PublicFacts(4, 100, 100, norm=1.0, offset=True))
    >>> plan_for(recipe, recipe.build(), loose=(False,) * 3, rounds=100).centre_rounds
    10
    """
    loose = loose if known is None else known.wide
    shares = {"spread": float(recipe.spread) * any(loose), "centre": float(recipe.centre)}
    counts = {name: math.ceil(share * rounds - 1e-9) for name, share in shares.items()}
    if not any(counts.values()) and known is None:
        return None
    if counts["centre"] and known is not None and known.complete:
        allowed = '"auto" or 0: the public means already give the centre of every feature'
        raise InvalidArgument("centre", recipe.centre, allowed)
    if sum(counts.values()) >= rounds:
        actual = f"{sum(counts.values())} of {rounds} rounds"
        raise InvalidArgument("centre", actual, "fewer, to leave rounds for training")
    classes = max(2, solution.dim // (len(loose) + 1))
    narrowed = counts["spread"] > 0 or (known is not None and any(known.loose))
    return Plan(
        features=len(loose),
        dim=solution.dim,
        spread_rounds=counts["spread"],
        centre_rounds=counts["centre"],
        loose=loose,
        radius=reported_norm(recipe),
        noise=solution.noise,
        octaves=octaves,
        unit=unit and not network,
        intercept=not network,
        scattered=solution.dim > len(loose) + 1,
        reach=REACH if narrowed and not network else 1.0,
        entry=ENTRY * math.sqrt(2 / classes),
        passes=_passes(counts["spread"], counts["centre"]) if octaves > OCTAVES else (),
        known=known,
    )


def _passes(spread_rounds: int, centre_rounds: int) -> tuple[Pass, ...]:
    """Alternate passes over spread and origin. Without a centre no origin is learnt.

    >>> _passes(4, 1), _passes(4, 0)
    (('spread', 'origin', 'spread'), ('spread', 'spread', 'spread', 'spread'))
    """
    turns: tuple[Pass, ...] = ("spread", "origin") * (PASSES // 2) + ("spread",)
    if not centre_rounds:
        return turns[::2][:spread_rounds]
    return turns[: (spread_rounds - 1) | 1] if spread_rounds else ()


def left_to_learn(scale: FeatureScale, known: PublicMeans | None) -> tuple[bool, int]:
    """``offset`` and ``loose`` of `PublicFacts`, for the features without a public mean.

    >>> scale = FeatureScale.of(([0, -9], [1, 9]), 2)
    >>> left_to_learn(scale, None), left_to_learn(scale, PublicMeans.of({0: 0.5}, scale))
    ((True, 16), (False, 16))
    """
    if known is None:
        return scale.offset, scale.octaves_loose
    return scale.offset_of(~known.given), scale.octaves * any(known.wide)


def without_preparation(recipe: Recipe) -> Recipe:
    """The recipe without preparing rounds, because public rows replace them."""
    for name in ("spread", "centre"):
        if getattr(recipe, name) not in (AUTO, 0.0):
            allowed = '"auto" or 0: public rows already give it'
            raise InvalidArgument(name, getattr(recipe, name), allowed)
    return replace(recipe, spread=0.0, centre=0.0)


def noise_of_mean(recipe: Recipe, solution: Solution, reports: float) -> float:
    """The variance of an entry of the mean of ``reports`` reports on records of norm 1.

    >>> recipe = resolve_auto(Recipe(epsilon=1.0), PublicFacts(4, 100, 100, norm=1.0))
    >>> round(noise_of_mean(recipe, recipe.build(), 10_000), 5)
    0.00058
    """
    return (solution.noise / reported_norm(recipe)) ** 2 / (reports * solution.dim)
