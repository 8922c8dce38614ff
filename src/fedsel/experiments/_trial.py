"""A cell: one point of an experiment, and the training runs that it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, final, get_args

import numpy as np

from fedsel._internal.models import Loss
from fedsel._internal.random import philox_key
from fedsel.auto import PublicFacts, PublicRecords, RunPlan, model_of, plan_run, with_share
from fedsel.data._synthetic import synthetic_parameters
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive
from fedsel.experiments._running import code_of
from fedsel.experiments._sources import Source, population, public_records
from fedsel.mechanisms._selection import Top
from fedsel.recipe import AUTO, Parameter, Recipe, parameters_of
from fedsel.simulation import Population, Training
from fedsel.simulation._validation import Score, Scores, held_out_run, one_history, one_run
from fedsel.solutions import Solution, entry

Row = dict[str, Any]
Validation = Literal["folds", "holdout"]
_MOST_REPEATS = 10_000
_OF_RECIPE = parameters_of(Recipe)
_PUBLIC = 14
"""The purpose of the seeds of public matrices."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What an experiment and each of its points share: records, rounds and validation.

    ``batch`` is a fraction of the training clients (float) or a count (int). The protocol "folds"
    is cross-validation; "holdout" trains ``repeats`` times on three fifths of the clients and
    judges on a validation fifth, new each time, and on a test fifth that is always the same. With
    ``curve`` the result has the misclassification after each round.
    """

    dataset: Annotated[str, Parameter("Synthetic data: syn-L or syn-H.", "data")] = "syn-L"
    draw: Annotated[int, Parameter("Seed of the synthetic data.", "data")] = 0
    clients: Annotated[
        int | None,
        Parameter(
            "Deal the records out to this many clients.", "data", unset="one for each record"
        ),
    ] = None
    skew: Annotated[
        float | None,
        Parameter("Label skew of --clients (Dirichlet; small is skewed).", "data", unset="none"),
    ] = None
    batch: Annotated[Top, Parameter("Clients of a round: a fraction or a count.", "training")] = (
        0.01
    )
    rounds: Annotated[
        int | None,
        Parameter("Stop after this many rounds.", "training", unset="every client reports E times"),
    ] = None
    dropout: Annotated[
        float, Parameter("The probability that a client does not answer.", "training")
    ] = 0.0
    protocol: Validation = "folds"
    curve: bool = False
    folds: Annotated[int, Parameter("Folds of cross-validation.", "validation")] = 5
    repeats: Annotated[int, Parameter("Repeats of cross-validation.", "validation")] = 10
    seed: Annotated[int, Parameter("Results depend on it alone.", "validation")] = 0

    def __post_init__(self) -> None:
        check_count("folds", self.folds, least=2)
        check_count("repeats", self.repeats, most=_MOST_REPEATS)
        check_count("seed", self.seed, least=0)
        check_count("draw", self.draw, least=0)
        for name in ("rounds", "clients"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.protocol not in get_args(Validation):
            raise InvalidArgument("protocol", self.protocol, '"folds" or "holdout"')
        if not isinstance(self.batch, float):
            check_count("batch", self.batch)
        elif not 0 < self.batch <= 1:
            raise InvalidArgument("batch", self.batch, "a fraction in (0, 1] or a count ≥ 1")
        if not 0 <= check_finite("dropout", self.dropout) < 1:
            raise InvalidArgument("dropout", self.dropout, "in [0, 1)")
        if self.skew is not None:
            check_positive("skew", self.skew)
            if self.clients is None:
                raise InvalidArgument("skew", self.skew, "omitted unless clients is set")


@final
@dataclass(frozen=True, kw_only=True)
class Cell(Conditions):
    """One point of an experiment: a recipe (ε is None where it has none) with a model."""

    model: Loss
    recipe: Recipe
    scale: str
    intercept: bool
    unit_records: bool

    kind: ClassVar[str] = "cell"

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything that the result depends on, beside data and code: one flat table."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "recipe"}
        shared = {name: getattr(self.recipe, p.field) for name, p in _OF_RECIPE.items()}
        for name in ("epsilon", "k"):  # plain numbers, as JSON reads them again
            if shared[name] is not None and not isinstance(shared[name], int):
                shared[name] = float(shared[name])
        known = entry(self.recipe.solution)
        composed = {"composed_by": code_of(known.compose)} if known.family == "own" else {}
        return {**own, **shared, **own, **composed}  # the seed is the cell's own

    @property
    def parts(self) -> int:
        """How many training runs it takes."""
        return self.repeats * (self.folds if self.protocol == "folds" else 1)

    @property
    def cost(self) -> float:
        """The entries of gradients in one part, roughly: for the time left."""
        projects = 2 if entry(self.recipe.solution).projected else 1
        return _size_of(self.dataset) * self.recipe.epochs * projects

    def setup(self, source: Source, part: int = 0) -> tuple[Population, Training]:
        """The clients as this cell wants them, and its training.

        Each part has a public matrix of its own. Where the first rounds prepare, records are on
        their public scale alone: clients prepare theirs by what is learnt.
        """
        if source.means and not self.intercept:
            allowed = "true with public means: centred records need an intercept"
            raise InvalidArgument("intercept", self.intercept, allowed)
        can = self.unit_records and self.intercept
        which = (source, self.dataset, self.draw, self.scale)
        records = public_records(*which, learnable=can)
        prepares = can and records is not None
        people = self._population(source, prepared=not prepares)
        kept, of = (3, 5) if self.protocol == "holdout" else (self.folds - 1, self.folds)
        if people.rows > 1 and self.protocol == "holdout":
            raise InvalidArgument("protocol", "holdout", '"folds" with more than two classes')
        if people.clients < of:
            raise InvalidArgument("folds", of, f"at most {people.clients}, the number of clients")
        members, batch = people.clients * kept // of, self.batch
        count = max(1, round(batch * members)) if isinstance(batch, float) else min(batch, members)
        entries = people.X.shape[1] + prepares
        run = self.plan(entries, count, members, part, records, rows=people.rows)
        known = None if records is None else records.known(run, members * run.recipe.epochs)
        if known is not None:
            people = self._population(source, prepared=False).prepared(known)
        elif prepares and run.preparation is None:
            people = self._population(source, prepared=True)
        training = Training(
            solution=run.solution,
            learning_rate=float(run.recipe.learning_rate),
            batch=count,
            reg=run.recipe.reg,
            dropout=self.dropout,
            seed=self.seed,
            rounds=self.rounds,
            averaging=float(run.recipe.averaging),
            plan=run.preparation,
        )
        return people, training

    def _population(self, source: Source, *, prepared: bool) -> Population:
        """Records with their intercept and norm, or on their public scale alone."""
        shape = (self.intercept and prepared, self.unit_records and prepared)
        where = (self.clients, self.skew, self.seed)
        return population(source, self.dataset, self.draw, self.scale, *shape, *where)

    def plan(
        self,
        dim: int,
        batch: int,
        members: int,
        part: int = 0,
        records: PublicRecords | None = None,
        *,
        rows: int = 1,
    ) -> RunPlan:
        """Everything automatic, for so many clients of a round and in all.

        A model has ``rows`` of ``dim`` weights each, one for each of more than two classes.
        Each part draws its own projection or codebook, so that no single one decides the result.
        """
        recipe = replace(self.recipe, dim=rows * dim)
        if entry(recipe.solution).public_matrix:  # the others do not depend on it
            recipe = replace(recipe, seed=philox_key(self.seed, _PUBLIC, part)[0])
        if recipe.mu == AUTO:
            recipe = with_share(recipe, batch)
        per_epoch = -(-members // batch)
        facts = PublicFacts(
            rows * dim,
            members / per_epoch,
            per_epoch * recipe.epochs,
            norm=1.0 if self.unit_records else None,
            features=None if rows == 1 else dim,
            classes=max(2, rows),
            model=model_of(self.model),
            intercept=self.intercept,
        )
        return plan_run(recipe, facts, records)

    def part(self, number: int, source: Source) -> Row:
        """One training run; the first also says what a report costs."""
        people, training = self.setup(source, number)
        about = {"about": _about(training, people, source)} if number == 0 else {}
        if self.protocol == "holdout":
            return {**held_out_run(training, people, number, self.model), **about}
        repeat, fold = divmod(number, self.folds)
        if self.curve:
            history = one_history(training, people, self.folds, repeat, fold, self.model)
            return {"curve": [r.misclassification for r in history.rounds], **about}
        score = one_run(training, people, self.folds, repeat, fold, self.model)
        loss = score.loss if math.isfinite(score.loss) else None  # as JSON holds it
        return {"accuracy": score.accuracy, "loss": loss, **about}

    def combine(self, parts: Sequence[Any]) -> Row:
        """The parameters, the scores and what a client pays."""
        row = {**self.parameters, **parts[0]["about"]}
        if self.protocol == "holdout":
            names = [name for name in parts[0] if name != "about"]
            return {**row, **{name: [p[name] for p in parts] for name in names}}
        if self.curve:
            curves = np.array([p["curve"] for p in parts])
            spread = curves.std(axis=0, ddof=1) if len(curves) > 1 else np.zeros(curves.shape[1])
            return {**row, "mean": curves.mean(axis=0).tolist(), "spread": spread.tolist()}
        scores = Scores(
            tuple(
                Score(*divmod(i, self.folds), p["accuracy"], p["loss"]) for i, p in enumerate(parts)
            )
        )
        return {
            **row,
            "accuracy": scores.accuracy,
            "deviation": scores.deviation,
            "misclassification": 1 - scores.accuracy,
            "runs": [[s.repeat, s.fold, s.accuracy, s.loss] for s in scores.runs],
        }


def _about(training: Training, people: Population, source: Source) -> Row:
    """What is reported beside accuracy; an infinite ε is null.

    ``majority`` is the accuracy of always saying the more frequent label; ``chosen`` is what was
    used where a parameter is automatic.
    """
    solution, plan = training.solution, training.plan
    privacy = solution.privacy
    private = privacy.ratio is not None
    return {
        "epsilon_per_report": privacy.per_report if private else None,
        "epsilon_total": privacy.total if private else None,
        "private": private,
        "within_budget": privacy.within_budget,
        "certified": private and privacy.certified,
        "privacy": privacy.note,
        "used": solution.name,
        "bits": solution.bits,
        "chosen": {
            "learning_rate": training.learning_rate,
            "mu": _selection_share(solution),
            "rho": getattr(solution.mechanism, "radius", None),
            "averaging": training.averaging,
            "spread_rounds": 0 if plan is None else plan.spread_rounds,
            "centre_rounds": 0 if plan is None else plan.centre_rounds,
            **({} if source.public is None else {"public_rows": len(source.public)}),
            **({"public_means": len(source.means)} if source.means else {}),
        },
        "majority": float(np.unique(people.y, return_counts=True)[1].max() / len(people.y)),
    }


def _selection_share(solution: Solution) -> float | None:
    """μ: the selection's share of the ε′ of a report; None without a selection."""
    epsilon = getattr(getattr(solution.mechanism, "selection", None), "epsilon", None)
    if epsilon is None or not solution.budget:
        return None
    return float(epsilon) / float(solution.budget)


def _size_of(dataset: str) -> float:
    """Entries of a synthetic data set, for a guess of its cost; any other counts as 1e6."""
    try:
        d, n, *_ = synthetic_parameters(dataset)
    except InvalidArgument:
        return 1e6
    return float(n * d)
