"""``fedsel run --data``: files as users have them, and what of a result the exact ε covers."""

import json

import numpy as np
import pytest

from fedsel.cli import _run_table as table
from fedsel.data import from_arrays, read
from fedsel.errors import InvalidArgument
from fedsel.experiments import InMemorySource, Spec
from tests.cli.records import HEADER, QUICK, people, write_people
from tests.cli.support import run_here


@pytest.fixture(autouse=True)
def without_figures(monkeypatch):
    """A figure takes most of a second, and is looked at elsewhere."""
    monkeypatch.setattr(table, "write_figures", lambda *_: [])


# --- what is lost or ignored ------------------------------------------------------------------


def test_a_data_set_and_a_file_are_not_both_taken(fedsel_run):
    done = fedsel_run("--dataset", "adult", status=2)
    assert done.stderr == "fedsel: --dataset = 'adult': must be omitted with --data\n"
    assert fedsel_run("-s", "NP")[0]["dataset"] == "people.csv"  # a default is no such option


@pytest.mark.parametrize("option", ["--label", "--public", "--no-header"])
def test_options_of_a_file_without_a_file(option):
    value = () if option == "--no-header" else ("x",)
    assert "must be omitted without --data" in run_here("run", option, *value, status=2).stderr


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
    with pytest.raises(InvalidArgument, match=r"header = False: must be omitted for \.npz"):
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
        (f"{HEADER}\n40,1,a,yes\n30,2,b,no\n20,3,a,no\n", "--folds = 5: must be at most 3"),
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


# --- what is chosen, and what the exact ε covers ------------------------------------------------


def test_the_recommended_solution_works_by_default(fedsel_run, tmp_path):
    """Where most are poor, a wrong default says so of everybody."""
    rows = people(3000, seed=3)
    kept = [r for i, r in enumerate(rows) if r[3] == "no" or i % 3 == 0]
    (tmp_path / "few.csv").write_text("\n".join([HEADER, *map(",".join, kept)]))
    (row,) = fedsel_run("-s", "RJ", "-e", "4", data="few.csv")
    assert row["majority"] > 0.7
    assert row["accuracy"] > row["majority"] + 0.05


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
