"""``fedsel run --data``: files as users have them, and what of a result the exact ε covers."""

import csv
import io
import json
from unittest.mock import Mock

import numpy as np
import pytest
from rich.console import Console

import fedsel
from fedsel.cli import _run_table as table
from fedsel.data import from_arrays, read
from fedsel.errors import InvalidArgument
from fedsel.experiments import InMemorySource, Spec
from tests.cli.records import HEADER, people, write_people
from tests.cli.support import run_here

NAMES = ("PE-PM", "PS-PM")
QUICK = ("--folds", "2", "--repeats", "1", "--batch", "0.05", "--jobs", "1")


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    """A figure takes most of a second, and is looked at elsewhere."""
    monkeypatch.setattr(table, "accuracy_against_epsilon", lambda _: Mock())


@pytest.fixture
def fedsel_run(tmp_path):
    """Run on a file of people; the rows, or what went wrong."""
    write_people(tmp_path / "people.csv")

    def call(*arguments, data="people.csv", label="rich", status=0, as_json=True):
        where = ("--data", tmp_path / data, "--label", label, "--out", tmp_path / "out")
        shown = ("--json",) if as_json and not status else ()
        done = run_here("run", *where, *QUICK, *arguments, *shown, status=status)
        return json.loads(done.stdout) if shown else done

    return call


# --- what is lost or ignored ------------------------------------------------------------------


def test_a_data_set_and_a_file_are_not_both_taken(fedsel_run):
    done = fedsel_run("--dataset", "adult", status=2)
    assert done.stderr == "fedsel: --dataset = 'adult': must be left out with --data\n"
    assert fedsel_run("-s", "NP")[0]["dataset"] == "people.csv"  # a default is no such option


@pytest.mark.parametrize("option", ["--label", "--public", "--no-header"])
def test_options_of_a_file_without_a_file(option):
    value = () if option == "--no-header" else ("x",)
    assert "must be given together with --data" in run_here("run", option, *value, status=2).stderr


@pytest.mark.parametrize("option", ["--draw", "--dataset"])
def test_options_of_a_data_set_with_a_file(fedsel_run, option):
    assert f"{option} = " in fedsel_run(option, "1", status=2).stderr


# --- headers ----------------------------------------------------------------------------------

NUMBERS = "1.5,2,0\n2.5,1,1\n3.5,4,0\n0.5,1,1\n"


@pytest.mark.parametrize("text", [NUMBERS, "5,yes,0\n6,no,1\n7,yes,0\n", "1,1,0\n1,2,1\n"])
def test_a_first_record_is_not_taken_for_names(tmp_path, text):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=r"names in its first line.*--no-header"):
        read(path, "-1")
    data = read(path, "-1", header=False)
    assert data.n == len(text.splitlines())
    assert data.feature_names[0] == "0"
    again = read(path, "2", header=False)
    np.testing.assert_array_equal(again.X, data.X)


@pytest.mark.parametrize(
    "first",
    ["0,1,2", "1,2,3", "a,b,c", "2020,2021,land", "1.5,x,y"],
    ids=["pandas", "from one", "names", "years", "one number"],
)
def test_names_are_taken_for_names(tmp_path, first):
    path = tmp_path / "x.csv"
    path.write_text(f"{first}\n5,yes,0\n6,no,1\n7,yes,0\n")
    assert read(path, "-1").n == 3


def test_numbers_as_names_if_one_says_so(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(NUMBERS)
    assert read(path, "-1", header=True).n == 3
    np.savez(tmp_path / "x.npz", X=np.eye(2), y=[0, 1])
    with pytest.raises(InvalidArgument, match=r"header = False: must be left out for \.npz"):
        read(tmp_path / "x.npz", header=False)


def test_the_command_says_what_to_do_about_a_missing_header(fedsel_run, tmp_path):
    write_people(tmp_path / "bare.csv", header=None)
    done = fedsel_run("-s", "NP", data="bare.csv", label="3", status=2)
    first = ", ".join(people(1)[0])
    assert "--data" in done.stderr
    assert first.split(", ")[0] in done.stderr
    assert "--no-header" in done.stderr
    (row,) = fedsel_run("-s", "NP", "--no-header", data="bare.csv", label="3")
    (named,) = fedsel_run("-s", "NP")
    assert row["accuracy"] == pytest.approx(named["accuracy"], abs=0.05)
    assert HEADER.split(",")[-1] == "rich"


# --- small and broken files -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{HEADER}\n40,1,a,yes\n30,2,b,no\n20,3,a,no\n", "--folds = 5: must be at most the 3"),
        (f"{HEADER}\n40,1,a,yes\n", "the labels of --data = '1 classes (yes)'"),
        (f"{HEADER}\n", "records below its header"),
        ("", "a header of distinct names"),
        (f"{HEADER}\n40,1,a\n", "record 0 has 3 cells"),
        (f"{HEADER}\n40,,a,yes\n30,2,b,no\n", "column of --data = 'income'"),
    ],
    ids=["three rows", "one row", "no row", "empty", "short row", "empty cell"],
)
def test_files_that_cannot_be_used(tmp_path, text, complaint):
    path = tmp_path / "x.csv"
    path.write_text(text)
    out = ("--out", tmp_path / "out")
    done = run_here("run", "--data", path, "--label", "rich", "-s", "RJ", "-e", "1", *out, status=2)
    assert complaint in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_label_is_asked_for_with_the_columns(tmp_path):
    path = write_people(tmp_path / "people.csv", 10)
    done = run_here("run", "--data", path, status=2)
    assert "--label = None: must be the name or number of a column, such as age," in done.stderr


def test_results_do_not_go_into_a_file(tmp_path):
    (tmp_path / "out").write_text("")
    done = run_here("run", "--out", tmp_path / "out", status=2)
    assert "must be a folder, not a file" in done.stderr


def test_a_model_that_diverges_is_a_result_with_a_note(fedsel_run):
    (row,) = fedsel_run("-s", "PM", "-e", "2", "-a", "1e300")
    assert row["runs"][0][3] is None
    assert any("diverged" in note for note in row["notes"])


# --- what is chosen, and what the exact ε covers ------------------------------------------------


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


def test_the_recommended_solution_works_by_default(fedsel_run, tmp_path):
    """Where most are poor, a wrong default says so of everybody."""
    rows = people(3000, seed=3)
    kept = [r for i, r in enumerate(rows) if r[3] == "no" or i % 3 == 0]
    (tmp_path / "few.csv").write_text("\n".join([HEADER, *map(",".join, kept)]))
    (row,) = fedsel_run("-s", "RJ", "-e", "4", data="few.csv")
    assert row["majority"] > 0.7
    assert row["accuracy"] > row["majority"] + 0.05


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


def test_bounds_of_a_file_are_taken_by_default(tmp_path):
    draw = np.random.default_rng(0)
    X = draw.uniform(0, 10, (200, 3))
    np.savez(tmp_path / "x.npz", X=X, y=X[:, 0] > 5, bounds=[[0, 10]] * 3)
    where = ("--data", tmp_path / "x.npz", "--out", tmp_path / "out")
    (row,) = json.loads(run_here("run", *where, *QUICK, "-s", "RJ", "-e", "4", "--json").stdout)
    assert row["scale"] == "unit"
    assert not any("own mean and deviation" in note for note in row["notes"])


def test_private_ranges_are_learnt_from_reports_alone(fedsel_run, tmp_path):
    write_people(tmp_path / "many.csv", 4000)
    options = ("-s", "RJ", "-e", "8", "--scale", "private")
    (row,) = fedsel_run(*options, data="many.csv")
    assert row["chosen"]["spread_rounds"] > 0
    assert row["chosen"]["centre_rounds"] > 0
    assert row["accuracy"] > row["majority"] + 0.1
    assert not any("own mean" in note for note in row["notes"])
    assert table.LEARNT in row["notes"]
    assert table.UNLEARNT not in row["notes"]
    shown = fedsel_run(*options, data="many.csv", as_json=False).stdout
    assert "1 point of accuracy at ε = 4" in " ".join(shown.split())
    assert "8.0000†" not in shown
    assert "scale private" in " ".join(shown.split())


def test_private_ranges_read_no_record():
    """What a client computes of its record does not depend on the others."""
    rows = np.array([[3.0, 500.0], [1.0, -200.0], [8.0, 100.0]] * 40, np.float32)
    y = np.array([1, -1, 1] * 40, np.int8)
    one, other = (from_arrays(X, y, name="x") for X in (rows, np.vstack([rows[:1], 7 * rows[1:]])))
    spec = Spec(dataset="x", solutions=("RJ",), epsilons=(4.0,), scale="private", batch=5)
    (cell,) = spec.cells()
    first = [cell.setup(InMemorySource(data))[0].X[0] for data in (one, other)]
    np.testing.assert_array_equal(*first)
    np.testing.assert_allclose(first[0] * 2.0**32, rows[0])


def test_levels_are_known_to_lie_within_zero_and_one(tmp_path):
    data = read(write_people(tmp_path / "people.csv", 100), "rich")
    scaled = data.scaled("private")
    levels = [j for j, name in enumerate(data.feature_names) if name.startswith("job=")]
    np.testing.assert_array_equal(scaled.X[:, levels], data.X[:, levels])
    assert np.abs(scaled.X[:, 0]).max() < 1e-3
    assert not data.bounded


def test_too_few_clients_to_learn_ranges_are_told_of(fedsel_run, tmp_path):
    write_people(tmp_path / "few.csv", 60)
    options = ("-s", "RJ", "-e", "0.5", "--scale", "private", "--batch", "0.5")
    (row,) = fedsel_run(*options, data="few.csv")
    assert row["chosen"]["spread_rounds"] == 0
    assert table.UNLEARNT in row["notes"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-s", "RJ", "-s", "PM"], "another for PM: only reports of FJ, RJ, RC"),
        (["-s", "RJ", "--no-intercept"], "another without an intercept"),
        (["-s", "RJ", "-a", "1", "--rho", "0.4"], "where records keep their norm"),
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
    assert "NP: not private: the whole gradient leaves as it is" in lines


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
