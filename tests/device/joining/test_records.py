"""A device's own records: by the names of their columns, whatever their order."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedsel import InvalidArgument, Recipe, Setting, resolved
from fedsel.device import LinearRecords, RawRecords
from fedsel.device.joining.announcement import Announcement
from fedsel.errors import InvalidData
from fedsel.models import LinearModel
from fedsel.preparation import FeatureScale
from fedsel.wire.preparing import Preparing
from tests.device.joining.support import TASK

NAMED = Announcement.of({**TASK, "features": ["age", "pay", "job=cook", "job=smith"]})


def test_columns_are_found_by_name_and_texts_by_level(tmp_path):
    file = tmp_path / "my.csv"
    file.write_text("y;job;pay; age ;shoe\nyes;cook;50;30;41\nno; smith ;20;60;44\n", "utf-8-sig")
    suited = RawRecords.read(file, "y").suited(NAMED)
    assert suited.X.tolist() == [[30, 50, 1, 0], [60, 20, 0, 1]]
    assert suited.y.tolist() == [1, -1]
    assert (suited.left_out, suited.unused) == (0, ("shoe",))


def test_a_count_of_features_takes_all_columns_in_their_order():
    task = replace(NAMED, features=2)
    assert RawRecords([[1, 2]], ["yes"]).suited(task).X.tolist() == [[1, 2]]
    with pytest.raises(InvalidArgument, match="2 columns beside the label"):
        RawRecords([[1, 2, 3]], ["yes"]).suited(task)
    with pytest.raises(InvalidArgument, match="names = None: must be given"):
        RawRecords([[1, 2]], ["yes"]).suited(NAMED)


def test_labels_are_what_the_task_calls_them():
    def signs(labels, called):
        task = replace(NAMED, features=1, labels=called)
        records = RawRecords([[0.0]] * len(labels), labels)
        return records._targets(task).tolist()

    assert signs(["yes", " no", "YES"], ("no", "yes"))[:2] == [1, -1]
    assert math.isnan(signs(["YES"], ("no", "yes"))[0])
    assert signs([1, 0, 1.0], ("0", "1")) == [1, -1, 1]
    assert signs(["1.0", "0"], ("0", "1")) == [1, -1]
    assert signs([1, -1, 0], None) == [1, -1, -1]
    assert signs([True, False], ("False", "True")) == [1, -1]


def test_targets_of_a_regression_are_on_their_public_scale():
    task = replace(NAMED, features=1, labels=None, loss="squared", target_range=(0.0, 10.0))
    suited = RawRecords([[0.0]] * 5, [0, 5, 10, 99, "?"]).suited(task)
    assert suited.y.tolist() == [-1, 0, 1, 1]
    assert suited.left_out == 1


def test_tables_bring_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"job": ["cook"], "age": [3], "pay": [4.5]})
    assert RawRecords(frame, ["yes"]).suited(NAMED).X.tolist() == [[3, 4.5, 1, 0]]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("", "data"),
        ("y,a\n", "data"),
        ("y,a,a\n1,2,3\n", "data"),
        ("y,a\n1\n", "data"),
        ("y\n1\n", "data"),
        ("z,a\n1,2\n", "label"),
        (b"y,a\n\xff,1\n", "data"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_without_its_content(tmp_path, content, name):
    file = tmp_path / "my.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidArgument) as caught:
        RawRecords.read(file, "y")
    assert caught.value.name == name
    with pytest.raises(InvalidArgument, match="a file"):
        RawRecords.read(tmp_path / "nothing.csv", "y")


@pytest.mark.parametrize(
    ("X", "y"),
    [([], []), ([1, 2], [1, 2]), ([[1]], [1, 2]), (np.ma.array([[1]]), [1]), ([[1], [1, 2]], [1])],
)
def test_arrays_that_are_no_records_are_refused_without_their_content(X, y):
    with pytest.raises(InvalidData):
        RawRecords(X, y)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_what_is_told_is_what_the_simulator_would(loss):
    """In rounds that prepare and in those that train: by the same records on the public scale."""
    rng = np.random.default_rng(1)
    regression = loss == "squared"
    X, y = rng.uniform(-40, 90, (20, 3)), rng.choice([-1, 1], 20)
    change = {"features": 3, "loss": loss, "labels": None}
    task = replace(Announcement.of({**TASK, "features": 3}), **change)
    task = replace(task, target_range=(-1.0, 1.0) if regression else None)
    recipe = Recipe("RJ", epsilon=4.0, spread=0.2, centre=0.2)
    recipe = resolved(recipe, Setting(dim=4, clients=1000, rounds=10))
    preparing = Preparing.begin(FeatureScale.of((-50, 100), 3), recipe, 10, linear=True)
    assert {preparing.plan.stage(number) for number in range(10)} == {
        "spread",
        "centre",
        "training",
    }
    suited = RawRecords(X, y).suited(task)
    model = LinearModel(loss, reg=0.0)
    records = LinearRecords(preparing.scale.apply(X), y, model, preparing.plan)
    weights = rng.normal(size=4)
    for number in range(10):
        told = suited.update(number, preparing, 4)(weights)
        assert told.tolist() == records.update(number, preparing.preparation)(weights).tolist()
