"""Which rounds prepare, what their clients report on, and what the server makes of the reports.

First the spreads, where declared ranges may be far wider than the records; then the centre.

- *Spread.* A client reports ℓ_j = −log₂(4|x_j|/spread_j)/octaves of each such feature, the mean of
  its others where x_j = 0. The mean of the reports is shrunk, first to what all features have in
  common, then to nothing (James and Stein 1961, Lindley 1962): what is not told apart from noise
  changes nothing. It is done in two passes or three, each about what was learnt before.
- *Centre.* A client reports u = (x, κ)/‖(x, κ)‖ with a public κ. The mean of u is shrunk to zero;
  its last entry tells the norm of a typical record, from which the intercept's entry follows.
- *Origin.* A year, 1985 ± 12, is narrow about its mean and wide about zero. Where nobody knows any
  range, passes over the spreads take turns with passes over the origin, which learn a centre of
  those features alone. The next pass measures x from there. Each pass looks closer than the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, final, get_args

import numpy as np
from numpy.typing import NDArray

from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive
from fedsel.preparation._record import WIDEST, Doubles, Preparation, unit_rows

if TYPE_CHECKING:
    from fedsel.preparation._means import PublicMeans

OCTAVES = 16
"""The number of factors of two by which a declared range may be too wide."""
REACH = 2.0
"""How many spreads from their origin records are clipped in training, where spreads are learnt."""
MARGIN = 4.0
"""The spread of a feature over the geometric mean of its magnitudes."""
INTERCEPT = 0.3
"""The intercept's entry over the norm of a typical record where nothing is learnt of records."""
ENTRY = 0.4
"""The same where something is learnt, for two classes, and √(2/C) of it for C. With a smaller entry
the few records of a rare class hardly move a threshold."""
KAPPA = 0.1
"""κ/√d: rather too small than too large, which would drown the records."""
TYPICAL = 0.4
"""A typical entry's magnitude where nothing is learnt."""
_REACH = 0.75
"""ℓ beyond which a report on spreads saturates: 12 of 16 octaves."""
_CLOSEST = 4
"""How often `_REACH` is halved at most, as passes look closer: to 3 of 64 octaves."""
_LEAST, _MOST = 0.1, 0.97
"""Bounds of κ over the norm of a typical record, which is estimated."""
_LEAST_SPREAD = 0.1
"""The least share of the mean square norm that lies about the centre: both are estimated."""

ON_RECORDS = (
    "reported on their record in place of a gradient, by the same mechanism and as their only"
    " report of that epoch"
)
"""What clients of the rounds that prepare did, as statements of privacy say it."""

Pass = Literal["spread", "origin"]
Stage = Pass | Literal["centre", "training"]


@final
@dataclass(frozen=True)
class Plan:
    """The public parameters of the rounds that prepare: all that clients and server must know.

    Updates have ``dim`` entries; of a record's ``features`` those that are ``loose`` have ranges
    that may be far too wide. ``radius`` is the norm of what is reported (ρ, or 1 without one) and
    ``noise`` that of one decoded report (`Solution.noise`). Where what is trained has an
    ``intercept`` of its own, records get none. Where ``scattered``, a record's entries do not lie
    side by side in a longer vector: a rotated basis repeats itself on such a block, and the mean of
    many reports at a large ε is then too short. What is ``known``, published means of features, is
    not learnt: that is the server's affair, and devices need not know. A plan of no rounds at all
    is there for what is known.

    Once all is learnt, records are clipped ``reach`` spreads out, for their tails tell something,
    and their intercept has ``entry`` times the norm of a typical one.

    With ``passes``, each of "spread" or "origin", the ``spread_rounds`` are divided among them, and
    the spreads begin in the middle of the octaves. Without, all passes are over the spreads.

    Proof: docs/proofs/preparation.md, L1, L2.
    """

    features: int
    dim: int
    spread_rounds: int
    centre_rounds: int
    loose: tuple[bool, ...]
    radius: float
    noise: float
    octaves: int = OCTAVES
    unit: bool = True
    intercept: bool = True
    scattered: bool = False
    passes: tuple[Pass, ...] = ()
    reach: float = 1.0
    entry: float = INTERCEPT
    known: PublicMeans | None = None

    def __post_init__(self) -> None:
        check_count("features", self.features)
        check_count("dim", self.dim, least=self.features + 1)
        check_count("spread_rounds", self.spread_rounds, least=0)
        check_count("centre_rounds", self.centre_rounds, least=0)
        check_count("octaves", self.octaves)
        check_positive("radius", self.radius)
        if len(self.loose) != self.features:
            raise InvalidArgument("loose", f"{len(self.loose)} values", f"{self.features} values")
        if self.spread_rounds and not any(self.loose):
            raise InvalidArgument("spread_rounds", self.spread_rounds, "0: no range is loose")
        object.__setattr__(self, "passes", tuple(self.passes))
        if not {*self.passes} <= {*get_args(Pass)} or len(self.passes) > self.spread_rounds:
            allowed = f'at most {self.spread_rounds} (spread_rounds), each "spread" or "origin"'
            raise InvalidArgument("passes", self.passes, allowed)
        check_positive("entry", self.entry)
        if not 1 <= check_finite("reach", self.reach) <= WIDEST:
            raise InvalidArgument("reach", self.reach, f"in [1, {WIDEST:g}]")

    @property
    def rounds(self) -> int:
        """How many rounds prepare; training begins with the next one."""
        return self.spread_rounds + self.centre_rounds

    @property
    def ends(self) -> tuple[int, ...]:
        """The rounds after which something is learnt: the spreads in passes, then the centre."""
        passes = len(self.passes) or (2 if self.octaves <= OCTAVES else 3)
        spreads = {-(-self.spread_rounds * done // passes) - 1 for done in range(1, passes + 1)}
        return (*sorted(spreads), self.rounds - 1)

    def stage(self, number: int) -> Stage:
        """What a round is for."""
        if number < self.spread_rounds:
            return self.passes[self._done(number)] if self.passes else "spread"
        return "centre" if number < self.rounds else "training"

    @property
    def begin(self) -> PlanState:
        """The state before the first report."""
        plain = unlearnt(self.features, unit=self.unit)
        if self.passes:
            middle = min(1.0, MARGIN * 2.0 ** -(self.octaves // 2))
            plain = replace(plain, spread=np.where(self.loose, middle, 1.0))
        if not self.intercept:
            plain = replace(plain, intercept=0.0, factor=1.0)
        if self.known is not None:
            plain = self.known.begin(plain, origin=bool(self.passes), reach=self.reach)
        if not self.rounds:
            plain = plain.widened(self.reach)
        return PlanState(plain, np.zeros(self.dim), 0)

    def to_dict(self) -> dict[str, Any]:
        """Every number as plain values, without those of later versions that are not used."""
        unused = {"passes": (), "reach": 1.0, "entry": INTERCEPT, "known": self.known}
        return {n: v for n, v in vars(self).items() if n not in unused or v != unused[n]}

    @property
    def for_devices(self) -> dict[str, Any]:
        """The fields that devices need: what they report on, not what the server derives."""
        return {n: v for n, v in self.to_dict().items() if n not in ("reach", "entry")}

    @property
    def _lacking(self) -> NDArray[np.bool_]:
        """The features whose mean is not known."""
        return np.ones(self.features, bool) if self.known is None else ~self.known.given

    def _informed(self, learnt: Preparation) -> Preparation:
        return learnt if self.known is None else self.known.informed(learnt)

    # --- what clients report --------------------------------------------------------------------

    def vectors(self, number: int, X: Any, learnt: Preparation) -> NDArray[np.float32]:
        """The vectors (n, dim) on which clients with records X (n, d) report in a round.

        Their norms are at most ``radius``, but for spreads beyond most octaves.
        """
        rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        vectors = np.zeros((len(rows), self.dim), dtype=np.float32)
        stage, columns = self.stage(number), self._columns(number)
        if stage == "training":
            raise InvalidArgument("number", number, f"below {self.rounds}: the others train")
        if stage == "spread":
            factor = self.radius / (self._reach(number) * math.sqrt(len(columns)))
            times = MARGIN / learnt.spread[columns]
            logs = _octaves(learnt.about(rows)[:, columns] * times, self.octaves)
            vectors[:, self._places[columns]] = factor * logs
        else:
            wide = np.full((len(rows), len(columns) + 1), _kappa(columns))
            wide[:, :-1] = learnt.within(rows)[:, columns]
            places = self._places[[*columns, self.features]]
            vectors[:, places] = np.float32(self.radius) * unit_rows(wide)
        return vectors

    def vector(self, number: int, X: Any, learnt: Preparation) -> NDArray[np.float32]:
        """The vector (dim,) of one client that holds all records X (m, d): the mean over them."""
        mean = self.vectors(number, X, learnt).mean(axis=0, dtype=np.float64)
        return np.asarray(mean, dtype=np.float32)

    # --- what the server learns -----------------------------------------------------------------

    def learn_spread(
        self, learnt: Preparation, mean: Doubles, reports: int, number: int = 0
    ) -> Preparation:
        """The spreads, from the mean of what was reported on them up to a round."""
        columns = np.flatnonzero(self.loose)
        count = len(columns)
        factor = self._reach(number) * math.sqrt(count) / self.radius
        logs = factor * mean[self._places[columns]]
        noise = (factor * self.noise) ** 2 / (reports * self.dim)  # variance of each entry
        common = float(logs.mean())
        own = logs - common
        common *= _kept(common**2, noise / count)
        own *= _kept(float(own @ own), noise * max(1, count - 3))
        spread = learnt.spread.copy()
        octaves = self.octaves * np.clip(common + own, -1.0, 1.0)
        spread[columns] = np.minimum(1.0, spread[columns] * power_of_two(-octaves))
        return self._informed(replace(learnt, spread=spread))

    def learn_origin(self, learnt: Preparation, mean: Doubles, reports: int) -> Preparation:
        """The origin of the loose features, from the mean of what was reported on them."""
        columns = np.flatnonzero(self.loose)
        lacking = columns[self._lacking[columns]]
        moved, _ = self._mean(lacking, _kappa(columns), mean, reports)
        origin = np.zeros(self.features) if learnt.origin is None else learnt.origin.copy()
        origin[lacking] += learnt.spread[lacking] * np.clip(moved, -1.0, 1.0)
        return self._informed(replace(learnt, origin=origin))

    def learn_centre(self, learnt: Preparation, mean: Doubles, reports: int) -> Preparation:
        """Centre and intercept, from the mean of what was reported on records.

        A mean that is known stays what it is; the others are shrunk by themselves.
        """
        columns = np.arange(self.features)
        lacking = np.flatnonzero(self._lacking)
        centre = learnt.centre.copy()
        centre[lacking], constant = self._mean(lacking, _kappa(columns), mean, reports)
        if not self.intercept:
            return replace(learnt, centre=centre)
        square_norm = _kappa(columns) ** 2 * (1 / constant**2 - 1)
        about = max(_LEAST_SPREAD * square_norm, square_norm - float(centre @ centre))
        norm = math.sqrt(about)
        return replace(learnt, centre=centre, intercept=self.entry * norm, factor=1 / norm)

    def _mean(
        self, columns: NDArray[np.int64], kappa: float, mean: Doubles, reports: int
    ) -> tuple[Doubles, float]:
        """The mean of these features, shrunk to zero, and κ over the norm of a typical record."""
        told = mean[self._places] / self.radius
        direction = told[columns]
        noise = (self.noise / self.radius) ** 2 / reports * len(columns) / self.dim
        direction = direction * _kept(float(direction @ direction), noise)
        constant = min(max(float(told[self.features]), _LEAST), _MOST)
        return direction * (kappa / constant), constant

    def _columns(self, number: int) -> NDArray[np.int64]:
        """The features that a round that prepares asks for."""
        if self.stage(number) == "centre":
            return np.arange(self.features)
        return np.flatnonzero(self.loose)

    def _done(self, number: int) -> int:
        """How many of the ``passes`` are over before a round among the ``spread_rounds``."""
        return sum(number > end for end in self.ends[: len(self.passes)])

    def _reach(self, number: int) -> float:
        """ℓ beyond which a report on spreads saturates in a round."""
        if not self.passes:
            return _REACH
        closer = self.passes[: self._done(number)].count("spread")
        return math.ldexp(_REACH, -min(closer + 2, _CLOSEST))

    @property
    def _places(self) -> NDArray[np.int64]:
        """Where the entries of (x, κ) lie in a vector: (features + 1,)."""
        if not self.scattered:
            return np.arange(self.features + 1)
        return _scattered(self.dim)[: self.features + 1]


def _kappa(columns: NDArray[np.int64]) -> float:
    return KAPPA * math.sqrt(len(columns))


def unlearnt(features: int, *, unit: bool) -> Preparation:
    """The preparation where nothing was learnt: records as they are, and a default intercept."""
    norm = TYPICAL * math.sqrt(features)
    return Preparation.plain(features, intercept=INTERCEPT * norm, unit=unit, factor=1 / norm)


@final
@dataclass(frozen=True, eq=False)
class PlanState:
    """What is learnt so far, and the sum of this stage's decoded reports (dim,) and their count."""

    preparation: Preparation
    total: Doubles
    reports: int


def advanced(plan: Plan, state: PlanState, number: int, mean: Doubles, reports: int) -> PlanState:
    """The state after a round whose reports were decoded to this mean (dim,): a pure function.

    Where nobody reported in a whole stage, nothing is learnt and everything stays as it was.
    """
    total, count = state.total + reports * mean, state.reports + reports
    if number not in plan.ends:
        return PlanState(state.preparation, total, count)
    learnt, stage = state.preparation, plan.stage(number)
    if count and stage == "spread":
        learnt = plan.learn_spread(learnt, total / count, count, number)
    elif count:
        learn = plan.learn_origin if stage == "origin" else plan.learn_centre
        learnt = learn(learnt, total / count, count)
    if plan.reach != 1 and number == plan.rounds - 1:
        learnt = learnt.widened(plan.reach)
    return PlanState(learnt, np.zeros(plan.dim), 0)


def _octaves(X: Doubles, octaves: int) -> Doubles:
    """−log₂|x|/octaves in [−1, 1]; the mean of a record's others where x = 0."""
    magnitudes = np.abs(X)
    there = magnitudes > 0
    logs = np.clip(-logarithm(np.where(there, magnitudes, 1.0)) / octaves, -1.0, 1.0)
    mean = logs.sum(axis=1, keepdims=True) / np.maximum(1, there.sum(axis=1, keepdims=True))
    return np.where(there, logs, mean)


def logarithm(x: Doubles) -> Doubles:
    """log₂ x, linear between powers of two: off by less than 0.09, and the same on every machine.

    >>> logarithm(np.array([0.25, 1.0, 1.5]))
    array([-2. ,  0. ,  0.5])
    """
    mantissa, exponent = np.frexp(x)
    return np.asarray(exponent - 2 + 2 * mantissa, dtype=np.float64)


def power_of_two(y: Doubles) -> Doubles:
    """The inverse of `logarithm`.

    >>> power_of_two(np.array([-2.0, 0.0, 0.5]))
    array([0.25, 1.  , 1.5 ])
    """
    whole = np.floor(y)
    return np.asarray(np.ldexp((y - whole + 1) / 2, whole.astype(np.int64) + 1), dtype=np.float64)


@lru_cache(maxsize=8)
def _scattered(dim: int) -> NDArray[np.int64]:
    """All entries of a vector in an order without pattern: public, the same on every machine.

    >>> _scattered(8).tolist()
    [0, 7, 2, 6, 4, 1, 3, 5]
    """
    keys = np.arange(dim, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    order = np.argsort(keys, kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order


def _kept(square: float, noise: float) -> float:
    """The factor by which James and Stein shrink what has this squared norm and this noise."""
    return max(0.0, 1.0 - noise / square) if square > 0 else 0.0
