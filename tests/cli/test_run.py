"""``fedsel run`` in real processes: what it writes, that it resumes, and Ctrl-C."""

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedsel.cli import app
from fedsel.experiments import Store
from tests.cli.support import FEDSEL, run, run_here

SHARED = Path(__file__).parents[3] / "shared" / "data"
QUICK = ("--repeats", "1", "--folds", "2", "-s", "PS-PM", "-s", "NP", "-e", "2")


@pytest.mark.slow
def test_run_writes_table_files_and_figure_and_resumes(tmp_path):
    out = ("--out", str(tmp_path))
    done = run("run", *QUICK, *out)
    assert "PS-PM" in done.stdout
    assert done.stderr.startswith("syn-L: 2 results, each from 1 × 2 folds\n")
    # One by one, before the table; a long run says more.
    came_in = [line.split() for line in done.stderr.splitlines() if line.startswith("logistic")]
    assert [words[:2] for words in came_in] == [["logistic", "PS-PM"], ["logistic", "NP"]]
    for name in ("run.csv", "run.json", "run.tex", "accuracy.png", "accuracy.svg", "accuracy.pdf"):
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
    arguments = ("run", "--folds", "5", "--repeats", "8", "-e", "1", "-e", "2")
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
    assert 1 <= kept_in(tmp_path) < 11
    assert (tmp_path / "run.csv").exists()
    rows = json.loads(run(*arguments, "--out", tmp_path, "--json").stdout)
    assert len(rows) == 11
    assert kept_in(tmp_path) == 11


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
