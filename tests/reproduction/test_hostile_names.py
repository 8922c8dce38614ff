"""Names that do something where they are shown: the report, the audit and the data sets.

Nothing that a command prints or writes for people may be more than text.
"""

import json
import sys

import pytest
import typer

from reproduction.__main__ import main
from reproduction.console import printable
from reproduction.summary import markdown
from tests.cli.support import COMMANDS
from tests.cli.test_hostile_names import EVERY, HOSTILE, TITLE, file_name


@pytest.fixture
def reproduction(monkeypatch, capfdbinary):
    """Run a command in this process; what it prints is text and nothing else."""

    def run(*arguments, status):
        monkeypatch.setenv("FEDSEL_PROGRESS", "0")
        monkeypatch.setattr(sys, "argv", ["reproduction", *map(str, arguments)])
        monkeypatch.setattr(typer.main, "get_command", COMMANDS)
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        out, err = (told.decode() for told in capfdbinary.readouterr())
        assert code == status, out + err
        assert "Traceback" not in err
        for text in (out, err):
            assert [c for c in text if not c.isprintable() and c != "\n"] == []
        return out, err

    return run


@pytest.mark.slow
@EVERY
def test_reproduce(reproduction, tmp_path, name):
    out = tmp_path / file_name(name)
    reproduction(name, status=2)
    reproduction("fig2a", "--set", name, status=2)
    reproduction("fig2a", "--set", f"dataset={name}", "--out", out, status=2)
    reproduction("fig2a", "--out", tmp_path / "nowhere" / name, status=2)


@pytest.mark.parametrize("name", [HOSTILE["markup"], TITLE, HOSTILE["script"], HOSTILE["lines"]])
def test_the_report_is_written_to_a_folder_of_any_name(reproduction, tmp_path, name):
    """The data sets are missing, and the folder where they should be is named."""
    data, out = tmp_path / f"data {file_name(name)}", tmp_path / file_name(name)
    data.mkdir()
    (data / "adult.data").write_text("spoiled")
    (data / "adult.test").write_text("spoiled")
    options = ("--directory", data, "--out", out, "--jobs", "1", "--set", "dataset=adult")
    text, err = reproduction("fig2h", "--quick", *options, status=1)
    assert f"wrote {printable(out)}/index.html" in text.replace("\n", "")
    assert "left out: " in err
    page, summary = ((out / file).read_text() for file in ("index.html", "summary.md"))
    for text in (page, summary):
        assert name not in text
        assert TITLE not in text
        assert "<script>alert" not in text
    assert "is missing" in page


@pytest.mark.slow
@EVERY
def test_data(reproduction, tmp_path, name, monkeypatch):
    monkeypatch.setenv("FEDSEL_CACHE", str(tmp_path / "no cache"))
    monkeypatch.delenv("FEDSEL_DATA", raising=False)
    folder = tmp_path / file_name(name)
    folder.mkdir()
    (folder / "adult.data").write_text("spoiled")
    (folder / "adult.test").write_text("spoiled")
    text, _ = reproduction("data", "list", "--directory", folder, status=0)
    assert printable(folder.name)[:5] in text.replace("\n", "")
    told, _ = reproduction("data", "list", "--directory", folder, "--json", status=0)
    paths = next(row["paths"] for row in json.loads(told) if row["name"].lower() == "adult")
    assert paths == [str(folder / "adult.data"), str(folder / "adult.test")]
    reproduction("data", "path", "adult", "--directory", folder, status=1)  # named: wrong content
    reproduction("data", "path", name, status=2)
    reproduction("data", "fetch", name, status=2)


@EVERY
def test_the_summary(name):
    told = markdown("title", [name], {"path": name}, (), {})
    assert "<script" not in told
    assert [c for c in told if not c.isprintable() and c != "\n"] == []
