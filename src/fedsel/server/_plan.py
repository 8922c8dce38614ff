"""What a server knows before it has seen the model: all that "auto" follows from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np

from fedsel._internal.settings import check_keys
from fedsel.auto import Model, PublicFacts, PublicRecords, plan_run, resolve_auto
from fedsel.errors import InvalidArgument, check_count, check_positive
from fedsel.preparation import FeatureScale, PublicMeans
from fedsel.recipe import AUTO, Recipe
from fedsel.wire import RecordPipeline, check_sendable

_OWN = ("solution", "epsilon", "dim", "epochs", "learning_rate", "requested_solution")
"""Fields of a recipe that are parameters of their own, or follow from the model."""
_MOST_NUMBERED = 1 << 20
"""Beyond it the number of a feature is not tried before the model is known."""
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
    """Of the features, for public means by name."""
    model: Model | None = None
    """What is trained; None: a linear model where the ``norm`` of its records is known."""

    def __post_init__(self) -> None:
        check_count("nodes", self.nodes)
        check_count("rounds_per_epoch", self.rounds_per_epoch, most=self.nodes)
        if self.norm is not None:
            check_positive("norm", self.norm)
        if self.records_per_node is not None:
            if self.norm is None:
                raise InvalidArgument(
                    "records_per_node", self.records_per_node, "omitted unless norm is set"
                )
            check_count("records_per_node", self.records_per_node)
        self._check_records()
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
            return
        if self.features is not None:
            raise InvalidArgument("features", self.features, "omitted without feature_range")
        if self.public_mean is not None:
            raise InvalidArgument("public_mean", self.public_mean, "omitted without feature_range")
        for name in ("centre", "spread"):
            if getattr(self.asked, name) not in (AUTO, 0.0):
                raise InvalidArgument(name, getattr(self.asked, name), "0 without feature_range")

    def _features(self, dim: int) -> int:
        """The entries of a record: as given, as many as there are bounds, or as the model has."""
        if self.features is not None:
            return self.features
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

    def recipe_of(self, dim: int, scales: Iterable[float] = (1.0,)) -> Recipe:
        """The recipe for a model of d = ``dim`` parameters: numbers where "auto" was."""
        known, asked = self.norm is not None, self.asked
        if not known and asked.rho == AUTO:
            asked = replace(asked, rho=None)
        bounds = self.bounds_of(dim)
        rows = 1 if bounds is None or not known else dim // (len(bounds.low) + 1)
        records = None if bounds is None else PublicRecords(bounds, self._means(bounds))
        facts = PublicFacts(
            dim=dim,
            clients=self.batch,
            rounds=asked.epochs * self.rounds_per_epoch,
            norm=self.norm,
            features=None if bounds is None else len(bounds.low),
            records=self.records_per_node or 1,
            classes=max(2, rows),
            model=self.model or ("linear" if known else "network"),
        )
        recipe = plan_run(asked, facts, records).recipe
        # The server works on w/scale: there a decay by α·scale·λ is one by α·(scale·λ).
        spread = math.sqrt(float(np.mean(np.square(list(scales)))))
        recipe = replace(recipe, reg=recipe.reg * spread)
        if asked.learning_rate != AUTO:
            return recipe
        return replace(recipe, learning_rate=float(recipe.learning_rate) / spread)

    def bounds_of(self, dim: int) -> FeatureScale | None:
        """The bounds of the records of a model with ``dim`` parameters; None without any."""
        if self.feature_range is None:
            return None
        features = self._features(dim)
        entries = features + 1
        if features < 1 or dim < entries or (self.norm is not None and dim % entries):
            allowed = f"such that features + 1 divides the {dim} parameters of the model"
            raise InvalidArgument("features", features, allowed)
        return FeatureScale.declared(self.feature_range, features)

    def preparing_of(self, recipe: Recipe) -> RecordPipeline | None:
        """What nodes do with their records in the first round; None without bounds."""
        bounds = self.bounds_of(int(recipe.dim or 0))
        if bounds is None:
            return None
        linear = self.norm is not None
        known = self._means(bounds)
        return RecordPipeline.begin(
            bounds, recipe, self.rounds_per_epoch, linear=linear, known=known
        )

    def _means(self, bounds: FeatureScale) -> PublicMeans | None:
        """The public means, on the scale of the bounds."""
        if self.public_mean is None:
            return None
        return PublicMeans.of(self.public_mean, bounds, self.names)


def recipe_asked(further: dict[str, Any], **own: Any) -> Recipe:
    """The recipe of these parameters; of the further ones, unknown names are refused."""
    check_keys(further, _FURTHER, kind="parameter")
    return Recipe(**own, **further)
