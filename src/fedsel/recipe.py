"""The recipe: every public parameter of a run, in one record.

All front ends, the server and the wire use it. `fedsel.auto.resolve_auto` replaces every ``"auto"``
by a number.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal, final, get_type_hints

from fedsel._internal.settings import check_keys
from fedsel.errors import (
    Epsilon,
    InvalidArgument,
    check_count,
    check_epsilon,
    check_finite,
    check_float,
    check_positive,
)
from fedsel.mechanisms._base import MAX_DIMENSION
from fedsel.mechanisms._selection import Top, check_top
from fedsel.solutions import entry
from fedsel.solutions._privacy import THETA, Budget
from fedsel.solutions._registry import build, canonical, cleared_on_unregister
from fedsel.solutions._rotated import MOST_BASES
from fedsel.solutions._solution import Solution

Auto = Literal["auto"]
AUTO: Auto = "auto"
RECOMMENDED = "FJ"
"""The default solution of every front end."""


def decimal(name: str, value: object) -> Fraction:
    """Read ε as the decimal that the user wrote: 0.1 is exactly one tenth.

    >>> decimal("epsilon", 0.1)
    Fraction(1, 10)
    """
    number = check_epsilon(name, value)
    return number if isinstance(number, Fraction) else Fraction(repr(number))


Section = Literal["data", "compared", "training", "records", "solution", "validation"]
"""The subject of a parameter, by which help pages group options."""


@final
@dataclass(frozen=True)
class Parameter:
    """How front ends present a field. A field without one is derived from others.

    ``short`` is a one-letter option, ``unset`` describes the default in words, and ``name``
    replaces the field's name in options, file keys and columns. `parameters_of` adds the field, its
    type and its default.
    """

    text: str
    section: Section | None = None
    short: str = ""
    unset: str = ""
    name: str = ""
    field: str = ""
    kind: Any = None
    default: Any = None


def parameters_of(record: type) -> dict[str, Parameter]:
    """The parameters of a record class, under the names that users know."""
    found = {}
    hints = get_type_hints(record, include_extras=True)
    for own in fields(record):
        for about in getattr(hints[own.name], "__metadata__", ()):
            name, kind = about.name or own.name, hints[own.name].__origin__
            found[name] = replace(about, name=name, field=own.name, kind=kind, default=own.default)
    return found


@final
@dataclass(frozen=True)
class Recipe:
    """The parameters on which server and devices agree, and those of the server alone.

    The annotations describe each parameter. Further notes:

    - ``epsilon`` is exact, and None if a solution is not private; ``dim`` is the number of entries
      of an update.
    - ``learning_rate`` is the server's, except that clients of …-O multiply their update by it.
    - ``rho`` None reports directions alone; ``bases`` None is one rotation
      (`fedsel.solutions.Rotated`).
    - ``spread``, ``centre``: the share of the rounds in which clients report on their records
      instead of gradients, so that the server learns their spread and centre
      (`fedsel.preparation`).
    - ``measure`` is the share of the clients that report on the model instead of training it
      (`fedsel.measuring`).
    - ``requested_solution`` is the one that was asked for, if another replaces it.

    >>> recipe = Recipe("ps-pm", epsilon=2.0, dim=100, epochs=5, mu=0.1)
    >>> recipe.solution, recipe.charge
    ('PS-PM', Fraction(2, 5))
    """

    solution: Annotated[str, Parameter("A name that fedsel solutions lists.")] = RECOMMENDED
    epsilon: Annotated[Epsilon | None, Parameter("ε of a client over all its reports.")] = None
    dim: int | None = None
    epochs: Annotated[int, Parameter("E: how many reports each client sends.", "training")] = 1
    learning_rate: Annotated[
        float | Auto, Parameter("α, the learning rate: a number or auto.", "training", short="a")
    ] = AUTO
    averaging: Annotated[
        float | Auto,
        Parameter(
            "The power p of averaged weights, t^p in round t, or auto; 0 takes the last.",
            "training",
        ),
    ] = AUTO
    reg: Annotated[float, Parameter("λ of the ℓ2 regulariser.", "training")] = 0.0
    rho: Annotated[
        float | Auto | None,
        Parameter("ρ, the public radius of a reported direction: a number or auto.", "solution"),
    ] = AUTO
    mu: Annotated[
        float | Auto,
        Parameter("μ, the selection's share of ε in two stages: a number or auto.", "solution"),
    ] = AUTO
    theta: Annotated[float, Parameter("θ, the largest automatic μ.", "solution")] = THETA
    k: Annotated[
        Top,
        Parameter(
            "How many top entries are selected: a count or a fraction of d.", "solution", "k"
        ),
    ] = 0.1
    clip: Annotated[float, Parameter("Values are clipped to ±clip.", "solution")] = 1.0
    momentum: Annotated[float, Parameter("η of the residual.", "solution")] = 0.0
    ratio: Annotated[float, Parameter("q/d of a projected solution (…-RP).", "solution")] = 0.1
    words: Annotated[int | None, Parameter("Codewords of RC.", "solution", unset="about 8·d")] = (
        None
    )
    bases: Annotated[
        int | Auto | None,
        Parameter(
            "Rotated bases of RJ in a round: a count or auto.",
            "solution",
            unset="auto: 64 over all rounds",
        ),
    ] = AUTO
    seed: Annotated[int, Parameter("Seed of public projections and codebooks.")] = 0
    measure: float = 0.0
    requested_solution: str | None = None
    spread: Annotated[
        float | Auto,
        Parameter(
            "Learn the records' spread first: auto, yes, no or a share of the rounds.", "records"
        ),
    ] = AUTO
    centre: Annotated[
        float | Auto,
        Parameter(
            "Learn the records' centre first: auto, yes, no or a share of the rounds.", "records"
        ),
    ] = AUTO

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "solution", canonical(self.solution, "solution"))
        if self.epsilon is not None:
            put(self, "epsilon", decimal("epsilon", self.epsilon))
        elif not entry(self.solution).plain:
            raise InvalidArgument("epsilon", None, f"a number > 0: {self.solution} needs an ε")
        if self.dim is not None:
            put(self, "dim", check_count("dim", self.dim, most=MAX_DIMENSION))
        put(self, "epochs", check_count("epochs", self.epochs, most=(1 << 32) - 1))
        for name in ("learning_rate", "rho"):
            if getattr(self, name) not in (AUTO, None):
                put(self, name, check_positive(name, getattr(self, name)))
        if self.learning_rate is None:
            raise InvalidArgument("learning_rate", None, 'a number > 0, or "auto"')
        if self.averaging != AUTO:
            put(self, "averaging", check_averaging(self.averaging))
        put(self, "reg", check_at_least_zero("reg", self.reg))
        for name in ("mu", "theta", "spread", "centre"):
            put(self, name, _share(name, getattr(self, name)))
        _check_preparing(self.spread, self.centre)
        put(self, "measure", _measured(self.measure, self.epsilon))
        put(self, "k", check_top(self.k))
        if self.dim is not None and self.k > self.dim:
            raise InvalidArgument("k", self.k, f"at most dim = {self.dim}")
        put(self, "clip", check_positive("clip", self.clip))
        put(self, "momentum", check_float("momentum", self.momentum))
        if not 0 < check_finite("ratio", self.ratio) <= 1:
            raise InvalidArgument("ratio", self.ratio, "in (0, 1]")
        put(self, "ratio", float(self.ratio))
        put(self, "seed", check_count("seed", self.seed, least=0, most=(1 << 64) - 1))
        if self.words is not None:
            put(self, "words", check_count("words", self.words, most=(1 << 32) - 1))
        if self.bases not in (AUTO, None):
            put(self, "bases", check_count("bases", self.bases, most=MOST_BASES))

    @classmethod
    def of(cls, values: dict[str, Any]) -> Recipe:
        """Build a recipe from a mapping of its fields; unknown names are refused."""
        check_keys(values, [field.name for field in fields(cls)], kind="parameter")
        return cls(**values)

    def require(self, *names: str) -> None:
        """Refuse a recipe in which one of these parameters matters and is still automatic.

        >>> Recipe("PM", epsilon=1.0, dim=3).require("rho", "mu")  # PM has neither
        >>> Recipe("PM", epsilon=1.0, dim=3).require("learning_rate")
        Traceback (most recent call last):
        fedsel.errors.InvalidArgument: learning_rate = 'auto': must be a number: fedsel...
        """
        for name in names:
            value = getattr(self, name)
            if value in (AUTO, None) and not (name == "rho" and value is None) and self._uses(name):
                wanted = "a number: fedsel.resolve_auto replaces 'auto'"
                raise InvalidArgument(name, value, wanted)

    def _uses(self, name: str) -> bool:
        """Whether a parameter matters to the solution."""
        if name == "rho":
            return entry(self.solution).directions
        return name != "mu" or entry(self.solution).selection is not None

    def build(self) -> Solution:
        """Build the solution.

        >>> Recipe("NP", dim=3).build().bits
        96
        """
        self.require("dim", "rho", "mu")
        return _built(self)

    @property
    def budget(self) -> Budget:
        """The split of ε over epochs, and by μ over stages."""
        if self.epsilon is None:
            raise InvalidArgument("epsilon", None, f"a number > 0: {self.solution} needs an ε")
        self.require("mu")
        return Budget(self.epsilon, self.epochs, 0.0 if self.mu == AUTO else float(self.mu))

    @property
    def private(self) -> bool:
        """Whether a certificate covers the reports."""
        return not entry(self.solution).plain and self.build().private

    @property
    def charge(self) -> Fraction:
        """The cost of one report: a rational proved to be at least its exact ε."""
        charge = _charge(self.build())
        if charge is None:
            raise InvalidArgument("solution", self.solution, PRIVATE)
        return charge

    @property
    def rate(self) -> float:
        """The server's factor of the mean: α, or 1 if the clients apply α (…-O)."""
        self.require("learning_rate")
        return 1.0 if self.build().rate_inside else float(self.learning_rate)

    @property
    def wire_part(self) -> Recipe:
        """The part of the recipe that devices receive, without the server's own parameters."""
        plain = self.with_unused_zeroed
        plain = replace(plain, averaging=0.0, reg=0.0, theta=THETA, requested_solution=None)
        return replace(plain, spread=0.0, centre=0.0, measure=0.0)

    @property
    def with_unused_zeroed(self) -> Recipe:
        """The recipe with every parameter that its solution does not use set to zero or None."""
        self.require("rho", "mu")
        mu = 0.0 if self.mu == AUTO else self.mu
        bases = None if self.bases == AUTO else self.bases
        spread, centre = (0.0 if v == AUTO else v for v in (self.spread, self.centre))
        rho = None if self.rho == AUTO else self.rho
        return replace(self, mu=mu, rho=rho, bases=bases, spread=spread, centre=centre)


PRIVATE = "a private solution, such as FJ, PS-PM or PM"


def check_averaging(power: object) -> float:
    """Return the power of an average; 0 is none."""
    if not (isinstance(power, int | float) and check_finite("averaging", power) >= 0):
        raise InvalidArgument("averaging", power, "a number ≥ 0; 0 takes the last weights")
    return float(power)


def check_at_least_zero(name: str, value: object) -> float:
    """Return a finite number ≥ 0 as a float."""
    number = check_float(name, value)
    if number < 0:
        raise InvalidArgument(name, value, "a finite number ≥ 0")
    return number


def _measured(measure: float, epsilon: Epsilon | None) -> float:
    share = _share("measure", measure)
    if share and epsilon is None:
        raise InvalidArgument("epsilon", None, "a number > 0 with measure, for its reports")
    return float(share)


def _check_preparing(spread: float | Auto, centre: float | Auto) -> None:
    taken = sum(float(share) for share in (spread, centre) if share != AUTO)
    if taken >= 1:
        raise InvalidArgument("spread + centre", taken, "below 1, to leave rounds for training")


def _share(name: str, value: object) -> float | Auto:
    if value == AUTO and name not in ("theta", "measure"):
        return AUTO
    if not 0 <= check_finite(name, value) < 1:
        raise InvalidArgument(name, value, "in [0, 1)")
    return float(value)  # type: ignore[arg-type]


@cleared_on_unregister
@lru_cache(maxsize=512)
def _built(recipe: Recipe) -> Solution:
    unused: dict[str, Any] = {"rho": None, "bases": None, "mu": 0.0}
    return build(replace(recipe, **{n: v for n, v in unused.items() if getattr(recipe, n) == AUTO}))


@lru_cache(maxsize=64)
def _charge(built_solution: Solution) -> Fraction | None:
    return built_solution.privacy.charge


def solution(
    name: str,
    *,
    epsilon: Epsilon | None = None,
    dim: int,
    mu: float | Auto = 0.1,
    rho: float | None = None,
    bases: int | None = None,
    batch: int | None = None,
    **parameters: Any,
) -> Solution:
    """Build a solution by name, for a total ε over ``epochs`` and vectors of ``dim`` entries.

    The other parameters are fields of `Recipe`: epochs, k, clip, momentum, ratio, seed, words, …
    ``mu="auto"`` is the paper's hyper-parameters-free rule and needs ``batch``, the clients of a
    round. If the rule leaves nothing for the selection, the flat solution replaces it. ``k`` is the
    top k of the paper's solutions and of SignDS, and the ‖v‖₁ of UJ; FJ, J, RJ and RC use the best
    k for ε.

    >>> solution("ps-pm", epsilon=2.0, dim=100).privacy.per_report
    2.0
    >>> solution("PS-PN", epsilon=2.0, dim=100)
    Traceback (most recent call last):
    fedsel.errors.InvalidArgument: name = 'PS-PN': must be a known solution, such as PS-PM, ...
    """
    from fedsel.auto import with_share

    chosen = {"epsilon": epsilon, "dim": dim, "mu": mu, "rho": rho, "bases": bases, **parameters}
    recipe = Recipe.of({"solution": canonical(name), **chosen})
    if mu == AUTO:
        if batch is None:
            raise InvalidArgument(
                "batch", None, "the number of clients in a round, which mu = 'auto' needs"
            )
        recipe = with_share(recipe, check_count("batch", batch))
    return recipe.build()
