"""The task of a service: schema and public means in its file, as devices and the page get them."""

import json

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.service import Task
from fedsel.service._dashboard import task_facts
from fedsel.service._snapshot import RunSnapshot
from fedsel.wire import Schema

FILE = """
epsilon = 4
features = ["age", "hours"]
feature_range = [[0, 0], [100, 80]]
clients = 5000
rounds_per_epoch = 50
close_after = { reports = 100 }
"""


def loaded(folder, means, **changes):
    text = FILE + (f"public_mean = {means}\n" if means else "")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "churn.toml"
    path.write_text(text, encoding="utf-8")
    return Task.load(path)


@pytest.mark.parametrize(
    ("means", "centre", "rounds"),
    [
        ("{ age = 41.5, hours = 38 }", [0.415, 0.475], 0),
        ("[41.5, 38]", [0.415, 0.475], 0),
        ("{ age = 41.5 }", [0.415, 0], 8),
        ("[41.5, nan]", [0.415, 0], 8),
    ],
)
def test_public_means_of_a_file(means, centre, rounds, quick_path):
    task = loaded(quick_path, means)
    begun = task.begin.preparation
    np.testing.assert_allclose(begun.centre * begun.spread, centre)
    assert task.begin.plan.rounds == rounds
    view = RunSnapshot(task, task.begin, [(0.0, None, None)])
    told = json.loads(view.preparing_text.plain)
    told_centre = np.multiply(told["preparation"]["centre"], told["preparation"]["spread"])
    np.testing.assert_allclose(told_centre, centre)
    assert (told["plan"] is None) == (rounds == 0)
    assert "known" not in (told["plan"] or {})
    given = sum(c > 0 for c in centre)
    assert f"<dt>Public means</dt><dd>of {given} feature" in task_facts(view)


def test_without_them_nothing_is_said(quick_path):
    task = loaded(quick_path, "")
    assert "Public means" not in task_facts(RunSnapshot(task, task.begin, [(0.0, None, None)]))


def test_features_without_names_go_by_their_numbers(quick_path):
    task = loaded(quick_path, '{ "1" = 38 }', **{'["age", "hours"]': "2"})
    begun = task.begin.preparation
    np.testing.assert_allclose(begun.centre * begun.spread, [0, 0.475])


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ("{ hourz = 3 }", r"public_mean\['hourz'\] in churn.toml = 3: .*'hours'"),
        ("{ age = 141.5 }", r"public_mean\['age'\] in churn.toml = 141.5: .*\[0, 100\]"),
        ("{ age = nan }", r"public_mean\['age'\] in churn.toml = nan"),
        ("{ age = { a = 1 } }", r"public_mean\['age'\]"),
        ("[1.0]", r"public_mean in churn.toml = .*2 numbers"),
        ("3", "public_mean in churn.toml = 3"),
        ("{}", "at least one feature"),
    ],
)
def test_wrong_means_are_told_before_anything_is_served(means, words, quick_path):
    with pytest.raises(InvalidArgument, match=words):
        loaded(quick_path, means)


SCHEMA = """
label = "left"
classes = ["no", "maybe", "yes"]
[columns]
age = [0, 100]
job = ["cook", "smith"]
"""


def schema_file(folder, schema=SCHEMA, line='schema = "people.toml"', task=FILE):
    (folder / "people.toml").write_text(schema, encoding="utf-8")
    own = [part for part in task.splitlines() if not part.startswith("feature")]
    path = folder / "churn.toml"
    path.write_text("\n".join([line, *own]), encoding="utf-8")
    return Task.load(path)


def test_a_schema_in_a_file_of_its_own_or_in_the_task(quick_path):
    task = schema_file(quick_path)
    wanted = Schema({"age": (0, 100), "job": ["cook", "smith"]}, "left", ("no", "maybe", "yes"))
    assert task.schema == wanted
    assert (task.dim, task.begin.recipe.dim) == (12, 12)
    inline = 'schema.columns = { age = [0, 100], job = ["cook", "smith"] }\nschema.label = "left"\n'
    inline += 'schema.classes = ["no", "maybe", "yes"]'
    assert schema_file(quick_path, line=inline).schema == wanted
    assert RunSnapshot(task, task.begin, [(0.0, None, None)]).task_text.plain
    facts = task_facts(RunSnapshot(task, task.begin, [(0.0, None, None)]))
    assert "<dt>Classes</dt><dd>no, maybe, yes</dd>" in facts
    assert "3 features" in facts


@pytest.mark.parametrize(
    ("schema", "line", "message"),
    [
        (SCHEMA, 'schema = "none.toml"', r"schema = .*none.toml': must be a TOML file"),
        ("[[[", 'schema = "people.toml"', r"schema = .*people.toml': must be valid TOML"),
        ("columns = {}", 'schema = "people.toml"', r"^columns in people.toml = {}"),
        ("columns.a = [1, 0]", 'schema = "people.toml"', r"^columns.a.range in people.toml = \["),
        ("", "schema.columns.a = [1, 0]", r"^schema.columns.a.range in churn.toml = \[1"),
        ("", "schema = 3", r"^schema in churn.toml = 3: must be a table with columns, label"),
        (SCHEMA, 'schema = "people.toml"\nloss = "huber"', r"^target_range in churn.toml = None"),
        (
            SCHEMA,
            'schema = "people.toml"\nfeatures = 2',
            r"schema in .* = 'a schema': must be omit",
        ),
        (SCHEMA, 'schema = "people.toml"\ndim = 8', r"^dim in churn.toml = 8: must be omitted"),
        (SCHEMA, 'schema = "people.toml"\nlabels = ["a", "b"]', r"^labels in churn.toml = "),
        (SCHEMA, 'schema = "people.toml"\nfeature_range = [0, 1]', r"^feature_range in churn.toml"),
        ("", "schema.columns = 3", r"^feature_range in churn.toml = None"),
    ],
)
def test_a_wrong_schema_is_named_by_file_and_key(quick_path, schema, line, message):
    with pytest.raises(InvalidArgument, match=message):
        schema_file(quick_path, schema, line)


@pytest.mark.parametrize(
    ("short", "schema", "bounds"),
    [
        ({"features": 3, "feature_range": [0, 1]}, Schema(3), [[0, 1]] * 3),
        (
            {"features": ["a", "b"], "feature_range": "private", "labels": ["x", "y", "z"]},
            Schema({"a": "private", "b": "private"}, classes=("x", "y", "z")),
            [[-(2.0**32), 2.0**32]] * 2,
        ),
        (
            {"features": ["k=1", "k=2", "a"], "feature_range": [[0, 0, -5], [1, 1, 5]]},
            Schema({"k": ["1", "2"], "a": (-5, 5)}),
            [[0, 1], [0, 1], [-5, 5]],
        ),
        (
            {"features": 1, "feature_range": [0, 2], "target_range": [0, 9], "loss": "squared"},
            Schema(1, target_range=(0, 9)),
            [[0, 2]],
        ),
    ],
)
def test_the_short_keys_stand_for_a_schema(short, schema, bounds):
    own = {"name": "a", "clients": 400, "close_after": {"reports": 10}, "epsilon": 2}
    task = Task.of({**own, **short})
    assert task.schema == schema
    scale = task.preparing(task.begin).scale
    assert np.column_stack([scale.low, scale.high]).tolist() == bounds


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ({"features": ["a", "a"], "feature_range": [0, 1]}, "features"),
        ({"features": ["k=1", "a", "k=2"], "feature_range": [0, 1]}, "features"),
        ({"features": ["k", "k=2"], "feature_range": [0, 1]}, "features"),
        ({"features": ["k=2", "k"], "feature_range": [0, 1]}, "features"),
        ({"features": [], "feature_range": [0, 1]}, "features"),
        ({"features": 0, "feature_range": [0, 1]}, "features"),
        ({"features": True, "feature_range": [0, 1]}, "features"),
        ({"features": ["a"]}, "feature_range"),
        ({"features": 2}, "feature_range"),
        ({"features": ["a"], "feature_range": [1, 0]}, "feature_range"),
        ({"features": ["a"], "feature_range": [0, 1], "labels": ["x"]}, "labels"),
        ({"features": ["a"], "feature_range": [0, 1], "labels": ["x", "x"]}, "labels"),
        ({"features": ["a"], "feature_range": [0, 1], "target_range": [0, 1]}, "target_range"),
        ({"features": ["a"], "feature_range": [0, 1], "schema": {"columns": 1}}, "schema"),
        ({"labels": ["x", "y"], "dim": 3}, "labels"),
        ({}, "schema"),
    ],
)
def test_wrong_short_keys_are_named(short, name):
    own = {"name": "a", "clients": 400, "close_after": {"reports": 10}, "epsilon": 2}
    with pytest.raises(InvalidArgument) as caught:
        Task.of({**own, **short})
    assert caught.value.name == name


def test_updates_of_ones_own_have_no_means():
    own = {"name": "a", "clients": 40, "close_after": {"reports": 10}, "epsilon": 2, "dim": 8}
    with pytest.raises(InvalidArgument, match=r"public_mean = .*omitted without features"):
        Task.of({**own, "public_mean": [0.5] * 8})
