"""``fedsel ask``: from a table to a sentence, a table, JSON and a figure."""

import importlib
import json
import re

import pytest

from tests.cli.support import run_here

AGES = ("--column", "age", "--bounds", 0, 100)
JOBS = ("--column", "job", "--levels", "cook,smith,other")
SURE = ("-e", 500)


@pytest.fixture
def folder(tmp_path):
    """A table of 400 people, of whom 100 are cooks, and a schema."""
    rows = [f"{i % 100},{('cook', 'smith', 'nurse', 'smith')[i % 4]},{i}" for i in range(400)]
    (tmp_path / "people.csv").write_text("\n".join(["age,job,id", *rows]), encoding="utf-8")
    (tmp_path / "schema.toml").write_text(
        'label = "id"\n[columns]\nage = [0, 100]\njob = ["cook", "smith", "other"]\n', "utf-8"
    )
    return tmp_path


def ask(folder, *arguments, status=0, data="people.csv"):
    return run_here("ask", data, *arguments, cwd=folder, status=status)


def asked(folder, *arguments, **more):
    return json.loads(ask(folder, *arguments, *SURE, "--json", **more).stdout)


def test_a_histogram(folder):
    done = ask(folder, "--question", "histogram", *AGES, "--bins", 4, *SURE)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["Histogram", "of", "age"]
    assert "│ 25 to 50  │     25.00 │" in done.stdout
    assert lines[-2].startswith("Of 400 clients the most, 25.00 % (24.88 to 25.12 %), have age ")
    assert lines[-1] == "Each interval is about one share alone. The shares sum to 100 %."


def test_json(folder):
    found = asked(folder, "--question", "histogram", *JOBS)
    assert [share["value"] for share in found["shares"]] == pytest.approx([0.25, 0.5, 0.25])
    assert (found["clients"], found["epsilon"], found["seeded"]) == (400, 500.0, False)
    assert found["question"]["columns"] == [{"name": "job", "levels": ["cook", "smith", "other"]}]


def test_counts(folder):
    cooks = ("--question", "count", *JOBS, "--where", "job=cook")
    assert asked(folder, *cooks)["number"]["value"] == pytest.approx(100)
    either = ("--question", "count", *JOBS, "--where", "job=cook, other")
    assert asked(folder, *either)["number"]["value"] == pytest.approx(200)
    unnamed = ("--question", "count", "--bounds", 0, 100, "--where", "age=20..30")
    assert asked(folder, *unnamed)["number"]["value"] == pytest.approx(40)
    both = ("--question", "count", "--schema", "schema.toml", "--where", "job=smith")
    found = asked(folder, *both, "--where", "age=0..50")
    assert found["number"]["value"] == pytest.approx(100)
    assert "have job = smith and age from 0 to 50" in found["sentence"]


def test_means_quantiles_and_cross_tables(folder):
    mean = asked(folder, "--question", "mean", *AGES)["mean"]
    assert mean["value"] == pytest.approx(49.5, abs=0.01)
    tenths = ("--question", "quantiles", *AGES, "--quantiles", "0.1, 0.9", "--bins", 100)
    values = [one["value"] for one in asked(folder, *tenths)["quantiles"]]
    assert values == pytest.approx([10, 90], abs=0.1)
    crossed = ("--question", "cross table", "--schema", "schema.toml", "--bins", 2)
    found = asked(folder, *crossed, "--column", "job", "--column", "age")
    assert found["shares"][0]["answer"] == ["cook", "0 to 50"]
    assert found["margins"]["job"][1]["value"] == pytest.approx(0.5)


def test_intervals_about_the_population(folder):
    usual = ("--question", "histogram", *JOBS)
    wide = asked(folder, *usual, "--population", "--level", 0.99)
    assert wide["population"]
    (first, *_), (other, *_) = wide["shares"], asked(folder, *usual)["shares"]
    assert first["high"] - first["low"] > 20 * (other["high"] - other["low"])


def test_a_seed_is_said(folder):
    first, again = (
        ask(folder, "--question", "mean", *AGES, "-e", 1, "--seed", 7).stdout for _ in range(2)
    )
    assert first == again
    assert "Drawn from a seed: whoever knows it can undo the noise." in first
    assert "Drawn from a seed" not in ask(folder, "--question", "mean", *AGES, "-e", 1).stdout


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "SVG"])
def test_figures(folder, ending):
    pytest.importorskip("matplotlib", reason="needs the extra fedsel[plots]")
    done = ask(folder, "--question", "histogram", *JOBS, *SURE, "--out", f"figure.{ending}")
    assert done.stdout.splitlines()[-1] == f"wrote figure.{ending}"
    begins = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending.lower()]
    assert (folder / f"figure.{ending}").read_bytes().startswith(begins)


def test_parquet_and_tables_without_a_header(folder):
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra fedsel[parquet]")
    parquet = importlib.import_module("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"age": [*range(100)] * 4}), folder / "people.parquet")
    same = asked(folder, "--question", "mean", *AGES, data="people.parquet")
    assert same["mean"]["value"] == pytest.approx(49.5, abs=0.01)
    lines = (folder / "people.csv").read_text(encoding="utf-8").splitlines()[1:]
    (folder / "bare.csv").write_text("\n".join(lines), encoding="utf-8")
    numbered = ("--question", "mean", "--column", 0, "--bounds", 0, 100, "--no-header")
    bare = asked(folder, *numbered, data="bare.csv")["mean"]
    assert bare["value"] == pytest.approx(49.5, abs=0.01)


def test_long_tables_are_shortened(folder):
    many = ("--question", "histogram", "--column", "id", "--bounds", 0, 400, "--bins", 400)
    done = ask(folder, *many, *SURE)
    assert "the 60 largest of 400 rows, --json has all" in " ".join(done.stdout.split())
    assert len(asked(folder, *many)["shares"]) == 400


WRONG = [
    (("-e", 1), "--column = None: must be a column of DATA"),
    (("-e", 1, "--column", "age"), "--levels = None: must be the public levels of --column"),
    (("-e", 1, *JOBS, "--bounds", 0, 1), "--levels = 'cook,smith,other': must be omitted beside"),
    (
        ("-e", 1, "--column", "agee", "--bounds", 0, 1),
        "--column = 'agee': must be a column of",
    ),
    (("-e", 1, "--column", "age", "--bounds", 5, 5), "--bounds = (5.0, 5.0): must be LOW HIGH wit"),
    (("-e", 1, "--column", "age", "--bounds", 0, "inf"), "--bounds = inf: must be [low, high]"),
    (("-e", 1, *AGES, "--column", "job"), "--column = 'age, job': must be given with --schema"),
    (("-e", 1, "--schema", "schema.toml"), "--column = 'age, job': must be one column for a his"),
    (("-e", 1, "--schema", "schema.toml", *AGES[:2], "--levels", "a"), "--levels = 'a': must be o"),
    (
        ("-e", 1, "--schema", "schema.toml", "--column", "x"),
        "--column = 'x': must be a column of",
    ),
    (("-e", 1, "--schema", "no.toml"), "--schema = 'no.toml': must be a TOML file that can be rea"),
    (("-e", "nan", *AGES), "--epsilon = nan: must be a number > 0 and ≤ 500"),
    (("-e", 0, *AGES), "--epsilon = 0.0: must be a number > 0 and ≤ 500"),
    (("-e", 0.001, *AGES), "DATA = '400 clients': must be 199,155,653 or more: with fewer nothing"),
    (("-e", 1, *AGES, "--bins", 1), "--bins = 1: must be an integer in 2 … 65536"),
    (("-e", 1, *AGES, "--quantiles", "0.5"), "--quantiles = (0.5,): must be omitted for a histog"),
    (("-e", 1, *AGES, "--level", 2), "--level = 2.0: must be in (0, 1), such as 0.95"),
    (("-e", 1, *AGES, "--where", "age=1..2"), "--where = {'age': (1.0, 2.0)}: must be omitted for"),
    (("-e", 1, *AGES, "--out", "x.gif"), "--out = 'x.gif': must be a file ending in .png, .svg,"),
    (("-e", 1, *AGES, "--out", "no/x.png"), "--out = 'no/x.png': must be in a folder that exists"),
    (("-e", 1, "--column", "job", "--levels", "cook,smith"), "job: 100 of 400 records give no an"),
]


@pytest.mark.parametrize(("arguments", "complaint"), WRONG, ids=[text[:40] for _, text in WRONG])
def test_wrong_options(folder, arguments, complaint):
    done = ask(folder, "--question", "histogram", *arguments, status=2)
    assert done.stdout == ""
    assert done.stderr.startswith(f"fedsel: {complaint}"), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("job", "--where = 'job': must be a column and what it is, once"),
        ("=cook", "--where = '=cook': must be a column and what it is"),
        ("job=nurse", "--where = 'nurse': must be a level of job: cook, smith, other"),
        ("age=20", "--where = '20': must be a range such as 20..30"),
        ("age=a..b", "--where = 'a': must be a number"),
        ("age=30..20", "--where = [30.0, 20.0]: must be [low, high] with low < high"),
        ("town=Bern", "--column = 'town': must be a column of the schema, which has age, job"),
    ],
)
def test_wrong_conditions(folder, where, complaint):
    given = ("--question", "count", "-e", 1, "--schema", "schema.toml", "--where", where)
    assert ask(folder, *given, status=2).stderr.startswith(f"fedsel: {complaint}")


def test_wrong_files(folder):
    given = ("--question", "mean", *AGES, "-e", 1)
    no_file = ask(folder, *given, status=2, data="no.csv").stderr
    assert no_file == "fedsel: DATA = 'no.csv': must be a file that exists, .csv or .parquet\n"
    (folder / "empty.csv").write_text("age\n", encoding="utf-8")
    assert "records below its header" in ask(folder, *given, status=2, data="empty.csv").stderr
    assert "--question" in ask(folder, *AGES, "-e", 1, status=2).stderr


@pytest.mark.slow
def test_names_and_levels_are_shown_as_text(folder):
    """Somebody else chose them: a terminal must not obey, and matplotlib not compute."""
    pytest.importorskip("matplotlib", reason="needs the extra fedsel[plots]")
    levels = ["$x$", "\x1b[31mred", "[bold]"]
    rows = [levels[i % 3] for i in range(99)]
    (folder / "odd.csv").write_text("\n".join(["_$a b$", *rows]), encoding="utf-8")
    given = ("--question", "histogram", "--column", "_$a b$", "--levels", ",".join(levels))
    done = ask(folder, *given, *SURE, "--out", "odd.svg", data="odd.csv")
    assert "\x1b" not in done.stdout
    assert "\\x1b[31mred" in done.stdout
    assert "[bold]" in done.stdout
    assert (folder / "odd.svg").stat().st_size > 1000


def test_help_has_examples():
    text = run_here("ask", "--help").stdout
    assert "Examples:" in text
    assert re.search(r"fedsel ask my\.csv --question histogram --column age", text)
