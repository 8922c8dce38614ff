"""``fedsel reproduce``: every table and figure of the paper, and whether its claims hold."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedsel._internal.bar import Bar, patience, progress_console
from fedsel._internal.display import about as about_time
from fedsel._internal.display import printable
from fedsel._internal.extras import check_installed
from fedsel._internal.progress import PATIENCE
from fedsel.cli._terminal import (
    ClusterOption,
    JobsOption,
    JsonOption,
    check_folder,
    check_there,
    on_cluster,
    output,
)
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from fedsel.pages import Verdict
    from fedsel.paper.run import Outcome, Request

EXAMPLE = (
    "Example: fedsel reproduce table3   ·   fedsel reproduce all --quick   ·   "
    "fedsel reproduce fig2f --set repeats=2 --set 'epsilons=[1.0, 2.0]' --json"
)


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="table1, theorem2, fig2a … fig2i, fig3a … fig3c, table3, alpha, ablation, fair, "
            "claims or all. Without a name the experiments are listed.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A coarse version, with few runs: minutes in place of an hour."
        ),
    ] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a parameter: name=value, as in TOML; repeat."),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option(help="A folder with the data files (or set FEDSEL_DATA).")
    ] = None,
    jobs: JobsOption = 0,
    cluster: ClusterOption = None,
    out: Annotated[Path, typer.Option(help="Where the report goes; resumes from there.")] = Path(
        "report"
    ),
    as_json: JsonOption = False,
) -> None:
    """Regenerate tables and figures of the paper, and say of each claim whether it holds.

    Writes a CSV, a PNG and an SVG for each experiment and one page, index.html. Finished cells are
    kept in results.sqlite: an interrupted run goes on where it was. Data sets that cannot be had
    are left out, and named.
    """
    from fedsel.paper.catalogue import check_changes, wanted
    from fedsel.paper.run import Request

    if not names:
        _list(as_json)
        return
    chosen = wanted(names)
    pairs = [_pair(text) for text in changes or []]
    check_changes(chosen, pairs)
    check_folder("--out", out)
    check_there("--directory", directory)
    check_installed("demo", "fedsel reproduce", "joblib", "scipy", "matplotlib")
    at_a_time = -1 if cluster and not jobs else jobs or os.cpu_count() or 1
    request = Request(tuple(names), quick, tuple(pairs), at_a_time)
    with on_cluster(cluster):
        outcomes, complete = _work(request, directory, out)
    _show(outcomes, request, out, as_json=as_json)
    if not complete:
        typer.echo("interrupted: finished cells are kept, run again to go on", err=True)
        raise typer.Exit(130)
    if not any(outcome.rows for outcome in outcomes):
        raise typer.Exit(1)


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidArgument("--set", text, "name=value")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        # A plain word need not be quoted.
        return name.strip(), value.strip()


def _list(as_json: bool) -> None:
    from fedsel.paper.catalogue import CLAIMS, NAMES, experiment

    experiments = [experiment(name) for name in NAMES if name != CLAIMS]
    rows = [
        {"name": e.name, "where": e.where, "title": e.title, "data": list(e.datasets)}
        for e in experiments
    ]
    rows.append({"name": CLAIMS, "where": "", "title": "The verdicts of all", "data": []})
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table(title="fedsel reproduce NAME")
    for heading in ("name", "where", "title", "data"):
        table.add_column(heading)
    for row in rows:
        table.add_row(*(", ".join(v) if isinstance(v, list) else str(v) for v in row.values()))
    output().print(table)


def _work(request: Request, directory: Path | None, out: Path) -> tuple[list[Outcome], bool]:
    from fedsel.experiments import CatalogueSource, Store
    from fedsel.paper import run

    console = progress_console()
    experiments = request.experiments
    with patience("looking for the data") as notify:
        missing = run.missing_data(experiments, CatalogueSource(directory, notify))
    source = CatalogueSource(directory)
    for text in missing.values():
        console.print(f"left out: {printable(text)}", style="yellow", highlight=False)
    out.mkdir(exist_ok=True)
    store = Store(out / "results.sqlite")
    about = run.estimated_seconds(experiments, missing, store, source, request.jobs)
    if about > PATIENCE:
        console.print(f"{about_time(about)}, where nothing else runs here", highlight=False)
    watcher = run.Watcher()
    with Bar(run.cost_of(experiments, missing)) as bar:

        def finished(outcome: Outcome) -> None:
            run.write_outcome(outcome, out)
            run.write_page(watcher.outcomes, request, out)

        watcher.started = lambda one: bar.update(f"{one.name}: {one.title}"[:34])
        watcher.advance = lambda cost: bar.update(advance=cost)
        watcher.finished = finished
        try:
            run.reproduce(request, experiments, source, store, missing, watcher)
        except KeyboardInterrupt:
            return watcher.outcomes, False
    return watcher.outcomes, True


def _show(outcomes: list[Outcome], request: Request, out: Path, *, as_json: bool) -> None:
    from fedsel.paper import run

    verdicts = run.verdicts_of(outcomes, request)
    if as_json:
        experiments = [run.to_json(outcome, request) for outcome in outcomes]
        result: Any = (
            experiments[0]
            if len(request.names) == 1 and len(experiments) == 1
            else {
                "experiments": experiments,
                "claims": [vars(v) for v in verdicts],
            }
        )
        typer.echo(json.dumps(result, indent=1, allow_nan=False))
        return
    console = output()
    for outcome in outcomes:
        if len(outcomes) == 1:
            for paper_table in outcome.view.tables:
                console.print(_table(paper_table))
        rmse = outcome.view.numbers.get("rmse")
        if rmse is not None:
            console.print(f"{outcome.name}: rms difference from the paper {rmse:.2f} points")
    if verdicts:
        console.print(_verdict_table(verdicts))
    page = printable(out / "index.html")
    console.print(f"wrote {page} and, beside it, CSV, PNG and SVG files")


def _table(paper_table: Any) -> Table:
    table = Table(title=paper_table.title, caption=paper_table.note or None)
    for heading, numeric in zip(paper_table.columns, paper_table.numeric, strict=True):
        table.add_column(heading.strip(), justify="right" if numeric else "left")
    for row in paper_table.texts:
        table.add_row(*row)
    return table


def _verdict_table(verdicts: list[Verdict]) -> Table:
    table = Table(title="Claims of the paper")
    for heading in ("claim", "where", "verdict", "numbers"):
        table.add_column(heading)
    for v in verdicts:
        style = "green" if v.verdict == "holds" else "red" if v.verdict == "does not hold" else ""
        table.add_row(v.claim, v.where, Text(v.verdict, style), v.numbers)
    return table
