"""The command line: ``fedsel --help``."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from fedsel import __version__
from fedsel._internal.extras import MissingExtra
from fedsel.cli import (
    _advise,
    _audit,
    _certify,
    _models,
    _run,
    _schema,
    _solutions,
    aggregate,
    ask,
    invite,
    join,
    ledger,
    serve,
    statement,
)
from fedsel.cli._commands import App
from fedsel.cli._terminal import say_error
from fedsel.device import LedgerError
from fedsel.errors import InvalidArgument, InvalidData

app = App(
    help="Federated learning under local differential privacy: every client randomises its own "
    "update before it leaves the device.",
)
for _name, _command, _example in (
    ("run", _run.run, _run.EXAMPLE),
    ("schema", _schema.schema_command, _schema.EXAMPLE),
    ("advise", _advise.advise_command, _advise.EXAMPLE),
    ("ask", ask.ask_command, ask.EXAMPLE),
    ("solutions", _solutions.solutions_command, _solutions.EXAMPLE),
    ("audit", _audit.audit, _audit.EXAMPLE),
    ("certify", _certify.certify_command, _certify.EXAMPLE),
    ("mechanisms", _solutions.mechanisms, _solutions.MECHANISMS_EXAMPLE),
    ("serve", serve.serve_command, serve.SERVE_EXAMPLE),
    ("relay", serve.relay_command, serve.RELAY_EXAMPLE),
    ("invite", invite.invite_command, invite.INVITE_EXAMPLE),
    ("statement", statement.statement_command, statement.EXAMPLE),
    ("join", join.join_command, join.JOIN_EXAMPLE),
    ("predict", _models.predict_command, _models.PREDICT_EXAMPLE),
    ("export", _models.export_command, _models.EXPORT_EXAMPLE),
    ("aggregate", aggregate.aggregate, aggregate.EXAMPLE),
):
    app.command(_name, epilog=_example)(_command)
app.add_typer(ledger.ledger_app, name="ledger")


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
    try:
        app()
    except (InvalidArgument, InvalidData) as error:
        say_error(error)
        sys.exit(2)
    except (LedgerError, MissingExtra, OSError) as error:
        say_error(error)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and str(error) != "can't start new thread":
            raise
        say_error(MemoryError(f"not enough memory ({error or 'no more is to be had'})"))
        sys.exit(1)
