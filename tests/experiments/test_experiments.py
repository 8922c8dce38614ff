"""Experiments as data, their store, and the run command in real processes."""

import json
import signal
import sqlite3
import subprocess
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedsel import InvalidArgument, Recipe
from fedsel.cli import app
from fedsel.data import synthetic
from fedsel.experiments import Cell, Given, Named, Spec, Store
from fedsel.experiments import sweep as sweep_over
from fedsel.experiments.plot import accuracy_against_epsilon
from fedsel.experiments.spec import expand, override, setting_of
from fedsel.experiments.store import key_of
from fedsel.simulation import EvaluationSet
from fedsel.simulation.validation import held_out_run
from tests.cli.support import FEDSEL, run, run_here

SHARED = Path(__file__).parents[3] / "shared" / "data"
SMALL = Spec(solutions=("NP", "ps-pm"), epsilons=(1.0, 2.0), folds=2, repeats=2)


def small_data():
    return synthetic(d=10, n=600, seed=3)


def sweep(spec, data, store, **options):
    return sweep_over(spec, Given(data), store, **options)


def key(cell):
    return key_of(cell.kind, cell.parameters)


def test_cells_name_every_point_once():
    cells = list(SMALL.cells())
    assert [(c.recipe.solution, c.recipe.epsilon) for c in cells] == [
        ("NP", None),
        ("PS-PM", 1.0),
        ("PS-PM", 2.0),
    ]
    assert len({key(c) for c in cells}) == 3


def test_a_key_depends_on_every_parameter():
    cell = next(SMALL.cells())
    assert key(replace(cell)) == key(cell)
    others = [{"seed": 1}, {"batch": 0.02}, {"model": "svm"}]
    others += [{"recipe": replace(cell.recipe, **more)} for more in ({"k": 1}, {"clip": 2.0})]
    changed = {key(replace(cell, **more)) for more in others}
    assert key(cell) not in changed
    assert len(changed) == 5
    # All that decides a result is a column: the data tell the dimensions, the seed all matrices.
    names = {f.name for f in (*fields(Cell), *fields(Recipe))} - {"recipe", "dim", "asked"}
    assert set(cell.parameters) == names


def test_settings_of_the_paper_and_of_others():
    assert setting_of("KDD99").scale == "standard"
    assert setting_of("syn-H-0.1-0.6").rates["svm"] == 0.7
    assert setting_of("my.csv").intercept


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"solution": "PM"}, "solution = 'PM': must be one of "),
        ({"solutions": ["XX"]}, "solution = 'XX'"),
        ({"epsilons": [0.0]}, "epsilon = 0.0"),
        ({"models": ["tree"]}, "loss = 'tree'"),
        ({"folds": 1}, "folds = 1"),
        ({"batch": 0.0}, "batch = 0.0"),
        ({"mu": 1.5}, "mu = 1.5"),
        ({"learning_rate": -1.0}, "learning_rate = -1.0"),
    ],
)
def test_wrong_parameters_are_told_before_anything_runs(changes, complaint):
    with pytest.raises(InvalidArgument, match=complaint):
        override(Spec(), changes)


def test_a_store_keeps_what_is_added_and_refuses_other_files(tmp_path):
    path = tmp_path / "results.sqlite"
    Store(path).add("a", "cell", {}, {"x": 0.1})
    store = Store(path)
    assert (store.get("a"), store.get("b"), len(store)) == ({"x": 0.1}, None, 1)
    for name, content in (("text", b"no database at all" * 100), ("empty-ish", b"SQLite format 3")):
        foreign = tmp_path / name
        foreign.write_bytes(content)
        with pytest.raises(InvalidArgument, match="a results file of fedsel"):
            Store(foreign)
        assert foreign.read_bytes() == content
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(InvalidArgument, match="a results file of fedsel"):
        Store(tmp_path / "other")


def test_a_key_depends_on_data_in_hand_and_on_the_code(monkeypatch):
    cell = next(SMALL.cells())
    one, two = Given(small_data()), Given(synthetic(d=10, n=600, seed=4))
    assert one.identity == Given(small_data()).identity != two.identity
    assert Named().identity == ""
    keys = {key_of(cell.kind, cell.parameters, source.identity) for source in (one, two, Named())}
    assert len(keys) == 3
    monkeypatch.setattr("fedsel.experiments.store.code_version", lambda: "another")
    assert key(cell) not in keys


def test_data_of_another_content_are_not_mistaken_for_the_first(tmp_path):
    store = Store(tmp_path / "results.sqlite")
    first = sweep(SMALL, small_data(), store)
    second = sweep(SMALL, synthetic(d=10, n=600, seed=4), store)
    assert first[0]["runs"] != second[0]["runs"]


def test_lists_are_gone_through():
    specs = list(expand({"draw": [0, 1], "learning_rate": [0.1, 1.0], "epsilons": [2.0]}))
    assert [(s.draw, s.learning_rate) for s in specs] == [(0, 0.1), (0, 1.0), (1, 0.1), (1, 1.0)]


def test_curves_and_holdout_give_what_cross_validation_gives(tmp_path):
    spec = override(SMALL, {"solutions": ["PS-PM"], "epsilons": [2.0]})
    (plain,) = sweep(spec, small_data(), Store(tmp_path / "a"))
    (curve,) = sweep(override(spec, {"curve": True}), small_data(), Store(tmp_path / "a"))
    assert curve["mean"][-1] == pytest.approx(plain["misclassification"], abs=1e-12)
    (held,) = sweep(override(spec, {"protocol": "holdout"}), small_data(), Store(tmp_path / "a"))
    assert len(held["validation"]) == len(held["test"]) == 2
    (stopped,) = sweep(
        override(spec, {"curve": True, "rounds": 7}), small_data(), Store(tmp_path / "a")
    )
    assert stopped["mean"] == curve["mean"][:7]


def test_the_test_split_is_untouched(monkeypatch):
    """No run trains or validates on a client of the test fifth, and that fifth never changes."""
    cell = next(override(SMALL, {"protocol": "holdout"}).cells())
    people, training = cell.setup(Given(small_data()))
    seen = []
    import fedsel.simulation.validation as validation

    def spy(training, population, **_):
        seen.append(set(population.members.tolist()))
        return real(training, population, evaluate="end")

    real = validation.train
    judged = []
    monkeypatch.setattr(validation, "train", spy)
    monkeypatch.setattr(
        validation,
        "_judges",
        lambda p, clients: judged.append(set(clients.tolist())) or EvaluationSet(p.X, p.y, clients),
    )
    for number in range(3):
        held_out_run(training, people, number)
    validations, tests = judged[::2], judged[1::2]
    assert tests[0] == tests[1] == tests[2]
    assert len(tests[0]) == len(validations[0]) == 120
    assert len(seen[0]) == 360
    assert validations[0] != validations[1]
    for members, validating in zip(seen, validations, strict=True):
        assert not members & validating
        assert not (members | validating) & tests[0]


def test_a_sweep_resumes_and_does_not_depend_on_jobs(tmp_path, monkeypatch):
    data = small_data()
    first = sweep(SMALL, data, Store(tmp_path / "one"), jobs=1)
    second = sweep(SMALL, data, Store(tmp_path / "two"), jobs=2)
    assert first == second
    monkeypatch.setattr(Cell, "part", lambda *_: pytest.fail("computed again"))
    assert sweep(SMALL, data, Store(tmp_path / "one")) == first


@pytest.mark.parametrize(
    "changes", [{"clients": 40}, {"clients": 40, "skew": 0.3}, {"dropout": 0.4}, {"batch": 50}]
)
def test_groups_skew_dropout_and_batches(tmp_path, changes):
    spec = override(SMALL, changes)
    rows = sweep(spec, small_data(), Store(tmp_path / "cells"))
    assert all(0.4 < row["accuracy"] <= 1 for row in rows)
    plain = sweep(SMALL, small_data(), Store(tmp_path / "plain"))
    assert rows[1]["runs"] != plain[1]["runs"]


def test_skew_needs_clients(tmp_path):
    with pytest.raises(InvalidArgument, match=r"skew = 0\.3"):
        sweep(override(SMALL, {"skew": 0.3}), small_data(), Store(tmp_path / "cells"))


def test_figures_are_functions_of_the_rows(tmp_path):
    spec = override(SMALL, {"models": ["logistic", "svm"]})
    rows = sweep(spec, small_data(), Store(tmp_path / "cells"))
    figure = accuracy_against_epsilon(rows)
    assert [axes.get_title() for axes in figure.axes] == ["syn-L, logistic", "syn-L, svm"]


QUICK = ("--repeats", "1", "--folds", "2", "-s", "PS-PM", "-s", "NP", "-e", "2")


@pytest.mark.slow
def test_run_writes_table_files_and_figure_and_resumes(tmp_path):
    out = ("--out", str(tmp_path))
    done = run("run", *QUICK, *out)
    assert "PS-PM" in done.stdout
    assert done.stderr.startswith("syn-L: 2 results, each from 1 × 2 folds\n")
    # One by one, before the table; who waits long is told more.
    came_in = [line.split() for line in done.stderr.splitlines() if line.startswith("logistic")]
    assert [words[:2] for words in came_in] == [["logistic", "PS-PM"], ["logistic", "NP"]]
    for name in ("run.csv", "run.json", "accuracy.png", "accuracy.svg"):
        assert (tmp_path / name).stat().st_size > 100
    before = (tmp_path / "results.sqlite").read_bytes()
    rows = json.loads(run_here("run", *QUICK, *out, "--json").stdout)
    assert (tmp_path / "results.sqlite").read_bytes() == before
    private, plain = rows
    assert private["epsilon_total"] == 2.0
    assert private["private"]
    assert private["within_budget"]
    assert plain["epsilon_total"] is None
    assert 0.7 < private["accuracy"] < plain["accuracy"]
    # Research may be repeated, and says so wherever it is kept.
    assert "not for release" in " ".join(done.stdout.split())
    kept = json.loads((tmp_path / "run.json").read_text())
    assert all("seed can undo the noise" in row["draws"] for row in (*rows, *kept))
    assert "seed can undo the noise" in (tmp_path / "run.csv").read_text()


@pytest.mark.slow
def test_jobs_change_no_result(tmp_path):
    rows = [
        json.loads(run_here("run", *QUICK, "--jobs", j, "--out", tmp_path / j, "--json").stdout)
        for j in ("1", "2")
    ]
    assert rows[0] == rows[1]


def kept_in(folder):
    path = folder / "results.sqlite"
    return len(Store(path)) if path.exists() and path.stat().st_size else 0


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(tmp_path):
    # Long enough that no busy machine is done with it before the first result is noticed.
    arguments = ("run", "--folds", "5", "--repeats", "8", "-e", "1", "-e", "2", "-e", "4")
    process = subprocess.Popen(
        [FEDSEL, *arguments, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while kept_in(tmp_path) == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "run again to go on" in errors
    assert 1 <= kept_in(tmp_path) < 16
    assert (tmp_path / "run.csv").exists()
    rows = json.loads(run(*arguments, "--out", tmp_path, "--json").stdout)
    assert len(rows) == 16
    assert kept_in(tmp_path) == 16


def test_an_interrupt_right_after_a_result_is_kept_tells_of_it(tmp_path, monkeypatch):
    add = Store.add

    def interrupted(self, *given):
        add(self, *given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "add", interrupted)
    done = CliRunner().invoke(app, ["run", *QUICK, "--jobs", "1", "--out", str(tmp_path)])
    assert done.exit_code == 130, done.output
    assert "1 results are kept, run again to go on" in done.output
    (row,) = json.loads((tmp_path / "run.json").read_text())
    assert (row["solution"], row["epsilon"]) == ("PS-PM", 2.0)


def test_config_file_with_options_that_win(tmp_path):
    config = tmp_path / "c.toml"
    config.write_text('solutions = ["PM"]\nepsilons = [1.0]\nfolds = 2\nrepeats = 1\nmu = "auto"\n')
    out = ("--out", str(tmp_path / "out"), "--json")
    rows = json.loads(run_here("run", "--config", config, "-e", "3", *out).stdout)
    assert [(r["solution"], r["epsilon"], r["mu"]) for r in rows] == [("PM", 3.0, "auto")]


def test_own_data_from_a_csv_file(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    lines = ["a,b,c,rich"]
    lines += [f"{r[0]},{r[1]},{r[2]},{'yes' if r[0] > 0 else 'no'}" for r in x]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines) + "\n")
    options = ("--folds", "2", "--repeats", "1", "-s", "NP", "--batch", "20", "--json")
    done = run_here("run", "--data", path, "--label", "rich", *options, "--out", tmp_path / "o")
    assert json.loads(done.stdout)[0]["accuracy"] > 0.85


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "d"), [("adult", 124), ("bank", 32), ("kdd", 115)])
def test_the_papers_data_sets(tmp_path, dataset, d):
    if not SHARED.is_dir():
        pytest.skip("the paper's data files are not beside the repository")
    options = ("--dataset", dataset, *QUICK, "--out", str(tmp_path), "--json")
    private, plain = json.loads(run_here("run", *options, FEDSEL_DATA=str(SHARED)).stdout)
    assert plain["bits"] == 32 * d
    assert private["epsilon_total"] == pytest.approx(2.0, abs=1e-9)
    assert private["within_budget"]
    assert 0.6 < private["accuracy"] <= plain["accuracy"] + 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-s", "PS-PN"], "a known solution, such as PS-PM"),
        (["-e", "0"], "epsilon = 0.0"),
        (["-e", "nan"], "epsilon = nan"),
        (["--mu", "1"], "mu = 1"),
        (["--mu", "x"], "mu = 'x'"),
        (["-k", "0"], "k = 0"),
        (["--folds", "1"], "folds = 1"),
        (["-m", "tree"], "loss = 'tree'"),
        (["--dataset", "adlt"], "adult"),
        (["--data", "missing.csv", "--label", "y"], "missing.csv"),
        (["--config", "missing.toml"], "a TOML file that exists"),
        (["--skew", "0.5", "-s", "NP"], "skew = 0.5"),
        (["--out", "no/such/folder/here"], "in a folder that exists"),
        (["--batch", "0.0"], "batch = 0.0"),
        (["--learning-rate", "0"], "learning_rate = 0:"),
    ],
)
def test_wrong_options_end_with_one_sentence_and_status_2(tmp_path, arguments, complaint):
    done = run_here("run", *arguments, status=2, cwd=tmp_path)
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["solutions = [", "colour = 1\n"])
def test_a_wrong_config_is_named(tmp_path, text):
    config = tmp_path / "c.toml"
    config.write_text(text)
    assert "fedsel: " in run_here("run", "--config", config, status=2).stderr
