"""Options, early checks and output that the commands share."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fedsel import InvalidArgument

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
JobsOption = Annotated[
    int,
    typer.Option(min=0, max=1024, help="Runs at a time; 0 takes every core. Changes no result."),
]
DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--directory", help="Look here first for data, before the folder FEDSEL_DATA and the cache."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a parameter: name=value, as in TOML; repeat."),
]


class App(typer.Typer):
    """Commands with plain help and plain errors."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            add_completion=False,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
            **options,
        )


def output() -> Console:
    """The console for results; wide in a file or a pipe."""
    return Console(markup=False, emoji=False, width=None if sys.stdout.isatty() else 140)


def notes() -> Console:
    """The console for messages, separate from the results."""
    return Console(markup=False, emoji=False, highlight=False, stderr=True)


def printable(text: object) -> str:
    """Return text on one line with control characters escaped, because paths may contain any."""
    plain = str(text)
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in plain
    )


def check_folder(option: str, path: Path) -> None:
    """Refuse a folder that cannot be written, before the work."""
    there = path if path.exists() else path.resolve().parent
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise InvalidArgument(option, str(path), "a folder that can be written")


def check_file(option: str, path: Path | None) -> None:
    """Refuse a file that cannot be written, before the work."""
    if path is not None and (path.is_dir() or not os.access(path.resolve().parent, os.W_OK)):
        raise InvalidArgument(option, str(path), "a file in a folder that can be written")


def pairs(changes: list[str] | None) -> list[tuple[str, Any]]:
    """Parse the names and values of --set; a plain word need not be quoted.

    >>> pairs(["repeats=2", "epsilons=[1.0, 2.0]", "dataset=syn-L"])
    [('repeats', 2), ('epsilons', [1.0, 2.0]), ('dataset', 'syn-L')]
    """
    found = []
    for text in changes or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidArgument("--set", text, "name=value")
        try:
            found.append((name.strip(), tomllib.loads(f"value = {value}")["value"]))
        except tomllib.TOMLDecodeError:
            found.append((name.strip(), value.strip()))
    return found


class Bar:
    """A progress bar on a terminal; a log gets only the kept lines."""

    def __init__(self, progress: Progress, total: float) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total, now="begins")

    def now(self, text: str) -> None:
        """Show the current step."""
        self._progress.update(self._task, now=printable(text)[:34])

    def advance(self, done: float) -> None:
        """Advance by an amount of work."""
        self._progress.update(self._task, advance=done)

    def keep(self, line: str) -> None:
        """Write a line that stays."""
        self._progress.console.print(printable(line))


@contextmanager
def bar(total: float) -> Iterator[Bar]:
    """Show the progress of the enclosed work on standard error."""
    columns = (TextColumn("{task.fields[now]:<34}", markup=False), BarColumn())
    progress = Progress(
        *columns, TaskProgressColumn(), TimeRemainingColumn(), console=notes(), transient=True
    )
    shown_bar = Bar(progress, total)
    if not progress.console.is_terminal:
        yield shown_bar
        return
    with progress:
        yield shown_bar
