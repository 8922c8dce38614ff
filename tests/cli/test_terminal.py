"""What commands share: places that can be written, numbers as they are typed, JSON."""

import pytest

from fedsel.cli import _terminal as terminal
from fedsel.errors import InvalidArgument


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
