"""``python -m reproduction`` in this process."""

from reproduction.__main__ import main
from tests.cli.support import run_here


def run(*arguments, status=0, **environment):
    """What a command has printed; it must end with a status, and never with a traceback."""
    done = run_here(*arguments, status=status, main=main, FEDSEL_PROGRESS="0", **environment)
    assert "Traceback" not in done.stderr
    return done
