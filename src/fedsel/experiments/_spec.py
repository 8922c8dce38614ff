"""An experiment is data: a frozen set of parameters, and the cells that it expands to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any, Literal, final

from fedsel.auto import AVERAGING
from fedsel.budget import THETA
from fedsel.data.dataset import SCALINGS
from fedsel.errors import InvalidArgument, check_count, check_finite, check_positive
from fedsel.experiments._trial import Cell, Validation
from fedsel.mechanisms._selection import Top
from fedsel.models import LinearModel
from fedsel.preparation.scale import PRIVATE
from fedsel.recipe import AUTO, RECOMMENDED, Recipe, check_averaging
from fedsel.solutions._registry import canonical, entries, entry

DEMO_SOLUTIONS = ("NP", "PM", "EXP-PM", "PE-PM", "PS-PM", "FJ")
DEMO_EPSILONS = (0.5, 1.0, 2.0, 4.0)
MOST_REPEATS = 10_000
_ABLE = [known.name for known in entries() if known.directions and known.means]
LEARNING_SCALES = tuple(sorted(_ABLE, key=lambda name: name != RECOMMENDED))
"""Solutions whose first rounds can learn how wide features are."""


@dataclass(frozen=True)
class PaperSettings:
    """What the paper leaves open for a data set: scaling, intercept and learning rates."""

    scale: str
    intercept: bool
    rates: Mapping[str, float]


# The paper states none of these; they were fitted to its table 3.
_SETTINGS: Mapping[str, PaperSettings] = {
    "syn": PaperSettings("none", False, {"logistic": 2.15, "svm": 0.7}),
    "bank": PaperSettings("unit", False, {"logistic": 0.5, "svm": 1.0}),
    "kdd": PaperSettings("standard", True, {"logistic": 2.0, "svm": 1.3}),
    "adult": PaperSettings("unit", True, {"logistic": 10.0, "svm": 4.64}),
}
_OTHER = PaperSettings("standard", True, {"logistic": 1.0, "svm": 1.0})


def paper_settings(dataset: str) -> PaperSettings:
    """The setting of a data set by its name; a user's own is standardised, with intercept."""
    return _SETTINGS.get(dataset.lower().split("-")[0].removesuffix("99"), _OTHER)


@final
@dataclass(frozen=True)
class Spec:
    """A sweep over models, solutions and ε with the paper's defaults.

    ``batch`` is a fraction of the training clients (float) or a count (int); ``clients`` groups
    the records into that many clients, with label skew ``skew`` (Dirichlet) if given.

    What is None is chosen for each solution. Those that report directions have the automatic
    learning rate, ρ and average, on records of norm 1 (``unit_records``) that are prepared
    (``spread``, ``centre``) where the data set has public bounds; the paper's have what was fitted
    to it for a data set, the last weights, and records as they are.

    >>> len(list(Spec(solutions=("NP", "PS-PM"), epsilons=(1.0, 2.0)).cells()))
    3
    """

    dataset: str = "syn-L"
    draw: int = 0
    models: tuple[str, ...] = ("logistic",)
    solutions: tuple[str, ...] = DEMO_SOLUTIONS
    epsilons: tuple[float, ...] = DEMO_EPSILONS
    learning_rate: float | Literal["auto"] | None = None
    scale: str | None = None
    intercept: bool | None = None
    unit_records: bool | None = None
    epochs: int = 1
    batch: float = 0.01
    mu: float | Literal["auto"] = 0.1
    theta: float = THETA
    k: Top = 0.1
    clip: float = 1.0
    momentum: float = 0.0
    reg: float = 1e-4
    ratio: float = 0.1
    rho: float | Literal["auto"] | None = None
    words: int | None = None
    bases: int | Literal["auto"] | None = "auto"
    averaging: float | None = None
    spread: float | Literal["auto"] = "auto"
    centre: float | Literal["auto"] = "auto"
    dropout: float = 0.0
    clients: int | None = None
    skew: float | None = None
    rounds: int | None = None
    protocol: Validation = "folds"
    curve: bool = False
    folds: int = 5
    repeats: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("models", "solutions", "epsilons"):
            if not getattr(self, name):
                raise InvalidArgument(name, getattr(self, name), "at least one")
        check_count("folds", self.folds, least=2)
        check_count("repeats", self.repeats, most=MOST_REPEATS)
        check_count("seed", self.seed, least=0)
        check_count("draw", self.draw, least=0)
        if self.rounds is not None:
            check_count("rounds", self.rounds)
        if self.averaging is not None:
            check_averaging(self.averaging)
        if self.protocol not in ("folds", "holdout"):
            raise InvalidArgument("protocol", self.protocol, '"folds" or "holdout"')
        for model in self.models:
            if model not in _OTHER.rates:
                raise InvalidArgument("model", model, f"one of {', '.join(_OTHER.rates)}")
            LinearModel(model, self.reg)  # type: ignore[arg-type]
        automatic = AUTO in (self.learning_rate, self.rho)
        directions = any(entry(canonical(n, "solution")).directions for n in self.solutions)
        if automatic and directions and self.unit_records is False:
            wanted = "true where learning rate or ρ are automatic: they count on norm 1"
            raise InvalidArgument("unit_records", False, wanted)
        self._check_clients()
        self._check_scale()
        # Wrong names and parameters are told before anything runs.
        for cell in self.cells():
            cell.resolved(dim=1000, batch=1000, members=100_000).build()

    def _check_clients(self) -> None:
        if isinstance(self.batch, float) and not 0 < self.batch <= 1:
            raise InvalidArgument("batch", self.batch, "a fraction in (0, 1] or a count ≥ 1")
        if not isinstance(self.batch, float):
            check_count("batch", self.batch)
        if not 0 <= check_finite("dropout", self.dropout) < 1:
            raise InvalidArgument("dropout", self.dropout, "in [0, 1)")
        if self.clients is not None:
            check_count("clients", self.clients)
        if self.skew is not None:
            check_positive("skew", self.skew)
            if self.clients is None:
                raise InvalidArgument("skew", self.skew, "given together with clients")

    def _check_scale(self) -> None:
        if self.scale is None:
            return
        if self.scale not in SCALINGS:
            raise InvalidArgument("scale", self.scale, f"one of {', '.join(SCALINGS)}")
        if self.scale != PRIVATE:
            return
        named = [canonical(name, "solution") for name in self.solutions]
        cannot = [name for name in named if name not in LEARNING_SCALES]
        if cannot:
            able = ", ".join(LEARNING_SCALES)
            allowed = f"another for {', '.join(cannot)}: only reports of {able} can learn it"
            raise InvalidArgument("scale", PRIVATE, allowed)
        if self.intercept is False or not all(cell.unit_records for cell in self.cells()):
            allowed = "another without an intercept, or where records keep their norm"
            raise InvalidArgument("scale", PRIVATE, allowed)

    def cells(self) -> Iterator[Cell]:
        """Every point once; a solution without ε does not depend on it."""
        setting = paper_settings(self.dataset)
        values = vars(self)
        shared = {f.name: values[f.name] for f in fields(Cell) if f.name in values}
        shared["scale"] = setting.scale if self.scale is None else self.scale
        shared["intercept"] = setting.intercept if self.intercept is None else self.intercept
        recipe = {f.name: values[f.name] for f in fields(Recipe) if f.name in values}
        del recipe["seed"]  # that of the experiment is another
        for model in self.models:
            for name in self.solutions:
                named = canonical(name, "solution")
                chosen = self._chosen(named, setting.rates[model])
                shared["unit_records"] = chosen.pop("unit_records")
                for epsilon in (None,) if entry(named).plain else self.epsilons:
                    point = {"solution": named, "epsilon": epsilon, **chosen}
                    cell_recipe = Recipe(**{**recipe, **point})
                    yield Cell(**{**shared, "model": model, "recipe": cell_recipe})

    def _chosen(self, solution: str, fitted: float) -> dict[str, Any]:
        """What depends on the solution, unless it is given."""
        directions = entry(solution).directions
        rate, rho, averaging = self.learning_rate, self.rho, self.averaging
        if rate is None:
            rate = AUTO if directions and rho in (None, AUTO) else fitted
        if rho is None and directions and rate == AUTO:
            rho = AUTO
        if averaging is None:
            averaging = AVERAGING if rate == AUTO else 0.0
        unit = (
            directions and AUTO in (rate, rho) if self.unit_records is None else self.unit_records
        )
        return {"learning_rate": rate, "rho": rho, "averaging": averaging, "unit_records": unit}


def override(spec: Spec, changes: Mapping[str, Any]) -> Spec:
    """A spec with some parameters changed; unknown names are refused."""
    known = {f.name for f in fields(Spec)}
    for name, value in changes.items():
        if name not in known:
            raise InvalidArgument(name, value, f"one of {', '.join(sorted(known))}")
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in changes.items()}
    return replace(spec, **values)


def expand(table: Mapping[str, Any]) -> Iterator[Spec]:
    """The specs of a table in which any parameter may be a list of values to go through.

    >>> specs = expand({"dataset": ["bank", "adult"], "mu": [0.1, 0.2], "epsilons": [1.0, 2.0]})
    >>> [(s.dataset, s.mu) for s in specs]
    [('bank', 0.1), ('bank', 0.2), ('adult', 0.1), ('adult', 0.2)]
    """
    axes = [n for n, v in table.items() if isinstance(v, list) and n not in _PLURAL]
    fixed = {name: value for name, value in table.items() if name not in axes}
    plain = Spec()
    for values in product(*(table[name] for name in axes)):
        yield override(plain, {**fixed, **dict(zip(axes, values, strict=True))})


_PLURAL = ("models", "solutions", "epsilons")
