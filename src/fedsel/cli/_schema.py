"""``fedsel schema``: draft a public schema of a table, for people to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedsel._internal.display import printable
from fedsel._internal.progress import patience
from fedsel.cli._terminal import JsonOption, check_file, print_json
from fedsel.data._draft import draft_file
from fedsel.errors import InvalidArgument

EXAMPLE = (
    "Example: fedsel schema my.csv --label income --out schema.toml   ·   "
    "fedsel run --data my.csv --schema schema.toml --solution FJ"
)


def schema_command(
    data: Annotated[Path, typer.Argument(help="Your table: .csv or .parquet.", metavar="DATA")],
    label: Annotated[
        str | None, typer.Option(help="The column to predict: name or number.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The TOML file to write; without, it is printed.")
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="Whether a .csv file begins with its columns' names."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draft a schema of a table: bounds, levels, dates and missing cells of its columns.

    A schema must be public, and a draft is not: it is made by looking at the records. Edit it
    before you use it, so that bounds and levels are ones that are known without the records.
    """
    check_file("--out", out)
    if out is not None and out.exists():
        raise InvalidArgument("--out", str(out), "a file that is not there yet: it may be edited")
    with patience(f"reading {data}"):
        made = draft_file(data, label, header=header)
    if as_json:
        notes = {name: note for name, note in made.notes.items() if note}
        plain = {"schema": made.schema.to_dict(), "records": made.records, "notes": notes}
        print_json({**plain, "left_out": dict(made.left_out), "warning": made.warning})
    elif out is None:
        typer.echo(made.to_toml(), nl=False)
    if out is not None:
        out.write_text(made.to_toml(), encoding="utf-8")
        typer.echo(printable(f"{out} is written. {' '.join(made.warning.split())}"), err=True)
