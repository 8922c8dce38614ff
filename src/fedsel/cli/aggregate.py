"""``fedsel aggregate``: add up reports at rest, on every core or on a cluster."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from fedsel.cli.cluster import ClusterOption, on_cluster
from fedsel.cli.common import Column, JobsOption, JsonOption, check_file, fitted, output
from fedsel.cli.waiting import Bar
from fedsel.errors import InvalidArgument
from fedsel.extras import needed
from fedsel.wire.report import RUN_BYTES, ReportFormat

if TYPE_CHECKING:
    from fedsel.recipe import Recipe
    from fedsel.service.at_rest import Sums

EXAMPLE = (
    "Example: fedsel aggregate reports/*.bin --task task.toml --run $RUN   ·   "
    "fedsel aggregate day.parquet --task task.toml --run $RUN --cluster tcp://host:8786"
)


def aggregate(
    reports: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES", help="One report after another (.bin), or a column report (.parquet)."
        ),
    ],
    task: Annotated[Path, typer.Option(help="The task that the reports are of, a TOML file.")],
    run: Annotated[str, typer.Option(help="The name of the run, as /v1/task tells it.")],
    jobs: JobsOption = 0,
    cluster: ClusterOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="An .npz file for the means by round.", show_default="none is written"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Add up reports that lie in files, and tell the mean update of each round.

    Every well-formed report counts, also one that is there twice: files have no names of clients.
    """
    with needed("service", "fedsel aggregate"):
        from fedsel.service import Task
        from fedsel.service.at_rest import aggregated, parts_of

    try:
        recipe = Task.load(task).begin.recipe
    except InvalidArgument as error:
        raise InvalidArgument("--task", str(task), f"a task ({error})") from None
    form = ReportFormat.of(recipe.build(), _run(run))
    check_file("--out", out)
    parts = len(parts_of(reports, form.size))
    at_a_time = -1 if cluster and not jobs else jobs or os.cpu_count() or 1
    begin = time.monotonic()
    with on_cluster(cluster), Bar(parts, "adding up") as bar:
        sums = aggregated(
            reports, form, recipe, jobs=at_a_time, advance=lambda n: bar.update(advance=n)
        )
    seconds = time.monotonic() - begin
    if out is not None:
        means = {f"round_{n}": sums.mean(recipe, n) for n in sorted(sums.by_round)}
        counts = np.array([[n, sums.by_round[n].count] for n in sorted(sums.by_round)])
        with out.open("wb") as file:
            np.savez(file, counts=counts.reshape(-1, 2), **means)  # type: ignore[arg-type]
    _show(sums, recipe, seconds, as_json)


def _run(text: str) -> bytes:
    try:
        name = bytes.fromhex(text)
    except ValueError:
        name = b""
    if len(name) != RUN_BYTES:
        raise InvalidArgument("--run", text, f"{2 * RUN_BYTES} hexadecimal digits")
    return name


def _show(sums: Sums, recipe: Recipe, seconds: float, as_json: bool) -> None:
    rows = [
        {
            "round": number,
            "reports": sums.by_round[number].count,
            "mean_norm": float(np.linalg.norm(sums.mean(recipe, number))),
        }
        for number in sorted(sums.by_round)
    ]
    if as_json:
        told = {"reports": sums.count, "rejected": sums.rejected, "seconds": seconds}
        typer.echo(json.dumps({**told, "rounds": rows}, allow_nan=False))
        return
    console = output()
    columns = [
        Column("round", lambda row: str(row["round"])),
        Column("reports", lambda row: f"{row['reports']:,}"),
        Column("norm of the mean", lambda row: f"{row['mean_norm']:.4g}"),
    ]
    console.print(fitted(console, columns, rows))
    rate = sums.count / max(seconds, 1e-9)
    typer.echo(
        f"{sums.count:,} reports added up, {sums.rejected:,} rejected, in {seconds:.1f} seconds: "
        f"{rate:,.0f} a second"
    )
