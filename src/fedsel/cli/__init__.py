"""The command line: ``fedsel --help``."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from fedsel._internal.extras import MissingExtra
from fedsel._internal.progress import show_progress
from fedsel._version import __version__
from fedsel.cli._advise import EXAMPLE as ADVISE_EXAMPLE
from fedsel.cli._advise import advise_command
from fedsel.cli._audit import EXAMPLE as AUDIT_EXAMPLE
from fedsel.cli._audit import audit
from fedsel.cli._certify import EXAMPLE as CERTIFY_EXAMPLE
from fedsel.cli._certify import MECHANISMS_EXAMPLE, certify_command, mechanisms
from fedsel.cli._commands import App
from fedsel.cli._run import EXAMPLE, run
from fedsel.cli._solutions import EXAMPLE as SOLUTIONS_EXAMPLE
from fedsel.cli._solutions import solutions_command
from fedsel.cli._terminal import say_error
from fedsel.cli.aggregate import EXAMPLE as AGGREGATE_EXAMPLE
from fedsel.cli.aggregate import aggregate
from fedsel.cli.join import JOIN_EXAMPLE, join_command
from fedsel.cli.ledger import ledger_app
from fedsel.cli.serve import INVITE_EXAMPLE, SERVE_EXAMPLE, invite_command, serve_command
from fedsel.device import LedgerError
from fedsel.errors import InvalidArgument, InvalidData

app = App(
    help="Federated learning under local differential privacy: every client randomises its own "
    "update before it leaves the device.",
)
app.command(epilog=EXAMPLE)(run)
app.command("advise", epilog=ADVISE_EXAMPLE)(advise_command)
app.command("solutions", epilog=SOLUTIONS_EXAMPLE)(solutions_command)
app.command(epilog=AUDIT_EXAMPLE)(audit)
app.command("certify", epilog=CERTIFY_EXAMPLE)(certify_command)
app.command(epilog=MECHANISMS_EXAMPLE)(mechanisms)
app.command("serve", epilog=SERVE_EXAMPLE)(serve_command)
app.command("invite", epilog=INVITE_EXAMPLE)(invite_command)
app.command("join", epilog=JOIN_EXAMPLE)(join_command)
app.command(epilog=AGGREGATE_EXAMPLE)(aggregate)
app.add_typer(ledger_app, name="ledger")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"fedsel {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command line; wrong arguments end with one sentence and status 2."""
    for stream in (sys.stdout, sys.stderr):
        # Where ε cannot be written, a result must not be lost for it.
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="backslashreplace")
    show_progress(False)  # commands draw bars of their own
    try:
        app()
    except (InvalidArgument, InvalidData) as error:
        say_error(error)
        sys.exit(2)
    except (LedgerError, MissingExtra, OSError) as error:
        say_error(error)
        sys.exit(1)
    except MemoryError as error:
        say_error(MemoryError(f"not enough memory ({error or 'no more is to be had'})"))
        sys.exit(1)
