"""``fedsel advise`` on narrow terminals, where no column is cut, and on questions."""

import io
import json
from importlib import import_module

import pytest
from rich.console import Console

import fedsel
from fedsel.advising import Check
from tests.cli.support import run_here

command = import_module("fedsel.cli._advise")


@pytest.mark.slow
def test_a_central_goal_is_readable_on_a_narrow_terminal(monkeypatch):
    advice = fedsel.advise(dim=16, clients=400, central=1.0, rounds=4)
    console = Console(width=60, record=True, file=io.StringIO())
    monkeypatch.setattr(command, "output", lambda: console)
    command._show(advice, ())
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 60
    assert "…" not in text
    for outlook in advice.outlooks:  # the local ε of a report is what was asked for
        (line,) = [x for x in text.splitlines() if f"│ {outlook.name} " in x][:1]
        assert f" {outlook.epsilon_per_report:.4g} " in line


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_is_readable(width, monkeypatch):
    advice = fedsel.advise(dim=124, clients=39_000, epsilon=1.0)
    checks = (Check("EXP-PM", 390, 200, 0.00664, 0.00846, 0.007),)
    console = Console(width=width, record=True, file=io.StringIO())
    monkeypatch.setattr(command, "output", lambda: console)
    command._show(advice, checks)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for outlook in advice.outlooks:
        (line,) = [x for x in text.splitlines() if f"│ {outlook.name} " in x][:1]
        assert f" {outlook.alignment_all:.2g} " in line
        assert f" {command._needed(outlook)} " in line
    assert "0.00846 ± 0.007" in text
    assert ("Too narrow for" in text) == (width < 120)


QUESTION = ("advise", "--question", "histogram", "--levels", 20, "--clients", 5000)


def test_advice_on_a_question():
    done = run_here(*QUESTION, "--epsilon", 1)
    text = " ".join(done.stdout.split())
    assert "The share of one of 20 answers from 5,000 clients at ε = 1 is off by 2.6" in text
    assert "A report has 8 bits" in text
    told = json.loads(run_here(*QUESTION, "--epsilon", 1, "--json").stdout)
    assert told["sentences"][0] in text
    assert told["needed"].keys() == {"0.01", "0.05"}


@pytest.mark.slow
def test_advice_on_a_question_that_is_shuffled():
    text = " ".join(run_here(*QUESTION, "--central", 1, "--delta", 1e-6).stdout.split())
    assert "This takes a shuffler. Proved: central ε = 1 at δ = 1e-06" in text
    assert "Without a shuffler ε is 1" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((*QUESTION, "-e", 1, "--batch", 9), "--batch = 9: must be omitted with --question"),
        ((*QUESTION, "-e", 1, "--dim", 9), "--dim = 9: must be omitted with --question"),
        ((*QUESTION, "-e", 1, "--sparse"), "--sparse = True: must be omitted with --question"),
        ((*QUESTION, "-e", 1, "--check"), "--check = True: must be omitted with --question"),
        (QUESTION, "--epsilon = None: must be a number > 0, unless a central ε is given"),
        (("advise", "--clients", 9, "-e", 1), "--dim = None: must be the entries of an update"),
        (
            ("advise", "--clients", 9, "-e", 1, "-d", 4, "--levels", 3),
            "--levels = 3: must be omitted without --question",
        ),
        (
            ("advise", "--question", "sum", "--clients", 9, "-e", 1),
            "--question = 'sum': must be one of count, histogram",
        ),
    ],
)
def test_training_and_questions_are_told_apart(arguments, complaint):
    assert run_here(*arguments, status=2).stderr.startswith(f"fedsel: {complaint}")
