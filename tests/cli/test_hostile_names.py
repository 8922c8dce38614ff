"""Names that do something where they are shown: terminals, figures, spreadsheets, pages.

Every command that takes a name or a file is given each of them. It must end as it ends with any
other name, and nothing that it prints may be more than text.
"""

import csv
import json
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
import typer

from fedsel import Solution, cli
from fedsel._internal import progress as waiting
from fedsel._internal.display import in_cell, printable
from fedsel.mechanisms import Duchi, PerturbedSampling, TwoStage
from fedsel.pages import Section, Table, render
from fedsel.solutions import register, unregister
from tests.cli.support import COMMANDS

TOO_LONG = 1 if sys.version_info < (3, 14) else 2
"""The status for a path with such a name: the system's own error, or as of any missing file."""

TITLE = "\x1b]0;owned\x07"
"""What would change the title of a terminal: no console of ours writes such a thing by itself."""
HOSTILE = {
    "formula": r"$\frac{$",
    "markup": "a[/b]",
    "link": "[link=https://example.org]x[/link]",
    "emoji": ":smile:",
    "colour": "\x1b[31mred",
    "title": TITLE,
    "C1": "\x9b31mred",
    "spreadsheet": "=1+1",
    "script": "<script>alert(1)</script>",
    "lines": "one\ntwo\rthree",
    "direction": "abc\u202egpj.exe",
    "isolate": "a\u2066b\u2069",
    "bytes": "\udcff\udcfe",
    "long": "x" * 300,
    "underscore": "_hidden",
}
EVERY = pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)


def file_name(name):
    """As much of a name as a file can have."""
    return name.replace("/", "∕")[:200]


@pytest.fixture
def fedsel(monkeypatch, capfdbinary):
    """Run a command in this process; what it prints is text and nothing else."""

    def run(*arguments, status):
        monkeypatch.setattr(sys, "argv", ["fedsel", *map(str, arguments)])
        monkeypatch.setattr(typer.main, "get_command", COMMANDS)
        code = 0
        try:
            cli.main()
        except SystemExit as ended:
            code = ended.code or 0
        out, err = (told.decode() for told in capfdbinary.readouterr())
        assert code == status, out + err
        assert "Traceback" not in err
        for text in (out, err):
            assert [c for c in text if not c.isprintable() and c != "\n"] == []
        return out, err

    return run


@pytest.fixture
def records(tmp_path):
    """A small data set under any name, with columns and texts of any name."""

    def write(name):
        file = tmp_path / f"{file_name(name)}.csv"
        rng = np.random.default_rng(0)
        with file.open("w", newline="", encoding="utf-8", errors="replace") as opened:
            writer = csv.writer(opened)
            writer.writerow([name[:50], "b", f"{name[:50]} label"])
            for row in rng.integers(0, 9, (40, 2)).tolist():
                writer.writerow([*row, name[:50] if sum(row) % 2 else "no"])
        return file

    return write


SMALL = ("--folds", "2", "--repeats", "1", "-e", "1", "--jobs", "1")


@pytest.mark.slow
@EVERY
def test_run_on_a_file_of_any_name(fedsel, records, tmp_path, name):
    file, out = records(name), tmp_path / f"out {file_name(name)}"
    text, _ = fedsel("run", "--data", file, "--label", "2", "--out", out, *SMALL, status=0)
    shown = printable(file.name)
    assert shown[:60] in text.replace("\n", "") or shown[:20] in text  # wrapped where it is long
    # The exact name for programs, a harmless one for spreadsheets.
    assert {row["dataset"] for row in json.loads((out / "run.json").read_text())} == {file.name}
    with (out / "run.csv").open(newline="", encoding="utf-8") as opened:
        cells = {row["dataset"] for row in csv.DictReader(opened)}
    assert cells == {in_cell(file.name)}
    assert not any(cell.startswith(tuple("=+-@\t\r\n")) for cell in cells)
    assert (out / "accuracy.png").stat().st_size > 5000
    ElementTree.parse(out / "accuracy.svg")


@pytest.mark.slow
@EVERY
def test_names_in_the_options_of_run(fedsel, records, tmp_path, name):
    file = records("plain")
    spoiled = tmp_path / f"{file_name(name)}.toml"
    spoiled.write_text("folds = [", encoding="utf-8")
    unknown = tmp_path / "unknown.toml"
    unknown.write_text(f"{json.dumps(name)} = 1\n", encoding="utf-8")
    for options, status in (
        (["--data", file, "--label", name], 2),
        (["--data", tmp_path / f"{name}.csv"], TOO_LONG if len(name) > 255 else 2),
        (["--data", name], 2),
        (["--dataset", name], 2),
        (["--solution", name], 2),
        (["--model", name], 2),
        (["--scale", name, "--data", file, "--label", "2"], 2),
        (["--batch", name], 2),
        (["--k", name], 2),
        (["--config", spoiled], 2),
        (["--config", unknown], 2),
        (["--data", records(name), "--label", "nothing"], 2),  # the message lists the columns
        (["--out", tmp_path / "nowhere" / name], 2),
        (["--epsilon", name], 2),
    ):
        fedsel("run", *options, status=status)


@pytest.mark.slow
@EVERY
def test_audit_certify_and_unknown_commands(fedsel, name):
    fedsel("audit", name, "-e", "1", "--inputs", "[0, 1]", status=2)
    fedsel("certify", name, "-e", "1", "-d", "3", status=2)
    fedsel("certify", "PS", "-e", "1", "-d", "3", "-k", name, status=2)
    fedsel("advise", "--dim", name, "--clients", "5", "-e", "1", status=2)
    fedsel(name, status=2)
    fedsel("ledger", name, status=2)
    fedsel("run", f"--{name}", status=2)


def test_paths_are_exact_for_programs_and_plain_on_a_terminal(tmp_path, capfdbinary, monkeypatch):
    from reproduction.datasets.command import _print_path as print_path

    path = tmp_path / f"{TITLE}\udcff.data"
    print_path(path, "  1234")
    assert capfdbinary.readouterr().out == str(path).encode(errors="surrogateescape") + b"  1234\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_path(path, "  1234")
    assert capfdbinary.readouterr().out.decode().endswith(r"\x1b]0;owned\x07\udcff.data  1234" "\n")


@pytest.mark.slow
@EVERY
def test_ledger(fedsel, tmp_path, name):
    folder, witness = tmp_path / file_name(name), tmp_path / f"witness {file_name(name)}"
    fedsel("ledger", "show", folder, status=2)
    fedsel("ledger", "create", folder, "--lifetime", "2", "--witness", witness, status=0)
    fedsel("ledger", "create", folder, "--lifetime", "2", "--witness", witness, status=2)
    fedsel("ledger", "show", folder, "--witness", witness, status=0)
    fedsel("ledger", "show", folder, status=1)  # without its witness
    page = tmp_path / f"{file_name(name)[:50]}.html"
    out, _ = fedsel("ledger", "report", folder, tmp_path / "none", "--html", page, status=1)
    assert "ledgers read: 0\n" in out
    out, _ = fedsel("ledger", "report", folder, "--witness", witness, "--json", status=0)
    assert json.loads(out)["devices"][0]["store"] == printable(folder)
    written = page.read_text(encoding="utf-8")
    assert "<script>alert" not in written
    assert [c for c in written if not c.isprintable() and c not in "\n\N{NO-BREAK SPACE}"] == []
    fedsel("ledger", "show", tmp_path / "nowhere" / name, status=2)
    if len(name) > 255:
        fedsel("ledger", "show", tmp_path / name, status=TOO_LONG)
        fedsel("ledger", "create", tmp_path / name, "--lifetime", "1", status=1)


NOTES = [r"$\frac{$", "a[/b]", TITLE, "=1+1", "<script>", "_hidden", "one\ntwo"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTES)
def test_a_solution_of_any_name_and_note(fedsel, records, tmp_path, name):
    def compose(given):
        budget = given.budget
        stages = TwoStage(PerturbedSampling(budget.selection, given.k), Duchi(budget.value))
        return Solution(name, given.dim, stages, given.epochs, note=name)

    register(name, compose)
    try:
        out = tmp_path / "out"
        options = ("--label", "2", "--out", out, "-s", name, *SMALL)
        text, _ = fedsel("run", "--data", records("plain"), *options, status=0)
        assert printable(name) in text
        assert printable(name) in fedsel("solutions", "--", name, status=0)[0]
        ElementTree.parse(out / "accuracy.svg")
        with (out / "run.csv").open(newline="", encoding="utf-8") as opened:
            (row,) = csv.DictReader(opened)
        assert row["solution"] == row["used"] == in_cell(name)
    finally:
        unregister(name)


@EVERY
def test_consoles_on_a_terminal(monkeypatch, name, tmp_path):
    """Colours are the console's own; whatever is in a string is text."""
    with (tmp_path / "terminal").open("w+", encoding="utf-8") as written:
        console = waiting.plain_console(file=written, force_terminal=True, width=500)
        console.print(Table(name, (name,), ((name,),), name))
        console.print(name)
        console.print(f"wrote {name}", style="yellow", highlight=False)
        monkeypatch.setattr(waiting, "progress_console", lambda: console)
        monkeypatch.setattr(waiting, "PATIENCE", 0.0)
        with waiting.Bar(2, name) as bar:
            bar.update(name, advance=1)
            bar.keep(name)
        with waiting.patience(name):
            pass
        written.seek(0)
        text = written.read()
    colours_and_cursor = r"\x1b\[[\d;?]*[A-Za-z]|\r|\n"
    rest = re.sub(colours_and_cursor, "", text)
    assert [c for c in rest if not c.isprintable()] == []
    if "\x1b[31m" in name:
        assert "\x1b[31m" not in text
    assert rest.count(printable(name)[:30]) >= 5


class Elements(HTMLParser):
    """The names of all elements and their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag != "wbr":  # where a long word may break
            self.found.append((tag, *(key for key, _ in attrs)))


def page_of(name):
    table = Table(name, (name,), ((name,),), note=name)
    section = Section(
        name=name,
        title=name,
        where=name,
        text=(name,),
        command=name,
        settings={name: name},
        tables=(table,),
        missing=(name,),
        files=(name,),
    )
    return render([section], title=name, summary=[name], facts={name: name})


@EVERY
def test_the_page(name):
    page = page_of(name)
    assert Elements(page).found == Elements(page_of("plain")).found
    assert not re.search(
        "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]", page
    )
    if not "".join(name.split()).isprintable() or "<" in name:  # white space is nothing in HTML
        assert name not in page
