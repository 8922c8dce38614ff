"""What ``fedsel serve --demo`` shows: progress, a table of rounds, and the ledgers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from fedsel._internal.display import printable
from fedsel._internal.extras import needed
from fedsel.cli.common import output
from fedsel.cli.processes import ProcessError, unwinding
from fedsel.cli.waiting import Bar
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from fedsel.cli.serve_demo import ServiceDemo, Spent, Summary


def show_demo(
    devices: int, epochs: int, epsilon: float, keep: Path | None, stay: bool, as_json: bool
) -> None:
    """Run it, and say what came out; Ctrl-C ends every process."""
    with needed("service", "fedsel serve --demo"):
        from fedsel.cli.serve_demo import ServiceDemo

    demo = ServiceDemo(devices, epochs, epsilon)
    if keep is not None:
        if keep.exists():
            raise InvalidArgument("--keep", str(keep), "a folder that does not exist yet")
        keep.mkdir(parents=True)
    try:
        with unwinding(), Bar(epochs, "starting the service") as bar:
            summary = demo.run(
                lambda now, done: bar.update(now, completed=done),
                bar.keep,
                None if keep is None else keep.resolve(),
                stay,
            )
    except ProcessError as error:
        typer.echo(f"fedsel: {printable(error, lines=True)}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("fedsel: interrupted; every process was ended", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(summary.as_dict(), indent=1, allow_nan=False))
    else:
        _show(demo, summary)


def _show(demo: ServiceDemo, summary: Summary) -> None:
    console = output()
    console.print(
        f"{summary.solution}, d = {summary.dim}, ε = {summary.epsilon_per_report} a report, "
        f"{demo.devices} devices"
    )
    table = Table(title="The ledgers")
    table.add_column("devices")
    for heading in ("reports", "ε spent", "ε left"):
        table.add_column(heading, justify="right")
    rows = sorted(summary.devices, key=_books)
    for books, alike in groupby(rows, key=_books):
        table.add_row(_ranges([one.device for one in alike]), *map(str, books))
    console.print(table)
    console.print(
        f"accuracy on a public test set: {100 * summary.accuracy:.1f} %, and without privacy "
        f"{100 * summary.plain_accuracy:.1f} %"
    )
    console.print("ε protects all records of a device together, not the single record.")
    console.print(
        f"All devices had joined after {summary.ready_seconds:.0f} seconds; "
        f"{summary.seconds:.0f} seconds in all."
    )


def _books(one: Spent) -> tuple[int, str, str]:
    return one.reports, one.spent, one.left


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in short.

    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0–2, 5, 7–8'
    """
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        last = f"–{values[-1]}" if len(values) > 1 else ""
        parts.append(f"{values[0]}{last}")
    return ", ".join(parts)
