"""``python -m reproduction data``: list, fetch, path and save."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from fedsel import InvalidArgument
from fedsel.data import SIZES
from reproduction.console import (
    App,
    DirectoryOption,
    JsonOption,
    check_file,
    notes,
    output,
    printable,
)
from reproduction.datasets.catalogue import NAMES, resolve
from reproduction.datasets.download import SOURCES
from reproduction.datasets.loaders import fetch, find, load
from reproduction.datasets.raw import DataUnavailable

app = App(
    no_args_is_help=True,
    help="The data sets of the paper: what there is, where it lies, and how to get it.",
    epilog="Example: python -m reproduction data fetch adult",
)

NameArgument = Annotated[str, typer.Argument(help="bank, adult or kdd, in any case.")]


@app.command("list")
def list_command(directory: DirectoryOption = None, as_json: JsonOption = False) -> None:
    """List the data sets: size, source, and whether each is here.

    The content of files is not checked; fetch does that.
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


@app.command("fetch")
def fetch_command(
    name: NameArgument, directory: DirectoryOption = None, as_json: JsonOption = False
) -> None:
    """Get the raw files of a data set, check them by SHA-256 and print where they are.

    Looks in --directory, the folder FEDSEL_DATA and the cache, then downloads into the cache.

    Prints the SHA-256 of the uncompressed content, or of the .gz if that is published.

    Ends with status 1 if the files cannot be had or are not the right ones.
    """
    entry = resolve(name)
    if entry is None:
        if as_json:
            typer.echo(_json(name, []))
        else:
            typer.echo(f"{name}: generated from its seed, nothing to fetch")
        return
    raw_files = fetch(name, directory, notify=notes().print)
    hashes = raw_files.check()
    if as_json:
        typer.echo(_json(entry.name, list(zip(raw_files.paths, hashes, strict=True))))
        return
    for path, sha256 in zip(raw_files.paths, hashes, strict=True):
        _print_path(path, f"  {sha256}")


@app.command("path")
def path_command(
    name: NameArgument, directory: DirectoryOption = None, as_json: JsonOption = False
) -> None:
    """Print the path of each raw file of a data set, checked by SHA-256.

    Downloads nothing; ends with status 1 if the files are not here or not the right ones.
    """
    raw_files = find(name, directory)
    if raw_files is None:
        get = f"python -m reproduction data fetch {name}"
        raise DataUnavailable(f"{name}: no files here; get them with: {get}")
    hashes = raw_files.check()
    if as_json:
        pairs = list(zip(raw_files.paths, hashes, strict=True))
        typer.echo(_json(name, pairs))
        return
    for path in raw_files.paths:
        _print_path(path)


@app.command("save")
def save_command(
    name: Annotated[str, typer.Argument(help="syn-L, syn-H, bank, adult or kdd.")],
    file: Annotated[Path, typer.Argument(help="An .npz file, for fedsel run --data.")],
    directory: DirectoryOption = None,
) -> None:
    """Write a data set with its feature names and public bounds, for fedsel run --data FILE."""
    check_file("FILE", file)
    if file.suffix != ".npz":
        raise InvalidArgument("FILE", str(file), "a file that ends in .npz")
    data = load(name, directory, notify=notes().print)
    X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    arrays = {"X": X, "y": data.y, "feature_names": np.array(data.feature_names)}
    if data.bounds is not None:
        arrays["bounds"] = data.bounds
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    typer.echo(f"wrote {printable(file)}: {data.n:,} records of {data.d} features")


def _json(name: str, files: Sequence[tuple[Path, str]]) -> str:
    rows = [{"path": str(path), "sha256": sha256} for path, sha256 in files]
    return json.dumps({"name": name, "files": rows}, indent=1, allow_nan=False)


def _print_path(path: Path, further: str = "") -> None:
    """Print a path: readable on a terminal, as raw bytes for a program."""
    if sys.stdout.isatty():
        typer.echo(printable(path) + further)
    else:
        typer.echo(os.fsencode(path) + further.encode())


def _row(name: str, directory: Path | None) -> dict[str, Any]:
    entry = resolve(name)
    if entry is None:
        d, n = SIZES[name]
        return {"name": name, "n": n, "d": d, "source": "generated", "present": True, "paths": []}
    raw_files = find(name, directory)
    return {
        "name": name,
        "n": entry.n,
        "d": entry.d,
        "source": raw_files.where if raw_files else "download",
        "present": raw_files is not None,
        "paths": [str(path) for path in raw_files.paths] if raw_files else [],
    }
