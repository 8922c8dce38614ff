"""The table of ``fedsel run``: what each solution was run with, and what the exact ε covers."""

import csv
import io
import json

import numpy as np
import pytest
from rich.console import Console

import fedsel
from fedsel.cli import _run_table as table
from tests.cli.records import QUICK, write_people
from tests.cli.support import run_here

NAMES = ("PE-PM", "PS-PM")


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    """A figure takes most of a second, and is looked at elsewhere."""
    monkeypatch.setattr(table, "write_figures", lambda *_: [])


def test_a_model_that_diverges_is_a_result_with_a_note(fedsel_run):
    (row,) = fedsel_run("-s", "PM", "-e", "2", "-a", "1e300")
    assert row["runs"][0][3] is None
    assert any("diverged" in note for note in row["notes"])


def test_automatic_choices_are_made_for_each_solution(fedsel_run):
    alone = {name: fedsel_run("-s", name, "-e", "4")[0] for name in ("RJ", "PS-PM")}
    for options in ((), ("--rho", "auto")):
        for row in fedsel_run("-s", "RJ", "-s", "PS-PM", "-e", "4", *options):
            assert row["chosen"] == alone[row["solution"]]["chosen"]
            assert row["accuracy"] == alone[row["solution"]]["accuracy"]
            assert row["unit_records"] == (row["solution"] == "RJ")
    assert alone["RJ"]["chosen"]["rho"] == 0.4
    assert alone["PS-PM"]["chosen"]["rho"] is None
    assert alone["PS-PM"]["chosen"]["mu"] == pytest.approx(0.1)


def test_the_table_says_what_each_solution_was_run_with(fedsel_run):
    done = fedsel_run("-s", "RJ", "-s", "PS-PM", "-e", "4", as_json=False)
    text = " ".join(done.stdout.split())
    assert "RJ: α automatic (*), from public quantities, weights averaged (t^3), records of" in text
    assert "RJ: ρ = 0.4" in text
    assert "PS-PM: α as given or fitted to the data set, last weights, records as they are" in text
    assert "PS-PM: μ = 0.1" in text
    (row, *_) = fedsel_run("-s", "RJ", "-s", "PS-PM", "-e", "4")
    assert f"always the most frequent class: {100 * row['majority']:.2f} %" in text


def test_standardising_is_noted_in_table_json_and_csv(fedsel_run, tmp_path):
    (row,) = fedsel_run("-s", "RJ", "-e", "4")
    assert row["scale"] == "standard"
    (note,) = row["notes"]
    assert "which the exact ε does not cover" in note
    assert "--scale private" in note
    assert json.loads((tmp_path / "out" / "run.json").read_text())[0]["notes"] == [note]
    with (tmp_path / "out" / "run.csv").open(encoding="utf-8", newline="") as file:
        assert next(csv.DictReader(file))["notes"] == note
    shown = " ".join(fedsel_run("-s", "RJ", "-e", "4", as_json=False).stdout.split())
    assert "4.0000†" in shown
    assert "† scaled by the records' own mean and deviation" in shown


def test_too_few_clients_to_learn_ranges_are_told_of(fedsel_run, tmp_path):
    write_people(tmp_path / "few.csv", 60)
    options = ("-s", "RJ", "-e", "0.5", "--scale", "private", "--batch", "0.5")
    (row,) = fedsel_run(*options, data="few.csv")
    assert row["chosen"]["spread_rounds"] == 0
    assert table.UNLEARNT in row["notes"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-s", "RJ", "-s", "PM"], "for PM; only FJ, RJ, RC"),
        (["-s", "RJ", "--no-intercept"], "with an intercept"),
        (["-s", "RJ", "-a", "1", "--rho", "0.4"], "records of norm 1"),
    ],
)
def test_where_ranges_cannot_be_learnt(fedsel_run, arguments, complaint):
    done = fedsel_run("--scale", "private", "-e", "1", *arguments, status=2)
    assert "--scale = 'private'" in done.stderr
    assert complaint in done.stderr


@pytest.fixture
def shown(monkeypatch):
    """The lines of the table of some rows on a terminal of a width."""

    def call(rows, width):
        console = Console(width=width, record=True, file=io.StringIO())
        monkeypatch.setattr(table, "output", lambda: console)
        table.print_table(rows, [])
        return console.export_text().splitlines()

    return call


@pytest.mark.parametrize("width", [44, 60, 80, 120, 200])
def test_the_table_fits_the_terminal(fedsel_run, shown, width):
    rows = fedsel_run("-s", "RJ", "-s", "PS-PM", "-e", "4")
    lines = shown(rows, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    assert "4.0000†" in text
    assert ("Too narrow for bits" in text) == (width < 60)
    both = shown([*rows, *({**row, "model": "svm"} for row in rows)], 80)
    assert both[0].strip() == "people.csv, logistic and svm: test accuracy, 1 × 2 folds"


def test_the_table_says_a_thing_once(fedsel_run, shown):
    names = ("NP", "PM", "EXP-PM", "PE-PM", "PS-PM")
    rows = fedsel_run(*(part for name in names for part in ("-s", name)), "-e", "4")
    lines = shown(rows, 200)
    assert len(lines) == len(set(lines))
    assert [line for line in lines if "last weights" in line] == [
        "α as given or fitted to the data set, last weights, records as they are, scale standard"
    ]
    assert "EXP-PM, PE-PM, PS-PM: μ = 0.1" in lines
    # What every row means is for fedsel solutions to say; what is not private is said here.
    assert not [line for line in lines if "ε₁ for the selection" in line]
    assert "NP: not private: the whole gradient is sent without noise" in lines


def test_solutions_of_one_law_are_named(fedsel_run, shown, tmp_path):
    """Where ⊥ has probability 0, PE is PS, and equal rows look like a mistake."""
    options = ("-s", "PE-PM", "-s", "PS-PM", "-e", "4", "-k", "0.1")
    rows = fedsel_run(*options)
    assert rows[0]["runs"] != rows[1]["runs"]  # few dimensions: PE abstains
    assert not [line for line in shown(rows, 200) if "same law" in line]
    flat = fedsel_run(*options[:4], "-e", "0.1", "--mu", "auto")  # no selection is left
    assert flat[0]["runs"] == flat[1]["runs"]
    assert not [line for line in shown(flat, 200) if "same law" in line]
    X = np.random.default_rng(0).normal(size=(200, 100))
    np.savez(tmp_path / "wide.npz", X=X, y=X[:, 0] > 0)
    where = ("--data", tmp_path / "wide.npz", "--out", tmp_path / "wide")
    rows = json.loads(run_here("run", *where, *QUICK, *options, "--json").stdout)
    assert rows[0]["runs"] == rows[1]["runs"]
    assert (
        "PE-PM and PS-PM have the same rows at ε = 4: there ⊥ (abstain) has probability 0, and "
        "without ⊥ PE and PS are the same law" in shown(rows, 200)
    )
    laws = [fedsel.solution(n, epsilon=4.0, dim=101).mechanism.selection.law(101) for n in NAMES]
    assert [law.bottom for law in laws] == [0, 0]
