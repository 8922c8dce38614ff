"""``fedsel ledger``: what a device has reported, what that has cost, and what is left."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedsel.cli.commands import App
from fedsel.cli.common import JsonOption, output
from fedsel.errors import InvalidArgument

if TYPE_CHECKING:
    from fedsel.device import History

ledger_app = App(
    help="The ledger of a device.",
    epilog="Example: fedsel ledger create store --lifetime 8   ·   fedsel ledger show store",
)


@ledger_app.callback()
def ledger() -> None:
    """The ledger of a device."""


@ledger_app.command(
    epilog="Example: fedsel ledger show ~/.local/share/my-app/fedsel   ·   "
    "fedsel ledger show store --json"
)
def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the store.")],
    witness: Annotated[
        Path | None, typer.Option(help="The witness, where it is outside of the store.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a ledger and print its reports, the exact ε spent and what is left.

    Ends with status 1 if the ledger is missing, damaged, rolled back or not one of fedsel's.
    """
    from fedsel.device import Ledger

    if not folder.is_dir():
        raise InvalidArgument("DIR", str(folder), "a folder that exists")
    history = Ledger(folder, witness, timeout=5.0).read()
    if as_json:
        typer.echo(json.dumps(_plain(history), indent=1, ensure_ascii=False))
    else:
        _print(history)


@ledger_app.command(
    epilog="Example: fedsel ledger create /var/lib/fedsel --lifetime 8   ·   "
    "fedsel ledger create store --lifetime 2 --witness /other/disk/witness --json"
)
def create(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    lifetime: Annotated[float, typer.Option(help="ε of all reports that will ever be made.")],
    witness: Annotated[
        Path | None, typer.Option(help="A second file, best on another disk.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin the ledger of a device or node, once; what it may spend is its policy's to say.

    A ledger that is there already is left alone, and status 2 says so.
    """
    from fedsel.device import Ledger
    from fedsel.recipe import decimal

    ledger = Ledger(folder, witness)
    if ledger.file.exists():
        raise InvalidArgument("DIR", str(folder), "a folder without a ledger: this one has begun")
    ledger.create(decimal("lifetime", lifetime))
    history = ledger.read()
    if as_json:
        typer.echo(json.dumps(_plain(history), indent=1, ensure_ascii=False))
    else:
        _print(history)


def _plain(history: History) -> dict[str, Any]:
    """The history as JSON holds it: an ε is an exact fraction and the nearest number."""
    totals: dict[str, Any] = {}
    for name in ("lifetime", "spent", "left"):
        exact: Fraction = getattr(history, name)
        totals |= {name: float(exact), f"{name}_exact": str(exact)}
    reports = [
        {
            "number": entry.number,
            "time": datetime.fromtimestamp(entry.time, UTC).isoformat(),
            "run": entry.run.hex(),
            "epoch": entry.epoch,
            "round": entry.round,
            "solution": history.recipes[entry.run].solution,
            "dim": history.recipes[entry.run].dim,
            "epsilon": float(entry.charge),
            "epsilon_exact": str(entry.charge),
            "report": entry.report.hex(),
        }
        for entry in history.entries
    ]
    return {**totals, "reports": reports}


def _print(history: History) -> None:
    console = output()
    rows = _plain(history)["reports"]
    if rows:
        table = Table(title="Reports that may have left this device")
        columns = ("number", "time", "run", "epoch", "round", "solution", "dim", "epsilon")
        for name in columns:
            is_text = name in ("time", "run", "solution")
            table.add_column(
                "ε" if name == "epsilon" else name, justify="left" if is_text else "right"
            )
        for row in rows:
            shown = {**row, "run": row["run"][:8], "epsilon": row["epsilon_exact"]}
            table.add_row(*(str(shown[name]) for name in columns))
        console.print(table)
    else:
        console.print("no reports yet")
    for name, label in (("spent", "ε spent"), ("left", "ε left"), ("lifetime", "ε of a lifetime")):
        exact: Fraction = getattr(history, name)
        number = f"{float(exact):.12g}"
        console.print(
            f"{label}: {number}" + ("" if number == str(exact) else f" = {exact} exactly")
        )
