"""An experiment is data: a frozen set of parameters, and the cells that it expands to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from typing import Annotated, Any, final

from fedsel._internal.models import Loss
from fedsel._internal.settings import check_keys
from fedsel.auto import AVERAGING
from fedsel.data import SCALINGS
from fedsel.errors import InvalidArgument
from fedsel.experiments._trial import Cell, Conditions
from fedsel.preparation._public import PRIVATE
from fedsel.recipe import AUTO, RECOMMENDED, Parameter, Recipe, parameters_of
from fedsel.solutions import Entry, entries, entry

_AXES = ("models", "solutions", "epsilons")
_PAPER = {"mu": 0.1, "reg": 1e-4}
"""Where the paper's defaults differ from the recipe's."""


def _first_the_recommended(some: Iterable[Entry]) -> str:
    return ", ".join(sorted((e.name for e in some), key=lambda name: name != RECOMMENDED))


_DIRECTIONS = _first_the_recommended(
    e for e in entries() if e.directions and e.family == "one-symbol"
)
_CHOSEN = {
    "learning_rate": f"auto for {_DIRECTIONS}; else by data set",
    "rho": "auto where α is automatic, else none",
    "averaging": f"{AVERAGING:g} where α is automatic, else 0",
}
"""What is chosen for each solution, unless it is given."""


_SYNTHETIC = ("none", False, {"logistic": 2.15, "svm": 0.7})
_OWN = ("standard", True, {"logistic": 1.0, "svm": 1.0})
"""Scaling, intercept and learning rates of the paper's synthetic data, fitted to its table 3, and
of a user's own data."""


@final
@dataclass(frozen=True, kw_only=True)
class Spec(Conditions):
    """A sweep over models, solutions and ε with the paper's defaults.

    ``recipe`` has the fields of `fedsel.Recipe` that all points share. What it lacks is chosen for
    each solution, and so is what is None here. Solutions that report directions have the automatic
    learning rate, ρ and average, on records of norm 1 (``unit_records``) that are prepared
    (``spread``, ``centre``) where the data set has public bounds. The paper's have the ``rates`` of
    each model, the last weights, and records as they are.

    >>> len(list(Spec(solutions=("NP", "PS-PM"), epsilons=(1.0, 2.0)).cells()))
    3
    """

    solutions: Annotated[
        tuple[str, ...],
        Parameter(
            "FJ, J, RJ, UJ, PM, EXP-PM, PE-PM, PS-PM, NP and others, which fedsel solutions "
            "lists; repeat for several.",
            "compared",
            "s",
            name="solution",
        ),
    ] = ("NP", "PM", "EXP-PM", "PE-PM", "PS-PM", "FJ")
    epsilons: Annotated[
        tuple[float, ...],
        Parameter(
            "ε of a client over all its reports; repeat for several.",
            "compared",
            "e",
            name="epsilon",
        ),
    ] = (0.5, 1.0, 2.0, 4.0)
    models: Annotated[
        tuple[Loss, ...],
        Parameter("logistic or svm; repeat for both.", "compared", "m", name="model"),
    ] = ("logistic",)
    scale: Annotated[
        str | None,
        Parameter(
            "unit or symmetric (from public bounds), private (the first rounds learn how wide "
            "features are; FJ, RJ and RC), standard (by the records' own mean and deviation: not "
            "private), or none.",
            "records",
            unset="by data set; your own: unit if it has bounds, else standard",
        ),
    ] = None
    intercept: Annotated[
        bool | None, Parameter("Add a constant feature.", "records", unset="by data set")
    ] = None
    unit_records: Annotated[
        bool | None,
        Parameter(
            "Clients divide their record by its norm.",
            "records",
            unset=f"with automatic α or ρ of {_DIRECTIONS}",
        ),
    ] = None
    rates: Mapping[str, float] | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _AXES:
            if not getattr(self, name):
                raise InvalidArgument(name, getattr(self, name), "a list of at least one")
        check_keys(self.recipe, [p.field for p in _OF_RECIPE.values()], kind="parameter")
        for model in self.models:
            if model not in _OWN[2]:
                raise InvalidArgument("model", model, f"one of {', '.join(_OWN[2])}")
        automatic = AUTO in (self._given("learning_rate"), self._given("rho"))
        if automatic and self.unit_records is False and any(e.directions for e in self._entries()):
            wanted = "true: an automatic learning rate or ρ assumes records of norm 1"
            raise InvalidArgument("unit_records", False, wanted)
        self._check_scale()
        # Report wrong names and parameters before anything runs.
        for cell in self.cells():
            cell.plan(dim=1000, batch=1000, members=100_000)

    def _entries(self) -> list[Entry]:
        return [entry(name, "solution") for name in self.solutions]

    def _check_scale(self) -> None:
        if self.scale not in (None, *SCALINGS):
            raise InvalidArgument("scale", self.scale, f"one of {', '.join(SCALINGS)}")
        if self.scale != PRIVATE:
            return
        cannot = [known.name for known in self._entries() if not _learns_scales(known)]
        if cannot:
            able = _first_the_recommended(filter(_learns_scales, entries()))
            allowed = (
                f"unit, symmetric, standard or none for {', '.join(cannot)}; only {able} learn it"
            )
            raise InvalidArgument("scale", PRIVATE, allowed)
        if self.intercept is False or not all(cell.unit_records for cell in self.cells()):
            allowed = "used with an intercept and with records of norm 1"
            raise InvalidArgument("scale", PRIVATE, allowed)

    def cells(self) -> Iterator[Cell]:
        """Every point once; a solution without ε does not depend on it."""
        scale, intercept, rates = _SYNTHETIC if self.dataset.lower().startswith("syn-") else _OWN
        shared = {f.name: getattr(self, f.name) for f in fields(Conditions)}
        shared["scale"] = scale if self.scale is None else self.scale
        shared["intercept"] = intercept if self.intercept is None else self.intercept
        for model, known in product(self.models, self._entries()):
            chosen = self._chosen(known.directions, (self.rates or rates)[model])
            unit = self.unit_records
            if unit is None:
                unit = known.directions and AUTO in (chosen["learning_rate"], chosen["rho"])
            for epsilon in (None,) if known.plain else self.epsilons:
                recipe = Recipe(**{**chosen, "solution": known.name, "epsilon": epsilon})
                yield Cell(**shared, unit_records=unit, model=model, recipe=recipe)

    def _given(self, name: str) -> Any:
        return {**_PAPER, **self.recipe}.get(name)

    def _chosen(self, directions: bool, fitted: float) -> dict[str, Any]:
        """The fields of the recipe of a solution that reports directions or does not."""
        rate, rho = self._given("learning_rate"), self._given("rho")
        averaging = self._given("averaging")
        if rate is None:
            rate = AUTO if directions and rho in (None, AUTO) else fitted
        if rho is None and directions and rate == AUTO:
            rho = AUTO
        if averaging is None:
            averaging = AVERAGING if rate == AUTO else 0.0
        chosen = {"learning_rate": rate, "rho": rho, "averaging": averaging}
        return {**_PAPER, **self.recipe, **chosen}


def _learns_scales(known: Entry) -> bool:
    """Whether the first rounds of a solution can learn how wide features are."""
    return known.directions and known.means


def _of_recipe() -> dict[str, Parameter]:
    """The recipe's parameters that an experiment passes on, with an experiment's defaults."""
    own = {p.name for p in parameters_of(Spec).values()}
    found = {name: p for name, p in parameters_of(Recipe).items() if name not in own}
    for name, value in _PAPER.items():
        found[name] = replace(found[name], default=value)
    for name, unset in _CHOSEN.items():
        found[name] = replace(found[name], default=None, unset=unset)
    return found


_OF_RECIPE = _of_recipe()
PARAMETERS = {p.field: p for p in parameters_of(Spec).values()} | _OF_RECIPE
"""What an experiment asks of its user: its own parameters and the recipe's."""
SPEC_NAMES = (*(f.name for f in fields(Spec) if f.name != "recipe"), *_OF_RECIPE)
"""The names that `override` knows."""


def override(spec: Spec, changes: Mapping[str, Any]) -> Spec:
    """A spec with some parameters changed, its own or the recipe's; unknown names are refused."""
    check_keys(changes, SPEC_NAMES, kind="parameter")
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in changes.items()}
    recipe = {_OF_RECIPE[name].field: values.pop(name) for name in changes if name in _OF_RECIPE}
    return replace(spec, **values, recipe={**spec.recipe, **recipe})
