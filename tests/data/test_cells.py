"""The cells of a file as they are, and data sets by a public schema."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedsel import InvalidArgument, Schema
from fedsel.data import _cells, read, read_rows
from fedsel.wire import Date, Number

SCHEMA = Schema(
    {
        "age": Number(0, 100, indicator=True),
        "income": "private",
        "job": ["cook", "smith"],
        "since": Date(["year"], "2000-01-01", "2029-12-31", format="DD.MM.YYYY"),
    },
    label="vote",
    classes=["yes", "no"],
)
CSV = """since;vote;job;age;income;note
1.2.2003;yes;cook;31;;
;no;nurse;;"1e5";x
30.2.2003;?;smith;1;2;x
31.12.1999;no;smith;n/a;-3;x
5.6.2040;;smith;500;2;x
"""
EXPECTED = [[31, 0, 0, 1, 0, 2003], [50, 1, 1e5, 0, 0, 2014.5], [50, 1, -3, 0, 1, 2000]]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(CSV, encoding="utf-8")
    return path


def test_cells_are_texts_block_by_block(table, monkeypatch):
    monkeypatch.setattr(_cells, "_ROWS", 2)
    blocks = list(_cells.cells(table))
    assert [len(block["age"]) for block in blocks] == [2, 2, 1]
    assert list(blocks[0]) == ["since", "vote", "job", "age", "income", "note"]
    assert blocks[1]["age"].tolist() == ["1", "n/a"]


def test_more_than_two_classes_are_numbers(table):
    data = read(table, schema=Schema(SCHEMA.columns, label="vote", classes=["?", "no", "yes"]))
    assert (data.y.tolist(), data.classes) == ([2, 1, 0, 1], ("?", "no", "yes"))
    assert data.scaled("private").with_intercept().y.tolist() == data.y.tolist()
    for wrong in ([0, 1, 2, 3], [-1, 0, 1, 2], [0.0, 1.0, 2.0, 1.0], [0, 1]):
        with pytest.raises(InvalidArgument, match=r"y = .*: must be .* whole numbers in 0 … 2"):
            replace(data, y=np.array(wrong))


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_a_data_set_by_its_schema(table, rows, monkeypatch):
    """Records whose label is no class are left out; blanks, dates and levels follow the schema."""
    monkeypatch.setattr(_cells, "_ROWS", rows)
    data = read(table, schema=SCHEMA)
    assert data.X.tolist() == EXPECTED
    assert data.y.tolist() == [-1, 1, 1]
    assert data.classes == ("yes", "no")
    assert data.feature_names == SCHEMA.features
    assert data.bounds.tolist() == SCHEMA.bounds.tolist()
    assert (read(table, "vote", schema=SCHEMA).X == data.X).all()
    assert read_rows(table, data, schema=SCHEMA).tolist()[:2] == EXPECTED[:2]
    private = Schema({"income": "private"}, label="vote", classes=["yes", "no"])
    assert read(table, schema=private).bounds is None


def test_parquet_equals_csv(table, tmp_path):
    path = tmp_path / "votes.parquet"
    pd.read_csv(table, sep=";").to_parquet(path)
    assert (read(path, schema=SCHEMA).X == read(table, schema=SCHEMA).X).all()


def test_parquet_keeps_what_is_missing_and_the_clock_of_a_time_zone(tmp_path):
    path = tmp_path / "own.parquet"
    day = pd.to_datetime(["2024-05-01", None, "2010-12-31"]).tz_localize("Pacific/Auckland")
    job, age = pd.Categorical(["cook", None, "smith"]), pd.Categorical([31, None, 60])
    pd.DataFrame({"job": job, "age": age, "day": day, "vote": [0, 1, 1]}).to_parquet(path)
    columns = {"job": ["cook", "smith"], "age": {"range": (0, 100), "indicator": True}}
    columns["day"] = {"date": ["year"], "range": ("2000-01-01", "2030-12-31"), "indicator": True}
    data = read(path, schema=Schema(columns, label="vote", classes=["0", "1"]))
    wanted = [[1, 0, 31, 0, 2024, 0], [0, 0, 50, 1, 2015, 1], [0, 1, 60, 0, 2010, 0]]
    assert data.X.tolist() == wanted
    undeclared = Schema({"day": (0, 1)}, label="vote", classes=["0", "1"])
    with pytest.raises(InvalidArgument, match=r"column = 'day': .*its type is Datetime"):
        read(path, schema=undeclared)


def test_columns_by_position(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("1,2,0\n3,,1\n", encoding="utf-8")
    schema = Schema(2, classes=["0", "1"])
    data = read(path, 2, schema=schema, header=False)
    assert data.X.tolist() == [[1, 2], [3, 0]]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"classes": None}, "classes = None: must be a list, in a schema for a data set"),
        ({"classes": None, "target_range": (0, 1)}, "FedSelRegressor.* learns a number"),
        ({"label": None}, "label = None: must be the name or number"),
        ({"label": "votes"}, "label = 'votes'.*such as vote"),
        ({"columns": {"jobs": ["cook"]}}, "column = 'jobs': .*do you mean job?"),
        ({"classes": ["a", "b"]}, "classes = .* in which no record has one of them"),
        ({"columns": {"age": (0, 1e39)}}, "columns.age.range = .*within ±3.4e38 in a data set"),
    ],
)
def test_wrong_schemas(table, changed, words):
    given = {name: getattr(SCHEMA, name) for name in ("columns", "label", "classes")}
    with pytest.raises(InvalidArgument, match=words):
        read(table, schema=Schema(**(given | changed)))


def test_a_feature_is_no_label(table):
    with pytest.raises(InvalidArgument, match="label = 'job': must be no column that is a feature"):
        read(table, "job", schema=SCHEMA)


def test_a_schema_is_for_tables(tmp_path):
    np.savez(tmp_path / "own.npz", X=np.eye(3), y=[1, 2, 2])
    with pytest.raises(InvalidArgument, match=r"omitted for \.npz"):
        read(tmp_path / "own.npz", schema=SCHEMA)


def test_a_table_without_records(tmp_path):
    for ending, write in (("csv", pd.DataFrame.to_csv), ("parquet", pd.DataFrame.to_parquet)):
        path = tmp_path / f"empty.{ending}"
        write(pd.DataFrame({"age": [], "vote": []}), path, index=False)
        with pytest.raises(InvalidArgument, match="with records"):
            read(path, "vote")
