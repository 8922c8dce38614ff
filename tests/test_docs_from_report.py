"""The tool that puts results into the documentation: only what is an experiment's own changes."""

import json
import runpy
import sqlite3
import sys
from pathlib import Path

import pytest

from fedsel.pages import Table, Verdict
from reproduction.views import View

TOOL = Path(__file__).parents[1] / "tools" / "docs_from_report.py"
RESULTS = """# Title

3 claims judged: 3 hold as printed, 0 do not hold, 0 hold in part or for some settings only.

command: python -m reproduction all; date: 2026-11-16

## Claims

| claim | where | verdict | numbers | command |
|---|---|---|---|---|
| one | here | holds | 1 | `python -m reproduction table3` |
| two | here | holds | 2 | `python -m reproduction fair` |
| three | here | holds | 3 | `python -m reproduction alpha` |

## table3: Gains and losses (points)

| a |
|---|
| 1 |

## fair: Best of each family

| a |
|---|
| 2 |

old note
"""


@pytest.fixture(scope="module")
def tool():
    return runpy.run_path(str(TOOL))


def view():
    table = Table("Best of each family", ("a", "b"), (("bank", 1.0), ("kdd", 2.0)), "new note")
    verdict = Verdict("two", "here", "does not hold", "9", "python -m reproduction fair")
    return View((table, Table("Not quoted", ("a",), ((1,),))), (), (verdict,))


def test_results_keep_what_is_not_the_experiments(tool):
    once = tool["with_results"](RESULTS, "fair", view(), "date: 2026-11-17; code abc")
    assert "3 claims judged: 2 hold as printed, 1 do not hold, 0 hold in part" in once
    assert "| two | here | does not hold | 9 | `python -m reproduction fair` |\n| three |" in once
    assert once.endswith("| bank | 1.00 |\n| kdd | 2.00 |\n\nnew note\n")
    assert "## table3: Gains and losses (points)\n\n| a |\n|---|\n| 1 |\n\n## fair:" in once
    assert (
        "\n\nfair: command: python -m reproduction fair; date: 2026-11-17; code abc\n\n## Claims"
        in once
    )
    assert "old note" not in once
    assert "Not quoted" not in once
    assert tool["with_results"](once, "fair", view(), "date: 2026-11-17; code abc") == once


def test_marks_of_a_page_are_filled(tool):
    page = "before\n\n<!-- fair: Best of each family; bank -->\n\n| x |\n|---|\n\nafter\n"
    once = tool["with_tables"](page, "fair", view().tables)
    table = "| a | b |\n|---|---|\n| bank | 1.00 |\n"
    assert once == f"before\n\n<!-- fair: Best of each family; bank -->\n\n{table}\nafter\n"
    assert tool["with_tables"](once, "fair", view().tables) == once
    assert tool["with_tables"](once, "table3", ()) == once


def test_the_file_of_all_numbers_is_there(tool):
    assert "\n## Claims\n" in tool["RESULTS"].read_text("utf-8")


def test_missing_cells_are_no_result(tool, tmp_path, monkeypatch, capsys):
    store = sqlite3.connect(tmp_path / "results.sqlite")
    store.execute("CREATE TABLE results (parameters, result, code, finished)")
    parameters = tool["experiment"]("ablation").tasks[0].parameters
    row = (json.dumps(parameters), "{}", "abc", "2026-11-17 12:00:00")
    store.execute("INSERT INTO results VALUES (?, ?, ?, ?)", row)
    store.commit()
    store.close()
    arguments = [str(TOOL), "ablation", str(tmp_path / "results.sqlite"), "--docs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match="missing cells: run python -m reproduction ablation"):
        tool["main"]()
    assert "1 cells," in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [str(TOOL), "ablation", str(tmp_path / "no.sqlite")])
    with pytest.raises(SystemExit, match="no such file"):
        tool["main"]()
    assert list(tmp_path.iterdir()) == [tmp_path / "results.sqlite"]
