"""The public schema of a table: the same numbers everywhere, and nothing learnt from records."""

import json
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedsel import InvalidArgument, InvalidData, Schema
from fedsel.device import RawRecords
from fedsel.wire import Category, Date, Number

CASES = json.loads(
    (Path(__file__).parents[1] / "clients" / "schema.json").read_text(encoding="utf-8")
)
MIXED = Schema(
    {
        "age": Number(0, 100, indicator=True),
        "income": "private",
        "job": ["cook", "smith", "other"],
        "since": Date(["year", "month"], "2000-01-01", "2030-12-31"),
    },
    label="vote",
    classes=["no", "yes"],
)
ROWS = {
    "age": [31.0, None, 250.0],
    "income": [1e5, 2.5, None],
    "job": ["smith", None, "nurse"],
    "since": ["2024-05-01", "2010-12-31", None],
}

ONE = {"age": [31.0], "income": [1e5], "job": ["smith"], "since": ["2024-05-01"]}


def ids(case):
    return case["what"]


@pytest.mark.parametrize("case", [c for c in CASES if "encoded" in c], ids=ids)
def test_records_become_the_features_that_every_client_computes(case):
    schema = Schema.of_dict(case["schema"])
    assert list(schema.features) == case["features"]
    encoded = schema.encode(case["records"])
    assert encoded.tobytes() == np.array(case["encoded"], dtype=np.float64).tobytes()
    for record, row in zip(case["records"], case["encoded"], strict=True):  # and one by one
        assert schema.encode([record]).tolist() == [row]


@pytest.mark.parametrize("case", [c for c in CASES if "targets" in c], ids=ids)
def test_labels_become_the_targets_that_every_client_computes(case):
    labels = np.array(case["labels"], dtype=object)
    targets = Schema.of_dict(case["schema"]).targets(labels)
    assert [None if np.isnan(t) else t for t in targets.tolist()] == case["targets"]


@pytest.mark.parametrize("schema", [Schema.of_dict(c["schema"]) for c in CASES] + [MIXED])
def test_what_is_written_is_read_again(schema, tmp_path):
    assert Schema.of_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    file = tmp_path / "schema.toml"
    file.write_text(schema.to_toml(), encoding="utf-8")
    assert Schema.load(file) == schema


def test_odd_names_survive_the_file(tmp_path):
    odd = {
        "b": (0, 1),
        "1": (0, 1),  # an object of JavaScript would have it first
        'a "b" \\ c': (0, 1),
        "größe=x": ["ä", "\u2028", "#'"],
        "d.e": Number(missing=1e300 / 1e295),
    }
    schema, file = Schema(odd), tmp_path / "schema.toml"
    assert [column["name"] for column in schema.to_dict()["columns"]] == [*odd]
    file.write_text(schema.to_toml(), encoding="utf-8")
    assert Schema.load(file) == schema


FRAMES = {
    "pandas": pd.DataFrame(ROWS),
    "pandas with dates": pd.DataFrame(ROWS).assign(since=lambda f: pd.to_datetime(f["since"])),
    "pandas with its own types": pd.DataFrame(ROWS).convert_dtypes(),
    "pandas categories": pd.DataFrame(ROWS).astype({"job": "category"}),
    "polars": pl.DataFrame(ROWS),
    "polars with dates": pl.DataFrame(ROWS).with_columns(pl.col("since").str.to_date()),
    "polars categories": pl.DataFrame(ROWS).with_columns(pl.col("job").cast(pl.Categorical)),
    "arrow": pa.table(ROWS),
    "arrow dictionaries": pa.table({**ROWS, "job": pa.array(ROWS["job"]).dictionary_encode()}),
    "arrow dictionaries of numbers": pa.table(
        {**ROWS, "age": pa.array(ROWS["age"]).dictionary_encode()}
    ),
    "pandas in a time zone": pd.DataFrame(ROWS).assign(
        since=lambda f: pd.to_datetime(f["since"]).dt.tz_localize("Pacific/Auckland")
    ),
    "polars in a time zone": pl.DataFrame(ROWS).with_columns(
        pl.col("since").str.to_datetime("%Y-%m-%d").dt.replace_time_zone("Pacific/Auckland")
    ),
    "arrow in a time zone": pl.DataFrame(ROWS)
    .with_columns(
        pl.col("since").str.to_datetime("%Y-%m-%d").dt.replace_time_zone("Pacific/Auckland")
    )
    .to_arrow(),
    "narwhals": nw.from_native(pl.DataFrame(ROWS)),
    "records": [dict(zip(ROWS, row, strict=True)) for row in zip(*ROWS.values(), strict=True)],
}


@pytest.mark.parametrize("name", FRAMES)
def test_every_kind_of_table_gives_the_same_bits(name):
    assert MIXED.encode(FRAMES[name]).tobytes() == MIXED.encode(ROWS).tobytes()
    rows = list(zip(*ROWS.values(), strict=True))
    assert MIXED.encode(rows, names=list(ROWS)).tobytes() == MIXED.encode(ROWS).tobytes()


@pytest.mark.parametrize("name", FRAMES)
def test_a_record_does_not_depend_on_those_beside_it(name):
    table = FRAMES[name]
    whole = MIXED.encode(table)
    for i in range(3):
        part = table.slice(i, 1) if hasattr(table, "slice") else None
        part = table.iloc[[i]] if hasattr(table, "iloc") else part
        part = nw.from_native(pl.DataFrame(ROWS)[i : i + 1]) if name == "narwhals" else part
        part = table[i : i + 1] if isinstance(table, list) else part
        assert MIXED.encode(part).tolist() == [whole[i].tolist()]


@pytest.mark.parametrize("name", FRAMES)
def test_a_table_without_records_has_no_features(name):
    table = FRAMES[name]
    empty = {key: [] for key in ROWS} if isinstance(table, list | dict) else table[:0]
    assert MIXED.encode(empty).shape == (0, len(MIXED.features))


TYPED = {
    "dates as numbers": ({"age": pd.to_datetime(["2020-01-01"])}, "'age': .*parts.* Datetime"),
    "dates as levels": ({"job": pd.to_datetime(["2020-01-01"])}, "'job': .*parts.* Datetime"),
    "a length of time": ({"age": pd.to_timedelta([1], "h")}, "'age': .* its type is Duration"),
    "lists": ({"job": pl.Series([["cook"]])}, "'job': .* its type is List"),
    "bytes": ({"job": pl.Series([b"cook"])}, "'job': .* its type is Binary"),
    "numbers as dates": ({"since": [20240501]}, "'since': .*texts, as the schema.* Int64"),
}


@pytest.mark.parametrize("name", TYPED)
def test_a_typed_column_that_would_be_missing_everywhere_is_refused(name):
    columns, words = TYPED[name]
    nested = isinstance(next(iter(columns.values())), pl.Series)
    table = (pl.DataFrame if nested else pd.DataFrame)({**ONE, **columns})
    with pytest.raises(InvalidArgument, match=f"column = {words}"):
        MIXED.encode(table)
    # On a device, where the type of a column may follow from its cells, nothing is refused.
    records = RawRecords(table, ["no"])
    X, _ = next(iter(records.suited(MIXED).arranged()))
    assert X.shape == (1, len(MIXED.features))


def test_a_column_of_a_frame_has_one_name():
    twice = pd.DataFrame([[1, 2]], columns=["age", "age"])
    for table in (twice, pa.table([[1], [2]], names=["age", "age"])):
        with pytest.raises(InvalidArgument, match="column = 'age': must be the name of one column"):
            Schema({"age": (0, 1)}).encode(table)


def test_whatever_a_cell_holds_it_becomes_numbers_within_public_bounds():
    class Odd:
        def __str__(self):
            return "odd"

    cells = [None, np.nan, np.inf, -np.inf, 10**400, "x" * 10**5, b"x", (1, 2), [1], {}, Odd(), 1j]
    cells += [pd.NaT, pd.NA, np.datetime64("NaT"), np.datetime64("2020-01-01"), True, "1e999", "-0"]
    table = {name: np.empty(len(cells), dtype=object) for name in ROWS}
    for column in table.values():
        column[:] = cells
    encoded, bounds = MIXED.encode(table), MIXED.scale
    assert np.isfinite(encoded).all()
    assert (encoded >= bounds.low).all()
    assert (encoded <= bounds.high).all()
    assert np.abs(MIXED.scale.apply(encoded)).max() <= 1


def test_bounds_follow_from_the_schema_alone():
    assert MIXED.bounds.tolist()[:3] == [[0, 100], [0, 1], [-np.inf, np.inf]]
    assert MIXED.scale.octaves == 64
    assert Schema({"age": (0, 100)}).scale.high.tolist() == [100.0]


WRONG = [
    ({}, "columns = None: must be a table of columns by name"),
    ({"columns": {}}, "columns = {}: must be at least one column"),
    ({"columns": 0}, "columns = 0: must be an integer in 1 …"),
    ({"columns": "age"}, "columns = 'age': must be a table of columns by name, or their number"),
    ({"columns": {"a": [1, 0]}}, "columns.a.range = [1.0, 0.0]: must be [low, high]"),
    ({"columns": {"a": [0, float("nan")]}}, "columns.a.range = nan: must be [low, high]"),
    ({"columns": {"a": [1, 2, 3]}}, "columns.a = [1, 2, 3]: must be [low, high], ["),
    ({"columns": {"a": []}}, "columns.a = []: must be [low, high]"),
    ({"columns": {"a": ["x", "x"]}}, "columns.a.levels = ('x', 'x'): must be a list of different"),
    (
        {"columns": {"a": {"level": ["x"]}}},
        "columns.a = {'level': ['x']}: must be a table with one",
    ),
    ({"columns": {"a": {"levels": ["x"], "range": [0, 1]}}}, "a table with one of range, levels"),
    ({"columns": {"a": {"levels": ["x"], "other": 1}}}, "columns.a.other = 1: must be omitted"),
    ({"columns": {"a": {"levels": ["x"], "missing": "y"}}}, "columns.a.missing = 'y': must be one"),
    ({"columns": {"a": {"range": [0, 1], "missing": 2}}}, "columns.a.missing = 2: must be within"),
    (
        {"columns": {"a": {"range": [0, 1], "indicator": 1}}},
        "columns.a.indicator = 1: must be a bo",
    ),
    ({"columns": {"a": {"date": ["week"]}}}, "columns.a.date = ['week']: must be a list of year"),
    ({"columns": {"a": {"date": ["year"]}}}, "columns.a.range = None: must be [first, last], two"),
    ({"columns": {"a": {"date": ["day"], "format": "DD.MM"}}}, "columns.a.format = 'DD.MM': must"),
    (
        {"columns": {"a": {"date": ["year"], "range": ["2001-01-01", "2000-01-01"]}}},
        "must be [first, last], first < last",
    ),
    ({"columns": {"a": (0, 1), "b": ["x"]}, "label": "a"}, "label = 'a': must be no column that"),
    ({"columns": {"a": ["x"], "a=x": (0, 1)}}, "columns = 'a=x': must be such that no two feat"),
    ({"columns": {"a": {"levels": ["missing"], "indicator": True}}}, "no two features share"),
    ({"columns": {"": (0, 1)}}, "columns = '': must be a name"),
    ({"columns": [["a", 0, 1]]}, "columns = [['a', 0, 1]]: must be tables that have a name each"),
    ({"columns": [{"range": [0, 1]}]}, "must be tables that have a name each"),
    ({"columns": [{"name": "a", "range": [0, 1]}] * 2}, "columns = 'a': must be a name that only"),
    ({"columns": 1, "classes": ["a"]}, "classes = ['a']: must be at least two"),
    ({"columns": 1, "classes": ["a", "b"], "target_range": [0, 1]}, "omitted beside classes"),
    ({"columns": 1, "target_range": [0]}, "target_range = [0]: must be [low, high]"),
    ({"columns": 1, "target_range": [0, float("inf")]}, "target_range = [0, inf]: must be"),
    ({"columns": 1, "labels": ["a", "b"]}, "labels = ['a', 'b']: must be omitted; known are col"),
]


@pytest.mark.parametrize(("values", "message"), WRONG)
def test_a_wrong_schema_is_refused_by_one_sentence(values, message):
    with pytest.raises(InvalidArgument) as error:
        Schema.of_dict(values)
    assert message in str(error.value)


def test_a_wrong_file_is_named(tmp_path):
    file = tmp_path / "my.toml"
    with pytest.raises(InvalidArgument, match="a TOML file that can be read"):
        Schema.load(file)
    file.write_text("columns = [", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="valid TOML"):
        Schema.load(file)
    file.write_text("[columns]\nage = [3, 2]", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"columns.age.range in my.toml"):
        Schema.load(file)


def test_a_wrong_table_is_refused_without_a_cell_of_it():
    secret = "s3cret"
    with pytest.raises(
        InvalidArgument, match=r"column = 'age': .*which has Age, job \(do you mean"
    ):
        Schema({"age": (0, 1)}).encode({"Age": [secret], "job": [secret]})
    with pytest.raises(InvalidArgument, match="a data frame or a mapping"):
        MIXED.encode([[secret] * 4])
    with pytest.raises(InvalidArgument, match="a data frame, a mapping"):
        MIXED.encode(secret)
    with pytest.raises(InvalidArgument, match=r"a data frame: collect\(\) it first"):
        MIXED.encode(pl.LazyFrame(ROWS))
    with pytest.raises(InvalidArgument, match="2 columns"):
        Schema(3).encode([[secret, secret]])
    for table in ({"x": [secret], "y": [secret] * 2}, {"x": [[secret]], "y": [secret]}):
        with pytest.raises(InvalidData) as error:
            Schema({"x": (0, 1), "y": (0, 1)}).encode(table)
        assert secret not in str(error.value)
    with pytest.raises(InvalidData, match=r"1 dimension\(s\); one record by name goes into a list"):
        Schema({"age": (0, 1)}).encode({"age": 1})
    with pytest.raises(InvalidData, match="masked"):
        Schema(1).encode(np.ma.masked_array([[1.0]], mask=[[True]]))


def test_levels_may_be_whole_numbers():
    assert Category([1, 2]).levels == ("1", "2")
    assert Schema(1, classes=[0, 1, 2]).targets([2, 0.0, "1"]).tolist() == [2, 0, 1]


@pytest.mark.parametrize("name", FRAMES)
def test_what_counts_as_missing(name):
    found = {n: cells.tolist() for n, cells in MIXED.missing(FRAMES[name]).items()}
    wanted = {"age": [0, 1, 0], "income": [0, 0, 1], "job": [0, 1, 0], "since": [0, 0, 1]}
    assert found == wanted
    with pytest.raises(InvalidArgument, match="by which cells are told"):
        Schema(2).missing([[1, 2]])
