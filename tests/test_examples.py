"""Examples and the small forms of benchmarks, as a user runs them."""

import csv
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from examples.customers import customers
from fedsel import Schema

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run(*command):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_devices_and_server(quick_path):
    script, table = ROOT / "examples" / "device_and_server.py", quick_path / "ledgers.csv"
    said = run(script, "--clients", 60, "--csv", table, "--dir", quick_path)
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60
    assert {(row["reports"], row["spent"], row["left"]) for row in rows[1:]} == {("5", "5", "0")}
    assert rows[0]["spent"] == "0"  # the hostile client
    assert "answered" not in said.split("The other server")[1].split("no device")[0]
    accuracy = float(re.search(r"accuracy ([\d.]+)%", said)[1])
    assert 0 <= accuracy <= 100  # 60 clients learn little


@pytest.mark.slow
def test_fuzzing_by_random_mutations():
    """A bounded number here; the benchmark runs a million."""
    said = run(ROOT / "benchmarks" / "fuzz.py", "--engine", "random", "--inputs", 5000)
    assert "nothing raised" in said
    requests, reports = re.search(r"([\d,]+) requests and ([\d,]+) reports", said).groups()
    assert int(requests.replace(",", "")) > 100
    assert int(reports.replace(",", "")) > 100


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("sklearn_quickstart.py", "Not covered:"),
        pytest.param(
            *("torch_digits.py", "bits a client"),
            marks=[pytest.mark.slow, pytest.mark.xdist_group("torch")],
        ),
    ],
)
def test_examples_run(script, told, tmp_path, monkeypatch, capsys):
    picture = tmp_path / "figure.png"
    monkeypatch.setattr(sys, "argv", [script, "--quick", "--plot", str(picture)])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert told in capsys.readouterr().out
    assert picture.stat().st_size > 10_000


@pytest.mark.slow
def test_algorithm_1_in_forty_lines():
    """It learns, and says what each solution costs; the simulator's tests compare with it."""
    said = run(EXAMPLES / "algorithm1.py")
    accuracy = {
        line.split()[0]: float(re.search(r"([\d.]+)%", line)[1]) for line in said.splitlines()
    }
    assert accuracy["NP"] > accuracy["FJ"] > 90
    assert "ε = 4 " in said


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_devices_shuffler_and_server(quick_path):
    said = run(EXAMPLES / "shuffled.py", "--devices", 90, "--dir", quick_path)
    local, central = (
        float(re.search(rf"{kind} ε = ([\d.]+)", said)[1]) for kind in ("local", "central")
    )
    assert local == 2
    assert 0 < central < local
    assert 50 < float(re.search(r"accuracy ([\d.]+)%", said)[1]) <= 100
    assert list(quick_path.iterdir()) == []


def test_customers_are_what_their_schema_says(tmp_path):
    run(EXAMPLES / "customers.py", tmp_path / "customers.csv", "--records", 600)
    schema = Schema.load(EXAMPLES / "customers.toml")
    table = pd.read_csv(tmp_path / "customers.csv", keep_default_na=False)
    assert table.shape == (600, 30)
    encoded = schema.encode(table)
    assert encoded.tobytes() == schema.encode(customers(600)).tobytes()
    assert np.ptp(encoded, axis=0).all()
    assert not np.isnan(schema.targets(table["status"])).any()


def test_every_example_is_run():
    assert {p.name for p in EXAMPLES.glob("*.py")} == {
        "algorithm1.py",
        "customers.py",
        "device_and_server.py",
        "shuffled.py",
        "sklearn_quickstart.py",
        "torch_digits.py",
    }
