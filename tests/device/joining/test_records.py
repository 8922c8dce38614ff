"""A device's own records: by the names of their columns, whatever their order."""

import json
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from fedsel import InvalidArgument, PublicFacts, Recipe, resolve_auto
from fedsel._internal.models import LinearModel
from fedsel.device import LinearRecords, RawRecords
from fedsel.device.joining import _records as joining
from fedsel.errors import InvalidData
from fedsel.preparation import FeatureScale, Preparation
from fedsel.wire import Announcement, RecordPipeline
from tests.device.joining.support import TASK


def arranged(records, task):
    """All records that a task can use: features, labels, and the columns without a use."""
    suited = records.suited(task)
    X, y = (np.concatenate(parts) for parts in zip(*suited.arranged(), strict=True))
    return X.tolist(), y.tolist(), suited.unused


def announced(features):
    return Announcement.decode(json.dumps({**TASK, "features": features}).encode())


NAMED = announced(["age", "pay", "job=cook", "job=smith"])


def test_columns_are_found_by_name_and_texts_by_level(tmp_path):
    file = tmp_path / "my.csv"
    file.write_text("y;job;pay; age ;shoe\nyes;cook;50;30;41\nno; smith ;20;60;44\n", "utf-8-sig")
    X, y, unused = arranged(RawRecords.read(file, "y"), NAMED)
    assert X == [[30, 50, 1, 0], [60, 20, 0, 1]]
    assert y == [1, -1]
    assert unused == ("shoe",)


def test_a_count_of_features_takes_all_columns_in_their_order():
    task = replace(NAMED, features=2)
    assert arranged(RawRecords([[1, 2]], ["yes"]), task)[0] == [[1, 2]]
    with pytest.raises(InvalidArgument, match="2 columns beside the label"):
        RawRecords([[1, 2, 3]], ["yes"]).suited(task)
    with pytest.raises(InvalidArgument, match="names = None: must be the names"):
        RawRecords([[1, 2]], ["yes"]).suited(NAMED)


def test_labels_are_what_the_task_calls_them():
    def signs(labels, called):
        task = replace(NAMED, features=1, labels=called)
        records = RawRecords([[0.0]] * len(labels), labels)
        return records.suited(task)._targets(records._labels).tolist()

    assert signs(["yes", " no", "YES"], ("no", "yes"))[:2] == [1, -1]
    assert math.isnan(signs(["YES"], ("no", "yes"))[0])
    assert signs([1, 0, 1.0], ("0", "1")) == [1, -1, 1]
    assert signs(["1.0", "0"], ("0", "1")) == [1, -1]
    assert signs([1, -1, 0], None) == [1, -1, -1]
    assert signs([True, False], ("False", "True")) == [1, -1]


def test_targets_of_a_regression_are_on_their_public_scale():
    task = replace(NAMED, features=1, labels=None, loss="squared", target_range=(0.0, 10.0))
    assert arranged(RawRecords([[0.0]] * 5, [0, 5, 10, 99, "?"]), task)[1] == [-1, 0, 1, 1]


def test_tables_bring_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"job": ["cook"], "age": [3], "pay": [4.5]})
    assert arranged(RawRecords(frame, ["yes"]), NAMED)[0] == [[3, 4.5, 1, 0]]


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
    task = replace(announced(3), **change)
    task = replace(task, target_range=(-1.0, 1.0) if regression else None)
    recipe = Recipe("RJ", epsilon=4.0, spread=0.2, centre=0.2)
    recipe = resolve_auto(recipe, PublicFacts(dim=4, clients=1000, rounds=10))
    preparing = RecordPipeline.begin(FeatureScale.of((-50, 100), 3), recipe, 10, linear=True)
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


def preparing_of(features, intercept=1.0):
    plain = Preparation.plain(features, intercept=intercept, unit=False)
    return RecordPipeline(FeatureScale.of((0, 100), features), plain)


@pytest.mark.parametrize("cells_at_a_time", [1, 9, 1 << 20])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_records_count_the_same_however_few_are_used_at_a_time(monkeypatch, loss, cells_at_a_time):
    rng = np.random.default_rng(2)
    X, y = rng.uniform(0, 100, (50, 3)), rng.choice([-1.0, 1.0], 50)
    task = replace(announced(3), loss=loss, labels=None)
    task = replace(task, target_range=(-1.0, 1.0) if loss == "squared" else None)
    preparing, weights, left_out = preparing_of(3), rng.normal(size=4), []
    model = LinearModel(loss, reg=0.0)
    whole = LinearRecords(preparing.scale.apply(X), y, model).update(0, preparing.preparation)
    labels = [*y.tolist(), *["?"] * 10]
    records = RawRecords(np.vstack([X, np.full((10, 3), 50.0)]), labels)
    monkeypatch.setattr(joining, "_CELLS_AT_A_TIME", cells_at_a_time)
    told = records.suited(task).update(0, preparing, 4, left_out.append)(weights)
    assert told == pytest.approx(whole(weights), rel=1e-9)
    assert left_out == [10]


def test_the_memory_of_an_update_depends_on_the_task_alone():
    """Levels are the service's to choose: a device with more records must not run out of it."""
    features = [f"job={level}" for level in range(10_000)]
    task = announced(features)
    preparing, weights = preparing_of(len(features)), np.zeros(len(features) + 1)

    def most_of(count):
        records = RawRecords([[str(i)] for i in range(count)], ["yes"] * count, ["job"])
        tracemalloc.start()
        told = records.suited(task).update(0, preparing, len(weights))(weights)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.count_nonzero(told) == count + 1
        return most

    several = 1 + joining._CELLS_AT_A_TIME // len(features)
    assert most_of(600) < 1.1 * most_of(several)
    assert most_of(several) - most_of(2) < 8 * 8 * joining._CELLS_AT_A_TIME


def test_a_plan_that_suits_no_record_is_refused_without_one():
    """Else the update would fail on the device's records, and zeros would be paid for."""
    records = RawRecords([[1.0, 2.0]], ["yes"]).suited(replace(NAMED, features=2))
    records.update(0, preparing_of(2), 3)
    for preparing, dim in ((preparing_of(2), 4), (preparing_of(2, intercept=0.0), 3)):
        with pytest.raises(ValueError, match=r"matmul|preparing"):
            records.update(0, preparing, dim)
