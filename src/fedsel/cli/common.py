"""What the commands share: options, checks before the work, and how results are written."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedsel.errors import InvalidArgument
from fedsel.mechanisms.selection import Top

PICTURES = (".png", ".svg", ".pdf")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]


def output() -> Console:
    """The console for tables; wide where nobody watches."""
    return Console(width=None if sys.stdout.isatty() else 140)


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
    folder = path.resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidArgument(option, str(path), "in a folder that exists and can be written")


def check_file(option: str, path: Path | None) -> None:
    """A file to be written: in a folder that can be written, and no folder itself."""
    check_folder(option, path)
    if path is not None and path.is_dir():
        raise InvalidArgument(option, str(path), "a file, not a folder")
