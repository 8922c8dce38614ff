"""The task of a service: public means in its file, as devices and the page get them."""

import json

import numpy as np
import pytest

from fedsel import InvalidArgument
from fedsel.service import Task
from fedsel.service._dashboard import task_facts
from fedsel.service._snapshot import RunSnapshot

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
    view = RunSnapshot(task, task.begin, [(0.0, None)])
    told = json.loads(view.preparing_text.plain)
    told_centre = np.multiply(told["preparation"]["centre"], told["preparation"]["spread"])
    np.testing.assert_allclose(told_centre, centre)
    assert (told["plan"] is None) == (rounds == 0)
    assert "known" not in (told["plan"] or {})
    given = sum(c > 0 for c in centre)
    assert f"<dt>Public means</dt><dd>of {given} feature" in task_facts(view)


def test_without_them_nothing_is_said(quick_path):
    task = loaded(quick_path, "")
    assert "Public means" not in task_facts(RunSnapshot(task, task.begin, [(0.0, None)]))


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


def test_updates_of_ones_own_have_no_means():
    own = {"name": "a", "clients": 40, "close_after": {"reports": 10}, "epsilon": 2, "dim": 8}
    with pytest.raises(InvalidArgument, match=r"public_mean = .*omitted without features"):
        Task.of({**own, "public_mean": [0.5] * 8})
