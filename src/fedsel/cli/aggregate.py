"""``fedsel aggregate``: add up reports in files, on every core or on a cluster."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedsel._internal.extras import needed
from fedsel._internal.progress import Bar
from fedsel.cli import _terminal as terminal
from fedsel.errors import InvalidArgument
from fedsel.pages import Table
from fedsel.wire import ReportFormat
from fedsel.wire._report import RUN_BYTES

EXAMPLE = (
    "Example: fedsel aggregate reports/*.bin --task task.toml --run $RUN   ·   "
    "fedsel aggregate day.parquet --task task.toml --run $RUN --cluster tcp://host:8786"
)


_ClusterOption = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler to run on, such as tcp://host:8786."),
]


def aggregate(
    reports: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES", help="One report after another (.bin), or a column report (.parquet)."
        ),
    ],
    task: Annotated[Path, typer.Option(help="The task that the reports are of, a TOML file.")],
    run: Annotated[str, typer.Option(help="The name of the run, as /v1/task shows it.")],
    jobs: terminal.JobsOption = 0,
    cluster: _ClusterOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="An .npz file for the means by round.", show_default="none is written"),
    ] = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Add up reports that lie in files, and print the mean update of each round.

    Every well-formed report of a round of the task counts, also one that is there twice: files
    have no names of clients.
    """
    with needed("service", "fedsel aggregate"):
        from fedsel.service import Task
        from fedsel.service._offline_aggregation import aggregated, parts_of

    try:
        begun = Task.load(task).begin
    except InvalidArgument as error:
        raise InvalidArgument("--task", str(task), f"a task ({error})") from None
    recipe, planned = begun.recipe, begun.recipe.epochs * begun.rounds_per_epoch
    form = ReportFormat.of(recipe.build(), _run(run))
    terminal.check_file("--out", out)
    parts = len(parts_of(reports, form.size))
    if out is not None and out.exists() and (not out.is_file() or any(map(out.samefile, reports))):
        raise InvalidArgument("--out", str(out), "a file, and none of the reports")
    at_a_time = -1 if cluster and not jobs else jobs or os.cpu_count() or 1
    begin, rejected, rows = time.monotonic(), 0, []
    bar = Bar(parts, "adding up")
    with _on_cluster(cluster), bar, _archive(out) as keep:
        for sums in aggregated(
            reports, form, recipe, planned, jobs=at_a_time, advance=lambda n: bar.update(advance=n)
        ):
            rejected += sums.rejected
            for number, totals in sorted(sums.by_round.items()):
                mean = sums.mean(recipe, number)
                keep(f"round_{number}", mean)
                norm = float(np.linalg.norm(mean))
                rows.append({"round": number, "reports": totals.count, "mean_norm": norm})
        counts = [[row["round"], row["reports"]] for row in rows]
        keep("counts", np.array(counts, dtype=np.int64).reshape(-1, 2))
    _show(rows, rejected, time.monotonic() - begin, as_json)


@contextmanager
def _archive(path: Path | None) -> Iterator[Callable[[str, NDArray[Any]], None]]:
    """An .npz file, one array after another; it is there once all of them are."""
    if path is None:
        yield lambda *_: None
        return
    part = path.with_name(f"{path.name}.new")
    try:
        with zipfile.ZipFile(part, "w") as archive:

            def keep(name: str, array: NDArray[Any]) -> None:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, array, allow_pickle=False)

            yield keep
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _run(text: str) -> bytes:
    try:
        name = bytes.fromhex(text)
    except ValueError:
        name = b""
    if len(name) != RUN_BYTES:
        raise InvalidArgument("--run", text, f"{2 * RUN_BYTES} hexadecimal digits")
    return name


def _show(rows: list[dict[str, Any]], rejected: int, seconds: float, as_json: bool) -> None:
    count = sum(row["reports"] for row in rows)
    if as_json:
        told = {"reports": count, "rejected": rejected, "seconds": seconds}
        terminal.print_json({**told, "rounds": rows}, indent=None)
        return
    cells = tuple((row["round"], row["reports"], f"{row['mean_norm']:.4g}") for row in rows)
    terminal.output().print(Table("Rounds", ("round", "reports", "norm of the mean"), cells))
    typer.echo(
        f"{count:,} reports added up, {rejected:,} rejected, in {seconds:.1f} seconds: "
        f"{count / max(seconds, 1e-9):,.0f} a second"
    )


@contextmanager
def _on_cluster(cluster: str | None) -> Iterator[None]:
    """Run joblib's work on a Dask cluster, if its address is given."""
    if cluster is None:
        yield
        return
    with needed("simulation", "a cluster"):
        import joblib

    try:
        with needed("cluster", "a cluster"):
            from distributed import Client
    except ImportError:
        wanted = 'omitted, or pip install "fedsel[cluster]" first'
        raise InvalidArgument("--cluster", cluster, wanted) from None
    try:
        client = Client(cluster, timeout="10s")  # type: ignore[no-untyped-call]
    except (OSError, ValueError):
        wanted = "the address of a Dask scheduler that answers"
        raise InvalidArgument("--cluster", cluster, wanted) from None
    with client, joblib.parallel_config(backend="dask"):
        yield
