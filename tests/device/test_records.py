"""A device's own records: by the names of their columns, whatever their order."""

import os
import tracemalloc
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from fedsel import InvalidArgument, PublicFacts, Recipe, resolve_auto
from fedsel._internal.models import LinearModel
from fedsel.device import LinearRecords, RawRecords, _records
from fedsel.errors import InvalidData
from fedsel.preparation import FeatureScale, Preparation
from fedsel.wire import Date, RecordPipeline, Schema


def arranged(records, schema):
    """All records with a known label: features, targets, and the columns without a use."""
    suited = records.suited(schema)
    X, y = (np.concatenate(parts) for parts in zip(*suited.arranged(), strict=True))
    return X.tolist(), y.tolist(), suited.unused


NAMED = Schema({"age": (0, 100), "pay": (0, 100), "job": ["cook", "smith"]}, classes=("no", "yes"))
ROWS = [[30, 50, 1, 0], [60, 20, 0, 1]]


def test_columns_are_found_by_name_and_texts_by_level(tmp_path):
    file = tmp_path / "my.csv"
    file.write_text("y;job;pay; age ;shoe\nyes;cook;50;30;41\nno; smith ;20;60;44\n", "utf-8-sig")
    assert arranged(RawRecords.read(file, "y"), NAMED) == (ROWS, [1, 0], ("shoe",))
    labelled = replace(NAMED, label="y")
    assert arranged(RawRecords.read(file), labelled) == (ROWS, [1, 0], ("shoe",))


def test_a_count_of_columns_takes_all_in_their_order(tmp_path):
    schema = replace(NAMED, columns=2)
    assert arranged(RawRecords([[1, 2]], ["yes"]), schema)[0] == [[1, 2]]
    rows = RawRecords([[1, "yes", 2]], "b", ["a", "b", "c"])
    assert arranged(rows, schema) == ([[1, 2]], [1], ())
    for X, y in (([[1, 2, 3]], ["yes"]), ([[1]], ["yes"])):
        with pytest.raises(InvalidArgument, match="2 columns beside the label"):
            RawRecords(X, y).suited(schema)
    with pytest.raises(InvalidArgument, match="must be rows"):
        RawRecords([{"a": 1, "b": 2}], ["yes"]).suited(schema)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (
            ([[1, 2]], ["yes"]),
            "names = None: must be the names of the columns: the task asks for age, pay, job",
        ),
        (([[1, 2]], ["yes"], ["age", "pay"]), "column = 'job': must be in the records"),
        (([[1, 2]], "pay", ["age", "pay"]), "column = 'pay': must be in the records"),
        (([[1, 2]], None, ["age", "pay"]), "label = None: must be the name of the label's column"),
        (([[1, 2]], "y", ["age", "pay"]), "label = 'y': must be a column of the records"),
        (([[1, 2]], "y"), "label = 'y': must be a column of the records, which have no names"),
    ],
)
def test_what_the_header_lacks_is_named(records, message):
    with pytest.raises(InvalidArgument, match=message):
        RawRecords(*records).suited(NAMED)


def test_records_by_name_suit_every_schema_whatever_each_of_them_has():
    """Which names a record has is content."""
    records = [{"age": "30", "job": "cook", "y": "yes"}, {"y": "no", "pay": 20.0}, {"pay": 1}]
    suited = RawRecords(records).suited(replace(NAMED, label="y"))
    ((X, y),) = suited.arranged()
    assert X.tolist() == [[30, 50, 1, 0], [50, 20, 0, 0]]
    assert y.tolist() == [1, 0]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_data_frames_bring_their_names(library):
    frames = pytest.importorskip(library)
    table = {"job": ["cook", "smith"], "age": [30, 60], "y": ["yes", "no"], "pay": [50.0, 20.0]}
    table["day"] = [datetime(2024, 1, 1), datetime(2024, 1, 2)]
    frame = getattr(frames, "table" if library == "pyarrow" else "DataFrame")(table)
    assert arranged(RawRecords(frame, "y"), NAMED) == (ROWS, [1, 0], ("day",))
    days = Schema({"day": Date(["weekday"])}, label="y", classes=("no", "yes"))
    assert arranged(RawRecords(frame), days)[0] == [[1.0, 0.0], [0.62349, 0.781831]]


def test_true_stays_true_beside_numbers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [True, False], "b": [1, 2]})
    schema = Schema({"a": ["true", "false"], "b": (0, 4)})
    assert arranged(RawRecords(frame, [1, 0]), schema)[0] == [[1, 0, 1], [0, 1, 2]]


def test_records_whose_label_is_no_class_are_left_out():
    schema = Schema(1, classes=("a", "b", "c"))
    X, y, _ = arranged(RawRecords([[1], [2], [3], [4]], ["c", "d", None, "a"]), schema)
    assert (X, y) == ([[1], [4]], [2, 0])


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("", "data"),
        ("y,a\n", "data"),
        ("y,a,a\n1,2,3\n", "data"),
        ("y,a\n1\n", "data"),
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
def test_a_pipe_is_refused_in_words():
    reading, writing = os.pipe()
    os.write(writing, b"y,a\n1,2\n")
    os.close(writing)
    with pytest.raises(InvalidArgument, match=r"must be a file \(.*seekable\)"):
        RawRecords.read(f"/dev/fd/{reading}", "y")
    os.close(reading)


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
    schema = Schema(3, target_range=(-1, 1) if regression else None)
    recipe = Recipe("RJ", epsilon=4.0, spread=0.2, centre=0.2)
    recipe = resolve_auto(recipe, PublicFacts(dim=4, clients=1000, rounds=10))
    preparing = RecordPipeline.begin(FeatureScale.of((-50, 100), 3), recipe, 10, linear=True)
    assert {preparing.plan.stage(number) for number in range(10)} == {
        "spread",
        "centre",
        "training",
    }
    suited = RawRecords(X, y).suited(schema, loss)
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
    schema = Schema(3, target_range=(-1, 1) if loss == "squared" else None)
    preparing, weights, left_out = preparing_of(3), rng.normal(size=4), []
    model = LinearModel(loss, reg=0.0)
    whole = LinearRecords(preparing.scale.apply(X), y, model).update(0, preparing.preparation)
    labels = [*y.tolist(), *["?"] * 10]
    records = RawRecords(np.vstack([X, np.full((10, 3), 50.0)]), labels)
    monkeypatch.setattr(_records, "_CELLS_AT_A_TIME", cells_at_a_time)
    suited = records.suited(schema, loss)
    told = suited.update(0, preparing, 4, left_out.append)(weights)
    assert told == pytest.approx(whole(weights), rel=1e-9)
    assert left_out == [10]


def test_the_memory_of_an_update_depends_on_the_task_alone():
    """Levels are the service's to choose: a device with more records must not run out of it."""
    levels = [str(level) for level in range(10_000)]
    schema = Schema({"job": levels}, classes=("no", "yes"))
    preparing, weights = preparing_of(len(levels)), np.zeros(len(levels) + 1)

    def most_of(count):
        records = RawRecords([[str(i)] for i in range(count)], ["yes"] * count, ["job"])
        tracemalloc.start()
        told = records.suited(schema).update(0, preparing, len(weights))(weights)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.count_nonzero(told) == count + 1
        return most

    several = 1 + _records._CELLS_AT_A_TIME // len(levels)
    assert most_of(600) < 1.1 * most_of(several)
    assert most_of(several) - most_of(2) < 8 * 8 * _records._CELLS_AT_A_TIME


def test_a_plan_that_suits_no_record_is_refused_without_one():
    """Else the update would fail on the device's records, and zeros would be paid for."""
    records = RawRecords([[1.0, 2.0]], ["yes"]).suited(replace(NAMED, columns=2))
    records.update(0, preparing_of(2), 3)
    for preparing, dim in ((preparing_of(2), 4), (preparing_of(2, intercept=0.0), 3)):
        with pytest.raises(ValueError, match=r"matmul|preparing"):
            records.update(0, preparing, dim)
