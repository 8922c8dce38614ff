"""``fedsel data list``, ``fedsel data fetch`` and ``fedsel data path``"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from fedsel._internal.bar import patience
from fedsel._internal.display import printable
from fedsel.cli._commands import App
from fedsel.cli._terminal import JsonOption, output, print_path, say_error
from fedsel.data import NAMES, DataUnavailable, fetch, find
from fedsel.data.catalogue import RealData, resolve
from fedsel.data.download import SOURCES
from fedsel.data.raw import Found

data_app = App(
    help="The data sets of the paper: what there is, where it lies, and how to get it.",
    epilog="Example: fedsel data list   ·   fedsel data fetch adult   ·   fedsel data path bank",
)

NameArgument = Annotated[str, typer.Argument(help="bank, adult or kdd, in any case.")]
DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--directory", help="Look here first, before the folder FEDSEL_DATA and the cache."
    ),
]


@data_app.command("list", epilog="Example: fedsel data list --json")
def list_command(directory: DirectoryOption = None, as_json: JsonOption = False) -> None:
    """List the data sets: size, where each one would come from, and whether it is here.

    Files are looked for, not read: fetch checks them.
    """
    rows = [_row(name, directory) for name in NAMES]
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
        return
    table = Table("name", "N", "d", "comes from", "present")
    for row in rows:
        where = row["source"]
        if row["paths"]:
            where += f" ({printable(Path(row['paths'][0]).parent)})"
        elif where == "download":
            where += f" ({', then '.join(source.label for source in SOURCES[row['name']])})"
        present = "yes" if row["present"] else "no"
        table.add_row(row["name"], f"{row['n']:,}", str(row["d"]), where, present)
    output().print(table)


@data_app.command(
    "fetch",
    epilog="Example: fedsel data fetch adult   ·   fedsel data fetch kdd --directory ~/downloads"
    "   ·   fedsel data fetch bank --json",
)
def fetch_command(
    name: NameArgument, directory: DirectoryOption = None, as_json: JsonOption = False
) -> None:
    """Get the raw files of a data set, check them by SHA-256 and print where they are.

    Looks in --directory, the folder FEDSEL_DATA and the cache, then downloads into the cache.

    The SHA-256 is that of the uncompressed content, or of the .gz where that is published.

    Ends with status 1 if the files cannot be had or are not the right ones.
    """
    entry = resolve(name)
    if not isinstance(entry, RealData):
        if as_json:
            typer.echo(_json(entry.name, []))
        else:
            typer.echo(f"{entry.name}: generated from its seed, nothing to fetch")
        return
    with _status_one(), patience(f"{entry.name}: looking for its files") as notify:
        raw_files = fetch(name, directory, notify=notify)
        hashes = raw_files.check()
    if as_json:
        typer.echo(_json(entry.name, list(zip(raw_files.paths, hashes, strict=True))))
        return
    for path, sha256 in zip(raw_files.paths, hashes, strict=True):
        print_path(path, f"  {sha256}")


@data_app.command(
    "path",
    epilog="Example: fedsel data path bank   ·   zcat $(fedsel data path kdd) | head   ·   "
    "fedsel data path adult --json",
)
def path_command(
    name: NameArgument, directory: DirectoryOption = None, as_json: JsonOption = False
) -> None:
    """Print the path of each raw file of a data set, checked by SHA-256.

    Downloads nothing; ends with status 1 if the files are not here or not the right ones.
    """
    with _status_one():
        raw_files = find(name, directory)
        if raw_files is None:
            entry = resolve(name)
            raise DataUnavailable(
                f"{entry.name}: no files here; get them with: fedsel data fetch {entry.name}"
            )
        hashes = raw_files.check()
    if as_json:
        pairs = list(zip(raw_files.paths, hashes, strict=True))
        typer.echo(_json(resolve(name).name, pairs))
        return
    for path in raw_files.paths:
        print_path(path)


def _json(name: str, files: Sequence[tuple[Path, str]]) -> str:
    rows = [{"path": str(path), "sha256": sha256} for path, sha256 in files]
    return json.dumps({"name": name, "files": rows}, indent=1, allow_nan=False)


def _row(name: str, directory: Path | None) -> dict[str, Any]:
    entry = resolve(name)
    raw_files: Found | None = None
    source = "generated"
    if isinstance(entry, RealData):
        raw_files = find(name, directory)
        source = raw_files.where if raw_files else "download"
    return {
        "name": name,
        "n": entry.n,
        "d": entry.d,
        "source": source,
        "present": source != "download",
        "paths": [str(path) for path in raw_files.paths] if raw_files else [],
    }


@contextmanager
def _status_one() -> Iterator[None]:
    """Data that cannot be had ends the command with one sentence and status 1."""
    try:
        yield
    except DataUnavailable as error:
        say_error(error)
        raise typer.Exit(1) from None
