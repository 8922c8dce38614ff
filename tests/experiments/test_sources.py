"""Public rows beside a data set: what cells make of them, and the command that takes them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.data import synthetic
from fedsel.experiments import InMemorySource, Spec, with_public
from tests.cli.support import run_here


def small_data():
    return synthetic(d=10, n=600, seed=3)


PREPARING = Spec(solutions=("RJ", "PM"), epsilons=(1.0,), scale="unit", intercept=True, batch=20)


def test_public_rows_prepare_the_records_of_a_cell():
    data, rows = small_data(), synthetic(d=10, n=80, seed=9).X
    source = with_public(replace(data, bounds=None), rows)
    np.testing.assert_array_equal(
        source.dataset.bounds, np.stack([rows.min(axis=0), rows.max(axis=0)], axis=1)
    )
    directions, values = PREPARING.cells()
    people, training = directions.setup(source)
    assert training.plan is None
    np.testing.assert_allclose(np.linalg.norm(people.X, axis=1), 1, rtol=1e-5)
    plain, learning = directions.setup(InMemorySource(source.dataset))
    assert learning.plan is not None
    assert people.X.shape[1] == plain.X.shape[1] + 1 == training.solution.dim
    # Whose records keep their norm has the bounds alone.
    np.testing.assert_array_equal(
        values.setup(source)[0].X, values.setup(InMemorySource(source.dataset))[0].X
    )
    assert directions.part(0, source)["about"]["chosen"]["public_rows"] == 80


def test_results_with_other_public_rows_are_other_results():
    data = small_data()
    rows = [synthetic(d=10, n=80, seed=seed).X for seed in (8, 9)]
    names = [with_public(data, some).identity for some in rows] + [InMemorySource(data).identity]
    assert len(set(names)) == 3
    assert with_public(data, rows[0].copy()).identity == names[0]


def test_wrong_public_rows_are_refused():
    data = small_data()
    for wrong in (data.X[:, :3], data.X[:1], data.X[0]):
        with pytest.raises(InvalidArgument, match="public"):
            with_public(data, wrong)
    source = with_public(data, data.X[:50])
    asked = next(replace(PREPARING, solutions=("RJ",), recipe={"centre": 0.1}).cells())
    with pytest.raises(InvalidArgument, match=r"centre.*public rows"):
        asked.setup(source)


def table(n, seed):
    """A file's lines: a number, a text of three levels, and what they say."""
    draw = np.random.default_rng(seed)
    age, job = draw.uniform(20, 80, n), draw.integers(0, 3, n)
    rich = (age + 20 * job + draw.normal(0, 10, n) > 70).astype(int)
    return [(f"{a:.1f}", "abc"[j], str(r)) for a, j, r in zip(age, job, rich, strict=True)]


@pytest.mark.slow
def test_the_command_takes_public_rows(tmp_path):
    data, public = tmp_path / "data.csv", tmp_path / "public.csv"
    rows = table(1500, 1)
    data.write_text("\n".join(["age,job,rich", *map(",".join, rows)]))
    # Other order, no label, one text that nobody has.
    lines = [f"{job},{age}" for age, job, _ in table(100, 2)]
    public.write_text("\n".join(["job,age", *lines, "d,50"]))
    options = ("run", "--data", data, "--label", "rich", "-s", "RJ", "-e", "4", "--folds", "2")
    options += ("--repeats", "1", "--out", tmp_path / "out")
    given = ("--public", public)
    row = json.loads(run_here(*options, *given, "--json").stdout)[0]
    assert row["scale"] == "unit"
    assert row["chosen"]["public_rows"] == 101
    assert row["chosen"]["centre_rounds"] == 0
    assert row["accuracy"] > 0.8
    shown = run_here(*options, *given).stdout
    assert "101 public rows, which cost no ε" in shown
    assert "own mean and deviation" not in shown
    public.write_text("age\n1\n2")
    assert "job=" in run_here(*options, *given, status=2).stderr
    public.write_text("age,job\nnan,a\n2,b")
    assert "age" in run_here(*options, *given, status=2).stderr
    public.write_text("age,job\n1,a")
    assert "at least 2 rows" in run_here(*options, *given, status=2).stderr
    assert "--data" in run_here("run", *given, status=2).stderr
    assert "--scale" in run_here(*options, *given, "--scale", "standard", status=2).stderr
