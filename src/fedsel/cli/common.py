"""What the commands share: options, checks before the work, and how results are written."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, final

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from fedsel.display import printable
from fedsel.errors import InvalidArgument
from fedsel.mechanisms.selection import Top

PICTURES = (".png", ".svg", ".pdf")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]


@final
class PlainConsole(Console):
    """Shows text as it is: without markup and emoji, and never a control character in it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as text: what is in a table, its title and its headings comes through here."""
        return super().render_str(printable(text, lines=True), **options)


class PlainGroup(TyperGroup):
    """Says what is wrong with a command line without the control characters that it came with."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Read the options before the name of a command."""
        with _plain_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Find the command, read its options and run it."""
        with _plain_errors():
            return super().invoke(ctx)


@contextmanager
def _plain_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # an error of click, wherever typer has it from
            vars(error)["message"] = printable(vars(error)["message"])
        raise


def output() -> Console:
    """The console for tables; wide where nobody watches."""
    return PlainConsole(width=None if sys.stdout.isatty() else 140)


def say_error(text: object) -> None:
    """Say on standard error what went wrong, in one sentence."""
    typer.echo(f"fedsel: {printable(text)}", err=True)


def print_path(path: Path, further: str = "") -> None:
    """A path for a person on a terminal, and as its very bytes for a program."""
    if sys.stdout.isatty():
        typer.echo(printable(path) + further)
    else:
        typer.echo(os.fsencode(path) + further.encode())


def parse_top(text: str) -> Top:
    """k from the command line: an integer counts, a number with a point is a fraction of d."""
    try:
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise InvalidArgument("k", text, "a count such as 5 or a fraction such as 0.1") from None


def finite(x: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return x if math.isfinite(x) else None


def check_suffix(option: str, path: Path | None) -> None:
    if path is not None and path.suffix.lower() not in PICTURES:
        raise InvalidArgument(option, str(path), f"a file ending in {', '.join(PICTURES)}")


def check_folder(option: str, path: Path | None) -> None:
    """Before the work, not after it: a result must have a place to go."""
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


def check_file(option: str, path: Path | None) -> None:
    """A file to be written: in a folder that can be written, and no folder itself."""
    check_folder(option, path)
    if path is not None and path.is_dir():
        raise InvalidArgument(option, str(path), "a file, not a folder")
