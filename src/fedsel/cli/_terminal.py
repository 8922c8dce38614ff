"""What the commands share: options, checks before the work, and output.

Results go to standard output; progress goes to standard error, so that results can be piped.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedsel._internal.display import printable
from fedsel._internal.progress import plain_console
from fedsel.errors import InvalidArgument
from fedsel.mechanisms._selection import Top
from fedsel.pages import Section

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
JobsOption = Annotated[
    int,
    typer.Option(min=0, max=1024, help="Runs at a time; 0 takes every core. Changes no result."),
]


def output() -> Console:
    """The console for tables; 140 columns wide in a pipe."""
    return plain_console(width=None if sys.stdout.isatty() else 140)


def print_json(content: Any, *, indent: int | None = 1) -> None:
    """Print what --json asks for; None as the indent is one line."""
    typer.echo(json.dumps(content, indent=indent, allow_nan=False))


def print_sections(*sections: Section, facts: Mapping[str, str] | None = None) -> None:
    """Print sections of a page: tables, paragraphs and facts; notices stand out."""
    console = output()
    for section in sections:
        for table in section.tables:
            console.print(table)
        for line in section.text:
            console.print(line, highlight=False)
        for line in section.missing:
            console.print(line, style="bold")
    for some in (*(section.facts for section in sections), facts or {}):
        for name, value in some.items():
            console.print(f"{name}: {value}", soft_wrap=True)


def say_error(text: object) -> None:
    """Print an error on standard error, in one sentence."""
    typer.echo(f"fedsel: {printable(text)}", err=True)


def parse_top(
    text: str, name: str = "k", allowed: str = "a count such as 5 or a fraction such as 0.1"
) -> Top:
    """A number from the command line: an integer is a count, one with a point a fraction."""
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise InvalidArgument(name, text, allowed) from None


def finite(x: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return x if math.isfinite(x) else None


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a path that cannot become a folder of results."""
    _check_place(option, path)
    if path is not None and path.exists() and not path.is_dir():
        raise InvalidArgument(option, str(path), "a folder, not a file")
    if path is not None and path.is_dir() and not os.access(path, os.W_OK):
        raise InvalidArgument(option, str(path), "a folder that can be written")


def check_file(option: str, path: Path | None) -> None:
    """Refuse a path that cannot become a file of results."""
    _check_place(option, path)
    if path is not None and path.is_dir():
        raise InvalidArgument(option, str(path), "a file, not a folder")


def _check_place(option: str, path: Path | None) -> None:
    """Refuse a path that cannot be written, before the work and not after it."""
    if path is None:
        return
    try:
        path.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:  # a name that is too long, a folder that must not be looked at
        raise InvalidArgument(option, str(path), f"a usable path ({error.strerror})") from None
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidArgument(option, str(path), "in a folder that exists and can be written")
