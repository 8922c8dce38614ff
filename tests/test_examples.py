"""The examples run, in short, and draw what their pages show."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("script", "told"),
    [("sklearn_quickstart.py", "Not covered:"), ("torch_digits.py", "bits a client")],
)
def test_examples_run(script, told, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "figure.png"
    monkeypatch.setattr(sys, "argv", [script, "--quick", "--plot", str(picture)])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert told in capsys.readouterr().out
    assert picture.stat().st_size > 10_000


def test_every_example_is_run():
    assert {p.name for p in EXAMPLES.glob("*.py")} == {"sklearn_quickstart.py", "torch_digits.py"}
