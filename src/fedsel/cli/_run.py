"""``fedsel run``: the main job. Its options are the parameters of an experiment."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from fedsel._internal.display import printable
from fedsel._internal.extras import check_installed
from fedsel._internal.progress import Bar, progress_console
from fedsel.auto._numbers import CENTRE, SPREAD
from fedsel.cli._commands import load_config
from fedsel.cli._imports import ImportOption, import_solutions
from fedsel.cli._run_records import Files, source_of
from fedsel.cli._run_table import Row, annotated, line_of, print_table, write_files
from fedsel.cli._terminal import JobsOption, JsonOption, check_folder, parse_top, print_json
from fedsel.errors import InvalidArgument
from fedsel.experiments import (
    PARAMETERS,
    Finished,
    Source,
    Spec,
    Store,
    cache_key,
    override,
    sweep,
)
from fedsel.recipe import AUTO, Parameter, Section, parameters_of

EXAMPLE = (
    "Example: fedsel run --dataset syn-H --solution FJ --solution PS-PM --epsilon 2   ·   "
    "fedsel run --data my.csv --label income --solution FJ --scale private --json   ·   "
    "fedsel run --config examples/run.toml --epsilon 4"
)
_TITLES: dict[Section, str] = {
    "data": "What to train on",
    "compared": "What to compare",
    "training": "Training",
    "records": "Preparation of records",
    "solution": "Parameters of solutions",
    "validation": "Validation",
}
"""The sections of the help page, in their order."""
_USUAL_SHARES = {"spread": SPREAD, "centre": CENTRE}
"""The share of the rounds that "yes" stands for."""


def _with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each parameter of an experiment in place of ``**given``."""
    order = list(_TITLES)
    every = {"dataset": PARAMETERS["dataset"], **parameters_of(Files), **PARAMETERS}
    found = sorted(every.values(), key=lambda p: order.index(p.section or "data"))
    *own, _ = inspect.signature(command, eval_str=True).parameters.values()
    signature = inspect.Signature([*map(_option, found), *own])
    command.__signature__ = signature  # type: ignore[attr-defined]
    return command


def _option(parameter: Parameter) -> inspect.Parameter:
    dashed = parameter.name.replace("_", "-")
    kind = _kind_of(parameter)
    spellings = [f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}"]
    spellings += [f"-{parameter.short}"] if parameter.short else []
    about = typer.Option(
        *spellings,
        help=parameter.text,
        show_default=_default_of(parameter),
        rich_help_panel=_TITLES[parameter.section or "data"],
    )
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, about],
    )


def _kind_of(parameter: Parameter) -> Any:
    """The type of an option; what may be a word or one of two kinds of number is a text."""
    if isinstance(parameter.default, tuple):
        return list[float] if float in get_args(parameter.kind) else list[str]
    kinds = set(get_args(parameter.kind)) - {type(None)} or {parameter.kind}
    return kinds.pop() if len(kinds) == 1 else str


def _default_of(parameter: Parameter) -> str | bool:
    default = parameter.default
    if parameter.unset or default is None:
        return parameter.unset or False
    *first, last = [
        value if isinstance(value, str) else f"{value:g}"
        for value in (default if isinstance(default, tuple) else (default,))
    ]
    return f"{', '.join(first)} and {last}" if first else last


def _read(parameter: Parameter, value: Any) -> Any:
    """The value of an option; a text may be a number, auto, or yes and no."""
    if not isinstance(value, str) or parameter.kind in (str, str | None):
        return value
    words: dict[str, Any] = {}
    allowed = "a count such as 5 or a fraction such as 0.1"
    if any(AUTO in get_args(kind) for kind in get_args(parameter.kind)):
        words, allowed = {AUTO: AUTO}, "a number, or auto"
    if parameter.name in _USUAL_SHARES:
        words |= {"yes": _USUAL_SHARES[parameter.name], "no": 0.0}
        allowed = "auto, yes, no or a share of the rounds"
    if value.lower() in words:
        return words[value.lower()]
    return parse_top(value, parameter.name, allowed)


def _spec_of(given: dict[str, Any], files: Files) -> Spec:
    """The experiment that options describe; an option that would be ignored is refused."""
    files.refuse_ignored({name: given[name] for name in ("dataset", "draw")})
    values = {key: _read(p, given[p.name]) for key, p in PARAMETERS.items()}
    changes = {key: value for key, value in values.items() if value is not None}
    if files.data is not None:
        changes["dataset"] = files.data.name
    spec = override(Spec(), changes)
    if files.public is None:
        return spec
    if spec.scale not in (None, "unit", "symmetric"):
        raise InvalidArgument("scale", spec.scale, "unit or symmetric with --public")
    return replace(spec, scale=spec.scale or "unit")  # public rows have the bounds


@_with_parameters
def run(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The same options from a TOML file, such as epsilon = [1, 2]; options win.",
            callback=load_config,
            is_eager=True,
        ),
    ] = None,
    imports: ImportOption = None,
    jobs: JobsOption = 0,
    out: Annotated[
        Path, typer.Option(help="The folder of the results; resumes from there.")
    ] = Path("results"),
    as_json: JsonOption = False,
    **given: Any,
) -> None:
    """Train with each solution at each ε by cross-validation, and compare.

    Shows progress, prints a table (mean ± standard deviation over the repeats), and writes
    run.csv, run.json, run.tex and the figure accuracy.png/.svg/.pdf. Ctrl-C keeps what is finished;
    the same command goes on from there.
    """
    del config  # its callback has filled in what was not given
    import_solutions(imports)
    files = Files(**{name: given.pop(name) for name in parameters_of(Files)})
    spec = _spec_of(given, files)
    check_folder("--out", out)
    check_installed("simulation", "fedsel run", "joblib", "scipy")
    import_module("fedsel.sampling._kernels")  # explains what to do where they were left out
    number = len(list(spec.cells()))
    results = "one result" if number == 1 else f"{number} results"
    line = f"{spec.dataset}: {results}, each from {spec.repeats} × {spec.folds} folds"
    progress_console().print(printable(line), highlight=False, markup=False)
    spec, source = source_of(spec, files)
    rows, complete = _perform(spec, source, out, jobs or os.cpu_count() or 1)
    rows = annotated(rows)
    written = write_files(rows, out) if rows else []
    if as_json:
        print_json(rows)
    elif rows:
        print_table(rows, written)
    if not complete:
        typer.echo(f"interrupted: {len(rows)} results are kept, run again to go on", err=True)
        raise typer.Exit(130)


def _perform(spec: Spec, source: Source, out: Path, jobs: int) -> tuple[list[Row], bool]:
    """Run all cells and keep each result at once; return them, and whether all are there."""
    cells = list({cache_key(cell, source.identity): cell for cell in spec.cells()}.values())
    for cell in {cell.recipe.solution: cell for cell in cells}.values():
        cell.setup(source)  # refuse what does not fit the records before the work begins
    out.mkdir(exist_ok=True)
    store = Store(out / "results.sqlite")
    with Bar(sum(cell.cost * cell.parts for cell in cells)) as bar:

        def finished(done: Finished) -> None:
            bar.keep(line_of(done.row))

        def advance(cost: float) -> None:
            bar.update("training", advance=cost)

        try:
            return sweep(cells, source, store, jobs=jobs, finished=finished, advance=advance), True
        except KeyboardInterrupt:
            # Everything that was kept, also what was written just before it would have been shown.
            kept = [store.get(cache_key(cell, source.identity)) for cell in cells]
            return [row for row in kept if row is not None], False
