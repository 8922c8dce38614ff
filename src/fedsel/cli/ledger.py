"""``fedsel ledger``: what a device has reported, what that has cost, and what is left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsel.cli._commands import App
from fedsel.cli._terminal import JsonOption, check_file, output, print_json, print_sections
from fedsel.errors import InvalidArgument
from fedsel.pages import write_page

if TYPE_CHECKING:
    from fedsel.device import History

ledger_app = App(
    help="The ledger of a device.",
    epilog="Example: fedsel ledger create store --lifetime 8   ·   fedsel ledger show store",
)
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the store.")]
WitnessOption = Annotated[
    Path | None, typer.Option(help="The witness, where it is outside of the store.")
]


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
    from fedsel.statements._ledgers import with_contents

    if as_json:
        print_json(with_contents(history))
    else:
        print_history(history)


def print_history(history: History) -> None:
    """A ledger as tables, and its totals."""
    from fedsel.statements import Device
    from fedsel.statements._ledger_page import device_section

    print_sections(device_section(Device("", history)))


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
        raise InvalidArgument("DIR", str(folder), "a folder without a ledger: this one has one")
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
    read = inspect_ledgers(folders, witness=witness)
    if html is not None:
        write_page(html, read.to_html())
    if as_json:
        print_json(read.to_dict())
    else:
        document = read.document
        print_sections(*document.sections[:2], facts=document.facts)
        for line in (*document.summary, *((f"written: {html}",) if html else ())):
            output().print(line)
    if not read.complete:
        raise typer.Exit(1)
