"""Run experiments and write their results: CSV, LaTeX, figures and one page."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedsel import __version__, pages
from fedsel.experiments import (
    Cell,
    Finished,
    Source,
    Store,
    Task,
    cache_key,
    code_version,
    sweep,
    tidy,
    write_csv,
)
from fedsel.pages import Figure, Overview, Section, Table, Verdict, svg_of
from reproduction import lemmas
from reproduction.catalogue import CLAIMS, Change, Experiment, experiment, wanted
from reproduction.datasets import DataUnavailable
from reproduction.datasets.catalogue import resolve
from reproduction.measures.timing import ClientTime
from reproduction.summary import markdown
from reproduction.views import VIEWS, View
from reproduction.views.base import UNKNOWN

Row = dict[str, Any]
_SECONDS_PER_ENTRY, _SECONDS_PER_PAGE = 1e-8, 3.0
"""Measured on one of two cores: for a run, and for the figures of one experiment with the page."""
TITLE = "FedSel, reproduced and put to the test"
_OVERVIEW = Overview(where="In the paper", nothing="No claim of the paper was put to the test.")


@dataclass(frozen=True)
class Request:
    """What to reproduce, and how."""

    names: Sequence[str]
    quick: bool = False
    changes: Sequence[Change] = ()
    jobs: int = 1

    @property
    def experiments(self) -> list[Experiment]:
        """The experiments of the names, in the order of the report."""
        names = [name for name in wanted(self.names) if name != CLAIMS]
        return [experiment(name, quick=self.quick, changes=self.changes) for name in names]

    @property
    def judges_all(self) -> bool:
        """Whether claims that need no run are judged, too."""
        return bool({"all", CLAIMS} & {name.lower() for name in self.names})

    def command(self, names: Sequence[str] | None = None) -> str:
        """The command line that repeats the reproduction."""
        arguments = ["python", "-m", "reproduction", *(self.names if names is None else names)]
        arguments += ["--quick"] if self.quick else []
        for name, value in self.changes:
            arguments += ["--set", f"{name}={_toml(value)}"]
        return shlex.join(arguments)


@dataclass(frozen=True)
class Outcome:
    """One experiment's rows and their view."""

    experiment: Experiment
    rows: list[Row]
    view: View
    missing: tuple[str, ...]
    seconds: float

    @property
    def name(self) -> str:
        return self.experiment.name

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """The pictures for the page, drawn once because the page is written many times."""
        return tuple(Figure(svg_of(p.figure), p.caption, p.alt) for p in self.view.pictures)


@dataclass
class Watcher:
    """Callbacks at the start of an experiment, after costs are spent, and at its end."""

    started: Callable[[Experiment], object] = id
    advance: Callable[[float], object] = abs
    finished: Callable[[Outcome], object] = id
    outcomes: list[Outcome] = field(default_factory=list)


def missing_data(experiments: Sequence[Experiment], source: Source) -> dict[str, str]:
    """The unavailable data sets, with reasons."""
    missing = {}
    for name in dict.fromkeys(name for e in experiments for name in e.datasets):
        try:
            source.data(name, 0)
        except DataUnavailable as error:
            missing[name] = f"{name} is missing: {error}"
    return missing


def weight(task: Task) -> float:
    """The approximate cost of a task, in entries of gradients."""
    entry = resolve(task.dataset) if isinstance(task, Cell) else None
    # The library counts a million entries for a data set that it does not know.
    return task.cost * task.parts * (1.0 if entry is None else entry.n * entry.d / 1e6)


def cost_of(experiments: Sequence[Experiment], missing: Mapping[str, str]) -> float:
    """The total of all calls of ``advance``."""
    return sum(_total(e.without(list(missing))) for e in experiments)


def _total(tasks: Sequence[Task]) -> float:
    return sum(map(weight, {cache_key(task): task for task in tasks}.values()))


def estimated_seconds(
    experiments: Sequence[Experiment],
    missing: Mapping[str, str],
    store: Store,
    source: Source,
    jobs: int,
) -> float:
    """Estimate the time on idle cores for results not in the store, and for figures and page."""
    tasks = [task for one in experiments for task in one.without(list(missing))]
    todo = [t for t in tasks if store.get(cache_key(t, source.identity)) is None]
    cores = jobs if jobs > 0 else os.cpu_count() or 1
    return _SECONDS_PER_ENTRY * _total(todo) / cores + _SECONDS_PER_PAGE * len(experiments)


def reproduce(
    request: Request,
    experiments: Sequence[Experiment],
    source: Source,
    store: Store,
    missing: Mapping[str, str],
    watcher: Watcher,
) -> list[Outcome]:
    """Run the experiments one after another, except for results that the store holds."""
    for one in experiments:
        watcher.started(one)
        seconds = 0.0

        def add(done: Finished) -> None:
            nonlocal seconds
            seconds += done.seconds
            watcher.advance(weight(done.task))

        tasks = one.without(list(missing))
        rows = []
        # Timings need an otherwise idle machine.
        for part, jobs in ((_timed(tasks), 1), (_others(tasks), request.jobs)):
            rows += sweep(part, source, store, jobs=jobs, finished=add)
        left_out = tuple(text for name, text in missing.items() if name in one.datasets)
        view = VIEWS[one.name](rows, one.name) if rows else View()
        watcher.outcomes.append(Outcome(one, rows, view, left_out, seconds))
        watcher.finished(watcher.outcomes[-1])
    return watcher.outcomes


def _timed(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if isinstance(task, ClientTime)]


def _others(tasks: Sequence[Task]) -> list[Task]:
    return [task for task in tasks if not isinstance(task, ClientTime)]


def verdicts_of(outcomes: Sequence[Outcome], request: Request) -> list[Verdict]:
    """The verdicts of the experiments, and for all claims also the verdicts of the exact laws."""
    by_law = lemmas.verdicts() if request.judges_all else ()
    return [*by_law, *(v for outcome in outcomes for v in outcome.view.verdicts)]


def files_of(outcome: Outcome) -> dict[str, Callable[[Path], object]]:
    """The files of an experiment, and what writes each: rows, tables for LaTeX, and figures."""
    name, view = outcome.name, outcome.view
    found: dict[str, Callable[[Path], object]] = {}
    if outcome.rows:
        found[f"{name}.csv"] = partial(write_csv, rows=tidy(outcome.rows))
    if view.tables:
        latex = "\n".join(table.to_latex(f"tab:{name}") for table in view.tables)
        found[f"{name}.tex"] = partial(Path.write_text, data=latex, encoding="utf-8")
    for place, (picture, drawn) in enumerate(zip(view.pictures, outcome.figures, strict=True)):
        stem, figure = name + (f"-{place + 1}" if place else ""), picture.figure
        # Without the version of matplotlib, so that the same results give the same bytes.
        found[f"{stem}.png"] = partial(figure.savefig, dpi=150, metadata={"Software": None})
        found[f"{stem}.svg"] = partial(Path.write_text, data=drawn.svg, encoding="utf-8")
        found[f"{stem}.pdf"] = partial(pages.write_pdf, figure)
    return found


def write_outcome(outcome: Outcome, out: Path) -> None:
    """Write the files of an experiment."""
    for name, write in files_of(outcome).items():
        write(out / name)


def write_page(outcomes: Sequence[Outcome], request: Request, out: Path) -> Path:
    """Write the report: a self-contained index.html, and its numbers as summary.md."""
    sections = [_section(outcome, request) for outcome in outcomes]
    if request.judges_all:
        sections.append(_claims_section(outcomes, request))
    page = pages.render(
        sections,
        title=TITLE,
        summary=_summary(outcomes, request),
        facts=_facts(outcomes, request),
        overview=_OVERVIEW,
    )
    path = out / "index.html"
    pages.write_page(path, page)
    (out / "summary.md").write_text(
        markdown(
            TITLE,
            _summary(outcomes, request),
            _facts(outcomes, request),
            verdicts_of(outcomes, request),
            {outcome.name: outcome.view.tables for outcome in outcomes},
        ),
        encoding="utf-8",
    )
    return path


def _section(outcome: Outcome, request: Request) -> Section:
    return Section(
        name=outcome.name,
        title=outcome.experiment.title,
        where=outcome.experiment.where,
        text=outcome.experiment.text,
        command=request.command([outcome.name]),
        settings=settings_of(outcome.experiment),
        figures=outcome.figures,
        tables=outcome.view.tables,
        verdicts=outcome.view.verdicts,
        missing=outcome.missing,
        files=tuple(files_of(outcome)),
        seconds=outcome.seconds,
    )


def _claims_section(outcomes: Sequence[Outcome], request: Request) -> Section:
    verdicts = verdicts_of(outcomes, request)
    body = tuple((v.claim, v.where, v.verdict, v.numbers, v.command) for v in verdicts)
    headings = ("claim", "where", "verdict", "numbers", "command")
    return Section(
        name=CLAIMS,
        title="The paper's claims",
        where="Contributions, sections 3 to 5",
        text=(
            "Each printed claim of the contributions and of section 5, judged by the experiments "
            "above. A comparison counts where the difference exceeds two standard errors over "
            "paired runs. At one common α means at the fitted settings of table 3.",
            *(
                ("This is a coarse run (--quick): its verdicts are indications only.",)
                if request.quick
                else ()
            ),
        ),
        command=request.command([CLAIMS]),
        settings={},
        tables=(Table("Verdicts", headings, body),),
        verdicts=tuple(lemmas.verdicts()),
    )


def settings_of(one: Experiment) -> dict[str, str]:
    """The parameters of an experiment's tasks: one value, or all that occur."""
    values_by_name: dict[str, dict[str, None]] = {}
    for task in one.tasks:
        for name, value in task.parameters.items():
            text = _toml(value) if isinstance(value, str | bool | int | float) else str(value)
            values_by_name.setdefault(name, {})[text] = None
    values_by_name.pop("key", None)
    return {name: ", ".join(values) for name, values in values_by_name.items()}


def _summary(outcomes: Sequence[Outcome], request: Request) -> list[str]:
    verdicts = verdicts_of(outcomes, request)
    holds = sum(v.verdict == "holds" for v in verdicts)
    fails = sum(v.verdict.startswith("does not") for v in verdicts)
    unknown = sum(v.verdict == UNKNOWN for v in verdicts)
    lines = [
        f"{len(verdicts)} claims judged: {holds} hold as printed, {fails} do not hold, "
        f"{len(verdicts) - holds - fails - unknown} hold in part or for some settings only"
        + (f", {unknown} could not be measured." if unknown else "."),
    ]
    table = next((o for o in outcomes if o.name == "table3" and o.rows), None)
    if table is not None:
        numbers = table.view.numbers
        lines.append(
            f"Table 3: root mean squared difference {numbers['rmse']:.2f} points over "
            f"{len(numbers['numbers'])} numbers, with learning rates fitted to the paper's table."
        )
    if request.quick:
        lines.append("A coarse run (--quick): few runs a point, verdicts are indications only.")
    lacking = dict.fromkeys(text for o in outcomes for text in o.missing)
    lines += [f"Left out: {text}" for text in lacking]
    return lines


def _facts(outcomes: Sequence[Outcome], request: Request) -> dict[str, str]:
    kinds = {type(task).__module__ for outcome in outcomes for task in outcome.experiment.tasks}
    codes = sorted(map(code_version, kinds))
    packages = ("numpy", "scipy", "matplotlib")
    return {
        "command": request.command(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "fedsel": f"{__version__}, code {', '.join(codes)}",
        "Python": platform.python_version(),
        **{name: version(name) for name in packages},
        "cores": str(os.cpu_count()),
    }


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


def to_json(outcome: Outcome, request: Request) -> Row:
    """One experiment as JSON: numbers, verdicts, rows, settings."""
    return {
        "name": outcome.name,
        "title": outcome.experiment.title,
        "where": outcome.experiment.where,
        "command": request.command([outcome.name]),
        **outcome.view.numbers,
        "verdicts": [vars(v) for v in outcome.view.verdicts],
        "missing": list(outcome.missing),
        "settings": settings_of(outcome.experiment),
        "seconds": round(outcome.seconds, 2),
        "rows": tidy(outcome.rows),
    }
