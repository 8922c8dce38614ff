"""``fedsel ledger``: what a device has reported, what that has cost, and what is left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsel._internal.settings import naming
from fedsel.cli._commands import App, naming_option
from fedsel.cli._terminal import JsonOption, check_file, output, print_json, print_sections
from fedsel.errors import InvalidArgument
from fedsel.pages import write_page

if TYPE_CHECKING:
    from fedsel.device import History, Policy

ledger_app = App(
    help="The ledger of a device.",
    epilog="Example: fedsel ledger create store --lifetime 8   ·   fedsel ledger show store",
)
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the store.")]
WitnessOption = Annotated[
    Path | None, typer.Option(help="The witness, where it is outside of the store.")
]
PolicyOption = Annotated[
    Path | None, typer.Option(help="A policy, a TOML file: all its limits.", show_default="none")
]
NameOption = Annotated[str, typer.Option(help="The name of who allows it.")]


@ledger_app.command(
    epilog="Example: fedsel ledger show ~/.local/share/my-app/fedsel   ·   "
    "fedsel ledger show store --json"
)
def show(
    folder: FolderArgument,
    witness: WitnessOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a ledger and print its reports, the exact ε spent, what is left and what is renewed.

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
    "fedsel ledger create store --policy policy.toml --witness /other/disk/witness --json"
)
def create(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    lifetime: Annotated[
        float | None,
        typer.Option(help="ε of all reports that will ever be made.", show_default="by --policy"),
    ] = None,
    policy: PolicyOption = None,
    witness: Annotated[
        Path | None, typer.Option(help="A second file, best on another disk.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Begin the ledger of a device or node, once, with a lifetime or all limits of a policy.

    A ledger that is there already is left alone, and status 2 says so.
    """
    from fedsel.device import Ledger
    from fedsel.recipe import decimal

    limits = _policy(lifetime, policy)
    ledger = Ledger(folder, witness)
    if ledger.file.exists():
        raise InvalidArgument("DIR", str(folder), "a folder without a ledger: this one has one")
    ledger.create(decimal("lifetime", lifetime) if limits is None else limits)
    _show(ledger.read(), as_json)


def _policy(lifetime: float | None, file: Path | None) -> Policy | None:
    """The policy in a file; None where a lifetime is given in its place."""
    from fedsel.device import Policy

    if (lifetime is None) == (file is None):
        allowed = "set, or --policy" if file is None else "omitted with --policy"
        raise InvalidArgument("--lifetime", lifetime, allowed)
    with naming_option("--policy"):
        return None if file is None else Policy.load(file)


@ledger_app.command(
    "raise",
    epilog="Example: fedsel ledger raise /var/lib/fedsel --lifetime 12 --by 'Ada Bell'   ·   "
    "fedsel ledger raise store --policy policy.toml --by owner --witness /other/disk/witness",
)
def raise_limits(
    folder: FolderArgument,
    by: NameOption,
    lifetime: Annotated[
        float | None,
        typer.Option(
            help="The new ε of all reports, above the present.", show_default="by --policy"
        ),
    ] = None,
    policy: PolicyOption = None,
    witness: WitnessOption = None,
    as_json: JsonOption = False,
) -> None:
    """Allow a ledger more: from then on every report shows when, by whom and in place of what.

    A policy that allows more than the ledger is refused until this was done. A stricter one makes
    the ledger stricter by itself.
    """
    from fedsel.device import Ledger

    limits = _policy(lifetime, policy)
    ledger = Ledger(folder, witness, timeout=5.0)
    with naming(lambda name: f"--{name}"):
        if limits is not None:
            ledger.raise_limits(limits, by)
        elif lifetime is not None:
            ledger.raise_lifetime(lifetime, by)
    _show(ledger.read(), as_json)


@ledger_app.command(
    epilog="Example: fedsel ledger confirm-clock /var/lib/fedsel --by 'Ada Bell'   ·   "
    "fedsel ledger confirm-clock store --by owner --witness /other/disk/witness --json"
)
def confirm_clock(
    folder: FolderArgument,
    by: NameOption,
    witness: WitnessOption = None,
    as_json: JsonOption = False,
) -> None:
    """Confirm that this device's clock is right, where a budget is renewed by time.

    A device whose clock is far ahead of its last report sends nothing until this was done.
    """
    from fedsel.device import Ledger

    ledger = Ledger(folder, witness, timeout=5.0)
    with naming(lambda name: f"--{name}"):
        ledger.confirm_clock(by)
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
