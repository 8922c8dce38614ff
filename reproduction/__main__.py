"""``python -m reproduction``: the paper's tables and figures, its data sets, and the audit."""

from __future__ import annotations

import sys

from fedsel import InvalidArgument, InvalidData
from reproduction.audit.command import audit_app
from reproduction.command import reproduce_app
from reproduction.console import notes, printable
from reproduction.datasets import DataUnavailable
from reproduction.datasets.command import data_app
from reproduction.training import run_app

COMMANDS = {"audit": audit_app, "data": data_app, "run": run_app}
"""The commands beside experiments, whose names are the usual first words."""


def main() -> None:
    """Run a command; wrong arguments end with one sentence and status 2."""
    name, words = "python -m reproduction", sys.argv[1:]
    app = reproduce_app
    if words and words[0] in COMMANDS:
        app, name = COMMANDS[words[0]], f"{name} {words.pop(0)}"
    try:
        app(words, prog_name=name)
    except (InvalidArgument, InvalidData) as error:
        notes().print(f"reproduction: {printable(error)}", soft_wrap=True)
        sys.exit(2)
    except (DataUnavailable, ImportError, OSError) as error:
        notes().print(f"reproduction: {printable(error)}", soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
