"""``python -m reproduction run``: train on a data set of the paper, by cross-validation."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from fedsel.experiments import (
    Finished,
    Store,
    accuracy_table,
    sweep,
    tidy,
    write_csv,
    write_figures,
    write_tables,
)
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
)
from reproduction.datasets import Published
from reproduction.paper import paper_spec
from reproduction.run import weight

app = App()


@app.command(
    epilog="Example: python -m reproduction run adult --solution FJ --solution PS-PM --epsilon 2"
)
def run(
    dataset: Annotated[str, typer.Argument(help="syn-L, syn-H, bank, adult or kdd.")],
    solution: Annotated[
        list[str] | None, typer.Option("--solution", "-s", help="A solution; repeat for several.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option("--epsilon", "-e", help="ε of a client; repeat.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="logistic or svm; repeat for both.")
    ] = None,
    changes: SetOption = None,
    directory: DirectoryOption = None,
    jobs: JobsOption = 0,
    out: Annotated[Path, typer.Option(help="The folder of results; resumes from there.")] = Path(
        "results"
    ),
    as_json: JsonOption = False,
) -> None:
    """Train with each solution at each ε on a data set of the paper, as fedsel run does.

    Scaling, intercept and learning rates that are not given are taken from table 3.
    --set takes every other parameter of fedsel.experiments.Spec. Prints and writes what fedsel run
    does; curves and held-out tests, which have no single accuracy, are printed as JSON.
    """
    given = {"dataset": dataset, "solutions": solution, "epsilons": epsilon, "models": model}
    chosen = {name: value for name, value in given.items() if value}
    spec = paper_spec({**chosen, **dict(pairs(changes))})
    check_folder("--out", out)
    source = Published(directory)
    Published(directory, notes().print).data(spec.dataset, spec.draw)
    out.mkdir(exist_ok=True)
    cells = list(spec.cells())
    with bar(sum(weight(cell) for cell in cells)) as progress:

        def finished(done: Finished) -> None:
            progress.now(f"{done.row['solution']}, {done.row['model']}")
            progress.advance(weight(done.task))

        store = Store(out / "results.sqlite")
        rows = sweep(cells, source, store, jobs=jobs or os.cpu_count() or 1, finished=finished)
    if spec.curve or spec.protocol != "folds":  # no single accuracy to compare
        write_csv(out / "run.csv", tidy(rows))
        as_json = True
    else:
        write_tables(rows, out)
        write_figures(rows, out)
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
    else:
        output().print(accuracy_table(rows))
