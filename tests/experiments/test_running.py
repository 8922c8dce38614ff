"""Sweeps of experiments: the keys of their results, and the store that they resume from."""

import shutil
import sqlite3
import sys
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import pytest

import reproduction
from fedsel import InvalidArgument, Recipe
from fedsel._internal.paths import PACKAGE
from fedsel.data import synthetic
from fedsel.experiments import (
    CatalogueSource,
    Cell,
    InMemorySource,
    Spec,
    Store,
    cache_key,
    code_version,
)
from fedsel.experiments import sweep as sweep_over
from fedsel.experiments._running import code_of, sources_of
from fedsel.solutions import register, unregister
from reproduction.catalogue import experiment

SMALL = Spec(solutions=("NP", "ps-pm"), epsilons=(1.0, 2.0), folds=2, repeats=2)


def small_data():
    return synthetic(d=10, n=600, seed=3)


def sweep(spec, data, store, **options):
    return sweep_over(spec.cells(), InMemorySource(data), store, **options)


def test_a_key_depends_on_every_parameter():
    cell = next(SMALL.cells())
    assert cache_key(replace(cell)) == cache_key(cell)
    others = [{"seed": 1}, {"batch": 0.02}, {"model": "svm"}]
    others += [{"recipe": replace(cell.recipe, **more)} for more in ({"k": 1}, {"clip": 2.0})]
    changed = {cache_key(replace(cell, **more)) for more in others}
    assert cache_key(cell) not in changed
    assert len(changed) == 5
    # All that decides a result is a column: the data tell the dimensions, the seed all matrices.
    names = {f.name for f in (*fields(Cell), *fields(Recipe))} - {
        "recipe",
        "dim",
        "requested_solution",
        "measure",  # an experiment has test records
    }
    assert set(cell.parameters) == names


def test_a_store_keeps_what_is_added_and_refuses_other_files(tmp_path):
    path = tmp_path / "results.sqlite"
    Store(path).add("a", next(SMALL.cells()), {"x": 0.1})
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


def test_a_key_depends_on_data_in_hand():
    cell = next(SMALL.cells())
    one, two = InMemorySource(small_data()), InMemorySource(synthetic(d=10, n=600, seed=4))
    assert one.identity == InMemorySource(small_data()).identity != two.identity
    assert CatalogueSource().identity == ""
    keys = {cache_key(cell, source.identity) for source in (one, two, CatalogueSource())}
    assert len(keys) == 3


def run_files(task, source):
    """The files of fedsel of which a function runs when a part of a task is computed."""
    seen = set()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code.co_filename))
    try:
        task.part(0, source)
    finally:
        sys.setprofile(None)
    ours = (PACKAGE, Path(reproduction.__file__).parent)
    return {Path(file) for file in seen if any(Path(file).is_relative_to(o) for o in ours)}


RECIPES = [
    Spec(solutions=("RJ", "PM-RP"), scale="symmetric", unit_records=True, intercept=True),
    Spec(solutions=("EXP-OW", "NP"), protocol="holdout", clients=100, skew=0.5),
]


@pytest.mark.slow
def test_all_that_runs_is_in_the_key():
    source = InMemorySource(synthetic(d=10, n=600, seed=3))
    tasks = [cell for spec in RECIPES for cell in spec.cells() if cell.recipe.epsilon in (None, 2)]
    tasks += [experiment(name, quick=True).tasks[0] for name in ("table1", "theorem2", "fig2e")]
    for task in tasks:
        files = run_files(task, source)
        assert len(files) > 1
        assert files <= set(sources_of(type(task).__module__).values()), task


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "decides"),
    [
        ("preparation/_plan.py", True),
        ("simulation/_rounds.py", True),
        ("sampling/native/rounds.inc", True),
        ("experiments/_trial.py", True),
        ("__init__.py", True),
        ("cli/_run_records.py", False),
        ("pages/page.py", False),
        ("cli/_run_table.py", False),
    ],
)
def test_a_change_of_what_decides_a_result_changes_its_key(name, decides, quick_path, monkeypatch):
    copy, cell = quick_path / "fedsel", next(SMALL.cells())
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    monkeypatch.setattr("fedsel.experiments._running.PACKAGE", copy)
    code_version.cache_clear()
    before = cache_key(cell)
    with (copy / name).open("a") as file:
        file.write("\n")
    code_version.cache_clear()
    assert (cache_key(cell) != before) == decides
    code_version.cache_clear()


def test_data_of_another_content_are_not_mistaken_for_the_first(tmp_path):
    store = Store(tmp_path / "results.sqlite")
    first = sweep(SMALL, small_data(), store)
    second = sweep(SMALL, synthetic(d=10, n=600, seed=4), store)
    assert first[0]["runs"] != second[0]["runs"]


def test_a_sweep_resumes_and_does_not_depend_on_jobs(tmp_path, monkeypatch):
    data = small_data()
    first = sweep(SMALL, data, Store(tmp_path / "one"), jobs=1)
    second = sweep(SMALL, data, Store(tmp_path / "two"), jobs=2)
    assert first == second
    monkeypatch.setattr(Cell, "part", lambda *_: pytest.fail("computed again"))
    assert sweep(SMALL, data, Store(tmp_path / "one")) == first


MINE = """
from fedsel import Solution
from fedsel.mechanisms import Duchi, FlatPicks
from {helper} import PICKS


def compose(recipe):
    mechanism = FlatPicks(Duchi(recipe.budget.per_epoch), PICKS)
    return Solution("Mine", recipe.dim, mechanism, budget=recipe.budget.per_epoch)
"""


@pytest.mark.slow
@pytest.mark.xdist_group("processes")
def test_other_processes_know_a_composition_of_ones_own(tmp_path):
    def mine(recipe):
        return replace(Recipe("Duchi", recipe.epsilon, recipe.dim).build(), name="Mine")

    joblib = pytest.importorskip("joblib")
    spec = replace(SMALL, solutions=("PM",), epsilons=(2.0,), repeats=1)
    register("Mine", mine)
    try:
        own, ours = replace(spec, solutions=("Mine",)), replace(spec, solutions=("Duchi",))
        with joblib.parallel_config(backend="loky"):
            (row,) = sweep(own, small_data(), Store(tmp_path / "a.sqlite"), jobs=2)
        (expected,) = sweep(ours, small_data(), Store(tmp_path / "b.sqlite"), jobs=1)
        assert row["runs"] == expected["runs"]
    finally:
        unregister("Mine")


def test_the_code_of_ones_own_is_in_the_key(quick_path, monkeypatch):
    """The file of a composition, what it imports from beside it, and nothing else there."""
    monkeypatch.syspath_prepend(str(quick_path))
    (quick_path / "my_helper.py").write_text("PICKS = 1\n")
    (quick_path / "my_mine.py").write_text(MINE.format(helper="my_helper"))
    (quick_path / "my_other.py").write_text("")
    import_module("my_other")
    compose = import_module("my_mine").compose
    seen = set()
    for name, text in (("my_other", "x = 1"), ("my_helper", "PICKS = 2"), ("my_mine", None)):
        code_version.cache_clear()
        before = code_of(compose)
        file = quick_path / f"{name}.py"
        file.write_text(file.read_text() + "\nx = 2\n" if text is None else text)
        code_version.cache_clear()
        assert (code_of(compose) == before) == (name == "my_other")
        seen.add(before)
    code_version.cache_clear()
    assert len(seen) == 2
    for name in ("my_mine", "my_helper", "my_other"):
        monkeypatch.delitem(sys.modules, name)
    assert code_of(eval("lambda recipe: None")) != code_of(eval("lambda recipe: 1"))
