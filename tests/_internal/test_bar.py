"""What commands and long work show on a terminal and in a log."""

import io
import time

import pytest
from rich.console import Console

from fedsel._internal import bar as waiting


@pytest.fixture
def shown(monkeypatch):
    """What a log gets, without delay."""
    written = io.StringIO()
    monkeypatch.setattr(waiting, "progress_console", lambda: Console(file=written, width=80))
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    return written


def test_quick_work_says_nothing_in_a_log(shown):
    with waiting.Bar(2) as bar:
        bar.update("one", advance=1)
    with waiting.patience("looking"):
        pass
    assert shown.getvalue() == ""


def test_long_work_says_in_a_log_what_it_does_and_how_far_it_is(shown):
    with waiting.Bar(4) as bar:
        time.sleep(0.06)
        bar.update("third [of 4]", advance=3)
        bar.update("last", advance=1)  # too soon for another line
        bar.keep("kept: 84.4 %")
    assert shown.getvalue().splitlines() == ["third [of 4] (75 %, under 10 s left)", "kept: 84.4 %"]


def test_a_terminal_has_a_bar_and_lines_that_stay(monkeypatch):
    written = io.StringIO()
    terminal = Console(file=written, width=80, force_terminal=True, legacy_windows=False)
    monkeypatch.setattr(waiting, "progress_console", lambda: terminal)
    with waiting.Bar(4) as bar:
        bar.update("training", advance=1)
        bar.keep("PS-PM: 84.4 %")
        bar.update(completed=2)
    assert "training" in written.getvalue()
    assert " 50%" in written.getvalue()
    assert "PS-PM: 84.4 %\n" in written.getvalue()


def test_patience_shows_each_step_once_it_has_taken_long(shown):
    with waiting.patience("looking") as notify:
        notify("opening")
        time.sleep(0.2)
        notify("reading")
    assert shown.getvalue().splitlines() == ["opening", "reading"]
