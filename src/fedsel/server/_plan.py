"""What a server knows before it has seen the model: all that "auto" follows from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np

from fedsel._internal.settings import check_keys, check_omitted
from fedsel.auto import (
    Model,
    PublicFacts,
    PublicRecords,
    RunPlan,
    check_trains,
    plan_run,
    resolve_auto,
)
from fedsel.errors import InvalidArgument, check_count, check_positive
from fedsel.preparation import FeatureScale, GivenPreparation, PublicMeans
from fedsel.preparation._given import LARGEST_SENT, check_rows
from fedsel.recipe import AUTO, Recipe
from fedsel.server._measuring import Measuring, measuring_rounds
from fedsel.wire import RecordPipeline, check_sendable

_OWN = ("solution", "epsilon", "dim", "epochs", "learning_rate", "measure", "requested_solution")
"""Fields of a recipe that are parameters of their own, or follow from the model."""
_MOST_NUMBERED = 1 << 20
"""The largest number of a feature that is checked before the model is known."""
_FURTHER = [field.name for field in fields(Recipe) if field.name not in _OWN]


@final
@dataclass(frozen=True)
class ServerPlan:
    """The public parameters of a run, checked before any node connects.

    ``asked`` is the recipe as it was given; the others are as in `FedSelStrategy`.
    """

    asked: Recipe
    nodes: int
    rounds_per_epoch: int = 1
    norm: float | None = None
    records_per_node: int | None = None
    feature_range: Any = None
    features: int | None = None
    public_mean: Any = None
    names: tuple[str, ...] | None = None
    """The names of the features, for public means by name."""
    model: Model | None = None
    """What is trained; None: a linear model where the ``norm`` of its records is known."""
    public_rows: Any = None
    start_pipeline: RecordPipeline | None = None
    """How the model that training starts with prepares records: devices do the same."""
    trained: bool = False
    """Whether a network starts with weights that were trained on public data."""

    def __post_init__(self) -> None:
        check_count("nodes", self.nodes)
        rounds = check_count("rounds_per_epoch", self.rounds_per_epoch)
        if rounds > self.nodes:
            allowed = f"at most {self.nodes}, so that each round of an epoch has a client"
            raise InvalidArgument("rounds_per_epoch", rounds, allowed)
        if self.norm is not None:
            check_positive("norm", self.norm)
            if self.trained:
                allowed = '"random" with norm: a linear model takes the same steps from any start'
                raise InvalidArgument("start", "trained", allowed)
        if self.records_per_node is not None:
            if self.norm is None:
                check_omitted("omitted unless norm is set", records_per_node=self.records_per_node)
            check_count("records_per_node", self.records_per_node)
        self._check_records()
        check_trains(self.asked)
        measuring_rounds(self.asked.measure, rounds, self.asked.epochs)
        # k and words need the model's size.
        small = replace(self.asked, k=1, words=None)
        recipe = check_sendable(
            resolve_auto(small, PublicFacts(dim=2, clients=self.batch, rounds=1))
        )
        if self.asked.reg and not recipe.build().decays_at_server:
            name = self.asked.solution
            raise InvalidArgument(
                "reg", self.asked.reg, f"0 for {name}: add λ to the loss of your app instead"
            )
        if self.feature_range is not None:
            of_model = self._features(2) != self._features(3)
            features = self._fewest_features if of_model else self._features(2)
            self.preparing_of(replace(recipe, dim=features + 1))

    def _check_records(self) -> None:
        if self.features is not None:
            check_count("features", self.features)
        if self.feature_range is not None:
            if self.norm not in (None, 1.0):
                allowed = "1.0, which prepared records have, or None for a network"
                raise InvalidArgument("norm", self.norm, allowed)
            if self.public_rows is not None:
                features = None if self._features(2) != self._features(3) else self._features(2)
                rows = check_rows(self.public_rows, features)
                object.__setattr__(self, "public_rows", rows)
                allowed = "omitted with public_rows, which give the centre"
                check_omitted(allowed, public_mean=self.public_mean)
            return
        given = {"features": self.features, "public_mean": self.public_mean}
        given["public_rows"] = None if self.public_rows is None else "rows"
        check_omitted("omitted without feature_range", **given)
        for name in ("centre", "spread"):
            if getattr(self.asked, name) not in (AUTO, 0.0):
                raise InvalidArgument(name, getattr(self.asked, name), "0 without feature_range")

    def _features(self, dim: int) -> int:
        """The entries of a record: as given, as many as there are bounds, or as the model has."""
        if self.features is not None:
            return self.features
        if np.ndim(self.public_rows) == 2:
            return int(np.shape(self.public_rows)[1])
        try:
            bounds = np.broadcast(*self.feature_range).size
        except (TypeError, ValueError):
            bounds = 1
        return bounds if bounds > 1 else dim - 1

    @property
    def _fewest_features(self) -> int:
        """How many a record must have for the public means to fit, before the model is known.

        One more than the largest number given: another may lack its mean.
        """
        means = self.public_mean
        if isinstance(means, Mapping):
            numbers = [key for key in means if isinstance(key, int) and key < _MOST_NUMBERED]
            return 2 + max(numbers, default=0)
        return max(1, int(np.size(means)))

    @property
    def batch(self) -> int:
        """The planned number of nodes in a round."""
        return max(1, self.nodes // self.rounds_per_epoch)

    @property
    def training_rounds(self) -> int:
        """The rounds of an epoch that do not measure."""
        measure, epochs = self.asked.measure, self.asked.epochs
        return self.rounds_per_epoch - measuring_rounds(measure, self.rounds_per_epoch, epochs)

    def measuring_of(self, recipe: Recipe, classes: int | None) -> Measuring | None:
        """Which rounds measure a model of so many classes (0: numbers); None if none does."""
        if not recipe.measure:
            return None
        if classes is None:
            allowed = "0 unless it is known what the model predicts: with a schema, or classes"
            raise InvalidArgument("measure", recipe.measure, allowed)
        linear = self.norm is not None and classes > 0
        return Measuring.planned(recipe, self.rounds_per_epoch, self.nodes, classes, linear=linear)

    def recipe_of(self, dim: int, scales: Iterable[float] = (1.0,)) -> Recipe:
        """The recipe for a model of d = ``dim`` parameters: numbers where "auto" was."""
        asked = self.asked
        if self.norm is None and asked.rho == AUTO:
            asked = replace(asked, rho=None)
        bounds = self.bounds_of(dim)
        records = None if bounds is None else self._records(bounds)
        recipe = plan_run(asked, self._facts(dim, bounds), records).recipe
        # The server works on w/scale: there a decay by α·scale·λ is one by α·(scale·λ).
        spread = math.sqrt(float(np.mean(np.square(list(scales)))))
        recipe = replace(recipe, reg=recipe.reg * spread)
        if asked.learning_rate != AUTO:
            return recipe
        return replace(recipe, learning_rate=float(recipe.learning_rate) / spread)

    def _facts(self, dim: int, bounds: FeatureScale | None) -> PublicFacts:
        known = self.norm is not None
        rows = 1 if bounds is None or not known else dim // (len(bounds.low) + 1)
        return PublicFacts(
            dim=dim,
            clients=self.batch,
            rounds=self.asked.epochs * self.training_rounds,
            norm=self.norm,
            features=None if bounds is None else len(bounds.low),
            records=self.records_per_node or 1,
            classes=max(2, rows),
            model=self.model or ("linear" if known else "network"),
            trained=self.trained,
        )

    def _records(self, bounds: FeatureScale) -> PublicRecords:
        return PublicRecords(
            bounds,
            self._means(bounds),
            None if self.public_rows is None else bounds.apply(self.public_rows),
            learnable=self.start_pipeline is None,
            mixed=len(bounds.low) < LARGEST_SENT,
        )

    def bounds_of(self, dim: int) -> FeatureScale | None:
        """The bounds of the records of a model with ``dim`` parameters; None without any."""
        if self.start_pipeline is not None:
            return self.start_pipeline.scale
        if self.feature_range is None:
            return None
        features = self._features(dim)
        entries = features + 1
        if features < 1 or dim < entries or (self.norm is not None and dim % entries):
            allowed = f"such that features + 1 divides the {dim} parameters of the model"
            if self.features is None and self.public_rows is not None:
                raise InvalidArgument("public_rows", f"of {features} columns", allowed)
            raise InvalidArgument("features", features, allowed)
        declared = FeatureScale.declared(self.feature_range, features)
        return declared if self.public_rows is None else declared.completed(self.public_rows)

    def preparing_of(self, recipe: Recipe) -> RecordPipeline | None:
        """What nodes do with their records in the first round; None without bounds."""
        dim = int(recipe.dim or 0)
        bounds = self.bounds_of(dim)
        if bounds is None or self.start_pipeline is not None:
            return self.start_pipeline
        records = self._records(bounds)
        if self.public_rows is not None:
            run = RunPlan(self._facts(dim, bounds), recipe, recipe.build())
            given = records.known(run, recipe.epochs * self.nodes)
            if given is not None:
                return RecordPipeline(bounds, given)
        linear, known = self.norm is not None, records.means
        return RecordPipeline.begin(
            bounds, recipe, self.rounds_per_epoch, linear=linear, known=known
        )

    def given(self, begun: RecordPipeline | None) -> GivenPreparation | None:
        """The preparation before the first round, if public rows or a model to start with give it.

        ``begun`` is `preparing_of`.
        """
        if begun is None or (self.public_rows is None and self.start_pipeline is None):
            return None
        rows, digest = self.public_rows, hashlib.sha256()
        if rows is None:
            digest.update(begun.encode().encode())
        else:  # not of what follows from them: another machine may compute other last bits
            for part in (rows, begun.scale.low, begun.scale.high):
                digest.update(np.ascontiguousarray(part, "<f8").tobytes())
        count = 0 if rows is None else len(rows)
        return GivenPreparation(begun.preparation, count, digest.hexdigest())

    def _means(self, bounds: FeatureScale) -> PublicMeans | None:
        """The public means, on the scale of the bounds."""
        if self.public_mean is None:
            return None
        return PublicMeans.of(self.public_mean, bounds, self.names)


def check_classes(classes: object) -> int:
    """How many classes a model tells apart; 0 if it predicts numbers.

    >>> check_classes(1)
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: classes = 1: must be 0 for numbers, or at least 2
    """
    count = check_count("classes", classes, least=0)
    if count == 1:
        raise InvalidArgument("classes", classes, "0 for numbers, or at least 2")
    return count


def recipe_asked(further: dict[str, Any], **own: Any) -> Recipe:
    """The recipe of these parameters; of the further ones, unknown names are refused."""
    check_keys(further, _FURTHER, kind="parameter")
    return Recipe(**own, **further)
