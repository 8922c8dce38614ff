"""``fedsel advise`` on narrow terminals: fewer columns, none of them cut."""

import io
from importlib import import_module

import pytest
from rich.console import Console

import fedsel
from fedsel.advising import Check

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
