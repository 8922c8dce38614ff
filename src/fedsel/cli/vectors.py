"""``fedsel vectors``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedsel.cli._terminal import Bar, JsonOption, check_folder, check_there, output, say_error

EXAMPLE = "Example: fedsel vectors --out vectors   ·   fedsel vectors --check"


def vectors_command(
    out: Annotated[Path, typer.Option(help="The folder of the vectors.")] = Path("vectors"),
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing: compare the files with what they should be."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write the test vectors that a client in another language is checked against.

    One JSON file for each kind; SPEC.md says how to read them. With --check it ends with status 1
    where a file differs.
    """
    from fedsel.vectors import KINDS, differences, file_of, write

    (check_there if check else check_folder)("--out", out)
    if not check:
        out.mkdir(exist_ok=True)
    rows: list[dict[str, Any]] = []
    with Bar(len(KINDS)) as bar:
        for kind, (about, _) in KINDS.items():
            bar.update(f"{'comparing' if check else 'writing'} {kind}")
            found = differences(out, kind) if check else []
            cases = None if check else write(out, kind)
            row = {"file": str(file_of(out, kind)), "about": about, "cases": cases}
            rows.append({**row, "differences": found})
            bar.update(advance=1)
    wrong = [line for row in rows for line in row["differences"]]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    else:
        _show(rows, check=check)
        for line in wrong:
            say_error(line)
    if wrong:
        raise typer.Exit(1)


def _show(rows: list[dict[str, Any]], *, check: bool) -> None:
    table = Table()
    for heading in ("file", "differences" if check else "cases", "what it holds"):
        table.add_column(
            heading, justify="right" if heading in ("cases", "differences") else "left"
        )
    for row in rows:
        count = len(row["differences"]) if check else row["cases"]
        table.add_row(row["file"], str(count), row["about"])
    output().print(table)
