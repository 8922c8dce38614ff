"""Drafts of schemas: sensible ones from messy tables, which say that they looked at the records."""

import json
from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest

from fedsel import InvalidArgument, Schema
from fedsel.data._draft import draft, draft_file, nice_bounds
from fedsel.wire import Category, Date, Number

N = 400


def cells(values):
    return np.array(np.resize(np.array(values, dtype=object), N), dtype=object)


def one(values, **columns):
    """The draft of one column, or why it is left out."""
    column = values if isinstance(values, np.ndarray) else cells(values)
    rest = {"beside": np.arange(len(column)) % 7 / 7, **columns}
    made = draft({"a": column, **rest})
    return made.schema.columns.get("a", made.left_out.get("a"))


PLAINLY = "write its numbers plainly, as 1234.5: no comma, space, percent or currency"
COLUMNS = {
    "whole numbers": (["31", "64", " 18"], Number(0, 100)),
    "numbers of Python": ([3.5, -41], Number(-50, 5)),
    "0 and 1": ([0, 1], Number(0, 1)),
    "truth values": (["True", "false"], Number(0, 1)),
    "years": ([1952, 2019], Number(1940, 2030)),
    "large numbers": ([1e12, 3.3e12], Number(0, 5e12)),
    "small numbers": ([1e-7, -2e-9], Number(-2e-9, 1e-7)),
    "numbers with gaps": ([1, 2, 3, 4, 5, 6, 7, None], Number(0, 10, indicator=True)),
    "numbers with words": ([*range(29), "n/a"], Number(0, 50)),
    "one number": ([5, 5.0, "5"], "all its numbers are the same"),
    "words": (["b", "a", "b "], Category(["a", "b"])),
    "words with gaps": (["b", "a", ""], Category(["a", "b"], indicator=True)),
    "codes as texts": (["10x", "9", "A"], Category(["9", "10x", "A"])),
    "one word": (["a"], "all its texts are the same"),
    "nothing": (["", None, np.nan], "it is empty"),
    "decimal commas": (["1,5", "2,25"], PLAINLY),
    "ISO dates": (
        ["1980-02-03", "2001-12-31"],
        Date(["year", "month", "weekday"], "1980-01-01", "2009-12-31"),
    ),
    "ISO times": (
        ["2024-02-03T08:00:00Z", "2024-02-04 09:30"],
        Date(["days", "month", "weekday", "hour"], "2024-01-01", "2024-12-31"),
    ),
    "German dates with gaps": (
        ["1.2.2020", "28.12.2024", ""],
        Date(
            ["year", "month", "weekday"],
            "2020-01-01",
            "2024-12-31",
            format="DD.MM.YYYY",
            indicator=True,
        ),
    ),
    "German times": (
        ["1.2.2024 8:00", "28.12.2024 9:00"],
        Date(
            ["days", "month", "weekday", "hour"],
            "2024-01-01",
            "2024-12-31",
            format="DD.MM.YYYY hh:mm",
        ),
    ),
    "American dates": (
        ["12/31/2020", "1/2/2020"],
        Date(["days", "month", "weekday"], "2020-01-01", "2020-12-31", format="MM/DD/YYYY"),
    ),
    "British dates": (
        ["31/12/2020", "1/2/2020"],
        Date(["days", "month", "weekday"], "2020-01-01", "2020-12-31", format="DD/MM/YYYY"),
    ),
    "dates that may be either": (
        ["1/2/2020", "3/4/2020"],
        "its dates can be read in several ways; give format = MM/DD/YYYY or DD/MM/YYYY",
    ),
    "dates in several ways": (
        ["2020-12-31", "31.12.2020", "1/2/2020"],
        "its dates are written in several ways; write them as YYYY-MM-DD",
    ),
    "numbers among words for none": (
        ["17", "N/A", "93", "unknown", "-", "18"],
        Number(0, 100, indicator=True),
    ),
    "dates among words for none": (
        ["2020-01-02", "n/a", "?"],
        Date(["days", "month", "weekday"], "2020-01-01", "2020-12-31", indicator=True),
    ),
    "thousands": (["1,234", "56,000", "N/A"], PLAINLY),
    "thousands in Switzerland": (["1'234.50", "56\u2019000"], PLAINLY),
    "thousands in Germany": (["1.234,50", "56.000,10"], PLAINLY),
    "thousands in France": (["1\u202f234", "56\u00a0000"], PLAINLY),
    "percent": (["12%", "3.5 %"], PLAINLY),
    "a currency": (["€ 12", "$3.50"], PLAINLY),
    "numbers with limits": (["<18", "18-65", ">65"], Category(["18-65", "<18", ">65"])),
    "dates of Python": (
        [date(2020, 1, 2), datetime(2024, 5, 6), None],
        Date(["year", "month", "weekday"], "2020-01-01", "2024-12-31", indicator=True),
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name):
    values, expected = COLUMNS[name]
    assert one(values) == expected


def test_typed_columns():
    days = np.resize(np.array(["2020-01-01", "2024-06-01"], "datetime64[ns]"), N)
    assert one(days).parts == ("year", "month", "weekday")
    assert one(np.resize([True, False], N)) == Number(0, 1)
    gaps = np.resize([1.5, np.nan, 7.0], N)
    assert one(gaps) == Number(0, 10, indicator=True)


def test_rare_levels_and_identifiers():
    words = cells(["a"] * 60 + ["b"] * 38 + ["nurse", "spy"])
    assert one(words) == Category(["a", "b", "nurse", "spy"])
    words[-1] = "a"  # now fewer than 1 % are spies
    assert one(words) == Category(["a", "b", "nurse", "other"])
    many = np.array([f"city {i % 60}" for i in range(N)], object)
    assert len(one(many).levels) == 21
    thousand = np.array([f"city {i % 1000}" for i in range(20_000)], object)
    assert one(thousand) == "each of its 1,000 texts is rare; list those that matter, and other"
    unique = "nearly all its texts are different, as in an identifier or free text"
    assert one(np.array([f"M{i}" for i in range(N)], object)) == unique
    assert one(np.random.default_rng(0).permutation(N)) == (
        "its numbers count the records, as an identifier does"
    )
    assert one(np.random.default_rng(0).permutation(N) * 1000.0) == Number(0, 500_000)


LABELS = {
    "classes": (["no", "yes", "maybe"], {"classes": ("maybe", "no", "yes")}),
    "numbers as classes": ([10, 9, 0], {"classes": ("0", "9", "10")}),
    "truth values": ([True, False], {"classes": ("false", "true")}),
    "a number": (list(range(3, 90)), {"target_range": (0.0, 100.0)}),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(name):
    values, expected = LABELS[name]
    y = cells(values)
    y[0] = "typo" if "classes" in expected else y[0]
    schema = draft({"x": np.arange(N) % 9, "y": y}, "y").schema
    assert schema.label == "y"
    assert {key: getattr(schema, key) for key in expected} == expected
    assert np.isfinite(schema.targets(y)[1:]).all()


def test_a_label_that_cannot_be_learnt():
    for values in (["a"], [f"t{i}" for i in range(N)]):
        with pytest.raises(InvalidArgument, match="label = 'y': must be a column of numbers, or"):
            draft({"x": np.arange(N) % 9, "y": cells(values)}, "y")
    with pytest.raises(InvalidArgument, match=r"a column to learn from \(x: all its texts"):
        draft({"x": cells(["a"]), "y": cells(["a", "b"])}, "y")


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold_the_numbers_and_do_not_show_them(seed):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-6, 9)
    numbers = scale * (rng.normal(size=50) + rng.choice([0, 3, 30, -500]))
    low, high = nice_bounds(numbers)
    assert low <= numbers.min() < numbers.max() <= high
    assert len(f"{low:g}".strip("-0.").rstrip("0")) <= 8
    assert (high - low) < 30 * (np.abs(numbers).max())
    assert numbers.min() != low
    assert numbers.max() != high


def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "who": [f"person {i}" for i in range(N)],
            "age": rng.integers(18, 90, N),
            "job": rng.choice(["cook", "smith", None], N),
            "since": rng.choice(["31.12.1999", "1.5.2020"], N),
            "vote": rng.choice(["no", "yes"], N),
        }
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_becomes_a_schema_that_loads_and_encodes(ending, tmp_path):
    data, file = tmp_path / f"votes.{ending}", tmp_path / "schema.toml"
    frame = table()
    frame.to_csv(data, index=False) if ending == "csv" else frame.to_parquet(data)
    made = draft_file(data, "vote")
    file.write_text(made.to_toml(), encoding="utf-8")
    assert Schema.load(file) == made.schema
    assert made.schema.columns.keys() == {"age", "job", "since"}
    assert np.isfinite(made.schema.encode(frame)).all()
    text = made.to_toml()
    assert text.startswith("# This draft was made by looking at 400 records")
    assert "# 'who' is left out: nearly all its texts are different" in text
    assert text.count("person") == 0
    json.dumps(made.schema.to_dict(), allow_nan=False)
    assert draft_file(data, -1).schema == made.schema
    assert "# label = " in draft_file(data).to_toml()
    assert "vote" in draft_file(data).schema.columns


def test_few_records_of_a_large_file_are_enough(tmp_path, monkeypatch):
    monkeypatch.setattr("fedsel.data._cells._ROWS", 50)
    monkeypatch.setattr("fedsel.data._draft.MOST_RECORDS", 100)
    table().to_csv(tmp_path / "votes.csv", index=False)
    assert draft_file(tmp_path / "votes.csv").records == 100


def test_wrong_files(tmp_path):
    for name in ("none.csv", "x.npz", ".."):
        with pytest.raises(InvalidArgument, match=r"a file that exists, \.csv or"):
            draft_file(tmp_path / name)
    table().to_csv(tmp_path / "votes.csv", index=False)
    with pytest.raises(InvalidArgument, match=r"label = 'vot'.*vote"):
        draft_file(tmp_path / "votes.csv", "vot")
