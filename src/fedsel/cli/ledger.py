"""``fedsel ledger``: what a device has reported, what that has cost, and what is left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedsel._internal.bar import Bar
from fedsel.cli._commands import App
from fedsel.cli._terminal import JsonOption, check_file, output
from fedsel.errors import InvalidArgument
from fedsel.pages import write_page

if TYPE_CHECKING:
    from fedsel.device import History
    from fedsel.statements import LedgerReport

ledger_app = App(
    help="The ledger of a device.",
    epilog="Example: fedsel ledger create store --lifetime 8   ·   fedsel ledger show store   ·   "
    "fedsel ledger raise store --lifetime 12 --by 'Ada Bell'   ·   "
    "fedsel ledger report nodes/*/ --html report.html",
)


FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the store.")]
WitnessOption = Annotated[
    Path | None, typer.Option(help="The witness, where it is outside of the store.")
]


@ledger_app.callback()
def ledger() -> None:
    """The ledger of a device."""


@ledger_app.command(
    epilog="Example: fedsel ledger show ~/.local/share/my-app/fedsel   ·   "
    "fedsel ledger show store --json"
)
def show(
    folder: FolderArgument,
    witness: WitnessOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a ledger and print its reports, the exact ε spent and what is left.

    Ends with status 1 if the ledger is missing, damaged, rolled back or not one of fedsel's.
    """
    from fedsel.device import Ledger

    if not folder.is_dir():
        raise InvalidArgument("DIR", str(folder), "a folder that exists")
    _show(Ledger(folder, witness, timeout=5.0).read(), as_json)


def _show(history: History, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(plain_history(history), indent=1, ensure_ascii=False))
    else:
        print_history(history)


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
    _show(ledger.read(), as_json)


@ledger_app.command(
    "raise",
    epilog="Example: fedsel ledger raise /var/lib/fedsel --lifetime 12 --by 'Ada Bell'   ·   "
    "fedsel ledger raise store --lifetime 3 --by owner --witness /other/disk/witness --json",
)
def raise_lifetime(
    folder: FolderArgument,
    lifetime: Annotated[float, typer.Option(help="The new ε of all reports, above the present.")],
    by: Annotated[str, typer.Option(help="The name of who allows it.")],
    witness: WitnessOption = None,
    as_json: JsonOption = False,
) -> None:
    """Raise the lifetime of a ledger: from then on every report shows when, by whom and from what.

    A policy with a larger lifetime than the ledger's is refused until this was done. A smaller one
    lowers the ledger's by itself.
    """
    from fedsel.device import Ledger

    ledger = Ledger(folder, witness, timeout=5.0)
    try:
        ledger.raise_lifetime(lifetime, by)
    except InvalidArgument as error:
        raise InvalidArgument(f"--{error.name}", error.value, error.allowed) from None
    _show(ledger.read(), as_json)


@ledger_app.command(
    epilog="Example: fedsel ledger report nodes/*/ --html report.html   ·   "
    "fedsel ledger report a b --witness '/other/disk/{name}.witness' --json"
)
def report(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of stores.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page, to print.")
    ] = None,
    witness: Annotated[
        str | None,
        typer.Option(help="Witnesses outside of the stores; {name} is the name of a store."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report on the ledgers of many devices: what was sent, for what and for whom, and its ε.

    Ledgers are only read, also while their clients run. One that cannot be read is listed as such.
    Ends with status 1 if any could not be read.
    """
    from fedsel.statements import inspect_ledgers

    check_file("--html", html)
    with Bar(len(folders), "reading") as bar:
        read = inspect_ledgers(
            folders, witness=witness, advance=lambda store: bar.update(store, advance=1)
        )
    if html is not None:
        write_page(html, read.to_html())
    if as_json:
        typer.echo(json.dumps(read.to_dict(), indent=1))
    else:
        _print_report(read, html)
    if not read.complete:
        raise typer.Exit(1)


def plain_history(history: History) -> dict[str, Any]:
    """The history as JSON holds it: an ε is an exact fraction and the nearest number."""
    from fedsel.device import Intent
    from fedsel.statements._ledgers import amounts, lifetimes, moment
    from fedsel.statements._meaning import numbers

    stated = {entry.run: history.intents.get(entry.run, Intent()) for entry in history.entries}
    reports = [
        {
            "number": entry.number,
            "time": moment(entry.time),
            "run": entry.run.hex(),
            "epoch": entry.epoch,
            "round": entry.round,
            "solution": history.recipes[entry.run].solution,
            "dim": history.recipes[entry.run].dim,
            "purpose": stated[entry.run].purpose or None,
            "recipient": stated[entry.run].recipient or None,
            **numbers("epsilon", entry.charge),
            "report": entry.report.hex(),
        }
        for entry in history.entries
    ]
    return {**amounts(history), "lifetimes": lifetimes(history), "reports": reports}


def print_history(history: History) -> None:
    """A ledger as a table, and its totals."""
    console = output()
    from fedsel.statements import exactly
    from fedsel.statements._ledger_page import raised

    rows = plain_history(history)["reports"]
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
        for run, intent in history.intents.items():
            said = [f"{name}: {text}" for name, text in vars(intent).items() if text]
            console.print(f"run {run.hex()[:8]}, {', '.join(said)}")
    else:
        console.print("no reports yet")
    for name, label in (("spent", "ε spent"), ("left", "ε left"), ("lifetime", "ε of a lifetime")):
        console.print(f"{label}: {exactly(getattr(history, name))}")
    for line in raised(history):
        console.print(line, style="bold")


def _table(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    table = Table(title=title)
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", overflow="fold")
    return table


def _print_report(read: LedgerReport, html: Path | None) -> None:
    from fedsel.statements import exactly, in_percent, meaning
    from fedsel.statements._ledger_page import raised, short, stated, when

    console = output()
    figures = ("ε spent", "ε left", "reports", "certainty")
    devices = _table("Devices", ("device", "ledger"), figures)
    for device in read.devices:
        history = device.history
        if history is None:
            problem = device.fault.value if device.fault else ""
            devices.add_row(device.store, f"NOT READ: {problem}", *["–"] * 4)
            continue
        state = "read" if device.copy_of is None else f"read; a COPY of {device.copy_of}"
        amounts = (short(amount) for amount in (history.spent, history.left))
        certain = f"≤ {in_percent(history.spent)}"
        devices.add_row(device.store, state, *amounts, str(len(history.entries)), certain)
    console.print(devices)
    texts = ("run", "purpose", "recipient", "solution", "last report")
    runs = _table("Runs, over all devices that were read", texts, ("devices", "reports", "most ε"))
    for run in read.runs:
        intents = (stated(name, run.intents) for name in ("purpose", "recipient"))
        counts = (str(run.devices), str(run.reports), short(run.most_epsilon))
        runs.add_row(run.run.hex()[:8], *intents, run.solution, when(run.last), *counts)
    if read.runs:
        console.print(runs)
    if read.read:
        most = read.most_spent
        console.print(f"largest ε spent: {exactly(most)}. {meaning(most)}")
    for device in read.read:
        for line in raised(device.history):
            console.print(f"{device.store}: {line}", style="bold")
    console.print(f"{len(read.read)} of {len(read.devices)} ledgers were read")
    if html is not None:
        console.print(f"written: {html}")
