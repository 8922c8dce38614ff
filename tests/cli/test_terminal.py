"""What commands share: tables that fit, places that can be written, numbers as they are typed."""

import io

import pytest
from rich.console import Console

from fedsel.cli import _terminal as terminal
from fedsel.errors import InvalidArgument

COLUMNS = [
    terminal.Column("name", lambda row: row[0], text=True),
    terminal.Column("heavy", lambda row: row[1], weight=2),
    terminal.Column("light", lambda row: row[2], weight=1),
]
ROWS = [("first", "1.2345", "x" * 12), ("second\x1b[2J", "23.45", "y" * 12)]


def shown(width):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(terminal.fitted(console, COLUMNS, ROWS))
    return console.export_text()


def test_a_table_leaves_out_its_lightest_columns_first_and_says_so():
    assert "y" * 12 in shown(80)
    assert "Too narrow" not in shown(80)
    narrow = shown(32)
    assert "23.45" in narrow
    assert "yyy" not in narrow
    assert "Too narrow for light" in narrow
    assert "Too narrow for heavy, light" in " ".join(shown(20).split())
    assert "\x1b[2J" not in narrow


def test_integers_are_counts_and_others_fractions():
    assert terminal.parse_top("5") == 5
    assert isinstance(terminal.parse_top("5"), int)
    assert terminal.parse_top("0.1") == 0.1
    with pytest.raises(InvalidArgument, match=r"^k = 'some': must be a count"):
        terminal.parse_top("some")


def test_places_that_cannot_be_written_are_refused_before_the_work(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    terminal.check_folder("--out", None)
    terminal.check_folder("--out", tmp_path / "new")
    terminal.check_file("--out", file)
    for check, place, allowed in (
        (terminal.check_folder, file, "a folder, not a file"),
        (terminal.check_file, tmp_path, "a file, not a folder"),
        (terminal.check_file, tmp_path / "none" / "file", "in a folder that exists"),
        (terminal.check_file, tmp_path / ("x" * 5000), "a usable path"),
    ):
        with pytest.raises(InvalidArgument, match=f"^--out = .*{allowed}"):
            check("--out", place)


def test_json_has_no_infinity(capsys):
    terminal.print_json({"epsilon": terminal.finite(float("inf"))}, indent=None)
    assert capsys.readouterr().out == '{"epsilon": null}\n'
    with pytest.raises(ValueError, match="JSON"):
        terminal.print_json(float("nan"))
