"""``python -m reproduction``: the paper's tables and figures, its data sets, and the audit."""

from __future__ import annotations

import os
import sys
from importlib import import_module

COMMANDS = {
    "audit": "reproduction.audit.command",
    "data": "reproduction.datasets.command",
    "run": "reproduction.training",
}
"""The commands other than the names of experiments."""


def main() -> None:
    """Run a command; wrong arguments end with one sentence and status 2."""
    os.environ.setdefault("FEDSEL_PROGRESS", "0")  # read on import; commands draw their own bars
    from fedsel import InvalidArgument, InvalidData
    from reproduction.console import notes, printable
    from reproduction.datasets import DataUnavailable

    name, words, module = "python -m reproduction", sys.argv[1:], "reproduction.command"
    if words and words[0] in COMMANDS:
        module, name = COMMANDS[words[0]], f"{name} {words.pop(0)}"
    try:
        import_module(module).app(words, prog_name=name)
    except (InvalidArgument, InvalidData) as error:
        notes().print(f"reproduction: {printable(error)}", soft_wrap=True)
        sys.exit(2)
    except (DataUnavailable, ImportError, OSError) as error:
        notes().print(f"reproduction: {printable(error)}", soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
