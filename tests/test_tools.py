"""The tool that sets up environments: it never is silent, and shows what failed."""

import re
import runpy
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "install.py"


@pytest.fixture
def watched():
    names = runpy.run_path(str(TOOL))
    names["watched"].__globals__.update(_TICK=0.01, _EVERY_IN_A_LOG=0.05)
    return names["watched"]


def test_long_work_is_told_line_by_line(watched, capsys):
    code = "import time; print('Collecting numpy', flush=True); time.sleep(0.4)"
    assert watched([sys.executable, "-c", code], "installing") == 0
    first, *more = capsys.readouterr().out.splitlines()
    assert first == "installing"
    assert re.fullmatch(r"installing, \d+ s  Collecting numpy", more[-1])


def test_what_failed_is_shown_as_a_whole(watched, capsys):
    code = "import sys; print('first'); print('a hint', file=sys.stderr); sys.exit(3)"
    assert watched([sys.executable, "-c", code], "installing") == 3
    assert {"first", "a hint"} <= set(capsys.readouterr().out.splitlines())
