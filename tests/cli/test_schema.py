"""``fedsel schema`` drafts what ``fedsel run --schema`` reads, and says that it looked."""

import json
import re

import pytest

from fedsel import Schema
from fedsel.cli import _run_table
from tests.cli.records import QUICK, people
from tests.cli.support import run_here

LOOKED = "This draft was made by looking at 600 records"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table with blanks, dates and an identifier."""
    monkeypatch.setattr(_run_table, "write_figures", lambda *_: [])
    lines = ["who,age,income,job,born,rich"]
    for i, (age, income, job, rich) in enumerate(people(600)):
        born = f"{i % 28 + 1}.{i % 12 + 1}.{1940 + i % 60}"
        lines.append(f"id{i},{'' if i % 9 == 0 else age},{income},{job},{born},{rich}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def test_from_a_messy_file_to_results(folder):
    stopped = run_here("run", "--data", "people.csv", "--label", "rich", cwd=folder, status=2)
    assert "column of --data = 'who'" not in stopped.stderr  # 600 levels are allowed
    assert "column of --data = 'age': must be filled in every record" in stopped.stderr
    assert "`fedsel schema` drafts one" in stopped.stderr
    where = ("people.csv", "--label", "rich", "--out", "schema.toml")
    done = run_here("schema", *where, cwd=folder)
    assert done.stdout == ""
    assert LOOKED in done.stderr
    text = (folder / "schema.toml").read_text(encoding="utf-8")
    assert f"# {LOOKED}" in text
    schema = Schema.load(folder / "schema.toml")
    assert schema.columns.keys() == {"age", "income", "job", "born"}
    assert schema.classes == ("no", "yes")
    options = ("--schema", "schema.toml", *QUICK, "-s", "FJ", "-e", "8", "--json")
    (row,) = json.loads(run_here("run", "--data", "people.csv", *options, cwd=folder).stdout)
    assert row["scale"] == "unit"
    assert row["accuracy"] > row["majority"]
    assert not any("own mean and deviation" in note for note in row["notes"])
    (folder / "run.toml").write_text(
        'data = "people.csv"\nschema = "schema.toml"\nsolution = "FJ"\nepsilon = 8\n', "utf-8"
    )
    same = run_here("run", "--config", "run.toml", *QUICK, "--json", cwd=folder)
    assert json.loads(same.stdout)[0]["accuracy"] == row["accuracy"]
    again = run_here("schema", *where, cwd=folder, status=2)
    assert "--out = 'schema.toml': must be a file that is not there yet" in again.stderr


def test_several_classes(folder):
    """By the softmax, as the estimator does; records of another class are left out."""
    lines = (folder / "people.csv").read_text(encoding="utf-8").splitlines()
    some = [line + ("x" if i % 5 == 0 else "") for i, line in enumerate(lines[1:])]
    (folder / "three.csv").write_text("\n".join([lines[0], *some]), encoding="utf-8")
    run_here("schema", "three.csv", "--label", "rich", "--out", "three.toml", cwd=folder)
    assert Schema.load(folder / "three.toml").classes == ("no", "nox", "yes", "yesx")
    where = ("--data", "three.csv", "--schema", "three.toml", *QUICK, "-s", "NP", "--json")
    (row,) = json.loads(run_here("run", *where, cwd=folder).stdout)
    assert row["accuracy"] > row["majority"]
    assert row["majority"] < 0.5


def test_the_draft_on_standard_output(folder):
    done = run_here("schema", "people.csv", "--label", "-1", cwd=folder)
    assert done.stderr in ("", "reading people.csv\n")
    assert done.stdout.startswith(f"# {LOOKED}")
    plain = json.loads(run_here("schema", "people.csv", "--json", cwd=folder).stdout)
    assert plain["warning"].startswith(LOOKED)
    assert plain["left_out"].keys() == {"who"}
    assert plain["notes"]["age"] == "missing in many records"
    assert Schema.of_dict(plain["schema"]).label is None
    (folder / "bare.csv").write_text("1,a\n2,b\n3,a\n4,b\n", encoding="utf-8")
    assert "'0'" not in run_here("schema", "bare.csv", "--no-header", cwd=folder).stdout


def test_private_columns_are_learnt_and_public_rows_are_encoded(folder):
    schema = 'label = "rich"\nclasses = ["no", "yes"]\n[columns]\nage = [0, 100]\n'
    (folder / "s.toml").write_text(f'{schema}income = "private"\n', encoding="utf-8")
    where = ("--data", "people.csv", "--schema", "s.toml", *QUICK, "-s", "FJ", "-e", "8", "--json")
    (row,) = json.loads(run_here("run", *where, cwd=folder).stdout)
    assert row["scale"] == "private"
    lines = (folder / "people.csv").read_text(encoding="utf-8").splitlines()
    (folder / "public.csv").write_text("\n".join(lines[:50]), encoding="utf-8")
    public = run_here("run", *where, "--public", "public.csv", cwd=folder)
    assert json.loads(public.stdout)[0]["scale"] == "unit"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("target_range = [0, 1]\n[columns]\nage = [0, 9]\n", "learns a number"),
        ('classes = ["no", "yes"]\n[columns]\nages = [0, 9]\n', "column of --data = 'ages'"),
        ('classes = ["no", "yes"]\n[columns]\nage = [9, 0]\n', "columns.age.range in s.toml"),
        ('classes = ["n", "y"]\n[columns]\nage = [0, 9]\n', "in which no record has one"),
    ],
)
def test_wrong_schemas(folder, text, complaint):
    (folder / "s.toml").write_text(text, encoding="utf-8")
    where = ("--data", "people.csv", "--label", "rich", "--schema", "s.toml")
    done = run_here("run", *where, cwd=folder, status=2)
    assert re.search(complaint, done.stderr), done.stderr
    assert done.stderr.splitlines()[-1].startswith("fedsel: ")


def test_a_schema_needs_a_table(folder):
    assert "omitted without --data" in run_here("run", "--schema", "x", status=2).stderr
    (folder / "s.toml").write_text("columns = 2\n", encoding="utf-8")
    (folder / "x.svm").write_text("1 1:1\n-1 1:2\n", encoding="utf-8")
    done = run_here("run", "--data", "x.svm", "--schema", "s.toml", cwd=folder, status=2)
    assert "--schema = 'a schema': must be omitted for .svm" in done.stderr
    assert "DATA = 'x.svm'" in run_here("schema", "x.svm", cwd=folder, status=2).stderr
