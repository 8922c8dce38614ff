"""The experiments by name. Each is one file of data in ``specs``, with a coarse variant."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import resources
from itertools import product
from typing import Any

from fedsel import InvalidArgument
from fedsel.experiments import SPEC_NAMES, Cell, Spec, Task
from reproduction.measures.bounds import MaxError
from reproduction.measures.timing import ClientTime
from reproduction.measures.variance import UpdateVariance
from reproduction.paper import paper_spec

PAPER = (
    "table1",
    "theorem2",
    *(f"fig2{letter}" for letter in "abcdefghi"),
    *(f"fig3{letter}" for letter in "abc"),
    "table3",
)
BEYOND = ("alpha", "ablation", "fair")
CLAIMS = "claims"
NAMES = (*PAPER, *BEYOND, CLAIMS)
"""The experiments in the order of the report; ``claims`` judges the results of all others."""

_OF_ONE_SPEC = ("models", "solutions", "epsilons")
"""Parameters whose lists one spec goes through by itself."""
Table = Mapping[str, Any]
Change = tuple[str, Any]


@dataclass(frozen=True)
class Experiment:
    """The tasks of one table or figure, and its introduction."""

    name: str
    title: str
    where: str
    text: tuple[str, ...]
    tasks: tuple[Task, ...]

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that it needs."""
        return tuple(dict.fromkeys(t.dataset for t in self.tasks if isinstance(t, Cell)))

    def without(self, missing: Sequence[str]) -> tuple[Task, ...]:
        """The tasks that need none of these data sets."""
        return tuple(t for t in self.tasks if not (isinstance(t, Cell) and t.dataset in missing))


def wanted(names: Sequence[str]) -> list[str]:
    """The experiments with these names, or "all", in the order of the report.

    >>> wanted(["table3", "fig2a"])
    ['fig2a', 'table3']
    """
    lower = [name.lower() for name in names]
    for name in lower:
        if name not in (*NAMES, "all"):
            close = difflib.get_close_matches(name, (*NAMES, "all"), n=3, cutoff=0.4)
            listed = ", ".join(close or (*NAMES, "all"))
            raise InvalidArgument("name", name, f"an experiment, such as {listed}")
    everything = "all" in lower or CLAIMS in lower
    return [name for name in NAMES if everything or name in lower]


def experiment(name: str, *, quick: bool = False, changes: Sequence[Change] = ()) -> Experiment:
    """Load an experiment. ``changes`` override the quick variant, which overrides the file.

    >>> experiment("fig2a", changes=[("repeats", 2)]).tasks[0].parts
    10
    """
    text = resources.files("reproduction").joinpath("specs", f"{name}.toml").read_text()
    data = tomllib.loads(text)
    tasks: list[Task] = []
    for kind, build in _KINDS.items():
        coarse = data.get("quick", {}).get(kind, {}) if quick else {}
        for table in data.get(kind, []):
            allowed = _PARAMETERS[kind]
            own = table.pop("quick", {})  # what is coarse in this sweep alone
            changed = {n: _listed(v, table.get(n)) for n, v in changes if n in allowed}
            tasks += build({**table, **coarse, **(own if quick else {}), **changed})
    return Experiment(name, data["title"], data["where"], filled(data["text"], tasks), tuple(tasks))


@dataclass(frozen=True)
class Values:
    """The values of one parameter over all tasks, for texts.

    >>> values = Values((0.1, 20, 0.1))
    >>> f"{values}; {values.least} … {values.most}; {values.count:draw}; {Values((1,)):run}"
    '0.1, 20; 0.1 … 20; 2 draws; 1 run'
    """

    values: tuple[Any, ...]

    @property
    def distinct(self) -> list[Any]:
        """Each once: numbers, then words such as "auto"."""
        return sorted(set(self.values), key=lambda v: (isinstance(v, str), v))

    @property
    def least(self) -> Values:
        return Values(tuple(self.distinct[:1]))

    @property
    def most(self) -> Values:
        return Values(tuple(self.distinct[-1:]))

    @property
    def count(self) -> Values:
        return Values((len(self.distinct),))

    def __format__(self, noun: str) -> str:
        """List all values; with a noun, as counts of it: 1 run, 20 runs, 2 or 20 runs."""
        shown = [f"{v:g}" if isinstance(v, float) else str(v) for v in self.distinct]
        if not noun:
            return ", ".join(shown)
        return f"{' or '.join(shown)} {noun}{'' if self.distinct == [1] else 's'}"


def filled(paragraphs: Sequence[str], tasks: Sequence[Task]) -> tuple[str, ...]:
    """Fill in {names} of parameters in paragraphs with the tasks' settings.

    >>> filled(["Over {repeats:run}."], experiment("fig2a", quick=True).tasks)
    ('Over 1 run.',)
    """
    values: defaultdict[str, list[Any]] = defaultdict(list)  # nothing was asked for: no value
    for task in tasks:
        for name, value in task.parameters.items():
            if value is not None:
                values[name].append(value)
    named = {name for paragraph in paragraphs for name in re.findall(r"\{(\w+)", paragraph)}
    shown = {name: Values(tuple(values[name])) for name in named}
    return tuple(paragraph.format_map(shown) for paragraph in paragraphs)


def check_changes(names: Sequence[str], changes: Sequence[Change]) -> None:
    """Refuse a parameter that none of the experiments has."""
    for name, value in changes:
        known = {p for n in names if n != CLAIMS for kind in kinds_of(n) for p in _PARAMETERS[kind]}
        if name not in known:
            raise InvalidArgument("--set", f"{name}={value}", f"one of {', '.join(sorted(known))}")


def kinds_of(name: str) -> list[str]:
    """The kinds of tasks of an experiment."""
    text = resources.files("reproduction").joinpath("specs", f"{name}.toml").read_text()
    return [kind for kind in _KINDS if kind in tomllib.loads(text)]


def _listed(value: Any, known: Any) -> Any:
    """One value for a parameter that is a list of its own nature."""
    return [value] if isinstance(known, list) and not isinstance(value, list) else value


def specs_of(table: Mapping[str, Any]) -> Iterator[Spec]:
    """The specs of a table in which any parameter may be a list of values to go through.

    >>> specs = specs_of({"dataset": ["bank", "adult"], "mu": [0.1, 0.2], "epsilons": [1.0, 2.0]})
    >>> [(s.dataset, s.recipe["mu"]) for s in specs]
    [('bank', 0.1), ('bank', 0.2), ('adult', 0.1), ('adult', 0.2)]
    """
    axes = [n for n, v in table.items() if isinstance(v, list) and n not in _OF_ONE_SPEC]
    fixed = {name: value for name, value in table.items() if name not in axes}
    for values in product(*(table[name] for name in axes)):
        yield paper_spec({**fixed, **dict(zip(axes, values, strict=True))})


def _cells(table: Table) -> Iterator[Cell]:
    if any(value == [] for value in table.values()):  # a quick variant leaves this sweep out
        return
    for spec in specs_of(table):
        # Real data has no second draw.
        if spec.draw == 0 or spec.dataset.startswith("syn"):
            yield from spec.cells()


def _measures(task_type: Callable[..., Task]) -> Callable[[Table], Iterator[Task]]:
    def build(table: Table) -> Iterator[Task]:
        lists = {name: v if isinstance(v, list) else [v] for name, v in table.items()}
        for values in product(*lists.values()):
            yield task_type(**dict(zip(lists, values, strict=True)))

    return build


_KINDS: Mapping[str, Callable[[Table], Iterator[Task]]] = {
    "sweep": _cells,
    "max-error": _measures(MaxError),
    "update-variance": _measures(UpdateVariance),
    "client-time": _measures(ClientTime),
}
_PARAMETERS = {
    "sweep": set(SPEC_NAMES),
    "max-error": {f.name for f in fields(MaxError)},
    "update-variance": {f.name for f in fields(UpdateVariance)},
    "client-time": {f.name for f in fields(ClientTime)},
}
