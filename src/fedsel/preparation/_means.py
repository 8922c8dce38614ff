"""Published means of features, in place of the rounds that would learn the centre.

A statistics office publishes the share of each level and the mean of each number. Such means are
public: they cost no ε and no round. They give the centre, and the spread of numbers that have one
sign. Where some features lack a mean, rounds learn the rest.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_float
from fedsel.preparation._plan import REACH, TYPICAL
from fedsel.preparation._public import FeatureScale
from fedsel.preparation._record import Doubles, Preparation

ARGUMENT = "public_mean"
INTERCEPT = 0.45
"""The intercept's entry over the norm that follows from means. More of it keeps the accuracy of
BANK at ε = 0.5, less of it raises that of ADULT at ε = 1 and every AUC."""
SPREAD = 1.25
"""The spread of a number of one sign over its mean; training clips at twice that."""
_NARROWEST = 1 / 128
"""The least spread that a mean gives. A mean far below its bound may belong to a feature that is
nearly always 0: if the other values were cut off, the mean would be far from the centre."""
_LEAST_NORM = 0.01
"""The least norm about the centre that follows from means, over √d: means may be wrong."""
_UNIFORM = 1 / 3
"""The variance of a number within bounds over the most that it can be."""


@final
@dataclass(frozen=True)
class PublicMeans:
    """Means of features on the public scale, [−1, 1]; None where a feature has none.

    ``low`` and ``high`` are the public bounds on that scale; ``loose`` features are numbers whose
    bounds may be far too wide, the others are taken as shares of levels.

    Proof: docs/proofs/preparation.md, L4.

    >>> scale = FeatureScale.of(([0, 0, 18], [1, 1, 98]), 3)
    >>> means = PublicMeans.of({"member": 0.3, "age": 42}, scale, names=("member", "owner", "age"))
    >>> means.values, means.complete
    ((0.3, None, -0.4), False)
    """

    values: tuple[float | None, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    loose: tuple[bool, ...]

    @classmethod
    def of(cls, means: Any, scale: FeatureScale, names: Sequence[str] | None = None) -> Self:
        """Scale means in the units of the features, in any form that `read_means` takes."""
        raw = read_means(means, scale.low, scale.high, names)
        return cls.scaled(raw, scale, scale.centre, scale.factor)

    @classmethod
    def scaled(cls, raw: Doubles, scale: FeatureScale, centre: Doubles, factor: Doubles) -> Self:
        """Scale means (d,) in the units of the features, NaN where there is none.

        The public scale is (x − centre)·factor, that of ``scale`` or another within its bounds.
        """
        values, low, high = ((end - centre) * factor for end in (raw, scale.low, scale.high))
        told = tuple(None if math.isnan(value) else value for value in values.tolist())
        return cls(told, tuple(low.tolist()), tuple(high.tolist()), scale.loose)

    @property
    def given(self) -> NDArray[np.bool_]:
        """Which features have a mean: (d,)."""
        return np.array([value is not None for value in self.values])

    @property
    def complete(self) -> bool:
        """Whether every feature has a mean, so that no round need learn the centre."""
        return None not in self.values

    def centre(self, spread: Doubles, origin: Doubles | float = 0.0) -> Doubles:
        """The centre (d,) of clip((x − origin)/spread, −1, 1), zero where a feature has no mean.

        Exactly the mean where the spread is 1; where it cuts off large values, a little more than
        what is left of it.

        >>> means = PublicMeans.of([1.0, np.nan], FeatureScale.of((0, 4), 2))
        >>> means.centre(np.array([0.5, 1.0])).tolist()
        [0.5, 0.0]
        """
        about = np.where(self.given, self._numbers - origin, 0.0)
        return np.clip(about / spread, -1.0, 1.0)

    @property
    def _numbers(self) -> Doubles:
        """The means (d,), zero where a feature has none."""
        return np.array([value or 0.0 for value in self.values])

    @property
    def wide(self) -> tuple[bool, ...]:
        """The features whose spread is left to learn: loose ones without a mean that gives it."""
        return tuple((self.loose & np.isnan(self._told_spread)).tolist())

    @property
    def _told_spread(self) -> Doubles:
        """SPREAD times the mean of a loose feature of one sign: the mean of its magnitudes.

        At least 1/128, so that too wide bounds stay too wide; NaN where a mean gives no spread.
        """
        spread = SPREAD * np.abs([math.nan if value is None else value for value in self.values])
        one_sign = (np.array(self.low) >= 0) | (np.array(self.high) <= 0)
        return np.where(self.loose & one_sign, np.clip(spread, _NARROWEST, 1.0), math.nan)

    def begin(
        self, plain: Preparation, *, origin: bool = False, reach: float = REACH
    ) -> Preparation:
        """The preparation before the first round: the spreads that means give, and what follows.

        With an ``origin``, loose features are measured from their means. Records will be clipped
        ``reach`` spreads out.

        >>> means = PublicMeans.of([10.0, 0.25], FeatureScale.of(([0, 0], [1000, 1]), 2))
        >>> begun = means.begin(Preparation.plain(2))
        >>> begun.spread.tolist(), begun.centre.round(12).tolist()
        ([0.0125, 1.0], [0.8, 0.25])
        """
        told = np.minimum(1.0, self._told_spread * (REACH / reach))
        begun = replace(plain, spread=np.where(np.isnan(told), plain.spread, told))
        if origin:
            begun = replace(begun, origin=np.where(self.loose, self._numbers, 0.0))
        return self.informed(begun)

    def informed(self, prepared: Preparation) -> Preparation:
        """The preparation with what follows from the means: the centre, and the norm about it.

        A feature within [a, b] of mean m has a variance of at most (m − a)(b − m): exactly that if
        it is 0 or 1, a third of it where a number is spread evenly. The intercept and the factor
        follow from the sum; records without an intercept of ours keep theirs.
        """
        origin = 0.0 if prepared.origin is None else prepared.origin
        centre = np.where(self.given, self.centre(prepared.spread, origin), prepared.centre)
        if prepared.intercept == 0:
            return replace(prepared, centre=centre)
        ends = (np.array(end) - origin for end in (self.low, self.high))
        low, high = (np.clip(end / prepared.spread, -REACH, REACH) for end in ends)
        most = (centre - low) * (high - centre)
        own = np.where(self.loose, _UNIFORM * most, most)
        squares = np.where(self.given, own, TYPICAL**2)
        norm = math.sqrt(max(float(squares.sum()), _LEAST_NORM**2 * len(centre)))
        return replace(prepared, centre=centre, intercept=INTERCEPT * norm, factor=1 / norm)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as a checkpoint keeps them."""
        return {name: list(value) for name, value in vars(self).items()}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(**{name: tuple(value) for name, value in values.items()})


def read_means(
    means: Any, low: Doubles, high: Doubles, names: Sequence[str] | None = None
) -> Doubles:
    """Means (d,) in the units of the features, NaN where there is none; within their bounds.

    ``means`` are by name or number (from 0) of the feature, a mapping or a Series, or an array (d,)
    with NaN where there is none.

    >>> read_means({1: 0.25}, np.zeros(2), np.ones(2)).tolist()
    [nan, 0.25]
    """
    values = np.full(len(low), math.nan)
    for j, key, value in _told(means, len(low), names):
        name = f"{ARGUMENT}[{key!r}]"
        within = f"a number in its public bounds, [{low[j]:g}, {high[j]:g}]"
        number = check_float(name, value, f"{within}; omit features whose mean is not known")
        if not low[j] <= number <= high[j]:
            remedy = "in the units of the feature, or declare wider bounds"
            raise InvalidArgument(name, number, f"{within}: {remedy}")
        if not math.isnan(values[j]):
            raise InvalidArgument(name, number, "the only mean of its feature")
        values[j] = number
    if np.isnan(values).all():
        raise InvalidArgument(ARGUMENT, means, "the mean of at least one feature, or None")
    return values


def _told(
    means: Any, d: int, names: Sequence[str] | None
) -> Iterator[tuple[int, str | int, object]]:
    """For each feature with a mean: its place, the user's name for it, and the given value."""
    if hasattr(means, "to_dict"):  # a Series: NaN where there is none
        told = means.to_dict().items()
        means = {k: v for k, v in told if not (isinstance(v, float) and math.isnan(v))}
    if isinstance(means, Mapping):
        places = {} if names is None else {str(name): j for j, name in enumerate(names)}
        for key, value in means.items():
            yield _place(key, value, places, d), key, value
        return
    for j, number in enumerate(_array(means, d).tolist()):
        if not math.isnan(number):
            yield j, j, number


def _array(means: Any, d: int) -> Doubles:
    allowed = f"{{feature: mean}}, or {d} numbers, NaN where a mean is not known"
    try:
        array = np.ma.filled(means, math.nan) if np.ma.isMaskedArray(means) else np.asarray(means)
    except (TypeError, ValueError):
        raise InvalidArgument(ARGUMENT, means, allowed) from None
    if array.shape != (d,) or array.dtype.kind not in "fiu":
        raise InvalidArgument(ARGUMENT, means, allowed)
    return array.astype(np.float64)


def _place(key: object, value: object, places: Mapping[str, int], d: int) -> int:
    """The place of the feature that a name or a number stands for."""
    if isinstance(key, str) and key in places:
        return places[key]
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < d:
        return int(key)
    if places:
        close = difflib.get_close_matches(str(key), places, n=3, cutoff=0.4)
        shown = ", ".join(map(repr, close or list(places)[:3]))
        allowed = f"the mean of a known feature, such as {shown}"
    else:
        which = "" if isinstance(key, str) else f", 0 … {d - 1}"  # d may be a guess before a model
        allowed = f"the mean of a feature by its number{which}: features have no names here"
    raise InvalidArgument(f"{ARGUMENT}[{key!r}]", value, allowed)
