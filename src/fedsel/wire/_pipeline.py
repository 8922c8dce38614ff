"""Records whose public bounds the server knows: what a device does with them.

Bounds, preparation and plan travel beside the request, as text. They are public. In the rounds that
prepare, devices report on the records themselves; in all others they train on prepared ones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsel.auto._run_plan import plan_for
from fedsel.errors import InvalidArgument, check_count, check_vectors
from fedsel.preparation import FeatureScale, Plan, Preparation, PublicMeans
from fedsel.recipe import Recipe
from fedsel.wire._model_question import ModelQuestion

_MOST_OCTAVES = 64
_OF_EACH_FEATURE = ("spread", "centre", "origin")


@final
@dataclass(frozen=True, eq=False)
class RecordPipeline:
    """Public bounds of records, what is learnt about them, and which rounds learn it.

    >>> plain = RecordPipeline(FeatureScale.of((0, 4), 2), Preparation.plain(2, unit=False))
    >>> plain.records([[1.0, 9.0]])
    array([[0.25, 1.  , 1.  ]], dtype=float32)
    >>> [part.tolist() for part in plain.linear([[1.0, 2.0, 3.0]])]
    [[[0.25, 0.5]], [3.0]]
    """

    scale: FeatureScale
    preparation: Preparation
    plan: Plan | None = None

    def __post_init__(self) -> None:
        features = len(self.scale.low)
        if self.preparation.features != features:
            raise InvalidArgument(
                "preparation", self.preparation.features, f"of {features} features"
            )
        if self.plan is not None and self.plan.features != features:
            raise InvalidArgument("plan", self.plan.features, f"of {features} features")

    @classmethod
    def begin(
        cls,
        scale: FeatureScale,
        recipe: Recipe,
        rounds_per_epoch: int,
        *,
        linear: bool,
        known: PublicMeans | None = None,
    ) -> Self:
        """The first round's pipeline; a linear model's records get an intercept and norm 1."""
        plan = plan_for(
            recipe,
            recipe.build(),
            loose=scale.loose,
            rounds=rounds_per_epoch,
            octaves=scale.octaves,
            network=not linear,
            known=known,
        )
        plain = Preparation.plain(len(scale.low), intercept=float(linear), unit=linear)
        return cls(scale, plain if plan is None else plan.begin.preparation, plan)

    def records(self, X: Any) -> NDArray[np.float32]:
        """Raw records X (n, d) as a device trains on them, and as the model is judged on them."""
        return np.asarray(self.preparation.records(self.scale.apply(rows_of(X))))

    def fits(self, dim: int) -> bool:
        """Whether the pipeline suits a model of ``dim`` parameters."""
        return self.plan is None or self.plan.dim == dim

    def learns_in(self, number: int) -> bool:
        """Whether a round prepares: nodes report on their records then."""
        return self.plan is not None and self.plan.stage(number) != "training"

    def vector(self, number: int, X: Any) -> NDArray[np.float32]:
        """What a device with raw records X (m, d) reports on in a round that prepares: (dim,).

        The mean over its records.
        """
        if self.plan is None:
            raise InvalidArgument("plan", None, "set: without a plan no round prepares")
        return self.plan.vector(number, self.scale.apply(rows_of(X)), self.preparation)

    def linear(self, weights: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coefficients (m, d) and constants (m,) of raw records, for weights (m, size).

        Within the bounds, as `Preparation.linear`.
        """
        if np.ndim(weights) != 2:
            actual, allowed = f"of shape {np.shape(weights)}", "two-dimensional: weights[None]"
            raise InvalidArgument("weights", actual, f"{allowed} for a model of two classes")
        slopes, constants = self.preparation.linear(weights)
        slopes = slopes * self.scale.factor
        return slopes, constants - slopes @ self.scale.centre

    # --- as it travels --------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The pipeline in plain values; one that all features share is written once."""
        scale, plan, learnt = self.scale, self.plan, self.preparation.to_dict()
        each = {name: _short(learnt[name]) for name in _OF_EACH_FEATURE if name in learnt}
        return {
            "features": len(scale.low),
            "octaves": scale.octaves,
            "low": _short(scale.low.tolist()),
            "high": _short(scale.high.tolist()),
            "preparation": learnt | each,
            "plan": None
            if plan is None or not plan.rounds
            else {**plan.for_devices, "loose": _short(list(plan.loose))},
        }

    def encode(self) -> str:
        """The pipeline as text."""
        return json.dumps(self.to_dict(), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str, most: int) -> Self:
        """The pipeline of a text; anything else raises a ValueError, or an error of its parts."""
        return cls.of_dict(json.loads(text), most)

    @classmethod
    def of_dict(cls, parts: Any, most: int) -> Self:
        """The pipeline of plain values, with at most ``most`` features.

        Nothing of their size is built before that is known, because a few bytes may ask for any
        number.
        """
        features = check_count("features", parts["features"], most=most)
        octaves = check_count("octaves", parts["octaves"], most=_MOST_OCTAVES)
        low, high = (np.broadcast_to(_finite(n, parts[n]), features) for n in ("low", "high"))
        if not (low <= high).all():  # a feature that cannot vary has equal bounds
            raise InvalidArgument("low", "a number", "at most high")
        known = dict(parts["preparation"])
        for name in known.keys() & {*_OF_EACH_FEATURE}:
            known[name] = np.broadcast_to(known[name], features).tolist()
        plan = parts["plan"]
        if plan is not None:
            loose = np.broadcast_to(np.asarray(plan["loose"], dtype=bool), features)
            plan = Plan(**{**plan, "loose": tuple(loose.tolist())})
        return cls(FeatureScale(low, high, octaves), Preparation.of_dict(known), plan)


def preparing_text(pipeline: RecordPipeline | None, question: ModelQuestion | None) -> bytes:
    """What travels beside the weights: the pipeline, and in a round that measures the question."""
    if question is None:
        return (pipeline.encode() if pipeline is not None else "null").encode()
    own = None if pipeline is None else pipeline.to_dict()
    parts = {"measure": question.to_dict(), "pipeline": own}
    return json.dumps(parts, separators=(",", ":")).encode()


def measured_text(text: str, most: int) -> tuple[RecordPipeline, ModelQuestion]:
    """Pipeline and question of a round that measures; anything else raises an error."""
    parts = json.loads(text)
    question = ModelQuestion.of_dict(parts["measure"])
    return RecordPipeline.of_dict(parts["pipeline"], most), question


def _finite(name: str, values: Any) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise InvalidArgument(name, "a number", "finite")
    return numbers


def rows_of(X: Any) -> Any:
    """Records as an array (n, d); a sparse matrix stays one."""
    return X.tocsr() if hasattr(X, "tocsr") else check_vectors("records", X, ndim=2)


def _short(values: Any) -> Any:
    """A list of equal values as one of them."""
    if isinstance(values, list) and values and all(value == values[0] for value in values):
        return values[0]
    return values
