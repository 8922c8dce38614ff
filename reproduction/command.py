"""``python -m reproduction NAME``: tables and figures of the paper, and whether its claims hold."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedsel import InvalidArgument
from fedsel.experiments import Store
from fedsel.pages import Verdict
from reproduction import run
from reproduction.catalogue import CLAIMS, NAMES, check_changes, experiment, wanted
from reproduction.console import (
    App,
    DirectoryOption,
    JobsOption,
    JsonOption,
    SetOption,
    bar,
    check_folder,
    notes,
    output,
    pairs,
    printable,
)
from reproduction.datasets import Published
from reproduction.run import Outcome, Request

app = App()


@app.command(
    epilog="Example: python -m reproduction fair --quick. Further commands, each with --help: "
    "data (the data sets), run (train on one of them), audit (attack every mechanism)."
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
    changes: SetOption = None,
    directory: DirectoryOption = None,
    jobs: JobsOption = 0,
    cluster: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler to run on, such as tcp://host:8786."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the report goes; resumes from there.")] = Path(
        "report"
    ),
    as_json: JsonOption = False,
) -> None:
    """Regenerate tables and figures of the paper, and judge whether each claim holds.

    Writes a CSV, a PNG and an SVG for each experiment and one page, index.html. Finished cells are
    kept in results.sqlite, from which an interrupted run resumes. Unavailable data sets are left
    out and named.
    """
    if not names:
        _list(as_json)
        return
    chosen, changed = wanted(names), pairs(changes)
    check_changes(chosen, changed)
    check_folder("--out", out)
    if directory is not None and not directory.is_dir():
        raise InvalidArgument("--directory", str(directory), "a folder that exists")
    at_a_time = -1 if cluster and not jobs else jobs or os.cpu_count() or 1
    request = Request(tuple(names), quick, tuple(changed), at_a_time)
    with _on_cluster(cluster):
        outcomes, complete = _work(request, directory, out)
    _show(outcomes, request, out, as_json=as_json)
    if not complete:
        typer.echo("interrupted: finished cells are kept, run again to go on", err=True)
        raise typer.Exit(130)
    if not any(outcome.rows for outcome in outcomes):
        raise typer.Exit(1)


@contextmanager
def _on_cluster(cluster: str | None) -> Iterator[None]:
    """Run joblib's tasks on a Dask cluster if its address is given."""
    if cluster is None:
        yield
        return
    import joblib
    from distributed import Client

    try:
        client = Client(cluster, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError):
        wanted_ = "the address of a Dask scheduler that answers"
        raise InvalidArgument("--cluster", cluster, wanted_) from None
    with client, joblib.parallel_config(backend="dask"):
        yield


def _list(as_json: bool) -> None:
    experiments = [experiment(name) for name in NAMES if name != CLAIMS]
    rows = [
        {"name": e.name, "where": e.where, "title": e.title, "data": list(e.datasets)}
        for e in experiments
    ]
    rows.append({"name": CLAIMS, "where": "", "title": "The verdicts of all", "data": []})
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = Table(title="python -m reproduction NAME")
    for heading in ("name", "where", "title", "data"):
        table.add_column(heading)
    for row in rows:
        table.add_row(*(", ".join(v) if isinstance(v, list) else str(v) for v in row.values()))
    output().print(table)


def _work(request: Request, directory: Path | None, out: Path) -> tuple[list[Outcome], bool]:
    console, experiments = notes(), request.experiments
    missing = run.missing_data(experiments, Published(directory, console.print))
    for text in missing.values():
        console.print(f"left out: {printable(text)}", style="yellow")
    out.mkdir(exist_ok=True)
    source, store = Published(directory), Store(out / "results.sqlite")
    seconds = run.estimated_seconds(experiments, missing, store, source, request.jobs)
    if seconds > 10:
        about = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
        console.print(f"about {about}, where nothing else runs here")
    watcher = run.Watcher()
    with bar(run.cost_of(experiments, missing)) as progress:

        def finished(outcome: Outcome) -> None:
            run.write_outcome(outcome, out)
            run.write_page(watcher.outcomes, request, out)
            progress.keep(f"{outcome.name}: done")

        watcher.started = lambda one: progress.now(f"{one.name}: {one.title}")
        watcher.advance = progress.advance
        watcher.finished = finished
        try:
            run.reproduce(request, experiments, source, store, missing, watcher)
        except KeyboardInterrupt:
            return watcher.outcomes, False
    return watcher.outcomes, True


def _show(outcomes: Sequence[Outcome], request: Request, out: Path, *, as_json: bool) -> None:
    verdicts = run.verdicts_of(outcomes, request)
    if as_json:
        experiments = [run.to_json(outcome, request) for outcome in outcomes]
        result: Any = {"experiments": experiments, "claims": [vars(v) for v in verdicts]}
        if len(request.names) == len(experiments) == 1:
            result = experiments[0]
        typer.echo(json.dumps(result, indent=1, allow_nan=False))
        return
    console = output()
    for outcome in outcomes:
        if len(outcomes) == 1:
            for table in outcome.view.tables:
                console.print(table)
        rmse = outcome.view.numbers.get("rmse")
        if rmse is not None:
            console.print(f"{outcome.name}: rms difference from the paper {rmse:.2f} points")
    if verdicts:
        console.print(_verdict_table(verdicts))
    page = printable(out / "index.html")
    console.print(f"wrote {page} and, beside it, CSV, LaTeX, PNG, SVG and PDF files")


def _verdict_table(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="Claims of the paper")
    for heading in ("claim", "where", "verdict", "numbers"):
        table.add_column(heading)
    for v in verdicts:
        style = "green" if v.verdict == "holds" else "red" if v.verdict == "does not hold" else ""
        table.add_row(v.claim, v.where, Text(v.verdict, style), v.numbers)
    return table
